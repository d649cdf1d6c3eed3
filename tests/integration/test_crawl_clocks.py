"""A crawl on a machine whose clock is wrong delays nothing that later crawls find."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest
from sqlalchemy import Engine, text

from common.index import client
from common.index.configuration import index_of
from common.settings import Settings
from ingest.crawl.crawl_request import CrawlBounds, CrawlRequest
from ingest.crawl.crawler import crawl
from ingest.crawl.runs import wanted_packages
from tests.services.index import Index, package_index, status

YEAR = timedelta(days=365)


@pytest.fixture
def index(settings: Settings) -> Iterator[Index]:
    shutil.rmtree(settings.home / "cache", ignore_errors=True)
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        yield made


@pytest.fixture(params=[YEAR, -YEAR], ids=["ahead", "behind"])
def with_wrong_clock(request: pytest.FixtureRequest) -> Callable[[Callable[[], None]], None]:
    """Call a function while the clock of this machine is a year ahead or behind."""

    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + request.param

    def call(work: Callable[[], None]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(client, "datetime", WrongClock)
            work()

    return call


def test_a_wrong_clock_hides_no_later_change_of_an_index(
    settings: Settings,
    relational: Engine,
    index: Index,
    with_wrong_clock: Callable[[Callable[[], None]], None],
) -> None:
    at = replace(settings, package_indexes=(("local", index.url),))

    def read() -> None:
        request = CrawlRequest(wanted_packages(["app"]), CrawlBounds(), max_age_s=0)
        crawl(at, relational, index_of(at, "local"), request)

    def row(query: str) -> tuple[Any, ...]:
        with relational.connect() as connection:
            return tuple(connection.execute(text(query)).one())

    index.add_wheel("app", "1.0")
    index.add_wheel("app", "2.0")
    index.answers["/files/app/app-2.0-py3-none-any.whl"] = status(404)
    with_wrong_clock(read)
    due = "retry_at BETWEEN now() - interval '1 h' AND now() + interval '1 h'"
    assert row(f"SELECT attempts, {due} FROM release_queue") == (1, True)
    index.facts["app-1.0-py3-none-any.whl"] = {"yanked": "breaks"}
    read()
    yanked = row("SELECT yanked_reason, as_of <= now() FROM package_versions WHERE version = '1.0'")
    assert yanked == ("breaks", True)
    assert row("SELECT as_of <= now() FROM index_projects") == (True,)
