"""What a worker keeps between requests never hides what was stored before a request."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adviser.advise import Advice, in_this_process
from adviser.answering.index_memory import IndexMemory
from adviser.answering.index_resolution import IndexResolution, over_indexes
from common.settings import Settings
from graph.engine import Stores
from ingest.advisories.sync import sync_source
from ingest.crawl.record_writer import store_read
from ingest.crawl.runs import refresh
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.requests import request_for
from tests.services.index import Index, package_index


@pytest.fixture
def index() -> Iterator[Index]:
    with package_index(protected=False, json=True, validators=True) as served:
        served.add_wheel("app", "1.0", metadata="Requires-Dist: lib\n")
        served.add_wheel("lib", "1.0")
        yield served


@pytest.fixture
def advise(stores: Stores, index: Index) -> Callable[[], Advice]:
    """Advises on ``app``, as one worker does for one request after the other."""
    at_index = replace(stores.settings, package_indexes=(("pypi", index.url),))
    configured = replace(stores, settings=at_index)
    memory, request = IndexMemory(), request_for("app\n")

    def advise_once() -> Advice:
        advice, resolution = over_indexes(
            configured.settings, lambda it: it.knowledge(configured), request,
            IndexResolution.advise, in_this_process, memory=memory,
        )  # fmt: skip
        if unstored := resolution.listed.unstored():
            store_read(at_index, stores.engine, unstored)
        resolution.keep()
        return advice

    return advise_once


def versions(advice: Advice) -> dict[str, str]:
    assert advice.best is not None
    return dict(advice.best.versions())


def test_repeated_advice_request_reads_no_index(advise: Callable[[], Advice], index: Index) -> None:
    first = advise()
    seen = len(index.seen)
    second = advise()
    assert versions(first) == versions(second) == {"app": "1.0", "lib": "1.0"}
    assert len(index.seen) == seen
    assert second.snapshot.packages["app"] is first.snapshot.packages["app"]


def test_advisory_stored_between_requests_is_used(
    advise: Callable[[], Advice], stores: Stores, tmp_path: Path
) -> None:
    assert not advise().snapshot.packages["lib"][0].vulnerabilities
    advisory = osv("GHSA-aaaa-bbbb-cccc", affected("lib", ("introduced", "0")))
    archive = write_archive(tmp_path / "all.zip", [advisory])
    sync_source(stores.settings, stores.engine, str(archive))
    (known,) = advise().snapshot.packages["lib"][0].vulnerabilities
    assert known.id == "GHSA-aaaa-bbbb-cccc"


def test_release_stored_between_requests_is_used(
    advise: Callable[[], Advice], stores: Stores, index: Index
) -> None:
    assert versions(advise())["lib"] == "1.0"
    index.add_wheel("lib", "1.1")
    at_index = replace(stores.settings, package_indexes=(("pypi", index.url),))
    refresh(at_index)
    assert versions(advise())["lib"] == "1.1"


def test_pages_already_recorded_are_not_stored_again(stores: Stores, index: Index) -> None:
    at_index = replace(stores.settings, package_indexes=(("pypi", index.url),))

    def stored(settings: Settings) -> tuple[int, int]:
        configured = replace(stores, settings=settings)
        _, resolution = over_indexes(
            configured.settings, lambda it: it.knowledge(configured), request_for("app\n"),
            IndexResolution.advise, in_this_process,
        )  # fmt: skip
        added = store_read(settings, stores.engine, resolution.listed.unstored())
        return len(added.new), added.unchanged

    assert stored(at_index) == (2, 0)
    # The pages come from the cache, as of the same time.
    assert stored(at_index) == (0, 0)
    # The index confirms them.
    assert stored(replace(at_index, index_page_age_s=0.0)) == (0, 2)
