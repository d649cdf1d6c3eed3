"""Advisories in the record: merged by alias, matched with versions, read from any server."""

import json
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import event, text

from common.settings import Settings
from graph.engine import Stores
from graph.record.advisories import source_states
from graph.record.freshness import source_times
from graph.record.vulnerabilities import match_versions, vulnerabilities_of
from ingest.advisories import sources
from ingest.advisories.sync import check_source, sync_source
from model.errors import StoreUnavailable
from tests.factories.advisories import (
    CRITICAL,
    HIGH,
    MEDIUM,
    add_versions,
    affected,
    flask_sessions,
    generated,
    osv,
    requests_headers,
    write_archive,
)
from tests.services.advisories import Record
from tests.services.commands import row_counts, thoth, thoth_json
from tests.services.ports import closed_port
from tests.services.projection import answer as graph_answer
from tests.services.projection import project, verified
from tests.services.waiting import wait_until, waiting_for_locks
from tests.services.web import Site, answer, site

VERSIONS = (
    "flask==2.2.4",
    "flask==2.2.5",
    "flask==2.3.1",
    "flask==2.3.1@mirror",
    "requests==2.19.1",
)


@pytest.fixture
def record(settings: Settings, relational: sqlalchemy.Engine, tmp_path: Path) -> Record:
    return Record(settings, relational, tmp_path)


FLASK = [
    ("CVE-2023-30861", "flask@2.2.4"),
    ("CVE-2023-30861", "flask@2.3.1"),
    ("CVE-2023-30861", "flask@2.3.1?index=mirror"),
]


def test_new_advisories_are_matched_with_recorded_versions(record: Record) -> None:
    record.add(*VERSIONS)
    before = record.revisions
    record.taken()
    report = record.sync(*flask_sessions(), requests_headers())
    assert (report.read, report.new, report.quarantined) == (3, 3, 0)
    assert record.pairs == [("CVE-2018-18074", "requests@2.19.1"), *FLASK]
    assert {name for name, old in before.items() if record.revisions[name] != old} == {
        "flask",
        "requests",
    }
    assert record.taken() == [
        ("package", "flask"), ("package", "requests"),
        ("package_version", "flask@2.2.4"), ("package_version", "flask@2.3.1"),
        ("package_version", "flask@2.3.1?index=mirror"), ("package_version", "requests@2.19.1"),
        ("vulnerability", "CVE-2018-18074"), ("vulnerability", "CVE-2023-30861"),
    ]  # fmt: skip


def test_new_versions_are_matched_with_recorded_advisories(record: Record) -> None:
    record.sync(*flask_sessions())
    record.taken()
    record.add(*VERSIONS)
    assert record.pairs == FLASK
    assert [key for kind, key in record.taken() if kind == "package_version"] == [
        purl for _, purl in FLASK
    ]


def test_repeated_sync_of_unchanged_advisories_writes_nothing(record: Record) -> None:
    record.add(*VERSIONS)
    record.sync(*flask_sessions())
    counts, revisions = row_counts(record.engine), record.revisions
    assert record.sync(*flask_sessions(), name="all.zip").unchanged
    other = record.sync(*flask_sessions(), name="other.zip")
    assert (other.unchanged, other.new, other.known, len(other.versions)) == (False, 0, 2, 0)
    assert row_counts(record.engine) == counts | {"advisory_sources": 2}
    assert record.revisions == revisions


def test_advisory_sync_writes_only_changed_advisories(record: Record) -> None:
    record.add(*VERSIONS)
    ghsa, pysec = flask_sessions()
    record.sync(ghsa, pysec, requests_headers())
    revisions = record.revisions
    record.taken()
    fixed = affected("flask", ("introduced", "0"), ("fixed", "2.3.2"))
    later = {"modified": "2024-02-01T00:00:00Z", "affected": [fixed]}
    report = record.sync(ghsa, pysec | later, requests_headers())
    assert (report.new, report.updated, report.known) == (0, 1, 2)
    assert ("CVE-2023-30861", "flask@2.2.5") in record.pairs
    assert ("package_version", "flask@2.2.5") in (entries := record.taken())
    assert ("vulnerability", "CVE-2018-18074") not in entries
    assert record.revisions["requests"] == revisions["requests"]
    assert record.revisions["flask"] != revisions["flask"]


