"""Every page on a record with hostile texts: nothing is unescaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy
from flask.testing import FlaskClient

from api.service import EXTENSION
from common.settings import Settings
from graph.record.access import Scope
from tests.factories.affected_stacks import AFFECTED_STACK
from tests.services.databases import new_database
from tests.services.hostile import fill_hostile, poison
from tests.services.jobs import client_of

_BEGIN = (
    "/", "/packages", "/packages/flask", "/packages/flask/versions/3.1.0", "/inspections",
    "/stacks", "/reports", "/compare", "/changes", "/benchmarks", "/loop", "/trust", "/operator",
    "/ask", "/questions", "/bisects", "/bisects/bisect-ended",
    f"/stacks/{AFFECTED_STACK}", "/vulnerabilities/CVE-2023-30861",
)  # fmt: skip
#: How many links of a kind are followed.
_EACH = 2
_FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


@pytest.fixture(scope="module")
def client(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[FlaskClient]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with new_database(postgresql, replace(embedded_settings, rate_limit=None)) as settings:
        fill_hostile(settings, folder)
        with client_of(settings, Scope.ADMIN) as client:
            yield client


def test_no_page_shows_a_hostile_text_unescaped(client: FlaskClient) -> None:
    waiting, seen, kinds = [*_BEGIN, _request(client)], set(_BEGIN), dict[str, int]()
    escaped = set[str]()
    while waiting:
        address = waiting.pop()
        with client.get(address) as response:
            content = response.get_data(as_text=True)
        if response.mimetype != "text/html" or address.startswith("/docs"):
            continue
        assert response.status_code == 200, (address, content)
        for raw in ("<script>alert", "<img src=x", "<svg onload", "<a href=javascript"):
            assert raw not in content, (address, raw)
        assert "\x1b" not in content, address
        assert "\u202e" not in content, address
        if "&lt;script&gt;alert" in content:
            escaped.add(_kind(address))
        for link in sorted(re.findall(r'href="(/[^"#&]*)"', content)):
            kind = _kind(link)
            if link not in seen and not link.startswith("/api/"):
                seen.add(link)
                kinds[kind] = kinds.get(kind, 0) + 1
                if kinds[kind] <= _EACH:
                    waiting.append(link)
    shown = {"/inspections", "/inspections/N", "/jobs/N", "/hardware/N", "/stacks", "/benchmarks"}
    shown |= {
        "/bisects",
        "/bisects/bisect-ended",
        "/vulnerabilities/N",
        "/loop",
        "/operator",
        "/series/N",
        "/requests/N",
        "/packages/flask/versions/N",
    }
    assert shown <= escaped


def _kind(address: str) -> str:
    return re.sub(r"[^/]*\d[^/]*", "N", address.partition("?")[0])


def _request(client: FlaskClient) -> str:
    """A request whose log and reason are hostile."""
    match = _FORM_TOKEN.search(client.get("/ask").get_data(as_text=True))
    assert match is not None
    data = {"form_token": match[1], "text": "flask\n", "python": "3.12"}
    address = client.post("/ask", data=data).location
    with client.application.extensions[EXTENSION].writing() as connection:
        poison(connection)
    return str(address)
