"""What every route of the OpenAPI document does: 304, 400, 404, and pages of lists.

Its 401 and 403 are in tests/unit/api/test_scopes_in_openapi.py and in test_tokens.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.services.filled import every, got

#: Objects of the filled record, by the path that names them.
OBJECTS = {"/packages/{name}": "flask", "/versions/{version}": "3.1.3",
           "/vulnerabilities/{identifier}": "CVE-2023-30861"}  # fmt: skip
#: Objects by the list that names them: the list, and the member that does.
LISTED = {
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
    "/api/v2/modules/{module}", "/api/v2/requests/{analysis_id}",
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


def test_an_unchanged_response_is_not_sent_again(client: FlaskClient, routes: list[Route]) -> None:
    for route in routes:
        if route.address and route.path != VOLATILE:
            first = client.get(route.address)
            assert first.status_code == 200, (route.address, first.text)
            again = client.get(route.address, headers={"If-None-Match": first.headers["ETag"]})
            assert (again.status_code, again.data) == (304, b""), route.path
            other = client.get(route.address, headers={"If-None-Match": '"other"'})
            assert other.status_code == 200, route.path


def test_an_object_that_does_not_exist_is_a_problem_document(
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


def test_a_nul_character_and_an_unknown_parameter_are_refused(
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


def test_the_pages_of_a_list_are_the_list_whatever_their_size(
    client: FlaskClient, lists: dict[str, int]
) -> None:
    for address, most in lists.items():
        whole = list(every(client, address, most))
        assert list(every(client, address, 3)) == whole, address
        assert len({json.dumps(it, sort_keys=True) for it in whole}) == len(whole), address


def test_an_invalid_page_is_refused(client: FlaskClient, lists: dict[str, int]) -> None:
    cursors = ("nonsense", "WyJvdGhlciIsImEiXQ", "W10", "ö", "e30", "MTc")
    for address, most in lists.items():
        for query in (
            *({"after": it} for it in cursors), *({"limit": it} for it in (0, most + 1, "many"))
        ):  # fmt: skip
            assert got(client, address, 400, **query)["type"] == "/problems/invalid-request"
