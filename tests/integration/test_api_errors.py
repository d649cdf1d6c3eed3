"""What clients are told of their mistakes: stable types, our words, and the name of the field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import werkzeug.exceptions
from flask.testing import FlaskClient
from sqlalchemy import Engine

from api.http.errors import ProblemType
from common.settings import Settings
from graph.engine import relational_engine
from graph.record.access import Scope
from graph.record.releases import ReleaseDelivery, add_releases
from tests.factories.releases import release
from tests.services.databases import new_database
from tests.services.jobs import client_of
from tests.services.projection import DELIVERED

#: What werkzeug says to people who look at a page.
THEIRS = {
    it.description for it in werkzeug.exceptions.default_exceptions.values() if it.description
}


@pytest.fixture(scope="module")
def known(postgresql: Engine, embedded_settings: Settings) -> Iterator[Settings]:
    with new_database(postgresql, embedded_settings) as settings:
        engine = relational_engine(settings)
        with engine.begin() as connection:
            delivery = ReleaseDelivery(release("web", "1.0"), "test", DELIVERED)
            add_releases(connection, settings, [delivery])
        engine.dispose()
        yield replace(settings, rate_limit=None, anonymous_scopes=frozenset({"advise"}))


@pytest.fixture(scope="module")
def client(known: Settings) -> Iterator[FlaskClient]:
    """Who may read and take in."""
    with client_of(known, Scope.READ, Scope.INGEST) as made:
        yield made


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nowhere", 404, ProblemType.NOT_FOUND),
        ("GET", "/api/v1/nowhere", 404, ProblemType.NOT_FOUND),
        ("DELETE", "/api/v2/packages", 405, ProblemType.METHOD_NOT_ALLOWED),
        ("POST", "/api/v2/inspections", 415, ProblemType.UNSUPPORTED_MEDIA_TYPE),
        ("POST", "/api/v2/advice", 415, ProblemType.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_each_client_error_is_a_typed_problem_document(
    client: FlaskClient, method: str, path: str, status: int, kind: ProblemType
) -> None:
    answer = client.open(path, method=method, data=b"x", content_type="text/plain")
    assert answer.status_code == status
    assert answer.json["type"] == f"/problems/{kind}"
    assert answer.json["detail"] not in THEIRS
    assert len(answer.json["detail"]) < 120
    assert client.get(answer.json["type"]).json["type"] == answer.json["type"]
    assert ("Allow" in answer.headers) is (status == 405)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v2/packages?limit=1&limit=2", "limit"),
        ("/api/v2/packages/web/versions/1.0?index=pypi&index=own", "index"),
        ("/api/v1/python/imports?import_name=a&import_name=b", "import_name"),
    ],
)  # fmt: skip
def test_repeated_single_value_parameter_is_refused(
    client: FlaskClient, path: str, name: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 400, answer.text
    assert answer.json["type"] == "/problems/invalid-request"
    assert list(answer.json["errors"]["query"]) == [name]
    assert name in answer.json["detail"]


def test_repeated_parameter_that_v1_does_not_read_is_accepted(client: FlaskClient) -> None:
    assert client.get("/api/v1/python/environment?x=1&x=2").status_code == 200


def test_result_that_is_not_ready_is_a_problem_with_the_state(client: FlaskClient) -> None:
    sent = client.post("/api/v2/advice", json={"files": {"requirements.in": "web\n"}})
    early = client.get(f"{sent.headers['Location']}/result")
    assert (early.status_code, early.json["status"]) == (202, 202)
    assert early.json["analysis"]["state"] == "pending"
    assert early.headers["Retry-After"] == "1"
