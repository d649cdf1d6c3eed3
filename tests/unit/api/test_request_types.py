"""Requests as they are stored between the API and a worker."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest

from adviser.projects.parsing import parse_project
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import RequestOptions, StackRequest
from api.jobs.request_submission import AdviceRequest, ProvenanceRequest
from model.errors import InvalidArgument
from model.packages.environments import environment

PIPFILE = b'[packages]\nweb = {version = ">=1", index = "own"}\n[dev-packages]\ntool = "*"\n'
LOCK = orjson.dumps({"_meta": {}, "default": {"web": {"version": "==1.0"}}, "develop": {}})
PROJECT = parse_project({"Pipfile": PIPFILE, "Pipfile.lock": LOCK, "constraints.txt": b"web<3\n"})
REQUEST = AdviceRequest(
    StackRequest(
        PROJECT,
        environment("3.11", "linux_x86_64"),
        RecommendationType.STABLE,
        RequestOptions(published_before=datetime(2026, 1, 1, tzinfo=UTC), labels={"team": "blue"}),
    ),
    described_hardware={"cpu_family": 6, "cpu_model": 85},
    library_usage={"web": ("web.a", "web.b")},
)


def test_a_worker_gets_what_was_accepted() -> None:
    stored = orjson.dumps(REQUEST.to_document())
    assert AdviceRequest.from_document(orjson.loads(stored)) == REQUEST
    checked = ProvenanceRequest(PROJECT, {"packages": {}}, {"default": {}}, origin="https://h/")
    stored = orjson.dumps(checked.to_document())
    assert ProvenanceRequest.from_document(orjson.loads(stored)) == checked


def test_who_sends_a_request_makes_no_other_request() -> None:
    sent = replace(REQUEST, origin="https://git.example/x", source_type="cli")
    assert sent.to_document().keys() - REQUEST.to_document().keys() == {"origin", "source_type"}
    assert sent.cache_key == REQUEST.cache_key
    assert replace(REQUEST, may_fetch=True).cache_key != REQUEST.cache_key


@pytest.mark.parametrize(
    "document",
    [
        {"files": {"requirements.txt": "web\n"}, "type": "latest"},
        {"application_stack": {"requirements": "[packages]\n"}, "dev": False},
        {**REQUEST.to_document(), "schema_version": "advice-request-3"},
        {**REQUEST.to_document(), "more": 1},
        {},
    ],
    ids=["older v2", "older v1", "newer", "unknown field", "empty"],
)
def test_a_request_of_another_version_is_refused_with_a_remedy(document: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="another version"):
        AdviceRequest.from_document(document)