def test_new_summary_of_an_advisory_does_not_change_the_revision(record: Record) -> None:
    record.add(*VERSIONS)
    ghsa, pysec = flask_sessions()
    record.sync(ghsa, pysec)
    revisions = record.revisions
    record.taken()
    record.sync(ghsa | {"modified": "2024-02-01T00:00:00Z", "summary": "In other words"}, pysec)
    assert record.taken() == [("vulnerability", "CVE-2023-30861")]
    assert record.revisions == revisions


def test_advisory_with_aliases_of_two_vulnerabilities_merges_both(record: Record) -> None:
    record.add("flask==1.0")
    record.sync(osv("GHSA-1"), osv("PYSEC-1"))
    assert [pair[0] for pair in record.pairs] == ["GHSA-1", "PYSEC-1"]
    record.taken()
    record.sync(osv("OSV-1", aliases=["GHSA-1", "PYSEC-1", "CVE-1"]))
    assert record.pairs == [("CVE-1", "flask@1.0")]
    assert record.rows("SELECT vulnerability_id FROM vulnerabilities") == [("CVE-1",)]
    assert {key for kind, key in record.taken() if kind == "vulnerability"} == {
        "CVE-1",
        "GHSA-1",
        "PYSEC-1",
    }


def test_merged_vulnerabilities_separate_when_the_common_alias_is_withdrawn(record: Record) -> None:
    record.add("flask==1.0")
    joined = osv("GHSA-1", aliases=["PYSEC-1"])
    record.sync(joined, osv("PYSEC-1"))
    assert record.pairs == [("GHSA-1", "flask@1.0")]
    record.sync(osv("GHSA-1", modified="2024-02-01T00:00:00Z"))
    assert record.pairs == [("GHSA-1", "flask@1.0"), ("PYSEC-1", "flask@1.0")]


def test_withdrawn_advisory_affects_no_version_until_it_is_reinstated(record: Record) -> None:
    record.add("flask==1.0")
    record.sync(osv("GHSA-1"))
    taken_back = osv("GHSA-1", modified="2024-02-01T00:00:00Z", withdrawn="2024-02-01T00:00:00Z")
    assert record.sync(taken_back).withdrawn == 1
    assert record.pairs == []
    record.sync(osv("GHSA-1", modified="2024-03-01T00:00:00Z"))
    assert record.pairs == [("GHSA-1", "flask@1.0")]


WITHDRAWN = {"withdrawn": "2024-02-01T00:00:00Z"}


def test_packages_of_a_withdrawn_advisory_are_not_listed(record: Record) -> None:
    # Two advisories of one vulnerability: that about Flask was taken back, the other stands.
    record.sync(
        osv("GHSA-1", affected("flask", ("introduced", "0")), aliases=["CVE-1"], **WITHDRAWN),
        osv("PYSEC-1", affected("jinja2", ("introduced", "0")), aliases=["CVE-1"]),
        osv("GHSA-2", affected("flask", ("introduced", "0")), **WITHDRAWN),
    )
    with record.engine.connect() as connection:
        assert vulnerabilities_of(connection, "flask", "1.0") == []
        (gone,) = vulnerabilities_of(connection, "flask")
        (stands,) = vulnerabilities_of(connection, "jinja2", "1.0")
    assert (gone.vulnerability_id, len(gone.packages)) == ("GHSA-2", 1)
    assert stands.vulnerability_id == "CVE-1"


