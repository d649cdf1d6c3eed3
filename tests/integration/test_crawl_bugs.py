"""What nobody foresaw of one package is its state, and costs no other package."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine, text

from cli.packages import crawl_exit_code
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.settings import Settings
from ingest.crawl import crawler
from ingest.crawl.crawl_request import CrawlRequest
from ingest.crawl.crawler import crawl
from ingest.crawl.record_writer import RecordWriter
from ingest.crawl.reports import CrawlReport
from ingest.crawl.runs import wanted_packages
from tests.services.index import Index, package_index

WHEEL = "bad-1.0-py3-none-any.whl"


@pytest.fixture
def index(settings: Settings) -> Iterator[Index]:
    shutil.rmtree(settings.home / "cache", ignore_errors=True)
    with package_index(protected=False, json=True, ranges=True) as made:
        for name in ("bad", "good"):
            made.add_wheel(name, "1.0")
        yield made


def crawled(settings: Settings, engine: Engine, index: Index) -> CrawlReport:
    at = replace(settings, package_indexes=(("local", index.url),))
    return crawl(at, engine, index_of(at, "local"), CrawlRequest(wanted_packages(("bad", "good"))))


def check(report: CrawlReport, engine: Engine, *codes: str) -> None:
    """``good`` is known, ``bad`` failed with one of these codes, and the exit code says so."""
    assert [(it.name, it.code) for it in report.failed] == [("bad", code) for code in codes]
    assert crawl_exit_code((report,)) == 1
    with engine.connect() as connection:
        known = connection.execute(
            text("SELECT name FROM package_versions WHERE state = 'solved'")
        ).scalars()
        assert list(known) == ["good"]


def problems(engine: Engine) -> list[tuple[Any, ...]]:
    """Codes and messages of the package ``bad`` and of its releases that wait."""
    with engine.connect() as connection:
        rows = connection.execute(
            text(
                "SELECT problem, message FROM index_projects WHERE name = 'bad' UNION ALL "
                "SELECT problem, message FROM release_queue WHERE name = 'bad'"
            )
        )
        return [tuple(row) for row in rows if row.problem]


def test_a_time_beyond_the_calendar_costs_that_time_only(
    settings: Settings, relational: Engine, index: Index
) -> None:
    index.facts[WHEEL] = {"upload-time": "9999-12-31T23:59:59-23:00"}
    assert crawled(settings, relational, index).clean


def test_a_bug_in_reading_a_page(
    settings: Settings,
    relational: Engine,
    index: Index,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked = IndexClient.project

    async def project(self: IndexClient, name: str, max_age_s: float | None = None) -> Any:
        if name == "bad":
            raise KeyError(name)
        return await asked(self, name, max_age_s)

    monkeypatch.setattr(IndexClient, "project", project)
    check(crawled(settings, relational, index), relational, "internal")
    words = "internal error: KeyError; see the traceback in the log"
    assert problems(relational) == [("internal", words)]
    (record,) = [it for it in caplog.records if it.message == "crawl_met_a_bug"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


def test_a_bug_in_planning(
    settings: Settings, relational: Engine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = crawler.plan

    def plan(served: str, page: Any, *more: Any) -> Any:
        return {}["x"] if page.name == "bad" else planned(served, page, *more)

    monkeypatch.setattr(crawler, "plan", plan)
    check(crawled(settings, relational, index), relational, "internal")
    assert [code for code, _ in problems(relational)] == ["internal"]


def test_a_bug_in_reading_a_release(
    settings: Settings, relational: Engine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = crawler.read_release

    async def read_release(ask: Any, name: str, *more: Any) -> Any:
        if name == "bad":
            raise AssertionError
        return await read(ask, name, *more)

    monkeypatch.setattr(crawler, "read_release", read_release)
    check(crawled(settings, relational, index), relational, "internal")
    assert [code for code, _ in problems(relational)] == ["internal"]


def test_a_release_that_cannot_be_stored_leaves_its_batch(
    settings: Settings, relational: Engine, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = RecordWriter.add

    def adding(self: RecordWriter, connection: Any, read: Any) -> Any:
        assert all(it.release.name != "bad" for it in read)
        return add(self, connection, read)

    monkeypatch.setattr(RecordWriter, "add", adding)
    report = crawled(settings, relational, index)
    check(report, relational, "internal")
    assert report.read == {"solved": 1}
    assert [code for code, _ in problems(relational)] == ["internal"]
