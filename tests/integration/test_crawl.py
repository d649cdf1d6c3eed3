"""Crawls of a local index into the real record: what is read, what is told, what is tried again."""

import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

import pytest
from sqlalchemy import Engine, text

from cli.packages import crawl_exit_code
from common.index import client
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.settings import Settings
from graph.record.crawls import WatchedProject, watch
from graph.record.freshness import source_times
from graph.record.indexes import index_status
from ingest.crawl import crawler
from ingest.crawl.closure import CrawlBounds, CrawlRequest
from ingest.crawl.crawler import CrawlReport, crawl
from ingest.crawl.record_writer import RecordWriter
from ingest.crawl.runs import refresh_indexes, wanted_packages
from tests.services.commands import row_counts
from tests.services.index import JSON, Index, package_index, status


@pytest.fixture
def index() -> Iterator[Index]:
    """An index without a password."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        yield made


@pytest.fixture
def at(settings: Settings, index: Index) -> Settings:
    """Settings that name the index."""
    return replace(settings, package_indexes=(("local", index.url),))


def add(
    at: Settings, engine: Engine, *names: str, bounds: CrawlBounds | None = None, **more: Any
) -> CrawlReport:
    errand = CrawlRequest(wanted_packages(names), bounds or CrawlBounds(), **more)
    return crawl(at, engine, index_of(at, "local"), errand)


def wheels(index: Index, name: str, *versions: str, metadata: str = "") -> None:
    for version in versions:
        index.add_wheel(name, version, metadata=metadata)


def requires(*lines: str) -> str:
    return "".join(f"Requires-Dist: {line}\n" for line in lines)


def rows(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def versions(engine: Engine, name: str) -> list[tuple[Any, ...]]:
    return rows(
        engine,
        f"SELECT version, state FROM package_versions WHERE name = '{name}' ORDER BY version",
    )


def files_asked_for(index: Index) -> list[str]:
    return [path.rpartition("/")[2] for path in index.paths if path.startswith("/files/")]


def test_crawl_reads_layer_by_layer(at: Settings, relational: Engine, index: Index) -> None:
    wheels(index, "app", "1.0", metadata=requires("lib>=1", "old ; python_version < '3'"))
    wheels(index, "lib", "1.0", "2.0", metadata=requires("leaf"))
    wheels(index, "leaf", "1.0")
    wheels(index, "old", "1.0")
    report = add(at, relational, "App")
    assert (report.packages, report.releases, report.new) == (3, 4, 4)
    assert report.clean
    pages = [path for path in index.paths if path.startswith("/simple/")]
    assert [path.strip("/").rpartition("/")[2] for path in pages] == ["app", "lib", "leaf"]
    assert versions(relational, "lib") == [("1.0", "solved"), ("2.0", "solved")]
    assert rows(relational, "SELECT count(*) FROM release_queue") == [(0,)]
    asked = rows(
        relational,
        "SELECT name, specifier, marker FROM requirements WHERE name <> 'leaf' ORDER BY name",
    )
    assert asked == [("lib", ">=1", None), ("old", "", 'python_version < "3"')]


def test_repeated_crawl_reads_no_file_and_writes_nothing(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1", metadata=requires("lib"))
    wheels(index, "lib", "1.0")
    add(at, relational, "app")
    before, asked = row_counts(relational), len(index.seen)
    report = add(at, relational, "app", max_age_s=0)
    assert (report.known, report.new, report.changed, report.read.total()) == (3, 0, 0, 0)
    assert report.traffic.revalidated == 2
    assert len(index.seen) == asked + 2
    assert row_counts(relational) == before
    assert add(at, relational, "app").traffic.requests == 0


def test_crawl_reads_old_releases_for_requirements_below_the_newest(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "array", "1.0", "1.1", "1.2", metadata=requires("legacy"))
    wheels(index, "array", "2.0", "2.1")
    wheels(index, "legacy", "0.1")
    wheels(index, "app", "1.0", metadata=requires("lib"))
    wheels(index, "lib", "1.0", metadata=requires("array<2"))
    report = add(at, relational, "app", "array", bounds=CrawlBounds(max_versions=1))
    assert report.clean
    found = [version for version, _ in versions(relational, "array")]
    assert found == ["1.1", "1.2", "2.1"]
    assert versions(relational, "legacy") == [("0.1", "solved")]


def test_crawl_obeys_and_reports_its_limits(at: Settings, relational: Engine, index: Index) -> None:
    wheels(index, "app", *(f"1.{minor}" for minor in range(6)), metadata=requires("b", "c", "d"))
    for name in "bcd":
        wheels(index, name, "1.0")
    report = add(at, relational, "app", bounds=CrawlBounds(max_packages=2, max_versions=3))
    assert (report.packages, report.left_out) == (2, ["c", "d"])
    assert [it for it, _ in versions(relational, "app")] == ["1.3", "1.4", "1.5"]
    assert report.clean


def test_crawl_cost_does_not_grow_with_the_number_of_old_releases(
    at: Settings, relational: Engine, index: Index
) -> None:
    for number in range(10_000):
        index.add_file("many", f"many-1.{number}-py3-none-any.whl", b"no wheel")
    for number in (9_998, 9_999):
        wheels(index, "many", f"1.{number}")
    began = time.process_time()
    report = add(at, relational, "many", bounds=CrawlBounds(max_versions=2))
    assert time.process_time() - began < 20
    assert report.read == {"solved": 2}
    assert len(files_asked_for(index)) == 2


def test_crawl_records_an_unreadable_release_and_reads_the_others(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", metadata=requires("lib"))
    wheels(index, "lib", "2.0")
    index.add_file("lib", "lib-1.0-py3-none-any.whl", b"this is no archive")
    index.add_file("lib", "lib-0.9-py3.7.egg", b"nor this")
    index.add_source("lib", "0.8")
    index.add_wheel("lib", "0.7", metadata="Requires-Dist: not a requirement\n")
    index.add_file("lib", "lib-2004b.final-py3-none-any.whl", b"")
    wheels(index, "other", "3.0")
    index.files["lib"]["lib-0.6-py3-none-any.whl"] = index.files["other"].popitem()[1]
    report = add(at, relational, "app")
    assert report.clean
    found = rows(
        relational,
        "SELECT version, state, problem FROM package_versions WHERE name = 'lib' ORDER BY version",
    )
    assert found == [
        ("0.6", "unparsable", "other_metadata"),
        ("0.7", "unparsable", "invalid_requirement"),
        ("0.8", "unsolvable", "dynamic_metadata"),
        ("0.9", "unsolvable", "no_files"),
        ("1.0", "unparsable", "broken_metadata"),
        ("2.0", "solved", None),
        ("2004b.final", "unparsable", "invalid_version"),
    ]
    asked = len(files_asked_for(index))
    add(at, relational, "app", max_age_s=0)
    assert len(files_asked_for(index)) == asked


def test_crawl_reports_missing_packages_and_reads_the_others(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", metadata=requires("absent", "wrong", "lib"))
    wheels(index, "lib", "1.0")
    index.answers["/simple/wrong/"] = status(200, b"<html>", Content_Type="text/plain")
    report = add(at, relational, "app", "nowhere")
    assert sorted(report.missing) == ["absent", "nowhere"]
    assert report.missing_roots == ["nowhere"]
    assert [(it.name, it.version, it.code) for it in report.failed] == [
        ("wrong", None, "wrong_content_type")
    ]
    assert versions(relational, "lib") == [("1.0", "solved")]
    states = rows(relational, "SELECT name, state, problem FROM index_projects ORDER BY name")
    assert states == [
        ("absent", "missing", "not_found"), ("app", "known", None), ("lib", "known", None),
        ("nowhere", "missing", "not_found"), ("wrong", "failed", "wrong_content_type"),
    ]  # fmt: skip


def test_crawl_retries_an_unreadable_release_and_finally_gives_up(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "2.0")
    index.answers["/files/app/app-2.0-py3-none-any.whl"] = status(404)
    first = add(at, relational, "app")
    assert [(it.version, it.code) for it in first.failed] == [("2.0", "not_found")]
    assert first.read == {"solved": 1}
    asked = len(index.seen)
    waiting = add(at, relational, "app")
    assert (waiting.waiting, waiting.failed, len(index.seen)) == (1, [], asked)
    assert not waiting.clean
    for attempt in range(2, 6):
        _make_due(relational)
        assert len(add(at, relational, "app").failed) == 1, attempt
    _make_due(relational)
    assert add(at, relational, "app").waiting == 1
    queue = rows(relational, "SELECT attempts, problem, given_up_at IS NULL FROM release_queue")
    assert queue == [(5, "not_found", False)]
    index.answers.clear()
    mended = add(at, relational, "app", again=True)
    assert (mended.read, mended.clean) == ({"solved": 1}, True)
    assert rows(relational, "SELECT count(*) FROM release_queue") == [(0,)]


def _make_due(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE release_queue SET retry_at = now() - interval '1 day'"))


def test_changed_file_hash_raises_an_alarm_and_keeps_the_first_hash(
    at: Settings, relational: Engine, index: Index
) -> None:
    first = index.add_wheel("app", "1.0", "first").removeprefix("sha256:")
    add(at, relational, "app")
    second = index.add_wheel("app", "1.0", "second", metadata=requires("evil")).removeprefix(
        "sha256:"
    )
    report = add(at, relational, "app", max_age_s=0)
    assert [(it.known, it.offered) for it in report.alarms] == [(first, second)]
    assert not report.clean
    assert rows(relational, "SELECT sha256 FROM release_files") == [(first,)]
    assert rows(relational, "SELECT count(*) FROM requirements") == [(0,)]
    assert rows(relational, "SELECT kind FROM package_events") == [("changed_hash",)]


def test_refresh_finds_new_yanked_and_removed_releases(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1", "1.2", metadata=requires("lib"))
    wheels(index, "lib", "1.0", "1.1")
    add(at, relational, "app", bounds=CrawlBounds(max_versions=2))
    quiet = one(refresh_indexes(at, relational))
    assert (quiet.packages, quiet.new, quiet.changed, quiet.events) == (2, 0, 0, {})
    assert quiet.traffic.revalidated == 2
    wheels(index, "lib", "2.0", metadata=requires("leaf"))
    wheels(index, "leaf", "1.0")
    index.facts["lib-1.1-py3-none-any.whl"] = {"yanked": "breaks"}
    del index.files["app"]["app-1.1-py3-none-any.whl"]
    report = one(refresh_indexes(at, relational))
    assert report.clean
    assert report.read == {"solved": 2}
    events = rows(
        relational, "SELECT kind, name, version, detail FROM package_events ORDER BY kind, name"
    )
    assert events == [
        ("new_release", "lib", "2.0", {}),
        ("removed", "app", "1.1", {}),
        ("yanked", "lib", "1.1", {"reason": "breaks"}),
    ]
    assert versions(relational, "leaf") == [("1.0", "solved")]
    files = rows(
        relational,
        "SELECT wheels, files_complete FROM package_versions"
        " WHERE name = 'app' AND version = '1.1'",
    )
    assert files == [([], True)]
    assert one(refresh_indexes(at, relational)).events == {}


LOGIN = status(200, b"<h1>log in</h1><a href='/login'>here</a>", Content_Type="text/html")


def test_login_page_instead_of_an_index_page_loses_no_release(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0")
    index.answers["/simple/app/"] = LOGIN
    first = add(at, relational, "app")
    assert ([it.code for it in first.failed], first.clean) == (["wrong_content_type"], False)
    assert rows(relational, "SELECT state FROM index_projects") == [("failed",)]
    index.answers.clear()
    add(at, relational, "app")
    index.answers["/simple/app/"] = LOGIN
    report = one(refresh_indexes(at, relational))
    assert ([it.code for it in report.failed], report.events) == (["wrong_content_type"], {})
    assert rows(relational, "SELECT listed FROM release_files") == [(True,)]
    index.answers.clear()
    assert one(refresh_indexes(at, relational)).clean


def test_failing_index_keeps_the_date_of_its_last_answer(
    at: Settings, relational: Engine, index: Index
) -> None:
    for name in ("app", "other"):
        wheels(index, name, "1.0")
    add(at, relational, "app", "other")
    with relational.begin() as connection:
        connection.execute(text("UPDATE index_projects SET as_of = now() - interval '30 days'"))
        before = source_times(connection).answered_at
    index.answers["/simple/app/"] = LOGIN
    assert not one(refresh_indexes(at, relational)).clean
    with relational.connect() as connection:
        (told,) = index_status(connection, 7)
    assert told.projects == {"known": 1, "failed": 1}
    assert told.oldest == before
    assert before is not None
    assert told.newest is not None
    assert told.newest > before
    index.answers["/simple/other/"] = LOGIN
    with relational.begin() as connection:
        connection.execute(text("UPDATE index_projects SET as_of = :then"), {"then": before})
    assert not one(refresh_indexes(at, relational)).clean
    with relational.connect() as connection:
        (told,) = index_status(connection, 7)
        assert (told.oldest, told.newest) == (before, before)
        found = source_times(connection)
    assert found.answered_at == before
    assert found.asked_at is not None
    assert found.asked_at > before


def test_project_that_loses_all_files_raises_one_alarm(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1")
    add(at, relational, "app")
    index.files["app"].clear()
    report = one(refresh_indexes(at, relational))
    assert (report.emptied, report.clean) == (["app"], False)
    assert report.events == {"emptied": 1, "removed": 2}
    with relational.connect() as connection:
        (told,) = index_status(connection, 7)
    assert [(it["kind"], it["name"], it["releases"]) for it in told.alarms] == [
        ("emptied", "app", 2)
    ]
    again = one(refresh_indexes(at, relational))
    assert (again.emptied, again.events) == ([], {})


def test_file_listed_with_two_hashes_raises_one_alarm(
    at: Settings, relational: Engine, index: Index
) -> None:
    first = index.add_wheel("app", "1.0").removeprefix("sha256:")
    _, body = index.page("app")
    page = json.loads(body)
    page["files"].append(page["files"][0] | {"hashes": {"sha256": "2" * 64}})
    index.answers["/simple/app/"] = status(200, json.dumps(page).encode(), Content_Type=JSON)
    report = add(at, relational, "app")
    assert [(it.known, it.offered) for it in report.alarms] == [(first, "2" * 64)]
    assert (report.clean, report.events) == (False, {"conflicting_hash": 1})
    assert one(refresh_indexes(at, relational)).alarms == []


def test_invalid_file_url_is_retried_and_not_recorded_as_a_broken_file(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1")
    index.facts["app-1.0-py3-none-any.whl"] = {"url": "http://0177.0.0.1:9/a.whl"}
    report = add(at, relational, "app")
    assert [(it.version, it.code) for it in report.failed] == [("1.0", "address_refused")]
    assert versions(relational, "app") == [("1.1", "solved")]
    assert rows(relational, "SELECT version FROM release_queue") == [("1.0",)]


def test_version_without_files_does_not_count_towards_the_version_limit(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1")
    _, body = index.page("app")
    page = json.loads(body) | {"versions": ["1.0", "1.1", "1.2", "1." + "9" * 5_000]}
    index.answers["/simple/app/"] = status(200, json.dumps(page).encode(), Content_Type=JSON)
    report = add(at, relational, "app", bounds=CrawlBounds(max_versions=1))
    assert (report.clean, report.skipped) == (True, {"app": 1})
    found = rows(relational, "SELECT version, state, problem FROM package_versions ORDER BY 1")
    assert found == [("1.1", "solved", None), ("1.2", "unsolvable", "no_files")]
    assert one(refresh_indexes(at, relational)).events == {}
    page["files"] = page["files"][:1]
    index.answers["/simple/app/"] = status(200, json.dumps(page).encode(), Content_Type=JSON)
    assert one(refresh_indexes(at, relational)).events == {"removed": 1}
    assert one(refresh_indexes(at, relational)).events == {}


def test_crawl_reports_requirements_that_no_release_meets(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1")
    for name, unmet in (("app==1.0", []), ("App[x]>=99", ["app[x]>=99"]), ("app==1.0,<1", ...)):
        report = add(at, relational, name)
        expected = ["app<1,==1.0"] if unmet is ... else unmet
        assert (report.unmet_roots, report.clean) == (expected, not expected)
    index.add_source("unbuilt", "1.0")
    report = add(at, relational, "unbuilt")
    assert (report.unsolvable_roots, report.clean) == (["unbuilt"], False)


def test_refresh_does_not_request_projects_that_the_index_never_had(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0")
    add(at, relational, "app", "typo")
    report = one(refresh_indexes(at, relational))
    assert (report.packages, report.missing) == (1, [])


def one(reports: list[CrawlReport]) -> CrawlReport:
    (report,) = reports
    return report


def test_refresh_reads_no_older_releases_and_follows_watched_extras(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", "1.1", "1.2", metadata="Provides-Extra: net\n")
    add(at, relational, "app", bounds=CrawlBounds(max_versions=1))
    assert one(refresh_indexes(at, relational)).read == {}
    with relational.begin() as connection:
        watch(connection, [WatchedProject("local", "app", 2, extras=("net",))])
    wheels(index, "app", "1.3", metadata=requires("http ; extra == 'net'"))
    wheels(index, "http", "1.0")
    report = one(refresh_indexes(at, relational))
    assert [it for it, _ in versions(relational, "app")] == ["1.2", "1.3"]
    assert versions(relational, "http") == [("1.0", "solved")]
    assert report.clean


def test_refresh_continues_the_queue_of_an_interrupted_crawl(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", metadata=requires("lib"))
    wheels(index, "lib", "1.0")
    add(at, relational, "app")
    with relational.begin() as connection:
        connection.execute(text("DELETE FROM requirements WHERE purl LIKE '%lib%'"))
        connection.execute(text("DELETE FROM release_files WHERE purl LIKE '%lib%'"))
        connection.execute(text("DELETE FROM package_versions WHERE name = 'lib'"))
        connection.execute(
            text("INSERT INTO release_queue (index_name, name, version)"
                 " VALUES ('local', 'lib', '1.0'), ('local', 'lib', '9.9')")
        )  # fmt: skip
    assert one(refresh_indexes(at, relational)).read == {"solved": 1}
    assert rows(relational, "SELECT count(*) FROM release_queue") == [(0,)]


def test_vanished_project_is_reported_once_and_keeps_its_releases(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0", metadata=requires("lib"))
    wheels(index, "lib", "1.0")
    add(at, relational, "app")
    kept = index.files.pop("lib")
    report = one(refresh_indexes(at, relational))
    assert [(it.name, it.code) for it in report.failed] == [("lib", "not_found")]
    assert versions(relational, "lib") == [("1.0", "solved")]
    assert one(refresh_indexes(at, relational)).clean
    index.files["lib"] = kept
    assert one(refresh_indexes(at, relational)).missing == []


def test_index_removed_from_the_settings_is_reported(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0")
    add(at, relational, "app")
    report = one(refresh_indexes(replace(at, package_indexes=()), relational))
    assert "local" in str(report.lost)
    assert not report.clean


def _names(read: Any) -> set[str]:
    return {it.release.name for it in read}


#: Where a bug is, by the function that meets it and what it is given of ``bad``.
BUGS: dict[str, tuple[Any, str, Callable[..., bool]]] = {
    "reading a page": (IndexClient, "project", lambda _, name, *_more: name == "bad"),
    "planning": (crawler, "plan", lambda _, page, *_more: page.name == "bad"),
    "reading a release": (crawler, "read_release", lambda _, name, *_more: name == "bad"),
    "storing": (RecordWriter, "add", lambda _, _connection, read: "bad" in _names(read)),
}


@pytest.mark.parametrize("where", BUGS)
def test_unexpected_error_in_one_package_does_not_stop_the_crawl(
    at: Settings, relational: Engine, index: Index, where: str,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    for name in ("bad", "good"):
        wheels(index, name, "1.0")
    owner, function, meets = BUGS[where]
    real = getattr(owner, function)

    def broken(*arguments: Any, **more: Any) -> Any:
        if meets(*arguments):
            raise KeyError("bad")
        return real(*arguments, **more)

    monkeypatch.setattr(owner, function, broken)
    report = add(at, relational, "bad", "good")
    assert [(it.name, it.code) for it in report.failed] == [("bad", "internal")]
    assert (report.read["solved"], crawl_exit_code((report,))) == (1, 1)
    told = rows(relational, "SELECT name FROM package_versions WHERE state = 'solved'")
    assert told == [("good",)]
    problems = rows(
        relational, "SELECT message FROM index_projects WHERE name = 'bad' UNION ALL"
        " SELECT message FROM release_queue WHERE name = 'bad'",
    )  # fmt: skip
    assert ("internal error: KeyError; see the traceback in the log",) in problems
    (record,) = [it for it in caplog.records if it.message == "crawl_met_a_bug"]
    assert (record.levelno, record.exc_info is None) == (logging.ERROR, False)


def test_release_with_an_impossible_upload_time_is_stored_without_the_time(
    at: Settings, relational: Engine, index: Index
) -> None:
    wheels(index, "app", "1.0")
    index.facts["app-1.0-py3-none-any.whl"] = {"upload-time": "9999-12-31T23:59:59-23:00"}
    assert add(at, relational, "app").clean


@pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(days=-365)])
def test_wrong_clock_does_not_hide_later_changes_of_an_index(
    at: Settings, relational: Engine, index: Index, monkeypatch: pytest.MonkeyPatch,
    ahead: timedelta,
) -> None:  # fmt: skip
    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            return datetime.now(tz) + ahead

    wheels(index, "app", "1.0", "2.0")
    index.answers["/files/app/app-2.0-py3-none-any.whl"] = status(404)
    with monkeypatch.context() as patch:
        patch.setattr(client, "datetime", WrongClock)
        add(at, relational, "app", max_age_s=0)
    due = "retry_at BETWEEN now() - interval '1 h' AND now() + interval '1 h'"
    assert rows(relational, f"SELECT attempts, {due} FROM release_queue") == [(1, True)]
    index.facts["app-1.0-py3-none-any.whl"] = {"yanked": "breaks"}
    add(at, relational, "app", max_age_s=0)
    known = "SELECT yanked_reason, as_of <= now() FROM package_versions WHERE version = '1.0'"
    assert rows(relational, known) == [("breaks", True)]
    assert rows(relational, "SELECT as_of <= now() FROM index_projects") == [(True,)]
