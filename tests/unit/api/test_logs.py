"""What the log tells of a request, and what of it nobody reads."""

from __future__ import annotations

import json
import logging

import pytest
from flask import Flask

from api.access import audit
from api.http import request_context
from common.logs import JsonFormatter, TextFormatter
from model.redaction import scrubbed

SECRET = "thoth_abcdefghijklmnopqrstuvwxyz0123456789"


def logged(caplog: pytest.LogCaptureFixture, url: str, status: int = 200) -> str:
    app = Flask("logged")
    request_context.register(app)
    audit.register_access_log(app)
    app.add_url_rule("/<path:path>", view_func=lambda path: ("", status), endpoint="any")
    with caplog.at_level(logging.INFO, "api.access.audit"):
        app.test_client().get(url)
    return "\n".join(JsonFormatter().format(record) for record in caplog.records)


def test_a_line_names_the_query_but_none_of_its_values(caplog: pytest.LogCaptureFixture) -> None:
    line = logged(caplog, f"/a?token={SECRET}&origin=me@host&dev=1")
    assert json.loads(line)["query"] == ["dev", "origin", "token"]
    assert "me@host" not in line


def test_a_token_in_a_path_is_scrubbed(caplog: pytest.LogCaptureFixture) -> None:
    line = logged(caplog, f"/x/{SECRET}", 404)
    assert SECRET not in line
    assert "thoth_abcdef***" in line


@pytest.mark.parametrize(("status", "lines"), [(200, 0), (503, 1)])
def test_health_is_reported_only_when_it_is_bad(
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
def test_secrets_are_scrubbed_wherever_they_are_quoted(text: str) -> None:
    assert "hidden" not in scrubbed(text)
    assert SECRET not in scrubbed(text)


def test_tracebacks_are_scrubbed_and_json_stays_json() -> None:
    try:
        raise ValueError(f'"postgresql://me:hidden@db.example/" and "token": {SECRET}')
    except ValueError as error:
        found = (type(error), error, error.__traceback__)
    record = logging.LogRecord("api", logging.ERROR, __file__, 1, "broke", (), found)
    for text in (JsonFormatter().format(record), TextFormatter().format(record)):
        assert "hidden" not in text
        assert SECRET not in text
    assert json.loads(JsonFormatter().format(record))["event"] == "broke"
