"""Laws of advisories: order never matters, ranges mean what OSV says, nothing crashes."""

from typing import Any

import pytest
import sqlalchemy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from packaging.version import Version
from sqlalchemy import delete, select

from common.settings import Settings
from graph.record.advisories import AdvisoryDelivery, add_advisories
from graph.record.packages import refresh_revisions
from graph.record.vulnerabilities import match_versions
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    Document,
    OutboxEntry,
    PackageRow,
    PackageVersionRow,
    VulnerabilityRow,
    table_of,
)
from model.advisories import (
    AffectedPackage,
    Range,
    RangeEvent,
    RangeEventKind,
    VersionLine,
    merge_advisories,
)
from model.errors import InvalidDocument
from tests.effort import examples
from tests.factories.advisories import (
    CRITICAL,
    HIGH,
    add_versions,
    advisory,
    affected,
    flask_sessions,
    osv,
)
from tests.factories.changed_documents import Path, json_values, paths_of, replaced

texts = st.builds(
    "{}{}.{}{}{}".format,
    st.sampled_from(("", "", "1!")),
    st.integers(0, 2),
    st.integers(0, 3),
    st.sampled_from(("", "", "rc1", ".dev2", ".post1", "a1.dev1")),
    st.sampled_from(("", "", "+cu118", "+local.2")),
)
events = st.builds(
    RangeEvent, st.sampled_from(RangeEventKind), texts | st.sampled_from(("0", "0", "1.0"))
) | st.just(RangeEvent(RangeEventKind.LIMIT, "*"))
ranges = st.lists(events, max_size=6).map(tuple)


def in_range(version: Version, events: Range) -> bool:
    """OSV's evaluation of one version, as its schema writes it down."""

    def place(event: RangeEvent) -> tuple[bool, Version]:
        first = event.kind is RangeEventKind.INTRODUCED and event.version == "0"
        return not first, Version("0") if first else Version(event.version)

    def holds(event: RangeEvent) -> bool:
        if event.kind is RangeEventKind.INTRODUCED and event.version == "0":
            return True
        end = Version(event.version)
        ours = version if end.local else Version(version.public)
        return ours > end if event.kind is RangeEventKind.LAST_AFFECTED else ours >= end

    limits = [it.version for it in events if it.kind is RangeEventKind.LIMIT]
    if limits and not any(it == "*" or version < Version(it) for it in limits):
        return False
    vulnerable = False
    for event in sorted((it for it in events if it.kind is not RangeEventKind.LIMIT), key=place):
        if holds(event):
            vulnerable = event.kind is RangeEventKind.INTRODUCED
    return vulnerable


@given(st.lists(texts, max_size=12), st.lists(ranges, max_size=3))
@settings(max_examples=examples(400), deadline=None)
def test_affected_version_ranges_agree_with_a_naive_evaluation(
    versions: list[str], of_package: list[Range]
) -> None:
    found = VersionLine(versions).affected(AffectedPackage("x", tuple(of_package), ()))
    naive = {
        version
        for version in versions
        if any(in_range(Version(version), events) for events in of_package)
    }
    assert found == naive


#: Few identifiers, so that groups are joined and split all the time.
names = st.sampled_from(("CVE-1", "CVE-2", "GHSA-1", "GHSA-2", "PYSEC-1", "PYSEC-2", "OSV-1"))
packages = st.builds(
    lambda name, first, last, listed: affected(
        name, ("introduced", first), ("fixed", last), versions=listed
    ),
    st.sampled_from(("flask", "Jinja2")),
    st.sampled_from(("0", "1.0")),
    st.sampled_from(("1.0", "2.0", "3.0")),
    st.lists(st.sampled_from(("2.0", "final-2004")), max_size=1),
)
documents = st.builds(
    lambda name, found, aliases, modified, vector, withdrawn: osv(
        name, *found, aliases=aliases, modified=f"2024-01-0{modified}T00:00:00Z",
        vector=vector, withdrawn="2024-01-05T00:00:00Z" if withdrawn else None,
    ),
    names,
    st.lists(packages, min_size=1, max_size=2),
    st.lists(names, max_size=2),
    st.integers(1, 3),
    st.sampled_from((None, HIGH, CRITICAL)),
    st.booleans(),
)  # fmt: skip


