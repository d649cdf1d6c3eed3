"""Passwords that clients send are stored nowhere, and come back in no answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import select, text

from adviser.projects.parsing import parse_project
from adviser.projects.project import WarningCode
from graph.engine import Stores
from graph.record.documents import body_of
from graph.record.tokens import Scope
from graph.tables import Document
from tests.factories.releases import release
from tests.services.jobs import client_of, run_jobs
from tests.services.ports import closed_port
from tests.services.projection import deliver

SECRET = "tops3cret"
PORT = closed_port()
INDEX = f"http://127.0.0.1:{PORT}/simple"
OWN = f"http://me:{SECRET}@127.0.0.1:{PORT}/simple"
PIPFILE = f"""\
[[source]]
name = "pypi"
url = "{OWN}"
verify_ssl = true

[packages]
web = "*"
"""
LOCK = {
    "_meta": {"sources": [{"name": "pypi", "url": OWN, "verify_ssl": True}]},
    "default": {"web": {"version": "==1.0", "hashes": [f"sha256:{'0' * 64}"], "index": "pypi"}},
    "develop": {},
}
NOTE = {"type": "INFO", "message": f"of https://me:{SECRET}@h.example/", "link": ""}
QUERY = {
    "recommendation_type": "latest", "dev": "False", "debug": "False", "force": "False",
    "source_type": "cli", "origin": f"https://me:{SECRET}@h.example/repository",
}  # fmt: skip


@pytest.fixture
def known(stores: Stores) -> Stores:
    settings = replace(stores.settings, package_indexes=(("pypi", INDEX),))
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "1.0")])
    return made


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    with client_of(known.settings, Scope.ADVISE) as made:
        yield made


def of_the_original(lock: dict[str, Any]) -> dict[str, Any]:
    stack = {"requirements": PIPFILE, "requirements_lock": json.dumps(lock)}
    return {
        "application_stack": stack,
        "runtime_environment": {"name": OWN, "python_version": "3.11"},
        "constraints": "web>=1\n",
        "labels": {"where": OWN},
        "justification": [NOTE],
        "stack_info": [NOTE],
    }


def test_no_document_and_no_answer_has_a_password(client: FlaskClient, known: Stores) -> None:
    body = of_the_original(LOCK)
    checked = {"application_stack": body["application_stack"]}
    ours = {
        "files": {"Pipfile": PIPFILE, "Pipfile.lock": json.dumps(LOCK)},
        "environment": {"python": "3.11"},
        "labels": {"where": OWN},
    }
    v1 = "/api/v1/advise/python"
    provenance = "/api/v1/provenance/python"
    accepted = [
        client.post(v1, query_string=QUERY, json=body),
        client.post(provenance, query_string={"origin": QUERY["origin"]}, json=checked),
        client.post("/api/v2/advice", json=ours),
    ]
    assert [it.status_code for it in accepted] == [202, 202, 202], [it.text for it in accepted]
    run_jobs(known.settings)
    for it in accepted:
        where = f"/api/v2/requests/{it.get_json()['analysis_id']}"
        done = client.get(where)
        assert done.get_json()["state"] == "succeeded", done.text
        for path in (where, f"{where}/result", f"{where}/log"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert SECRET not in answer.text
    kinds = set()
    with known.engine.connect() as connection:
        for row in connection.execute(select(Document.document_id, Document.kind)).all():
            stored = body_of(connection, known.settings, row.document_id)
            assert stored is not None
            assert SECRET.encode() not in stored, row.kind
            kinds.add(row.kind)
        for table in ("analyses", "procrastinate_jobs", "audit_log"):
            rows = connection.execute(text(f"SELECT row_to_json(it)::text FROM {table} it"))
            assert not any(SECRET in it for it in rows.scalars())
    assert {"adviser-request", "provenance-checker-request", "report", "provenance-report"} <= kinds


def test_the_report_says_that_passwords_were_taken_out(client: FlaskClient, known: Stores) -> None:
    """The same as ``thoth advise`` says of the same files."""
    files = {"Pipfile": PIPFILE, "Pipfile.lock": json.dumps(LOCK)}
    expected = [
        f"{it.field}: {it.message}"
        for it in parse_project({k: v.encode() for k, v in files.items()}).warnings
        if it.code is WarningCode.CREDENTIALS_REMOVED
    ]
    assert len(expected) == 2
    stack = {"requirements": PIPFILE, "requirements_lock": json.dumps(LOCK)}
    accepted = [
        client.post("/api/v1/advise/python", query_string=QUERY, json={"application_stack": stack}),
        client.post("/api/v2/advice", json={"files": files}),
    ]
    run_jobs(known.settings)
    for it in accepted:
        where = f"/api/v2/requests/{it.get_json()['analysis_id']}"
        report = client.get(f"{where}/result").get_json()["result"]["report"]
        told = [it["message"] for it in report["stack_info"]]
        assert [it for it in told if "credentials" in it] == expected
        assert (
            client.post(f"/api/v2/advice/{it.get_json()['analysis_id']}/replay").status_code == 202
        )
