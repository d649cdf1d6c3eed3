"""What clients of the original service ask of packages, on a real record."""

from __future__ import annotations

from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

PACKAGE = "/api/v1/python/package"
FLASK = {"name": "Flask", "version": "3.1.3", "index": "pypi"}
SYSTEM = {"os_name": "fedora", "os_version": "40", "python_version": "3.12"}


@pytest.fixture
def client(filled_app: Flask) -> FlaskClient:
    return filled_app.test_client()


def got(client: FlaskClient, path: str, expected: int = 200, /, **query: Any) -> Any:
    response = client.get(path, query_string=query)
    assert response.status_code == expected, response.text
    return response.json


def test_packages_come_page_by_page_until_one_is_empty(client: FlaskClient) -> None:
    found: list[str] = []
    for page in range(1000):
        names = got(client, PACKAGE, page=page, per_page=7)["packages"]
        if not names:
            break
        found += [it["package_name"] for it in names]
    assert found == sorted(set(found))
    assert {"flask", "numpy"} <= set(found)
    assert got(client, PACKAGE, like="Flas")["packages"] == [{"package_name": "flask"}]
    got(client, PACKAGE, 400, per_page=1000)


def test_versions_of_a_package(client: FlaskClient) -> None:
    newest = got(client, f"{PACKAGE}/versions", name="flask")["versions"]
    oldest = got(client, f"{PACKAGE}/versions", name="flask", order_by="ASC")["versions"]
    assert newest == oldest[::-1]
    assert newest[0]["package_version"] == "3.1.3"
    assert newest[0]["index_url"].startswith("https://")
    error = got(client, f"{PACKAGE}/versions", 404, name="none")
    assert error["parameters"] == {"name": "none"}
    assert error["error"]


def test_dependencies_of_a_release_by_what_their_markers_say(client: FlaskClient) -> None:
    path = f"{PACKAGE}/dependencies"
    whole = got(client, path, **FLASK)["dependencies"]
    holds = got(client, path, **FLASK, **SYSTEM, marker_evaluation_result="True")["dependencies"]
    other = got(client, path, **FLASK, **SYSTEM, marker_evaluation_result="False")["dependencies"]
    assert sorted(map(str, holds + other)) == sorted(map(str, whole))
    assert "importlib-metadata" in {it["name"] for it in other}
    assert {"name": "asgiref", "version": ">=3.2", "extra": "async"}.items() <= next(
        it for it in holds if it["name"] == "asgiref"
    ).items()
    got(client, path, 400, **FLASK, marker_evaluation_result="True")
    got(client, path, 404, **{**FLASK, "version": "0.0.0"})


def test_a_release_is_found_by_the_address_of_its_index(client: FlaskClient) -> None:
    (index,) = got(client, "/api/v1/python-package-index")["indexes"]
    by_name = got(client, f"{PACKAGE}/version/metadata", **FLASK)["metadata"]
    asked = {**FLASK, "index": index["url"] + "/"}
    assert got(client, f"{PACKAGE}/version/metadata", **asked)["metadata"] == by_name
    assert (by_name["Name"], by_name["Version"]) == ("flask", "3.1.3")
    got(client, f"{PACKAGE}/version/metadata", 404, **{**FLASK, "index": "https://other.example"})


def test_environments_are_those_whose_python_will_do(client: FlaskClient) -> None:
    path = f"{PACKAGE}/version/environments"
    known = got(client, "/api/v1/python/environment")["environment"]
    assert got(client, path, **FLASK)["environments"] == known
    newest = {**FLASK, "name": "numpy", "version": "2.5.5"}
    assert {it["python_version"] for it in known} == {"3.11"}
    assert got(client, path, **newest)["environments"] == []


def test_platforms(client: FlaskClient) -> None:
    assert "linux-x86_64" in got(client, "/api/v1/python/platform")["platform"]


def test_the_description_is_shown_without_a_script(client: FlaskClient) -> None:
    for old, new in (
        ("/api/v1/openapi.json", "/openapi.json"),
        ("/api/v1/ui/", "/docs"),
    ):
        assert client.get(old).location == new
    page = client.get("/docs")
    assert page.status_code == 200
    document = client.get("/openapi.json").json
    assert document is not None
    assert document["openapi"] == "3.1.0"
    for path in document["paths"]:
        assert path in page.text
    assert "<script" not in page.text
    assert "style=" not in page.text
    assert "'unsafe-inline'" not in page.headers["Content-Security-Policy"]
    with client.get("/static/docs.css") as style:
        assert style.status_code == 200
    assert client.get("/docs", headers={"If-None-Match": page.headers["ETag"]}).status_code == 304