def test_vulnerabilities_are_listed_by_severity_with_or_without_a_score(record: Record) -> None:
    words: list[dict[str, Any]] = [
        {"database_specific": {"severity": it}} for it in ("CRITICAL", "LOW")
    ]
    record.sync(
        osv("A-MEDIUM", vector=MEDIUM), osv("B-LOW", **words[1]), osv("C-CRITICAL", **words[0]),
        osv("D-SCORED", vector=CRITICAL), osv("E-UNKNOWN"), osv("F-HIGH", vector=HIGH),
        osv("0-GONE", vector=CRITICAL, **WITHDRAWN),
    )  # fmt: skip
    with record.engine.connect() as connection:
        listed = [it.vulnerability_id for it in vulnerabilities_of(connection, "flask")]
    assert listed == ["D-SCORED", "C-CRITICAL", "F-HIGH", "A-MEDIUM", "B-LOW", "E-UNKNOWN",
                      "0-GONE"]  # fmt: skip


def test_affected_version_of_an_advisory_matches_equal_spellings(record: Record) -> None:
    record.add("flask==1.0.0", "flask==2.0")
    record.sync(osv("GHSA-1", affected("flask", versions=["1.0"])))
    assert record.pairs == [("GHSA-1", "flask@1.0.0")]


def test_older_advisory_document_does_not_replace_a_newer_one(record: Record) -> None:
    record.add("flask==1.0")
    record.sync(osv("GHSA-1", affected("flask", versions=["0.5"]), modified="2024-02-01T00:00:00Z"))
    report = record.sync(osv("GHSA-1"))
    assert (report.older, report.updated, record.pairs) == (1, 0, [])


def test_advisory_that_no_longer_names_a_pypi_package_affects_nothing(record: Record) -> None:
    record.add("flask==1.0")
    record.sync(osv("GHSA-1"))
    elsewhere = affected("flask", ("introduced", "0"), ecosystem="npm")
    foreign = osv("GHSA-2", elsewhere)
    report = record.sync(osv("GHSA-1", elsewhere, modified="2024-02-01T00:00:00Z"), foreign)
    assert (report.updated, report.foreign, record.pairs) == (1, 1, [])
    assert row_counts(record.engine)["advisories"] == 1


def test_broken_advisories_are_quarantined_and_other_advisories_stored(record: Record) -> None:
    record.add("flask==1.0")
    report = record.sync(osv("GHSA-1"), osv("GHSA-2") | {"modified": "yesterday"})
    assert (report.new, report.quarantined, dict(report.reasons)) == (1, 1, {"wrong_type": 1})
    (entry,) = record.rows("SELECT kind, place, field FROM quarantine")
    assert entry == ("advisory", "GHSA-2.json", "$.modified")
    # The archive is read again although it is the same, as something in it was refused.
    assert not record.sync(osv("GHSA-1"), osv("GHSA-2") | {"modified": "yesterday"}).unchanged
    mended = record.sync(osv("GHSA-1"), osv("GHSA-2"))
    assert (mended.new, mended.mended) == (1, 1)


def unread_sources(folder: Path) -> list[Path]:
    """Sources that tell nothing of Python packages, each in its own way."""
    whole = write_archive(folder / "whole.zip", [osv("GHSA-1")]).read_bytes()
    elsewhere = osv("GHSA-9", affected("left-pad") | {"package": {"ecosystem": "npm", "name": "x"}})
    (folder / "cut.zip").write_bytes(whole[:-40])
    (folder / "page.json").write_text("<html>Sorry</html>", encoding="utf-8")
    (folder / "empty").mkdir()
    with zipfile.ZipFile(folder / "notes.zip", "w") as archive:
        archive.writestr("README.md", "?")
    write_archive(folder / "refused.zip", [osv("GHSA-1") | {"modified": "yesterday"}])
    write_archive(folder / "npm.zip", [elsewhere])
    names = ("nosuch.zip", "cut.zip", "page.json", "empty", "notes.zip", "refused.zip", "npm.zip")
    return [folder / name for name in names]


