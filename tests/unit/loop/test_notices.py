"""Notices: sentences and bodies, refused settings, signatures that a receiver can verify."""

import base64
import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from common.settings import Settings
from graph.record.events import Event, EventKind
from loop.notice_messages import notice_body, notice_text, notice_title
from loop.notices import load_target, planned_targets, signed_headers
from model.errors import InvalidSettings
from tests.factories.golden import compare_views
from tests.services.json_schemas import validate

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


def test_every_kind_of_notice_matches_the_published_schema() -> None:
    assert {kind for kind, *_ in CASES} == set(EventKind)
    assert set(SCHEMA["properties"]["type"]["enum"]) == set(EventKind)
    views = {}
    for kind, subject, data in CASES:
        event = Event(7, kind, subject, data, datetime(2026, 1, 2, tzinfo=UTC))
        body = json.loads(notice_body(event))
        validate(body, SCHEMA)
        assert body["timestamp"] == "2026-01-02T00:00:00.000+00:00"
        assert body["data"]["details"] == data
        views[f"{kind} of {subject}"] = f"{notice_title(event)}\n{notice_text(event)}"
    compare_views("notices", views)


ROOT = Path(__file__).parents[3]
KEY = bytes(range(24))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


def verifier_of_the_docs() -> Callable[[dict[str, str], bytes, str], bool]:
    text = (ROOT / "docs/reference/webhooks.md").read_text("utf-8")
    examples = re.findall(r"(?ms)^```python\n(.*?)^```", text)
    assert len(examples) == 1
    names: dict[str, Callable[[dict[str, str], bytes, str], bool]] = {}
    exec(examples[0], names)  # noqa: S102 - our own documentation
    return names["is_genuine"]


def test_documented_webhook_verification_accepts_only_genuine_requests() -> None:
    is_genuine, now, body = verifier_of_the_docs(), int(time.time()), b'{"type": "x"}'
    genuine = signed_headers("msg_1", now, body, [KEY, b"another"])
    assert is_genuine(genuine, body, SECRET)
    assert not is_genuine(genuine, b"{}", SECRET)
    assert not is_genuine({**genuine, "webhook-id": "msg_2"}, body, SECRET)
    assert not is_genuine(signed_headers("msg_1", now, body, [b"another"]), body, SECRET)
    assert not is_genuine(signed_headers("msg_1", now - 600, body, [KEY]), body, SECRET)


def test_webhook_signature_follows_standard_webhooks() -> None:
    """Example of the specification's own libraries."""
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [key]
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("url", "secret", "reason"),
    [
        ("http://build.example/", SECRET, "only receivers on this machine may use http"),
        ("http://localhost.example/", SECRET, "only receivers on this machine may use http"),
        ("https://me:hunter2@build.example/", SECRET, "has a user"),
        ("ftp://build.example/hunter2", SECRET, "not an http or https URL"),
        ("https://build.example:hunter2/", SECRET, "not an http or https URL"),
        ("https://build.example/", "hunter2", "24 to 64 bytes"),
        ("https://build.example/", "whsec_aHVudGVyMg==", "24 to 64 bytes"),
        ("https://build.example/", SECRET.removeprefix("whsec_"), "24 to 64 bytes"),
        ("https://build.example/", "/nowhere/secret", "cannot be read"),
    ],
)
def test_invalid_webhook_is_refused_without_showing_its_secrets(
    url: str, secret: str, reason: str
) -> None:
    variables = {"WEBHOOKS": f"build={url}", "WEBHOOK_SECRETS": f"build={secret}"}
    settings = Settings.from_env(variables)
    with pytest.raises(InvalidSettings, match=f"build: .*{reason}|build.*{reason}") as refused:
        load_target(settings, "build")
    assert "hunter2" not in str(refused.value)
    assert "aHVudGVyMg" not in str(refused.value)
    assert url not in repr(settings)
    assert secret not in repr(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_webhook_to_this_machine_may_use_http(host: str) -> None:
    variables = {"WEBHOOKS": f"build=http://{host}:8000/", "WEBHOOK_SECRETS": f"build={SECRET}"}
    assert SECRET not in repr(load_target(Settings.from_env(variables), "build"))


def test_chat_targets_get_only_settled_events() -> None:
    variables = {"WEBHOOKS": "build=https://build.example/", "NOTICE_TARGETS": "team=json://host"}
    settings = Settings.from_env(variables)
    assert planned_targets(settings) == {"build": False, "team": False}
    settings = Settings.from_env({**variables, "WEBHOOK_EVENTS": "all"})
    assert planned_targets(settings) == {"build": True, "team": False}


def test_notice_target_with_the_name_of_a_webhook_is_refused() -> None:
    variables = {"WEBHOOKS": "build=https://build.example/", "NOTICE_TARGETS": "build=json://host"}
    with pytest.raises(InvalidSettings, match="NOTICE_TARGETS"):
        planned_targets(Settings.from_env(variables))
