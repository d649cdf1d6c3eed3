"""What every route of the OpenAPI document does: as documented, 304, 400, 404, and pages of lists.

Its 401 and 403 are in tests/unit/api/test_http.py and in test_tokens.py.
"""

import gzip
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from flask import Flask
from flask.testing import FlaskClient
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi import checks

from tests.services.filled import every, got

CHECKS = [
    not_a_server_error, checks.status_code_conformance, checks.content_type_conformance,
    checks.response_headers_conformance, checks.response_schema_conformance,
]  # fmt: skip

#: Objects of the filled record, by the path that names them.
OBJECTS = {"/packages/{name}": "flask", "/versions/{version}": "3.1.3",
           "/vulnerabilities/{identifier}": "CVE-2023-30861"}  # fmt: skip
#: Objects by the list that names them: the list, and the member that does.
LISTED = {
    "/packages/{name}": ("packages", "name"),
    "/vulnerabilities/{identifier}": ("vulnerabilities", "vulnerability_id"),
    "/stacks/{digest}": ("stacks", "digest"),
    "/inspections/{document_id}": ("inspections", "document_id"),
    "/observations/{observation_id}": ("observations", "observation_id"),
    "/hardware/{digest}": ("hardware", "digest"),
    "/advice/{advice_id}": ("advice", "advice_id"),
    "/series/{comparison_key}": ("comparison-groups", "comparison_key"),
    "/reports/{comparison_key}": ("reports", "comparison_key"),
}
#: Routes whose objects the record does not have, or that need more than a path.
ELSEWHERE = {
    "/api/v2/advice/{advice_id}/claims/{claim_id}", "/api/v2/advice/{advice_id}/why-not",
    "/api/v2/bisects/{bisect_id}", "/api/v2/changes/{change_id}", "/api/v2/comparisons",
    "/api/v2/requests/{analysis_id}",
    "/api/v2/requests/{analysis_id}/log", "/api/v2/requests/{analysis_id}/result",
}  # fmt: skip


#: Its values change from request to request.
VOLATILE = "/api/v2/operation"


@dataclass(frozen=True, slots=True)
class Route:
    """What can be read below ``/api/v2``.

    :param address: of one of its objects; None if the record has none
    :param query: schemas of the query parameters, by name
    """

    path: str
    address: str | None
    query: Mapping[str, Any]


@pytest.fixture(scope="module")
def client(filled_client: FlaskClient) -> FlaskClient:
    """Without a token, nobody lists what others asked."""
    return filled_client


@pytest.fixture(scope="module")
def routes(client: FlaskClient) -> list[Route]:
    objects = dict(OBJECTS)
    for place, (name, member) in LISTED.items():
        if place not in objects:
            objects[place] = got(client, f"/api/v2/{name}?limit=1")["items"][0][member]
    found = []
    for path, item in got(client, "/openapi.json")["paths"].items():
        if path.startswith("/api/v2/") and "get" in item:
            address = path
            for place, value in objects.items():
                address = address.replace(place, place.partition("{")[0] + value)
            parameters = item["get"].get("parameters", ())
            query = {it["name"]: it["schema"] for it in parameters if it["in"] == "query"}
            found.append(Route(path, None if path in ELSEWHERE else address, query))
    assert not [it for it in found if it.address and "{" in it.address]
    return found


@pytest.fixture(scope="module")
def lists(routes: list[Route]) -> dict[str, int]:
    """Addresses that have pages, with the number of items on the largest page."""
    found = {
        it.address: int(it.query["limit"]["maximum"])
        for it in routes
        if it.address and "after" in it.query
    }
    assert len(found) > 15
    return found


def test_each_response_has_a_data_time_and_an_etag(
    client: FlaskClient, routes: list[Route]
) -> None:
    for route in routes:
        if route.address and route.path != VOLATILE:
            first = client.get(route.address)
            assert first.status_code == 200, (route.address, first.text)
            if first.is_json and isinstance(first.json, dict) and "as_of" in first.json:
                assert first.json["as_of"].startswith(first.headers["X-Thoth-As-Of"][:19])
                revision = first.headers["X-Thoth-Graph-Revision"]
                assert revision == str(first.json["graph_revision"]), route.path
            again = client.get(route.address, headers={"If-None-Match": first.headers["ETag"]})
            assert (again.status_code, again.data) == (304, b""), route.path
            other = client.get(route.address, headers={"If-None-Match": '"other"'})
            assert (other.status_code, other.data) == (200, first.data), route.path
            accepted = {"Accept-Encoding": "gzip"}
            packed = client.get(route.address, headers=accepted)
            if packed.headers.get("Content-Encoding") == "gzip":
                assert gzip.decompress(packed.data) == first.data, route.path
            accepted["If-None-Match"] = packed.headers["ETag"]
            assert client.get(route.address, headers=accepted).status_code == 304, route.path