def test_vulnerabilities_are_unknown_without_a_readable_advisory_source(record: Record) -> None:
    for source in unread_sources(record.folder):
        report = sync_source(record.settings, record.engine, str(source))
        assert (report.as_of, report.advisories) == (None, 0), source
        assert check_source(str(source)).as_of is None, source
    assert record.rows("SELECT source FROM advisory_sources") == []
    with record.engine.connect() as connection:
        assert source_times(connection).answered_at is None


def test_advisories_are_kept_when_their_source_becomes_unreadable(record: Record) -> None:
    record.sync(osv("GHSA-1"), osv("GHSA-2"))
    known = record.rows("SELECT * FROM advisory_sources")
    archive = record.folder / "all.zip"
    whole = archive.read_bytes()
    for broken in (whole[:-40], b"", b"PK and nothing else"):
        archive.write_bytes(broken)
        assert sync_source(record.settings, record.engine, str(archive)).as_of is None
        assert record.rows("SELECT * FROM advisory_sources") == known
    archive.unlink()
    assert sync_source(record.settings, record.engine, str(archive)).as_of is None
    assert record.rows("SELECT * FROM advisory_sources") == known
    archive.write_bytes(whole)
    assert sync_source(record.settings, record.engine, str(archive)).unchanged


def test_empty_advisory_source_of_an_earlier_release_counts_as_unread(record: Record) -> None:
    with record.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO advisory_sources (source, advisories, as_of)"
                " VALUES ('/nowhere/nosuch.zip', 0, now())"
            )
        )
        assert source_states(connection) == []
        assert source_times(connection).answered_at is None


def test_number_of_sql_statements_does_not_grow_with_the_advisories(record: Record) -> None:
    record.add(*(f"package-{number}==1.{minor}" for number in range(30) for minor in range(10)))
    counts = []
    for size in (20, 400):
        seen: list[str] = []
        listener = lambda *arguments, seen=seen: seen.append(arguments[2])  # noqa: E731
        event.listen(record.engine, "before_cursor_execute", listener)
        record.sync(*generated(size, 30, seed=size), name=f"{size}.zip")
        event.remove(record.engine, "before_cursor_execute", listener)
        counts.append(len(seen))
    assert max(counts) <= min(counts) + 8  # temporary tables are made once a connection


def test_advisory_sync_reads_the_list_of_all_documents_once(record: Record) -> None:
    record.sync(requests_headers())
    seen: list[str] = []
    event.listen(record.engine, "before_cursor_execute", lambda *it: seen.append(it[2]))
    record.sync(requests_headers(), osv("GHSA-1"), name="later.zip")
    lists = [it for it in seen if "FROM documents" in it and "documents.kind = " in it]
    assert len(lists) == 1, lists


def test_concurrently_stored_versions_and_advisories_are_matched(record: Record) -> None:
    record.sync(requests_headers())
    synced = threading.Event()
    with ThreadPoolExecutor(1) as pool, record.engine.begin() as connection:
        match_versions(connection, add_versions(connection, "flask==1.0"))
        syncing = pool.submit(record.sync, osv("GHSA-1"))
        syncing.add_done_callback(lambda _: synced.set())
        # It waits for the end of this transaction, or it would not see the row.
        wait_until(
            lambda: waiting_for_locks(record.engine) > 0 or synced.is_set(),
            "the advisories have been read or wait for a lock",
        )
    syncing.result()
    assert record.pairs == [("GHSA-1", "flask@1.0")]


