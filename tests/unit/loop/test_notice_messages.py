"""What notices say, and the schema of the body."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graph.record.events import Event, EventKind
from loop.notice_messages import notice_body, notice_text, notice_title

SCHEMA = json.loads(
    (Path(__file__).parents[3] / "docs/reference/webhook.schema.json").read_text("utf-8")
)
CASES: list[tuple[EventKind, str, dict[str, Any], str]] = [
    (
        EventKind.CHANGE_RECORDED, "change-1",
        {
            "event": "announced", "refers_to": None, "package": "numpy", "host": None,
            "from_version": "2.3.5", "to_version": "2.4.0", "indicator": "conv2d",
            "hardware": "Xeon", "verdict": "slower", "effect_percent": -15.9,
            "observed_percent": -16.24, "interval_percent": [-18.0, -14.6],
        },
        "numpy 2.4.0 is 16 % slower than 2.3.5 in conv2d on Xeon (95 % interval 15 to 18 %)."
        " Change: change-1.",
    ),
    (
        EventKind.CHANGE_RECORDED, "change-2",
        {
            "event": "withdrawn", "refers_to": "change-1", "package": None, "host": "lab",
            "from_version": "run-1", "to_version": "run-2", "indicator": "conv2d",
            "verdict": "equivalent",
        },
        "Machine lab, from run-1 to run-2: conv2d has not changed, more jobs show; the earlier"
        " change is withdrawn. Change: change-2, about change-1.",
    ),
    (
        EventKind.ADVICE_CHANGED, "/home/me/app",
        {
            "advice_id": "a1", "change_ids": ["change-1"],
            "packages": [
                {"name": "lib", "from_version": None, "to_version": "1.0"},
                {"name": "numpy", "from_version": "2.3.5", "to_version": "2.4.0"},
                {"name": "old", "from_version": "0.9", "to_version": None},
            ],
            "reason": "Use numpy 2.4.0.", "hardware": "Xeon", "indicators": ["conv2d", "matmul"],
        },
        "The advice for /home/me/app has changed: lib 1.0 added, numpy 2.3.5 → 2.4.0,"
        " old 0.9 removed. Use numpy 2.4.0. Measured with conv2d, matmul on Xeon."
        " Advice: a1. Changes: change-1.",
    ),
    (EventKind.ADVICE_CHANGED, "app", {}, "The advice for app has changed."),
    (
        EventKind.RELEASE_GIVEN_UP, "numpy==2.4.0", {"reason": "no wheel\x1b[2J"},
        "numpy==2.4.0 will not be settled: no wheel\N{REPLACEMENT CHARACTER}[2J.",
    ),
    (EventKind.RELEASE_STATE, "numpy==2.4.0", {"state": "planned"},
     "numpy==2.4.0 has the state planned."),
    (EventKind.PROJECT_STATE, "app", {"state": "given_up", "reason": "no stack"},
     "app has the state given_up: no stack."),
    (
        EventKind.HASH_CHANGED, "main",
        {"files": [{"name": "flask", "version": "3.0.0", "file": "flask-3.0.0-py3-none-any.whl",
                    "known": "a", "offered": "b"}]},
        "The index main offers files with other hashes than before: flask==3.0.0"
        " (flask-3.0.0-py3-none-any.whl). Do not install them until you know why.",
    ),
    (
        EventKind.NIGHT_FAILED, "nightly",
        {"host": "lab",
         "problems": [{"part": "index main", "reason": "does not answer"},
                      {"part": "record", "reason": "rows differ"}]},
        "The nightly run on lab has failed: index main: does not answer, record: rows differ.",
    ),
    (EventKind.NIGHT_FAILED, "loop", {"problems": [{"part": "plan", "reason": "no stack"}]},
     "The night of the loop has failed: plan: no stack."),
    (EventKind.DISK_FULL, "lab:/srv/thoth", {"free_bytes": 1_500_000_000, "size_bytes": 10**11},
     "The disk of lab:/srv/thoth is nearly full: 1.5 GB of 100 GB are free."),
    (EventKind.DISK_FULL, "lab:/srv/thoth", {"free_bytes": 31_000_000, "size_bytes": 10**8},
     "The disk of lab:/srv/thoth is nearly full: 31 MB of 100 MB are free."),
    (EventKind.DISK_FULL, "lab:/srv/thoth", {}, "The disk of lab:/srv/thoth is nearly full."),
    (EventKind.PROBLEM_SOLVED, "lab:/srv/thoth", {"problem": "disk.full"},
     "The disk of lab:/srv/thoth has space again."),
    (EventKind.PROBLEM_SOLVED, "nightly", {"problem": "night.failed"},
     "The nightly run works again."),
    (EventKind.TEST, "build", {}, "This is a test of build. Nothing has happened."),
]  # fmt: skip


def test_the_cases_and_the_schema_have_every_kind() -> None:
    assert {kind for kind, *_ in CASES} == set(EventKind)
    assert set(SCHEMA["properties"]["type"]["enum"]) == set(EventKind)


@pytest.mark.parametrize(("kind", "subject", "data", "text"), CASES)
def test_a_notice_is_a_sentence_and_a_body_that_meets_the_schema(
    kind: EventKind, subject: str, data: dict[str, Any], text: str
) -> None:
    event = Event(7, kind, subject, data, datetime(2026, 1, 2, tzinfo=UTC))
    assert notice_text(event) == text
    assert notice_title(event).startswith("Thoth: ")
    body = json.loads(notice_body(event))
    jsonschema.Draft202012Validator(SCHEMA).validate(body)
    assert body["timestamp"] == "2026-01-02T00:00:00.000+00:00"
    assert body["data"]["details"] == data


def test_a_long_list_is_cut() -> None:
    data = {"change_ids": [f"c{number}" for number in range(25)]}
    event = Event(7, EventKind.ADVICE_CHANGED, "app", data, datetime(2026, 1, 2, tzinfo=UTC))
    assert notice_text(event).endswith("c19 and 5 more.")