@pytest.fixture(scope="module")
def api_schema(filled_app: Flask) -> BaseSchema:
    return schemathesis.openapi.from_wsgi("/openapi.json", filled_app)


def validated(api_schema: BaseSchema, client: FlaskClient, path: str, **parts: Any) -> Any:
    """A response that is as documented."""
    # What answers in this process are not unpacked of.
    headers = {"Accept-Encoding": "identity"}
    headers["Authorization"] = client.environ_base["HTTP_AUTHORIZATION"]
    return api_schema[path]["GET"].Case(**parts).call_and_validate(headers=headers, checks=CHECKS)


def test_every_listed_object_matches_the_openapi_document(
    api_schema: BaseSchema, client: FlaskClient, routes: list[Route]
) -> None:
    for route in routes:
        if route.address and "{version}" not in route.path:
            values: list[dict[str, str]] = [{}]
            for place, (name, member) in LISTED.items():
                if place in route.path:
                    (parameter,) = re.findall(r"\{(\w+)\}", place)
                    items = got(client, f"/api/v2/{name}", limit=30)["items"]
                    values = [{parameter: it[member]} for it in items]
            for value in values:
                answer = validated(api_schema, client, route.path, path_parameters=value)
                assert answer.status_code == 200, (route.path, value)


@pytest.mark.parametrize("rest", ["", "/files", "/vulnerabilities"])
@pytest.mark.parametrize("version", ["3.1.3", "2.2.4"])
def test_release_matches_its_schema(
    api_schema: BaseSchema, client: FlaskClient, rest: str, version: str
) -> None:
    path = "/api/v2/packages/{name}/versions/{version}" + rest
    named = {"name": "flask", "version": version}
    answer = validated(api_schema, client, path, path_parameters=named)
    assert answer.status_code == (200 if version == "3.1.3" else 404)


def test_comparison_matches_its_schema(api_schema: BaseSchema, client: FlaskClient) -> None:
    stacks = got(client, "/api/v2/stacks", measured="true", package="numpy")["items"]
    found = 0
    for one, other in itertools.combinations([it["digest"] for it in stacks], 2):
        query = {"baseline": one, "candidate": other}
        answer = validated(api_schema, client, "/api/v2/comparisons", query=query)
        found += len(answer.json()["items"])
    assert found > 0


def test_openapi_document_is_valid_and_lists_the_errors(client: FlaskClient) -> None:
    from openapi_spec_validator import validate

    document = got(client, "/openapi.json")
    validate(document)
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method != "parameters":
                named = operation["responses"].keys()
                assert {"400", "401", "403", "429", "503", "default"} <= named, (path, method)
                assert operation["summary"], (path, method)


def test_missing_object_is_answered_with_a_problem_document(
    client: FlaskClient, routes: list[Route]
) -> None:
    missing = [re.sub(r"\{\w+\}", "none", it.path) for it in routes if "{" in it.path]
    for path in (*missing, "/api/v2/packages/flask/versions/0.0.0", "/api/v2/nothing"):
        query = {"requirement": "flask"} if path.endswith("why-not") else None
        response = client.get(path, query_string=query)
        assert response.status_code == 404, (path, response.text)
        assert response.content_type == "application/problem+json"
        assert response.json is not None
        assert response.json["type"] == "/problems/not-found"


def test_nul_characters_and_unknown_parameters_are_refused(
    client: FlaskClient, routes: list[Route]
) -> None:
    for route in routes:
        if "{" in route.path:
            got(client, re.sub(r"\{\w+\}", "a%00b", route.path), 400)
        for name in route.query if route.address else ():
            got(client, route.address or "", 400, **{name: "a\0b"})
        if route.address and route.query:
            problem = got(client, route.address, 400, lmit=3)
            assert problem["type"] == "/problems/invalid-request"
            assert got(client, problem["type"])["meaning"]


def test_pages_of_any_size_add_up_to_the_complete_list(
    client: FlaskClient, lists: dict[str, int]
) -> None:
    for address, most in lists.items():
        whole = list(every(client, address, most))
        assert list(every(client, address, 3)) == whole, address
        assert len({json.dumps(it, sort_keys=True) for it in whole}) == len(whole), address


def test_invalid_page_parameters_are_refused(client: FlaskClient, lists: dict[str, int]) -> None:
    cursors = ("nonsense", "WyJvdGhlciIsImEiXQ", "W10", "ö", "e30", "MTc")
    for address, most in lists.items():
        for query in (
            *({"after": it} for it in cursors), *({"limit": it} for it in (0, most + 1, "many"))
        ):  # fmt: skip
            assert got(client, address, 400, **query)["type"] == "/problems/invalid-request"