def test_graph_follows_each_change_of_an_advisory(stores: Stores, tmp_path: Path) -> None:
    record = Record(stores.settings, stores.engine, tmp_path)
    record.add("flask==1.0", "flask==2.2.4")
    later = {"modified": "2024-02-01T00:00:00Z"}
    query = (
        "MATCH (v:Vulnerability)-[:AFFECTS]->(p:PackageVersion)"
        " RETURN v.vulnerability_id AS id, v.score AS score, p.version AS version"
        " ORDER BY id, version"
    )
    for documents, expected in (
        (flask_sessions(), [["CVE-2023-30861", 7.5, "1.0"], ["CVE-2023-30861", 7.5, "2.2.4"]]),
        ([osv("CVE-2020-1", vector=CRITICAL, aliases=["PYSEC-2023-62"])],
         [["CVE-2020-1", 9.8, "1.0"], ["CVE-2020-1", 9.8, "2.2.4"]]),
        ([osv("CVE-2020-1", affected("x"), **later), *(it | later for it in flask_sessions())],
         [["CVE-2023-30861", 7.5, "1.0"], ["CVE-2023-30861", 7.5, "2.2.4"]]),
        ([it | {"modified": "2024-03-01T00:00:00Z", "withdrawn": "2024-03-01T00:00:00Z"}
          for it in flask_sessions()], []),
    ):  # fmt: skip
        record.sync(*documents)
        project(stores)
        assert graph_answer(stores, query) == expected
        assert verified(stores).equal


def test_advisory_commands_report_their_results(stores: Stores, tmp_path: Path) -> None:
    record = Record(stores.settings, stores.engine, tmp_path)
    record.add(*VERSIONS)
    documents = [*flask_sessions(), requests_headers()]
    source = str(write_archive(tmp_path / "all.zip", documents))
    lock = tmp_path / "requirements.txt"
    lock.write_text("flask==2.3.1\nrequests==2.31.0\n")
    for subject in ("flask", str(lock)):
        unknown = thoth(stores.settings, "advisories", "list", subject)
        assert (unknown.returncode, "are unknown: no advisories" in unknown.stdout) == (1, True)
        assert thoth(stores.settings, "advisories", "list", subject, "--json").stdout == "null\n"
    assert "unknown" in thoth(stores.settings, "packages", "show", "flask").stdout
    view = thoth_json(stores.settings, "packages", "show", "flask")
    assert {it["vulnerabilities"] for it in view["releases"]} == {None}
    assert thoth_json(stores.settings, "advisories", "sync", source, "--dry-run")["dry_run"]
    assert row_counts(stores.engine)["advisories"] == 0
    done = thoth_json(stores.settings, "advisories", "sync", "--osv", ADVISORIES=source)
    assert (done["advisories"]["new"], done["graph"]) == (3, {"lag": 0, "error": None})
    status = thoth_json(stores.settings, "advisories", "status")
    assert status["vulnerabilities"] == {"high": 2}
    assert (status["packages"], status["versions"]) == (2, 4)
    assert [it["source"] for it in status["sources"]] == [source]
    listed = thoth_json(stores.settings, "advisories", "list", "Flask==2.3.1")
    assert [it["vulnerability_id"] for it in listed] == ["CVE-2023-30861"]
    assert listed[0]["versions"] == ["2.2.4", "2.3.1"]
    assert thoth_json(stores.settings, "advisories", "list", "flask==2.2.5") == []
    (in_lock,) = thoth_json(stores.settings, "advisories", "list", str(lock))
    assert (in_lock["package"], in_lock["version"]) == ("flask", "2.3.1")
    assert in_lock["vulnerability_id"] == "CVE-2023-30861"
    shown = thoth(stores.settings, "advisories", "list", "requests").stdout
    assert ">=0, <2.20.0" in shown
    assert "2.19.1" in shown


@pytest.fixture
def web() -> Iterator[Site]:
    with site() as served:
        yield served


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_PAUSE_S", 0.0)


def archive(folder: Path, *documents: dict[str, Any]) -> bytes:
    return write_archive(folder / "served.zip", documents).read_bytes()


