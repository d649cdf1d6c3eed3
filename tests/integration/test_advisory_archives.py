"""Archives of advisories from servers: only what changed, within bounds, however they answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from common.settings import Settings
from ingest.advisories import sources
from ingest.advisories.sync import sync_source
from model.errors import StoreUnavailable
from tests.factories.advisories import osv, write_archive
from tests.services.advisories import Record
from tests.services.commands import row_counts
from tests.services.ports import closed_port
from tests.services.web import Site, answer, site


@pytest.fixture
def record(settings: Settings, relational: sqlalchemy.Engine, tmp_path: Path) -> Record:
    return Record(settings, relational, tmp_path)


@pytest.fixture
def web() -> Iterator[Site]:
    with site() as served:
        yield served


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PAUSE_S", 0.0)


def archive(folder: Path, *documents: dict[str, Any]) -> bytes:
    return write_archive(folder / "served.zip", documents).read_bytes()


def test_a_url_is_asked_for_what_changed_only(record: Record, web: Site) -> None:
    web.bodies["/all.zip"] = archive(record.folder, osv("GHSA-1"))
    url = f"{web.url}/all.zip"
    assert sync_source(record.settings, record.engine, url).new == 1
    first = record.rows("SELECT as_of FROM advisory_sources")
    assert sync_source(record.settings, record.engine, url).unchanged
    assert "If-None-Match" not in web.seen[0][1]
    assert "If-None-Match" in web.seen[1][1]
    assert record.rows("SELECT as_of FROM advisory_sources") > first
    web.bodies["/all.zip"] = archive(record.folder, osv("GHSA-1"), osv("GHSA-2"))
    assert sync_source(record.settings, record.engine, url).new == 1


def test_a_server_without_validators_costs_a_download_and_no_more(
    record: Record, web: Site
) -> None:
    body = archive(record.folder, osv("GHSA-1"))
    web.answers += [lambda handler: answer(handler, 200, body)] * 2
    assert sync_source(record.settings, record.engine, web.url).new == 1
    assert sync_source(record.settings, record.engine, web.url).unchanged


def test_two_urls_that_differ_in_their_query_are_two_sources(record: Record, web: Site) -> None:
    def answers(identifier: str) -> Callable[[BaseHTTPRequestHandler], None]:
        body = archive(record.folder, osv(identifier))

        def told(handler: BaseHTTPRequestHandler) -> None:
            same = handler.headers.get("If-None-Match") == '"1"'
            answer(handler, 304 if same else 200, b"" if same else body, ETag='"1"')

        return told

    web.answers += [answers("GHSA-1"), answers("GHSA-2"), answers("GHSA-2")]
    for part, new in (("a", 1), ("b", 1), ("b", 0)):
        found = sync_source(record.settings, record.engine, f"{web.url}/all.zip?part={part}")
        assert found.new == new
    assert found.unchanged  # by its digest


def test_a_busy_server_is_asked_again(record: Record, web: Site) -> None:
    web.bodies["/one.json"] = json.dumps(osv("GHSA-1")).encode()
    web.answers += [
        lambda handler: answer(handler, 503, Retry_After="0"),
        lambda handler: answer(handler, 200, b"{", Content_Length="500"),
    ]
    assert sync_source(record.settings, record.engine, f"{web.url}/one.json").new == 1
    assert len(web.seen) == 3


def redirect(target: str) -> Any:
    def answers(handler: BaseHTTPRequestHandler) -> None:
        answer(handler, 302, Location=target)

    return answers


def test_redirects_are_followed_within_bounds(record: Record, web: Site) -> None:
    web.bodies["/all.zip"] = archive(record.folder, osv("GHSA-1"))
    web.answers.append(redirect("/all.zip"))
    assert sync_source(record.settings, record.engine, f"{web.url}/old").new == 1
    web.answers += [redirect("/again")] * 6
    with pytest.raises(StoreUnavailable, match="redirected more than 5 times"):
        sync_source(record.settings, record.engine, f"{web.url}/again")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/all.zip"])
def test_a_redirect_to_anything_but_the_web_is_refused(
    record: Record, web: Site, target: str
) -> None:
    web.answers.append(redirect(target))
    with pytest.raises(StoreUnavailable, match="redirected to something"):
        sync_source(record.settings, record.engine, web.url)


def test_a_server_that_does_not_answer_leaves_what_is_known(record: Record, web: Site) -> None:
    record.sync(osv("GHSA-1"))
    with pytest.raises(StoreUnavailable, match="the server answers 404"):
        sync_source(record.settings, record.engine, f"{web.url}/all.zip?key=hidden-word")
    with pytest.raises(StoreUnavailable) as refused:
        sync_source(
            record.settings, record.engine, f"http://127.0.0.1:{closed_port()}/?hidden-word"
        )
    assert "hidden-word" not in str(refused.value)
    assert row_counts(record.engine)["advisories"] == 1


@pytest.mark.parametrize("drips", [b"x", b""], ids=["body", "headers"])
def test_a_server_that_drips_does_not_outlast_the_deadline(
    tmp_path: Path, web: Site, drips: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_DEADLINE_S", 0.6)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        with suppress(OSError):
            if drips:
                handler.end_headers()
            else:
                handler.flush_headers()
            for number in range(100):
                handler.wfile.write(drips or b"X-%d: 1\r\n" % number)
                time.sleep(0.05)

    web.answers += [drip] * 4
    with pytest.raises(StoreUnavailable, match=r"takes longer than 0\.6 s"):
        sources.fetch_archive(f"{web.url}/all.zip", sources.Validators(), tmp_path)


def test_all_attempts_share_one_deadline(
    tmp_path: Path, web: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_DEADLINE_S", 0.6)

    def busy(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(0.4)
        answer(handler, 503)

    web.answers += [busy] * 4
    with pytest.raises(StoreUnavailable, match=r"takes longer than 0\.6 s"):
        sources.fetch_archive(f"{web.url}/all.zip", sources.Validators(), tmp_path)
    assert len(web.seen) <= 2


def test_a_redirect_to_a_private_address_is_refused(tmp_path: Path, web: Site) -> None:
    with site() as inside:
        inside.bodies["/secret"] = b"{}"
        web.answers.append(redirect(f"{inside.url}/secret"))
        with pytest.raises(StoreUnavailable, match="redirected to a private address"):
            sources.fetch_archive(f"{web.url}/all.zip", sources.Validators(), tmp_path)
        assert inside.seen == []
    assert len(web.seen) == 1


def test_a_response_above_the_limit_is_cut(tmp_path: Path, web: Site) -> None:
    web.bodies["/all.zip"] = bytes(3 * 2**20)
    with pytest.raises(StoreUnavailable, match="larger than 2,097,152 bytes"):
        sources.fetch_archive(
            f"{web.url}/all.zip", sources.Validators(), tmp_path, most_bytes=2 * 2**20
        )


def test_what_is_not_archive_is_quarantined(record: Record, web: Site) -> None:
    web.bodies["/all.zip"] = b"<html>Sorry</html>"
    report = sync_source(record.settings, record.engine, f"{web.url}/all.zip")
    assert dict(report.reasons) == {"invalid_json": 1}
    web.bodies["/all.zip"] = b"PK and nothing else"
    report = sync_source(record.settings, record.engine, f"{web.url}/all.zip")
    assert dict(report.reasons) == {"archive_broken": 1}
