"""Releases into the record: once, merged by what is newest, and never over a known hash."""

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import MagicMock

import pytest
import sqlalchemy
from sqlalchemy import event, text

from common.settings import Settings
from graph.engine import Stores
from graph.record.known_releases import StoredReleases, known_releases, stored_releases
from graph.record.packages import add_unread_versions, refresh_revisions
from graph.record.releases import (
    ReleaseDelivery,
    ReleasesAdded,
    _without_known_alarms,
    add_releases,
)
from model.packages.releases import Release
from tests.factories.releases import release, sdist_of, wheel_of
from tests.services.projection import answer, project, verified
from tests.services.threads import in_threads
from tests.services.waiting import wait_until, waiting_for_locks

DAY = datetime(2026, 1, 1, tzinfo=UTC)
PURL = "pkg:pypi/flask@3.0.0"


class Record:
    """The record, with each delivery in a transaction of its own."""

    def __init__(self, engine: sqlalchemy.Engine, settings: Settings) -> None:
        self.engine, self.settings = engine, settings

    def add(self, *releases: Release, day: int = 0) -> ReleasesAdded:
        as_of = DAY + timedelta(days=day)
        deliveries = [ReleaseDelivery(it, "memory://", as_of) for it in releases]
        with self.engine.begin() as connection:
            return add_releases(connection, self.settings, deliveries)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    def row(self, purl: str = PURL) -> Any:
        with self.engine.connect() as connection:
            query = text("SELECT * FROM package_versions WHERE purl = :purl")
            return connection.execute(query, {"purl": purl}).one()

    def events(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT kind, name, version FROM package_events ORDER BY event_id")

    def revision(self, name: str = "flask") -> str:
        return str(dict(self.rows("SELECT name, revision FROM packages"))[name])

    def waiting(self) -> list[tuple[Any, ...]]:
        """Kinds and keys in the outbox, which is emptied."""
        found = self.rows("SELECT kind, key FROM outbox ORDER BY entry_id")
        with self.engine.begin() as connection:
            connection.execute(text("DELETE FROM outbox"))
        return found


@pytest.fixture
def record(relational: sqlalchemy.Engine, settings: Settings) -> Record:
    return Record(relational, settings)


def test_release_is_stored_with_requirements_files_and_packages(record: Record) -> None:
    line = 'Werkzeug[Watch]>=3,<4 ; extra == "Dev"'
    added = record.add(release("flask", "3.0.0", [line, "click"], provides_extra=["dev"]))
    assert (added.new, added.changed, added.unchanged) == ({PURL}, set(), 0)
    assert record.rows(
        "SELECT position, raw, name, specifier, marker, extras, for_extras FROM requirements"
        " ORDER BY position"
    ) == [
        (0, line, "werkzeug", "<4,>=3", 'extra == "dev"', ["watch"], ["dev"]),
        (1, "click", "click", "", None, [], []),
    ]
    row = record.row()
    assert (row.state, row.has_sdist, row.wheels) == ("solved", True, ["py3-none-any"])
    assert (row.extras, row.files_complete, row.as_of) == (["dev"], True, DAY)
    assert record.rows("SELECT count(*) FROM release_files") == [(2,)]
    named = record.rows("SELECT name, revision IS NULL FROM packages ORDER BY name")
    assert named == [("click", True), ("flask", False), ("werkzeug", True)]
    documents = record.rows("SELECT document_id, kind, schema_version FROM documents")
    assert documents == [(row.release_document_id, "release", "release-1")]
    assert sorted(record.waiting()) == [
        ("package", "click"), ("package", "flask"), ("package", "werkzeug"),
        ("package_version", PURL),
    ]  # fmt: skip
    assert record.events() == []


def test_repeated_delivery_of_a_release_changes_only_its_time(record: Record) -> None:
    flask = release("flask", "3.0.0", ["click"])
    record.add(flask)
    before, revision = record.row(), record.revision()
    record.waiting()
    added = record.add(flask, flask, day=1)
    assert (added.new, added.changed, added.unchanged) == (set(), set(), 1)
    after = record.row()
    assert after.as_of == DAY + timedelta(days=1)
    when = {"as_of": DAY, "ranks": before.ranks}
    assert {**after._mapping, **when} == dict(before._mapping)
    assert record.revision() == revision
    assert record.waiting() == record.events() == []
    record.add(flask, day=0)
    assert record.row().as_of == DAY + timedelta(days=1)


def test_yanked_release_records_an_event_and_changes_the_revision(record: Record) -> None:
    record.add(release("flask", "3.0.0"))
    first = record.revision()
    record.waiting()
    added = record.add(release("flask", "3.0.0", yanked=True, yanked_reason="broken"), day=1)
    assert added.changed == {PURL}
    assert (record.row().yanked, record.row().yanked_reason) == (True, "broken")
    assert record.revision() != first
    assert record.waiting() == [("package", "flask"), ("package_version", PURL)]
    record.add(release("flask", "3.0.0"), day=2)
    assert record.revision() == first
    assert [kind for kind, *_ in record.events()] == ["yanked", "unyanked"]


def test_older_delivery_of_a_release_does_not_replace_a_newer_one(record: Record) -> None:
    record.add(release("flask", "3.0.0", ["click>=8"], yanked=True), day=2)
    before = record.row()
    added = record.add(release("flask", "3.0.0", ["click>=7"]), day=1)
    assert added.unchanged == 1
    assert record.row() == before
    assert record.rows("SELECT specifier FROM requirements") == [(">=8",)]
    assert record.events() == []


def test_unknown_requirements_do_not_replace_known_requirements(record: Record) -> None:
    record.add(release("flask", "3.0.0", ["click"]))
    record.add(release("flask", "3.0.0", None, yanked=True), day=1)
    row = record.row()
    assert (row.state, row.problem, row.yanked) == ("solved", None, True)
    assert record.rows("SELECT name FROM requirements") == [("click",)]


def test_older_known_requirements_replace_unknown_requirements(record: Record) -> None:
    record.add(release("flask", "3.0.0", None, yanked=True), day=1)
    assert record.row().state == "unsolvable"
    record.add(release("flask", "3.0.0", ["click"]), day=0)
    row = record.row()
    assert (row.state, row.problem, row.yanked) == ("solved", None, True)
    assert row.as_of == DAY + timedelta(days=1)


def test_changed_requirements_record_an_event_unless_only_reformatted(record: Record) -> None:
    record.add(release("flask", "3.0.0", ["Click >= 8", "jinja2"]))
    revision = record.revision()
    record.add(release("flask", "3.0.0", ["jinja2", "click>=8"]), day=1)
    assert record.events() == []
    assert record.revision() == revision
    record.add(release("flask", "3.0.0", ["click>=9", "jinja2"]), day=2)
    ((kind, detail),) = record.rows("SELECT kind, detail FROM package_events")
    assert kind == "changed_requirements"
    assert (detail["removed"], detail["added"]) == (["click>=8"], ["click>=9"])
    assert record.revision() != revision


def test_changed_file_hash_raises_an_alarm_and_is_not_stored(
    record: Record, caplog: pytest.LogCaptureFixture
) -> None:
    wheel = wheel_of("flask", "3.0.0")
    record.add(release("flask", "3.0.0", files=[wheel]))
    other = release("flask", "3.0.0", files=[{**wheel, "sha256": "f" * 64}])
    (alarm,) = record.add(other, day=1).alarms
    assert (alarm.purl, alarm.filename) == (PURL, wheel["filename"])
    assert (alarm.known, alarm.offered) == (wheel["sha256"], "f" * 64)
    assert record.rows("SELECT sha256 FROM release_files") == [(wheel["sha256"],)]
    assert "file_hash_changed" in caplog.text
    record.add(release("flask", "3.0.0", ["click"], files=[{**wheel, "sha256": "f" * 64}]), day=2)
    events = record.rows("SELECT detail FROM package_events WHERE kind = 'changed_hash'")
    assert [detail["offered"] for (detail,) in events] == ["f" * 64]


def test_removed_file_that_returns_with_another_hash_raises_an_alarm(record: Record) -> None:
    wheel, sdist = wheel_of("flask", "3.0.0"), sdist_of("flask", "3.0.0")
    record.add(release("flask", "3.0.0", files=[wheel, sdist]))
    record.add(release("flask", "3.0.0", files=[sdist]), day=1)
    assert record.row().wheels == []
    changed = {**wheel, "sha256": "e" * 64}
    (alarm,) = record.add(release("flask", "3.0.0", files=[changed, sdist]), day=2).alarms
    assert alarm.known == wheel["sha256"]
    assert record.rows("SELECT count(*) FROM release_files WHERE sha256 = repeat('e', 64)") == [
        (0,)
    ]


def test_incomplete_file_list_removes_no_release_file(record: Record) -> None:
    wheel, sdist = wheel_of("flask", "3.0.0"), sdist_of("flask", "3.0.0")
    record.add(release("flask", "3.0.0", files=[wheel, sdist]))
    record.add(release("flask", "3.0.0", files=[sdist], files_complete=False), day=1)
    row = record.row()
    assert (row.wheels, row.files_complete) == (["py3-none-any"], True)


def test_new_files_in_a_complete_list_record_an_event(record: Record) -> None:
    wheel = wheel_of("flask", "3.0.0")
    record.add(release("flask", "3.0.0", files=[wheel], files_complete=False))
    record.add(release("flask", "3.0.0", files=[wheel, sdist_of("flask", "3.0.0")]), day=1)
    assert record.events() == []
    further = wheel_of("flask", "3.0.0", "cp311-cp311-win_amd64")
    files = [wheel, sdist_of("flask", "3.0.0"), further]
    record.add(release("flask", "3.0.0", files=files), day=2)
    ((kind, detail),) = record.rows("SELECT kind, detail FROM package_events")
    assert (kind, detail) == ("new_files", {"files": [further["filename"]]})


def test_version_known_only_from_a_stack_is_completed_by_its_release(record: Record) -> None:
    record.add(release("click", "8.0.0"))
    (document,) = record.rows("SELECT document_id FROM documents")
    versions = [(PURL, "flask", "3.0.0", "pypi", document[0])]
    with record.engine.begin() as connection:
        assert add_unread_versions(connection, versions) == {PURL}
        assert add_unread_versions(connection, versions) == set()
    unread = record.revision()
    assert (record.row().state, record.row().facts) == ("unread", None)
    assert record.add(release("flask", "3.0.0", ["click"])).changed == {PURL}
    assert record.row().state == "solved"
    assert record.row().document_id == document[0]
    assert record.revision() != unread
    assert record.events() == []


def test_same_version_on_another_index_is_a_separate_release(record: Record) -> None:
    record.add(release("flask", "3.0.0"), release("flask", "3.0.0", index="builds"))
    with record.engine.connect() as connection:
        assert list(known_releases(connection, "builds", "flask")) == ["3.0.0"]
        (known,) = known_releases(connection, "pypi", "flask").values()
    assert known.purl == PURL
    assert known.document_id == record.row().release_document_id


def test_release_read_from_the_record_equals_the_delivered_release(record: Record) -> None:
    lines = ["click>=8", "asgiref ; extra == 'async'", "not a requirement at all!"]
    flask = release("flask", "3.0.0", lines, provides_extra=["async"])
    record.add(flask)
    with record.engine.connect() as connection:
        known = known_releases(connection, "pypi", "flask")["3.0.0"]
    assert known.requirements == flask.requirements
    assert known.requirements_raw == tuple(lines)
    assert known.state == "unparsable"
    assert tuple(known.files[file.filename] for file in flask.files) == flask.files


def test_text_with_special_characters_is_stored_unchanged(record: Record) -> None:
    odd = 'tabs\tand\nlines \\ {"quoted", \'braces}'
    record.add(release("flask", "3.0.0", yanked=True, yanked_reason=odd))
    assert record.row().yanked_reason == odd
    broken = replace(release("flask", "3.0.1", yanked=True), yanked_reason="a\0b")
    record.add(broken)
    assert record.row("pkg:pypi/flask@3.0.1").yanked_reason == "a\\0b"


def test_number_of_sql_statements_does_not_grow_with_deliveries(record: Record) -> None:
    counted: list[str] = []
    event.listen(record.engine, "before_cursor_execute", lambda *it: counted.append(it[2]))
    record.add(*(release("flask", f"1.{n}", ["click"]) for n in range(3)))
    few, counted[:] = len(counted), []
    record.add(*(release(f"other-{n}", "1.0", ["click"]) for n in range(60)))
    assert len(counted) <= few


def test_concurrent_release_writers_lose_nothing(record: Record) -> None:
    def work(first: int) -> None:
        for n in range(first, first + 30):
            record.add(release("flask", f"1.{n}", [f"dependency-{n % 7}"]))

    in_threads(*(partial(work, first) for first in (0, 15, 30)))
    assert record.rows("SELECT count(*) FROM package_versions") == [(60,)]
    assert record.rows("SELECT count(*) FROM requirements") == [(60,)]
    with record.engine.begin() as connection:
        assert refresh_revisions(connection, ["flask"]) == set()


def test_releases_of_the_record_are_projected(stores: Stores) -> None:
    record = Record(stores.engine, stores.settings)
    record.add(
        release("flask", "3.0.0", ['click[x]>=8 ; extra == "dev"', "click>=7", "jinja2"]),
        release("click", "8.1.0", []),
    )
    project(stores)
    query = (
        "MATCH (v:PackageVersion {name: 'flask'})-[r:REQUIRES]->(p:Package)"
        " RETURN p.name, r.specifier, r.marker, r.extra, r.extras ORDER BY p.name, r.specifier"
    )
    assert answer(stores, query) == [
        ["click", ">=7", None, None, None],
        ["click", ">=8", 'extra == "dev"', ["dev"], ["x"]],
        ["jinja2", "", None, None, None],
    ]
    assert verified(stores).equal
    record.add(release("flask", "3.0.0", ["click>=7", "werkzeug"], yanked=True), day=1)
    project(stores)
    assert verified(stores).equal
    found = answer(stores, query)
    assert [row[:2] for row in found] == [["click", ">=7"], ["werkzeug", ""]]
    (((revision),),) = answer(stores, "MATCH (p:Package {name: 'flask'}) RETURN p.revision")
    assert revision == record.revision()


def test_version_in_another_spelling_belongs_to_the_known_release(record: Record) -> None:
    record.add(release("flask", "3.0", ["click"]), release("flask", "3", ["click"]))
    added = record.add(release("flask", "3.0.0", ["click", "jinja2"]), day=1)
    assert len(record.rows("SELECT purl FROM package_versions")) == 1
    assert (len(added.changed), added.unchanged) == (1, 0)
    assert record.rows("SELECT count(*) FROM requirements") == [(2,)]
    record.add(release("flask", "3.0.0", index="builds"), release("flask", "3.0.1"), day=1)
    record.add(release("flask", "30"), release("flask", "3.0rc1"), release("flask", "1!3"), day=1)
    assert record.rows("SELECT count(*) FROM package_versions") == [(6,)]


def test_alarm_repeated_within_a_batch_records_one_event(record: Record) -> None:
    wheel = wheel_of("flask", "3.0.0")
    record.add(release("flask", "3.0.0", files=[wheel]))
    changed = [{**wheel, "sha256": "f" * 64}]
    added = record.add(
        release("flask", "3.0.0", files=changed), release("flask", "3.0.0", ["a"], files=changed)
    )
    assert len(added.alarms) == 1
    assert record.rows("SELECT count(*) FROM package_events WHERE kind = 'changed_hash'") == [(1,)]


def test_recorded_alarms_are_compared_in_linear_time() -> None:
    details = [{"file": str(n), "known": "a", "offered": "b"} for n in range(50_000)]
    rows = [("changed_hash", "pypi", "flask", "1", detail) for detail in details]
    connection = MagicMock()
    connection.execute.return_value = [row[1:] for row in rows]
    began = time.process_time()
    assert _without_known_alarms(connection, rows) == []
    assert time.process_time() - began < 20  # each with each takes minutes


def test_waiting_writer_holds_no_row_locks(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it waits for a row of one who waits for a row of its own."""
    other = record.engine.connect()
    calls: list[int] = []
    threads: list[threading.Thread] = []

    def insert_b() -> None:
        add_unread_versions(other, [("pkg:pypi/b@1", "b", "1", "pypi", document)])
        other.commit()
        other.close()

    def in_between(connection: sqlalchemy.Connection, releases: Any) -> StoredReleases:
        calls.append(1)
        if len(calls) == 1:
            found = stored_releases(connection, releases)
            name_version(record, "m", document)
            return found
        lock = "SELECT FROM package_versions WHERE name = 'm' FOR NO KEY UPDATE"
        if len(calls) == 2:
            other.execute(text(lock))
            threads.append(threading.Thread(target=insert_b))
            threads[0].start()
            wait_until(
                lambda: not threads[0].is_alive() or waiting_for_locks(record.engine) > 0,
                "the writer has ended or waits for a lock",
            )
        return stored_releases(connection, releases)

    record.add(release("a", "1"))
    document = record.row("pkg:pypi/a@1").document_id
    monkeypatch.setattr("graph.record.releases.stored_releases", in_between)
    with record.engine.begin() as connection:
        wanted = [ReleaseDelivery(release(it, "1", ["x"]), "memory://", DAY) for it in "bmz"]
        added = add_releases(connection, record.settings, wanted)
    threads[0].join()
    assert len(calls) >= 2
    assert added.new == {"pkg:pypi/z@1"}
    assert added.changed >= {"pkg:pypi/b@1"}


def name_version(record: Record, name: str, document: str) -> None:
    with record.engine.begin() as connection:
        add_unread_versions(connection, [(f"pkg:pypi/{name}@1", name, "1", "pypi", document)])


def test_release_rows_are_locked_in_byte_order_in_any_collation(record: Record) -> None:
    statements: list[str] = []
    event.listen(record.engine, "before_cursor_execute", lambda *it: statements.append(it[2]))
    record.add(release("flask", "3.0.0", ["click"]))
    record.add(release("flask", "3.0.0", ["jinja2"]), day=1)
    ordered = [
        it for it in statements
        if "ORDER BY" in it and ("FOR NO KEY UPDATE" in it or "ON CONFLICT" in it)
    ]  # fmt: skip
    assert len(ordered) >= 4
    assert all('COLLATE "C"' in it.rpartition("ORDER BY")[2] for it in ordered)