def test_unchanged_advisory_archive_is_not_downloaded_again(record: Record, web: Site) -> None:
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


def test_unchanged_advisory_archive_without_validators_is_not_parsed_again(
    record: Record, web: Site
) -> None:
    body = archive(record.folder, osv("GHSA-1"))
    web.answers += [lambda handler: answer(handler, 200, body)] * 2
    assert sync_source(record.settings, record.engine, web.url).new == 1
    assert sync_source(record.settings, record.engine, web.url).unchanged


def test_advisory_urls_differing_in_query_are_two_sources(record: Record, web: Site) -> None:
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


def test_busy_advisory_server_is_retried(record: Record, web: Site) -> None:
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


def test_advisory_redirects_are_followed_up_to_a_limit(record: Record, web: Site) -> None:
    web.bodies["/all.zip"] = archive(record.folder, osv("GHSA-1"))
    web.answers.append(redirect("/all.zip"))
    assert sync_source(record.settings, record.engine, f"{web.url}/old").new == 1
    web.answers += [redirect("/again")] * 6
    with pytest.raises(StoreUnavailable, match="redirected more than 5 times"):
        sync_source(record.settings, record.engine, f"{web.url}/again")


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/all.zip"])
def test_redirect_to_another_scheme_is_refused(record: Record, web: Site, target: str) -> None:
    web.answers.append(redirect(target))
    with pytest.raises(StoreUnavailable, match="redirected to something"):
        sync_source(record.settings, record.engine, web.url)


def test_failed_download_keeps_stored_advisories(record: Record, web: Site) -> None:
    record.sync(osv("GHSA-1"))
    with pytest.raises(StoreUnavailable, match="the server answers 404"):
        sync_source(record.settings, record.engine, f"{web.url}/all.zip?key=hidden-word")
    with pytest.raises(StoreUnavailable) as refused:
        sync_source(
            record.settings, record.engine, f"http://127.0.0.1:{closed_port()}/?hidden-word"
        )
    assert "hidden-word" not in str(refused.value)
    assert row_counts(record.engine)["advisories"] == 1


@pytest.mark.parametrize("slow", ["body", "headers", "attempts"])
def test_slow_advisory_download_ends_at_the_total_time_limit(
    tmp_path: Path, web: Site, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_DEADLINE_S", 0.6)

    def answers(handler: BaseHTTPRequestHandler) -> None:
        if slow == "attempts":
            time.sleep(0.4)
            answer(handler, 503)
            return
        handler.send_response(200)
        with suppress(OSError):
            if slow == "body":
                handler.end_headers()
            else:
                handler.flush_headers()
            for number in range(100):
                handler.wfile.write(b"x" if slow == "body" else b"X-%d: 1\r\n" % number)
                time.sleep(0.05)

    web.answers += [answers] * 4
    with pytest.raises(StoreUnavailable, match=r"takes longer than 0\.6 s"):
        sources.fetch_archive(f"{web.url}/all.zip", sources.Validators(), tmp_path)
    assert len(web.seen) <= 2


def test_advisory_redirect_to_a_private_address_is_refused(tmp_path: Path, web: Site) -> None:
    with site() as inside:
        inside.bodies["/secret"] = b"{}"
        web.answers.append(redirect(f"{inside.url}/secret"))
        with pytest.raises(StoreUnavailable, match="redirected to a private address"):
            sources.fetch_archive(f"{web.url}/all.zip", sources.Validators(), tmp_path)
        assert inside.seen == []
    assert len(web.seen) == 1


def test_advisory_archive_above_the_size_limit_is_refused(tmp_path: Path, web: Site) -> None:
    web.bodies["/all.zip"] = bytes(3 * 2**20)
    with pytest.raises(StoreUnavailable, match="larger than 2,097,152 bytes"):
        sources.fetch_archive(
            f"{web.url}/all.zip", sources.Validators(), tmp_path, most_bytes=2 * 2**20
        )
