"""What is on record is answered as the OpenAPI document says; generated requests: tests/e2e."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import schemathesis
from flask import Flask
from schemathesis.checks import (
    not_a_server_error,
)
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.service import EXTENSION
from graph.record.tokens import Scope, create_token

#: What answers in this process are not unpacked of.
PLAIN = {"Accept-Encoding": "identity"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def api_schema(filled_app: Flask) -> BaseSchema:
    return schemathesis.openapi.from_wsgi("/openapi.json", filled_app)


#: Single things, by the list that names one and the member that does.
SINGLES = {
    "/api/v2/packages/{name}": ("packages", "name"),
    "/api/v2/packages/{name}/versions": ("packages", "name"),
    "/api/v2/vulnerabilities/{identifier}": ("vulnerabilities", "vulnerability_id"),
    "/api/v2/vulnerabilities/{identifier}/versions": ("vulnerabilities", "vulnerability_id"),
    "/api/v2/stacks/{digest}": ("stacks", "digest"),
    "/api/v2/inspections/{document_id}": ("inspections", "document_id"),
    "/api/v2/inspections/{document_id}/document": ("inspections", "document_id"),
    "/api/v2/observations/{observation_id}": ("observations", "observation_id"),
    "/api/v2/hardware/{digest}": ("hardware", "digest"),
    "/api/v2/advice/{advice_id}": ("advice", "advice_id"),
    "/api/v2/advice/{advice_id}/report": ("advice", "advice_id"),
}


@pytest.mark.parametrize("path", SINGLES)
def test_resources_are_as_documented(api_schema: BaseSchema, filled_app: Flask, path: str) -> None:
    listed, member = SINGLES[path]
    with filled_app.extensions[EXTENSION].writing() as connection:
        _, secret = create_token(connection, "reader", [Scope.ADMIN], None)
    shown = {**PLAIN, "Authorization": f"Bearer {secret}"}
    client = filled_app.test_client()
    page = client.get(f"/api/v2/{listed}", query_string={"limit": 30}, headers=shown).json
    assert page is not None
    parameter = path.partition("{")[2].partition("}")[0]
    for it in page["items"]:
        case = api_schema[path]["GET"].Case(path_parameters={parameter: it[member]})
        assert case.call_and_validate(headers=shown, checks=CHECKS).status_code == 200


@pytest.mark.parametrize("rest", ["", "/files", "/vulnerabilities"])
@pytest.mark.parametrize("version", ["3.1.3", "2.2.4"])
def test_a_release_is_as_described(api_schema: BaseSchema, rest: str, version: str) -> None:
    path = "/api/v2/packages/{name}/versions/{version}" + rest
    query = {} if rest else {"python_version": "3.12", "extras": ["async"]}
    named = {"name": "flask", "version": version}
    case = api_schema[path]["GET"].Case(path_parameters=named, query=query)
    answer = case.call_and_validate(headers=PLAIN, checks=CHECKS)
    assert answer.status_code == (200 if version == "3.1.3" else 404)


def test_a_comparison_is_as_described(api_schema: BaseSchema, filled_app: Flask) -> None:
    asked = {"measured": "true", "package": "numpy"}
    page = filled_app.test_client().get("/api/v2/stacks", query_string=asked).json
    assert page is not None
    digests = [it["digest"] for it in page["items"]]
    found = 0
    for one, other in itertools.combinations(digests, 2):
        query = {"baseline": one, "candidate": other}
        case = api_schema["/api/v2/comparisons"]["GET"].Case(query=query)
        found += len(case.call_and_validate(headers=PLAIN, checks=CHECKS).json()["items"])
    assert found > 0


def test_the_document_is_valid_and_tells_the_errors(filled_app: Flask) -> None:
    from openapi_spec_validator import validate

    document: dict[str, Any] = filled_app.test_client().get("/openapi.json").json or {}
    validate(document)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            told = operation["responses"]
            assert {"400", "401", "403", "429", "503", "default"} <= told.keys(), (path, method)
            assert operation["summary"], (path, method)
