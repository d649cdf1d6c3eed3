"""The inspection service: a script is submitted, run confined by a worker, and taken in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from graph.engine import Stores
from graph.record.access import Scope
from pis.catalogue import INDICATORS
from tests.requirements import needs
from tests.services.commands import row_counts
from tests.services.jobs import client_of, run_jobs

BASE = "/amun/api/v1"
SCRIPT = """
import json, socket
try:
    socket.create_connection(("127.0.0.1", 22), 1)
    reached = True
except OSError:
    reached = False
result = {"rate": 1.0, "elapsed": 1.0}
print(json.dumps({"name": "Mine", "@parameters": {"reached": reached}, "@result": result}))
"""


@pytest.fixture
def client(stores: Stores) -> Iterator[FlaskClient]:
    """Who may have stacks measured."""
    with client_of(replace(stores.settings, rate_limit=None), Scope.INSPECT) as made:
        yield made


@needs("bwrap")
def test_submitted_script_runs_in_the_sandbox_and_is_ingested(
    client: FlaskClient, stores: Stores
) -> None:
    specification = {
        "base": "registry.example/python:3.11", "identifier": "mine", "batch_size": 2,
        "script": SCRIPT, "timeout_s": 60,
    }  # fmt: skip
    response = client.post(f"{BASE}/inspect", json=specification)
    assert response.status_code == 202, response.text
    name = response.get_json()["inspection_id"]
    assert name.startswith("inspection-mine-")
    assert response.get_json()["parameters"]["batch_size"] == 2
    where = f"{BASE}/inspect/{name}"
    waiting = client.get(f"{where}/status").get_json()["status"]
    assert (waiting["build"], waiting["data_stored"]) == (None, False)
    assert waiting["workflow"]["state"] == "pending"
    assert client.get(f"{where}/build/log").get_json()["log"] is None
    assert client.get(f"{where}/job/0/result").status_code == 404

    run_jobs(client.application.extensions["thoth"].settings)

    status = client.get(f"{where}/status").get_json()["status"]
    assert status["workflow"]["state"] == "succeeded", status
    assert status["build"]["state"] == "succeeded", status
    assert status["data_stored"] is True
    assert client.get(f"{where}/job/batch-size").get_json()["batch_size"] == 2
    for item in range(2):
        document = client.get(f"{where}/job/{item}/result").get_json()
        assert document["result"]["confined"] is True
        assert document["result"]["stdout"]["@parameters"] == {"reached": False}
        assert "reached" in client.get(f"{where}/job/{item}/log").get_json()["log"]
    assert client.get(f"{where}/job/2/result").status_code == 404
    assert "not used" in client.get(f"{where}/build/log").get_json()["log"]
    asked = client.get(f"{where}/specification").get_json()["specification"]
    assert asked["script"] == SCRIPT
    listed = client.get(f"{BASE}/inspect?page=1&limit=5").get_json()
    assert listed == {"inspections": [name], "parameters": {"page": 1, "limit": 5}}
    assert client.get(f"{BASE}/inspect?page=2").get_json()["inspections"] == []
    assert row_counts(stores.engine)["inspections"] == 1
    second = client.post(f"{BASE}/inspect", json=specification).get_json()["inspection_id"]
    assert second != name


def test_a_stack_that_cannot_be_built_is_a_result(client: FlaskClient) -> None:
    specification = {"script": "print(1)", "packages": ["no-such-native-package"]}
    name = client.post(f"{BASE}/inspect", json=specification).get_json()["inspection_id"]
    run_jobs(client.application.extensions["thoth"].settings)
    status = client.get(f"{BASE}/inspect/{name}/status").get_json()["status"]
    assert status["build"]["state"] == "failed"
    assert status["build"]["reason"] == "native-packages-missing"
    assert status["workflow"]["state"] == "succeeded"
    assert "no-such-native-package" in client.get(f"{BASE}/inspect/{name}/build/log").text


REFUSED: tuple[tuple[dict[str, Any] | bytes, str], ...] = (
    ({}, "script"),
    ({"script": "https://index.example/script.py"}, "script"),
    ({"script": " HTTPS://index.example/script.py\n"}, "script"),
    ({"script": "nobody-knows-it"}, "script"),
    ({"script": "print(1)", "batch_size": 0}, "batch_size"),
    ({"script": "print(1)", "batch_size": 10_000, "timeout_s": 3600}, "batch_size"),
    ({"script": "print(1)", "identifier": "../../up"}, "identifier"),
    ({"script": "print(1)", "files": [{"path": "../x", "content": ""}]}, "files"),
    ({"script": "print(1)", "unknown": 1}, "unknown"),
    ({"script": {"file": "secret"}}, "script"),
    *((it, "") for it in (b"", b"[]", b"{", b"\xff")),
)


def test_invalid_inspection_request_is_refused_with_its_field(client: FlaskClient) -> None:
    for body, field in REFUSED:
        data = body if isinstance(body, bytes) else json.dumps(body)
        response = client.post(f"{BASE}/inspect", data=data, content_type="application/json")
        assert response.status_code == 400, response.text
        document = response.get_json()
        assert field in document["detail"]
        assert document["error"] == document["detail"]
        assert "parameters" in document
    assert client.get(f"{BASE}/inspect").get_json()["inspections"] == []


def test_dockerfile_endpoint_returns_a_recipe_and_builds_nothing(client: FlaskClient) -> None:
    body = {"base": "registry.example/python:3.11", "script": next(iter(INDICATORS))}
    response = client.post(
        f"{BASE}/_debug/generate-dockerfile", json={**body, "script": "print(1)"}
    )
    assert response.status_code == 200, response.text
    assert response.get_json()["dockerfile"].startswith("FROM registry.example/python:3.11\n")
    missing = client.post(f"{BASE}/_debug/generate-dockerfile", json={"script": "print(1)"})
    assert missing.status_code == 400
    assert client.get(f"{BASE}/inspect").get_json()["inspections"] == []


def test_version_is_public_and_unknown_inspections_are_not_found(client: FlaskClient) -> None:
    response = client.get(f"{BASE}/version")
    assert set(response.get_json()) == {"version", "service_version"}
    assert response.headers["X-Amun-Version"] == response.get_json()["version"]
    for path in ("status", "specification", "build/log", "job/batch-size", "job/0/log"):
        missing = client.get(f"{BASE}/inspect/inspection-none-00000000/{path}")
        assert missing.status_code == 404
        assert missing.headers["X-Amun-Version"]
        assert missing.get_json()["error"]
