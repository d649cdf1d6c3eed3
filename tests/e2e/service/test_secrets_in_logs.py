"""Passwords in what clients send are in no log: of the server, the worker and the stores."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import httpx
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from tests.services.served import Served
from tests.services.waiting import wait_until

#: Also as the value of a member that is called for what it is.
SECRET = "w0rd-that-nobody-logs"
OWN = PYPI_SIMPLE_ENDPOINT.replace("://", f"://me:{SECRET}@")
THEIRS = f"https://me:{SECRET}@other.example/simple?token={SECRET}"
JSON = {"Content-Type": "application/json"}
SCOPES = ("read", "advise", "ingest", "inspect", "cypher")
SOURCE = '[[source]]\nname = "pypi"\nurl = "{url}"\nverify_ssl = true\n\n'
PIPFILE = SOURCE.format(url=OWN) + '[packages]\nno-such-thing = "*"\n'
LOCK = {
    "_meta": {"sources": [{"name": "pypi", "url": OWN, "verify_ssl": True}]},
    "default": {"no-such-thing": {"version": "==1", "index": "pypi"}},
    "develop": {},
}
TERMINAL = {"succeeded", "failed", "error"}


def archive(**members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as into:
        for name, body in members.items():
            into.writestr(f"{name}.json", body)
    return packed.getvalue()


def stack(pipfile: str = PIPFILE, **more: Any) -> dict[str, Any]:
    files = {"requirements": pipfile, "requirements_lock": json.dumps(LOCK)}
    return {"application_stack": files, **more}


def accepted(client: httpx.Client) -> list[httpx.Response]:
    """What a worker takes in hand."""
    where, query = {"where": OWN, "password": SECRET}, {"recommendation_type": "latest"}
    runtime = {"python_version": "3.11", "name": OWN}
    script = (
        f"import os, sys; print(os.environ['WHERE'], file=sys.stderr); '{SECRET}'; print('{{}}')"
    )
    return [
        client.post(
            "/api/v1/advise/python", params={**query, "origin": THEIRS},
            json=stack(constraints=f"a @ {THEIRS}\n", labels=where, runtime_environment=runtime),
        ),
        client.post("/api/v1/provenance/python", params={"origin": THEIRS}, json=stack()),
        client.post(
            "/api/v2/advice",
            json={
                "files": {
                    "requirements.txt": f"no-such-thing\nb @ {THEIRS}\n",
                    "constraints.txt": f"--index-url {OWN}\n",
                },
                "labels": where,
            },
        ),
        client.post(
            "/api/v2/inspections",
            content=archive(a=json.dumps({"at": THEIRS}).encode(), b=SECRET.encode()),
            headers={"Content-Type": "application/zip"},
        ),
        client.post(
            "/amun/api/v1/inspect",
            json={"script": script, "environment": [{"name": "WHERE", "value": SECRET}]},
        ),
    ]  # fmt: skip


def refused(client: httpx.Client) -> list[httpx.Response]:
    """What is wrong in a way that is told; the words for it may be logged."""
    foreign = SOURCE.format(url=THEIRS) + '[packages]\nno-such-thing = "*"\n'
    broken = {"files": {"requirements.txt": f"no such thing @ {THEIRS}\n"}}
    return [
        client.post("/api/v1/advise/python?recommendation_type=latest", json=stack(foreign)),
        client.post("/api/v2/advice", json=broken),
        client.post("/api/v2/advice", json={"files": {"Pipfile": f'a = "{SECRET}'}}),
        client.post("/api/v2/advice", json={"files": {}, SECRET: THEIRS}),
        client.post("/api/v2/advice", content=f'{{"{SECRET}": {THEIRS}', headers=JSON),
        client.post("/api/v2/advice", content=f'{{"{SECRET}": {THEIRS}'),
        client.post("/api/v2/packages", json={"requirements": [f"a @ {THEIRS}"]}),
        client.post("/api/v2/inspections", json={"at": THEIRS, "password": SECRET}),
        client.post("/api/v2/cypher", json={"query": f"RETURN '{SECRET}' + {THEIRS}"}),
        client.post("/amun/api/v1/inspect", json={"script": THEIRS, SECRET: OWN}),
        client.get("/api/v2/packages", params={"password": SECRET, "after": THEIRS}),
    ]


def test_no_password_of_a_body_is_in_any_log(served: Served) -> None:
    with served.client(served.token(*SCOPES)) as client:
        taken = accepted(client)
        assert [it.status_code for it in taken] == [202] * 5, [it.text for it in taken]
        for it in refused(client):
            assert it.status_code in {400, 415, 422}, (it.request.url, it.text)
        names = [(it.json().get("analysis_id") or it.json()["inspection_id"]) for it in taken]
        states = [end(client, it) for it in names]
    assert "error" not in states, states
    home = served.settings.home
    kept = [
        served.log,
        served.worker_log,
        *(it for it in (home / "logs").rglob("*") if it.is_file()),
    ]
    texts = {path.name: path.read_text("utf-8", "replace") for path in kept}
    assert {"serve.log", "worker.log", "postgresql.log", "graph.log"} <= texts.keys()
    assert texts["serve.log"].count('"status": 202') >= len(taken)
    assert "job" in texts["worker.log"]
    for name, text in texts.items():
        lines = [line for line in text.splitlines() if SECRET in line]
        assert not lines, (name, lines[:3])


def end(client: httpx.Client, analysis_id: str) -> str:
    def end_state() -> str | None:
        state = str(client.get(f"/api/v2/requests/{analysis_id}").json()["state"])
        return state if state in TERMINAL else None

    return wait_until(end_state, f"{analysis_id} has ended")
