"""What ``thoth guard --service`` reads of a service."""

from __future__ import annotations

import pytest
from flask import Flask
from flask.testing import FlaskClient

from adviser.answering import lock_comparison
from api.jobs.queue import QueueClient
from api.resources import lock_knowledge
from api.service import EXTENSION
from common.settings import Settings
from tests.services.commands import thoth

_HARDWARE = "fa9f8e70"


@pytest.fixture(scope="module")
def client(filled: Settings, filled_app: Flask) -> FlaskClient:
    """A client of a service whose graph other tests may have emptied."""
    done = thoth(filled, "graph", "rebuild")
    assert done.returncode == 0, done.stderr
    return filled_app.test_client()


def test_packages_with_too_many_versions_are_refused_before_they_are_read(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_knowledge, "MAX_VERSIONS", 3)
    monkeypatch.setattr(lock_knowledge, "knowledge_of_locks", None)
    lock = {"numpy": "2.0.2"}
    refused = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock})
    assert refused.status_code == 400
    assert "versions, but at most 3 are read" in refused.get_json()["detail"]


def test_packages_with_too_many_measurements_are_refused(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = {"numpy": "2.0.2"}
    known = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock}).get_json()
    number = len(known["evidence"]["readings"])
    assert number > 1
    for most, status in ((number, 200), (number - 1, 400)):
        monkeypatch.setattr(lock_comparison, "MAX_MEASUREMENTS", most)
        answer = client.post("/api/v2/lock-knowledge", json={"old": lock, "new": lock})
        assert answer.status_code == status
    assert f"more than {number - 1} measurements" in answer.get_json()["detail"]


def test_knowledge_of_one_hardware_class_has_no_measurements_of_others(client: FlaskClient) -> None:
    locks = {"old": {"numpy": "2.0.2"}, "new": {"numpy": "2.4.6"}}
    some, nothing = (
        client.post(
            "/api/v2/lock-knowledge", json={**locks, "environment": {"hardware": digest}}
        ).get_json()
        for digest in (_HARDWARE, f"sha256:{'0' * 64}")
    )
    assert some["evidence"]["series"]
    assert nothing["evidence"]["series"] == []
    assert some["hardware"] == nothing["hardware"] != []


def test_one_client_compares_as_many_locks_at_a_time_as_its_share(
    client: FlaskClient, filled_app: Flask
) -> None:
    body = {"old": {"numpy": "2.0.2"}, "new": {"numpy": "2.4.6"}}
    with filled_app.extensions[EXTENSION].lock_readers.taken(QueueClient("x", anonymous=False)):
        refused = client.post("/api/v2/lock-knowledge", json=body)
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == "5"
    assert client.post("/api/v2/lock-knowledge", json=body).status_code == 200
