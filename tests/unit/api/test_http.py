"""What clients learn of errors, what the log tells of requests, and which scopes are enforced."""

import json
import logging
import re
from pathlib import Path

import pytest
from flask import Flask

from api import access
from api.app import create_app
from api.http import errors, request_context
from common.logs import JsonFormatter, TextFormatter
from common.settings import Settings
from graph.record.access import Scope
from model.errors import AccessDenied
from model.redaction import scrubbed


def test_access_denied_by_a_store_is_answered_as_service_unavailable() -> None:
    app = Flask(__name__)
    errors.register(app)

    @app.get("/")
    def ask() -> str:
        raise AccessDenied("DATABASE_URL: permission denied for table tokens", hint="use another")

    response = app.test_client().get("/")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "5")
    assert response.get_json()["detail"] == "a store refuses the service: try again later"
    assert "DATABASE_URL" not in response.text


SECRET = "thoth_abcdefghijklmnopqrstuvwxyz0123456789"


def logged(caplog: pytest.LogCaptureFixture, url: str, status: int = 200) -> str:
    app = Flask("logged")
    request_context.register(app)
    access.register_access_log(app)
    app.add_url_rule("/<path:path>", view_func=lambda path: ("", status), endpoint="any")
    with caplog.at_level(logging.INFO, "api.access"):
        app.test_client().get(url)
    return "\n".join(JsonFormatter().format(record) for record in caplog.records)


def test_request_log_has_no_query_values_and_no_tokens(caplog: pytest.LogCaptureFixture) -> None:
    line = logged(caplog, f"/a?token={SECRET}&origin=me@host&dev=1")
    assert json.loads(line)["query"] == ["dev", "origin", "token"]
    assert "me@host" not in line
    caplog.clear()
    line = logged(caplog, f"/x/{SECRET}", 404)
    assert SECRET not in line
    assert "thoth_abcdef***" in line


@pytest.mark.parametrize(("status", "lines"), [(200, 0), (503, 1)])
def test_health_request_is_logged_only_if_it_fails(
    caplog: pytest.LogCaptureFixture, status: int, lines: int
) -> None:
    logged(caplog, "/readyz", status)
    assert len(caplog.records) == lines


@pytest.mark.parametrize(
    "text",
    [
        f"a header {SECRET} of a request",
        "Authorization: Bearer hidden-hidden",
        "GET /a?x=1&token=hidden-hidden HTTP/1.1",
        "postgresql://user:hidden-hidden@db.example/thoth",
    ],
)
def test_secrets_are_removed_from_quoted_log_texts(text: str) -> None:
    assert "hidden" not in scrubbed(text)
    assert SECRET not in scrubbed(text)


def test_secrets_are_removed_from_tracebacks_and_json_stays_valid() -> None:
    try:
        raise ValueError(f'"postgresql://me:hidden@db.example/" and "token": {SECRET}')
    except ValueError as error:
        found = (type(error), error, error.__traceback__)
    record = logging.LogRecord("api", logging.ERROR, __file__, 1, "broke", (), found)
    for text in (JsonFormatter().format(record), TextFormatter().format(record)):
        assert "hidden" not in text
        assert SECRET not in text
    assert json.loads(JsonFormatter().format(record))["event"] == "broke"


#: Whose scope depends on the kind of the request.
REQUESTS = "/api/v2/requests/"


@pytest.mark.parametrize("anonymous", ["none", "read advise"])
def test_each_operation_documents_its_enforced_scope(anonymous: str, tmp_path: Path) -> None:
    nowhere = {
        "THOTH_HOME": str(tmp_path),
        "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "GRAPH_URL": "bolt://127.0.0.1:1",
        "ANONYMOUS_SCOPES": anonymous,
    }
    client = create_app(Settings.from_env(nowhere)).test_client()
    paths = client.get("/openapi.json").get_json()["paths"]
    named = enforced = 0
    for path, item in paths.items():
        for method in item.keys() - {"parameters"}:
            if path.startswith(REQUESTS):
                continue
            security = item[method]["security"]
            answer = client.open(re.sub(r"\{\w+\}", "1", path), method=method.upper())
            challenge = answer.headers.get("WWW-Authenticate", "")
            scopes = [scope for it in security for scope in it.get("token", [])]
            open_to_all = not security or ({} in security and anonymous != "none")
            assert (answer.status_code == 401) is not open_to_all, (path, method)
            assert open_to_all or challenge == f'Bearer scope="{scopes[0]}"', (path, method)
            named += bool(scopes)
            enforced += answer.status_code == 401
    assert named > 60
    assert enforced > 10
    for path in (it for it in paths if it.startswith(REQUESTS)):
        security = paths[path]["get"]["security"]
        scopes = {scope for it in security for scope in it.get("token", [])}
        assert scopes == {Scope.ADVISE, Scope.INGEST, Scope.INSPECT}