@settings(deadline=None)
@given(
    st.lists(documents, max_size=8).flatmap(lambda it: st.tuples(st.just(it), st.permutations(it)))
)
def test_merged_advisories_do_not_depend_on_their_order(
    orders: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    def found(some: list[dict[str, Any]]) -> set[Any]:
        unique = {document["id"]: document for document in sorted(some, key=repr)}
        heads = [advisory(document).head for document in some if document is unique[document["id"]]]
        return set(merge_advisories(heads))

    one, other = orders
    assert found(one) == found(other)


KEPT = (VulnerabilityRow, AdvisoryRow, AdvisoryPackage, AffectedVersion, PackageRow)
EMPTIED = (
    OutboxEntry, AffectedVersion, AdvisoryPackage, AdvisoryRow, VulnerabilityRow,
    PackageVersionRow, PackageRow, Document,
)  # fmt: skip
VERSIONS = ("flask==1.0", "flask==2.0", "flask==2.0@mirror", "jinja2==1.5", "jinja2==3.0")


class Record:
    """PostgreSQL, emptied for each example."""

    def __init__(self, settings: Settings, engine: sqlalchemy.Engine) -> None:
        self.settings, self.engine = settings, engine

    def outcome(self, batches: list[list[dict[str, Any]]], versions_at: int) -> dict[str, Any]:
        """All rows after these deliveries; versions come before the batch ``versions_at``."""
        with self.engine.begin() as connection:
            for table in EMPTIED:  # few rows, of which a TRUNCATE makes more work
                connection.execute(delete(table_of(table)))
        for place in range(max(len(batches), versions_at + 1)):
            with self.engine.begin() as connection:
                if place == versions_at:
                    match_versions(connection, add_versions(connection, *VERSIONS))
                    refresh_revisions(connection, ("flask", "jinja2"))
                if place < len(batches):
                    found = [AdvisoryDelivery(advisory(it), "test") for it in batches[place]]
                    add_advisories(connection, self.settings, found)
        with self.engine.connect() as connection:
            return {
                table_of(model).name: sorted(map(repr, connection.execute(select(table_of(model)))))
                for model in KEPT
            }


@pytest.fixture
def record(settings: Settings, relational: sqlalchemy.Engine) -> Record:
    return Record(settings, relational)


@given(st.lists(documents, max_size=7), st.randoms(use_true_random=False), st.integers(0, 3))
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_stored_advisories_do_not_depend_on_order_or_batches_of_deliveries(
    record: Record, found: list[dict[str, Any]], chance: Any, versions_at: int
) -> None:
    once = record.outcome([found], 0)
    shuffled = [*found, *found]
    chance.shuffle(shuffled)
    cut = sorted(chance.choices(range(len(shuffled) + 1), k=2))
    batches = [shuffled[: cut[0]], shuffled[cut[0] : cut[1]], shuffled[cut[1] :]]
    assert record.outcome(batches, versions_at) == once


keys = st.text(max_size=5) | st.sampled_from(
    ("id", "affected", "package", "ranges", "events", "severity", "score", "introduced", "limit")
)
values = json_values(
    st.text(max_size=10)
    | st.sampled_from(("PyPI", "ECOSYSTEM", "0", "1.0", "*", "2024-01-01T00:00:00Z", HIGH,
                       "CVSS_V3", "CVSS_V4", "CVSS:4.0/", "CVSS:3.1/AV:N/AC:L", "AV:N/AC:L/Au:N")),
    keys,
    max_leaves=8,
)  # fmt: skip

WHOLE = flask_sessions()[0]


@given(values, st.sampled_from(paths_of(WHOLE)))
@settings(max_examples=examples(600), deadline=None)
def test_any_advisory_document_is_parsed_or_refused(value: Any, path: Path) -> None:
    for document in (replaced(WHOLE, path, value), value):
        try:
            found = advisory(document)
        except InvalidDocument:
            continue
        merge_advisories([found.head])
        for package in found.packages:
            VersionLine(VERSIONS).affected(package)


@given(st.text(alphabet="CVS:/.0123456789ANPLHUXEM", max_size=60), st.sampled_from("234"))
@settings(max_examples=examples(300), deadline=None)
def test_any_severity_vector_is_scored_or_ignored(tail: str, version: str) -> None:
    for vector in (
        tail,
        f"CVSS:3.1/{tail}",
        f"CVSS:4.0/{tail}",
        f"{HIGH}/{tail}",
        f"{CRITICAL[:-1]}{tail}",
    ):
        rating = advisory(
            osv("X-1", severity=[{"type": f"CVSS_V{version}", "score": vector}])
        ).head.rating
        assert rating.score is None or 0 <= rating.score <= 10
