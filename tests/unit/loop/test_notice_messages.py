"""Notices of the loop: one sentence for people, one document for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema

from graph.record.events import Event, EventKind
from loop.notice_messages import notice_body, notice_text, notice_title
from tests.factories.golden import compare_views

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/webhook.schema.json").read_text("utf-8")
)
HASHES = {
    "name": "flask", "version": "3.0.0", "file": "flask-3.0.0-py3-none-any.whl", "known": "a",
    "offered": "b",
}  # fmt: skip
CASES: list[tuple[EventKind, str, dict[str, Any]]] = [
    (EventKind.CHANGE_RECORDED, "change-1", {
        "event": "announced", "refers_to": None, "package": "numpy", "host": None,
        "from_version": "2.3.5", "to_version": "2.4.0", "indicator": "conv2d",
        "hardware": "Xeon", "verdict": "slower", "effect_percent": -15.9,
        "observed_percent": -16.24, "interval_percent": [-18.0, -14.6],
    }),
    (EventKind.CHANGE_RECORDED, "change-2", {
        "event": "withdrawn", "refers_to": "change-1", "package": None, "host": "lab",
        "from_version": "run-1", "to_version": "run-2", "indicator": "conv2d",
        "verdict": "equivalent",
    }),
    (EventKind.ADVICE_CHANGED, "/home/me/app", {
        "advice_id": "a1", "change_ids": ["change-1"],
        "packages": [
            {"name": "lib", "from_version": None, "to_version": "1.0"},
            {"name": "numpy", "from_version": "2.3.5", "to_version": "2.4.0"},
            {"name": "old", "from_version": "0.9", "to_version": None},
        ],
        "reason": "Use numpy 2.4.0.", "hardware": "Xeon", "indicators": ["conv2d", "matmul"],
    }),
    (EventKind.ADVICE_CHANGED, "app", {}),
    (EventKind.ADVICE_CHANGED, "long", {"change_ids": [f"c{number}" for number in range(25)]}),
    (EventKind.RELEASE_GIVEN_UP, "numpy==2.4.0", {"reason": "no wheel\x1b[2J"}),
    (EventKind.RELEASE_STATE, "numpy==2.4.0", {"state": "planned"}),
    (EventKind.PROJECT_STATE, "app", {"state": "given_up", "reason": "no stack"}),
    (EventKind.HASH_CHANGED, "main", {"files": [HASHES]}),
    (EventKind.NIGHT_FAILED, "nightly", {
        "host": "lab",
        "problems": [{"part": "index main", "reason": "does not answer"},
                     {"part": "record", "reason": "rows differ"}],
    }),
    (EventKind.NIGHT_FAILED, "loop", {"problems": [{"part": "plan", "reason": "no stack"}]}),
    (EventKind.DISK_FULL, "lab:/a", {"free_bytes": 1_500_000_000, "size_bytes": 10**11}),
    (EventKind.DISK_FULL, "lab:/b", {"free_bytes": 31_000_000, "size_bytes": 10**8}),
    (EventKind.DISK_FULL, "lab:/c", {}),
    (EventKind.PROBLEM_SOLVED, "lab:/a", {"problem": "disk.full"}),
    (EventKind.PROBLEM_SOLVED, "nightly", {"problem": "night.failed"}),
    (EventKind.TEST, "build", {}),
]  # fmt: skip


def test_notices_are_as_in_their_golden_file_and_meet_the_schema() -> None:
    assert {kind for kind, *_ in CASES} == set(EventKind)
    assert set(SCHEMA["properties"]["type"]["enum"]) == set(EventKind)
    views = {}
    for kind, subject, data in CASES:
        event = Event(7, kind, subject, data, datetime(2026, 1, 2, tzinfo=UTC))
        body = json.loads(notice_body(event))
        jsonschema.Draft202012Validator(SCHEMA).validate(body)
        assert body["timestamp"] == "2026-01-02T00:00:00.000+00:00"
        assert body["data"]["details"] == data
        views[f"{kind} of {subject}"] = f"{notice_title(event)}\n{notice_text(event)}"
    compare_views("notices", views)
