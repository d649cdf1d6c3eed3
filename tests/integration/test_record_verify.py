"""``thoth record verify``: what differs from its document is named, and is evidence no more."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import neo4j
import pytest
import sqlalchemy
from sqlalchemy import ARRAY, Boolean, Column, DateTime, Double, Integer, func, select, text
from sqlalchemy.dialects.postgresql import JSONB

from common.settings import Settings
from graph.engine import Stores, graph_database, relational_engine, relational_url
from graph.projection import rebuild
from graph.record.access import Scope
from graph.record.advice import AdviceFilter, advice_of, browse_advice
from graph.record.documents import INLINE_LIMIT_BYTES, body_of
from graph.record.evidence import evidence_for
from graph.record.measurements import measured_observations
from graph.record.quarantine import open_refusals
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    AdvisoryPackage,
    AdvisoryRow,
    AffectedVersion,
    ArtifactInterface,
    ArtifactRow,
    Base,
    ClaimPackage,
    ClaimRow,
    Document,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    KnowledgeRow,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    ObservationRow,
    PackageVersionRow,
    ReleaseFileRow,
    RequestRow,
    RequirementRow,
    RuntimeEnvironmentRow,
    StackPackage,
    StackRow,
    VulnerabilityRow,
    table_of,
)
from graph.verification import parser_version, run
from graph.verification.run import RecordReport, verify_record
from ingest.inspections.pipeline import ingest_inspections
from ingest.native.environments import analyze_image
from ingest.native.wheels import analyze_wheel, record_analysis
from ingest.sources.source_items import SourceLimits
from model.errors import DamagedDocument, Reason
from model.measurements.evidence import Evidence
from model.packages.snapshot import Snapshot
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.documents import GENERATIONS, directory_files
from tests.factories.inspections import failed_status, inspection_files, write
from tests.factories.native import elf, layer, write_wheel
from tests.services.commands import ROOT, thoth, thoth_json
from tests.services.databases import new_database
from tests.services.jobs import client_of
from tests.services.projection import answer, project, verified

SAMPLES = ROOT / "samples"
WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")
#: The machine of the samples.
MACHINE = "fa9f8e70"

#: What is no part of any document: by whom a shared row came first, and when an index spoke.
NOT_COMPARED = {
    HardwareRow: {"document_id"},
    RuntimeEnvironmentRow: {"document_id"},
    IndicatorRow: {"document_id"},
    StackRow: {"document_id"},
    NativeInterfaceRow: {"document_id"},
    ClaimRow: {"document_id"},
    PackageVersionRow: {"document_id", "as_of"},
}
#: What the test of whole tables leaves to tests of its own.
ELSEWHERE = {
    ObservationRow: {"document_id"},
    AdvisoryRow: {"document_id", "vulnerability_id"},
    ArtifactRow: {"document_id"},
    NativeEnvironmentRow: {"document_id"},
    PackageVersionRow: {"state", "ranks"},
    ReleaseFileRow: {"rank"},
    AdviceRow: {it.name for it in table_of(AdviceRow).c if it.name.endswith("document_id")},
}
#: Which row is changed; by default the first.
CHOSEN = {
    ObservationRow: "outcome = 'measured'",
    InspectionRow: "document_id IN (SELECT document_id FROM documents WHERE source LIKE '%.gz')",
    PackageVersionRow: "release_document_id IS NOT NULL",
    RuntimeEnvironmentRow: "python_version IS NOT NULL",
    VulnerabilityRow: "vulnerability_id = 'CVE-2026-1'",
}
TABLES = (
    InspectionRow, ObservationRow, HardwareRow, RuntimeEnvironmentRow, IndicatorRow, StackRow,
    PackageVersionRow, RequirementRow, ReleaseFileRow, AdvisoryRow, AdvisoryPackage,
    VulnerabilityRow, ArtifactRow, NativeEnvironmentRow, NativeInterfaceRow, AdviceRow,
    AdvisedStack,
)  # fmt: skip
#: Not compared if their advice has changed.
OF_ADVICE = (RequestRow, ClaimRow, ClaimPackage)
LINKS = (
    ObservationRow, StackPackage, RequirementRow, ReleaseFileRow, AdvisoryPackage,
    AffectedVersion, ArtifactInterface, NativeEnvironmentInterface, AdvisedStack,
    AdviceObservation, AdviceClaim, ClaimPackage,
)  # fmt: skip


@pytest.fixture(scope="module")
def filled(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    embedded_graph: neo4j.Driver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[str]:
    """A database with documents of every kind, to be copied."""
    with embedded_graph.session(database=graph_database(embedded_settings)) as session:
        session.run("MATCH (n) WHERE NOT n:SchemaMigration DETACH DELETE n").consume()
    with new_database(postgresql, embedded_settings) as settings:
        fill(settings, tmp_path_factory.mktemp("filled"))
        yield relational_url(settings).database or ""


@pytest.fixture
def record(
    filled: str, postgresql: sqlalchemy.Engine, embedded_settings: Settings, graph: neo4j.Driver
) -> Iterator[Stores]:
    """A record of a test's own; the graph is empty."""
    with new_database(postgresql, embedded_settings, template=filled) as settings:
        engine = relational_engine(settings)
        yield Stores(settings, engine, graph)
        engine.dispose()


def fill(settings: Settings, folder: Path) -> None:
    """All kinds of documents, by the commands that people use."""
    flask = affected("flask", ("introduced", "3.0.0"), ("fixed", "3.1.0"))
    advisories = [
        osv("GHSA-aaaa-bbbb-cccc", flask, aliases=["CVE-2026-1"], summary="sessions leak"),
        osv("PYSEC-2026-1", flask, aliases=["CVE-2026-1"]),
    ]
    commands = (
        ("ingest", "inspections", str(SAMPLES / "inspections.tar.gz"), str(GENERATIONS)),
        ("packages", "import", str(SAMPLES / "packages.jsonl.gz"), "--as-of", "2026-11-21"),
        ("advisories", "sync", str(write_archive(folder / "all.zip", advisories))),
        ("advise", str(SAMPLES / "project"), "--type", "performance", *WHERE,
         "--hardware", MACHINE),
    )  # fmt: skip
    for command in commands:
        done = thoth(settings, *command)
        assert done.returncode == 0, (command, done.stderr)
    core = elf(needed=("libc.so.6",), needs={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.34"]})
    wheel = write_wheel(folder, {"demo/_core.abi3.so": core, "demo/__init__.py": b""})
    libc = elf("libc.so.6", defines=("GLIBC_2.17",))
    image = folder / "old.tar"
    image.write_bytes(layer([("lib/libc.so.6", libc), ("etc/os-release", b"ID=old\n")]))
    for analysis in (analyze_wheel(wheel), analyze_image(str(image))):
        assert record_analysis(settings, analysis, "a test").new


def compare(stores: Stores, **options: Any) -> RecordReport:
    return verify_record(stores.settings, stores.engine, **{"replays": 0, **options})


def change(stores: Stores, *statements: str) -> None:
    """What somebody does who owns the database."""
    with stores.engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for statement in statements:
            connection.execute(text(statement))


def columns(report: RecordReport) -> set[str]:
    return {it.column for it in report.differences}


def test_record_verification_of_an_unchanged_record_finds_no_difference(record: Stores) -> None:
    report = compare(record, replays=5)
    assert report.equal, report.differences
    assert report.complete
    with record.engine.connect() as connection:
        kinds = select(Document.kind, func.count()).group_by(Document.kind)
        counts = {row[0]: row[1] for row in connection.execute(kinds)}
    assert report.documents == counts
    assert {"inspection", "release", "advisory", "analysis", "report"} <= report.documents.keys()
    assert report.counts == {"advice_checked": 1, "advice_replayed": 1}


def other(column: Column[Any]) -> str:
    """SQL of a value that a column does not have."""
    name, kind = column.name, column.type
    if isinstance(kind, ARRAY):
        number = isinstance(kind.item_type, Double)
        return f"array_append(coalesce({name}, '{{}}'), {'1.5' if number else 'repeat($$x$$, 3)'})"
    forms = {
        JSONB: "'{\"x\": 1}'",
        Boolean: f"NOT coalesce({name}, false)",
        DateTime: f"coalesce({name}, now()) + interval '1 second'",
        Double: f"coalesce({name}, 0) + 0.5",
        Integer: f"coalesce({name}, 0) + 1",
    }
    found = next((form for type_, form in forms.items() if isinstance(kind, type_)), None)
    return found or f"coalesce({name}, '') || 'x'"


@pytest.mark.parametrize("models", [TABLES, OF_ADVICE])
def test_record_verification_reports_every_changed_column(
    record: Stores, monkeypatch: pytest.MonkeyPatch, models: tuple[type[Base], ...]
) -> None:
    monkeypatch.setattr(run, "NAMED", 1_000)
    change(record, "ALTER TABLE observations DROP CONSTRAINT ck_observations_measured_has_rate")
    names = set()
    for model in models:
        table = table_of(model)
        keys = {it.name for it in table.primary_key}
        left_out = keys | NOT_COMPARED.get(model, set()) | ELSEWHERE.get(model, set())
        changed = [it for it in table.c if it.name not in left_out]
        values = ", ".join(f"{it.name} = {other(it)}" for it in changed)
        chosen, key = CHOSEN.get(model, "true"), next(iter(table.primary_key)).name
        first = f"SELECT ctid FROM {table.name} WHERE {chosen} ORDER BY {key} LIMIT 1"
        change(record, f"UPDATE {table.name} SET {values} WHERE ctid = ({first})")
        names |= {f"{table.name}.{it.name}" for it in changed}
    assert names <= columns(compare(record)), names


def test_record_verification_reports_removed_and_added_rows(
    record: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "NAMED", 1_000)
    keys = {
        table_of(model).name: [it.name for it in table_of(model).primary_key] for model in LINKS
    }
    for model in LINKS:
        table = table_of(model)
        last = keys[table.name][-1]
        value = "repeat('x', 3)" if not isinstance(table.c[last].type, Integer) else "77"
        names = ", ".join(it.name for it in table.c)
        values = ", ".join(value if it.name == last else it.name for it in table.c)
        order = ", ".join(keys[table.name])
        first = f"SELECT {values} FROM {table.name} ORDER BY {order} LIMIT 1"
        change(record, f"INSERT INTO {table.name} ({names}) {first}")
    added = [(it.table, it.stored, it.expected) for it in compare(record).differences]
    assert sorted(added) == sorted((name, "a row", "no row") for name in keys)
    for name, columns_of_key in keys.items():
        change(
            record,
            f"DELETE FROM {name} WHERE {columns_of_key[-1]}::text IN ('xxx', '77')",
            f"DELETE FROM {name} WHERE ctid = (SELECT min(ctid) FROM {name})",
        )
    missing = {(it.table, it.stored, it.expected) for it in compare(record).differences}
    assert missing >= {(name, "no row", "a row") for name in keys}


RATE = (
    "UPDATE observations SET rate = rate * {} WHERE observation_id = (SELECT min(observation_id)"
    " FROM observations WHERE outcome = 'measured' AND hardware_digest LIKE 'sha256:fa9f8e70%')"
)
FASTER, AS_BEFORE = RATE.format(4), RATE.format(0.25)


def refused(stores: Stores) -> int:
    with stores.engine.connect() as connection:
        query = select(func.count()).where(ObservationRow.quarantine_reason == Reason.TAMPERED)
        return connection.scalar(query) or 0


def measured(stores: Stores) -> set[str]:
    with stores.engine.connect() as connection:
        return {it.reading.observation_id for it in measured_observations(connection)}


def test_observation_with_a_changed_rate_is_excluded_until_repaired(record: Stores) -> None:
    rebuild(record.engine, record.driver, database=record.database)
    before, changes = measured(record), knowledge(record)
    with record.engine.connect() as connection:
        (head,) = browse_advice(connection, AdviceFilter(), limit=20)
        advice = advice_of(connection, record.settings, head.advice_id)
    assert advice is not None
    snapshot, now = Snapshot.from_json(advice.snapshot), datetime(2026, 11, 22, tzinfo=UTC)
    change(record, FASTER)
    done = thoth(record.settings, "record", "verify", "--replay", "0")
    assert done.returncode == 1, done.stderr
    assert "observations.rate sha256:" in done.stdout
    assert "1 document differs" in done.stdout
    count = refused(record)
    assert count > 1
    assert f"observations refused: {count}" in done.stdout
    assert len(measured(record)) == len(before) - count
    assert knowledge(record) > changes
    with record.engine.connect() as connection:
        evidence = evidence_for(connection, snapshot, now)
        (entry,) = open_refusals(connection)
    assert {it.observation_id for it in evidence.readings} <= measured(record)
    assert (entry.reason, entry.field, entry.kind) == ("tampered", "rate", "record")
    # Whoever reads a comparison or an advice is told.
    assert 0 < evidence.refused <= count
    assert Evidence.from_json(evidence.to_json()) == evidence
    assert f"{count} observations are ignored" in thoth(record.settings, "stacks").stdout
    assert thoth_json(record.settings, "stacks")["refused"] == count
    # The graph shows it, with the advice that rests on it.
    project(record)
    question = "MATCH (o:Observation {quarantine_reason: 'tampered'}) RETURN count(o)"
    assert answer(record, question) == [[count]]
    based = "MATCH (:Advice)-[:BASED_ON]->(o:Observation) RETURN count(o)"
    (rests,) = answer(record, based)
    assert rests[0] > 0
    tampered = (
        "MATCH (a:Advice)-[:BASED_ON]->(o:Observation {quarantine_reason: 'tampered'})"
        " RETURN a.advice_id, count(o)"
    )
    ((advice_id, resting),) = answer(record, tampered)
    assert advice_id == head.advice_id
    assert 0 < resting <= rests[0]
    assert verified(record).equal
    # Found again, it is counted once; mended, it is evidence again.
    assert not compare(record).equal
    change(record, AS_BEFORE)
    assert thoth_json(record.settings, "record", "verify")["counts"]["observations_accepted"]
    assert measured(record) == before
    with record.engine.connect() as connection:
        assert open_refusals(connection) == []
    project(record)
    assert answer(record, question) == [[0]]
    assert answer(record, based) == [rests]
    assert verified(record).equal


def knowledge(stores: Stores) -> int:
    with stores.engine.connect() as connection:
        return connection.scalar(select(KnowledgeRow.changes)) or 0


def test_observation_moved_to_another_inspection_is_reported(record: Stores) -> None:
    change(
        record,
        "UPDATE observations SET document_id = (SELECT max(document_id) FROM inspections)"
        " WHERE observation_id = (SELECT observation_id FROM observations"
        " ORDER BY document_id, observation_id LIMIT 1)",
    )
    (found,) = compare(record).differences
    assert (found.table, found.field, found.stored) == ("observations", "", "a row")
    with record.engine.connect() as connection:
        assert found.document_id == connection.scalar(func.max(InspectionRow.document_id))


#: Statements by the column that a comparison names, in records of their own.
TAKEN_FOR_OTHERS: list[dict[str, str]] = [
    {"documents.kind": "UPDATE documents SET kind = 'upload' WHERE kind = 'inspection'"},
    {"documents.kind": "UPDATE documents SET kind = 'else' WHERE kind = 'release'"},
    {"documents.body": "UPDATE documents SET size_bytes = size_bytes + 1"},
    {
        "documents.schema_version": "UPDATE documents SET schema_version = 'inspection-2019'"
        " WHERE kind = 'inspection' AND schema_version <> 'inspection-2019'",
        "package_versions.state": "UPDATE package_versions SET state = 'unsolvable',"
        " problem = 'no_files' WHERE state = 'solved'",
        "vulnerabilities.aliases": "UPDATE advisories SET vulnerability_id = 'GHSA-aaaa-bbbb-cccc'"
        " WHERE advisory_id LIKE 'GHSA%';"
        " INSERT INTO vulnerabilities SELECT 'GHSA-aaaa-bbbb-cccc', '{}', NULL, NULL, NULL,"
        " NULL, NULL, NULL, NULL, document_id FROM vulnerabilities LIMIT 1",
        "advice.report_document_id": "UPDATE advice"
        " SET snapshot_document_id = evidence_document_id",
    },
    {
        "package_versions.ranks": "UPDATE release_files SET rank = '1  0'",
        "advice.report_document_id": "UPDATE advice SET request_document_id = report_document_id",
    },
    {"package_versions.ranks": "UPDATE package_versions SET ranks = '{}'"},
    {"package_versions.ranks": "UPDATE package_versions SET ranks = ranks || '{9}'"},
]


@pytest.mark.parametrize("statements", TAKEN_FOR_OTHERS, ids=range(len(TAKEN_FOR_OTHERS)))
def test_record_verification_reports_documents_with_a_changed_kind_or_hash(
    record: Stores, statements: dict[str, str]
) -> None:
    change(record, *statements.values())
    assert statements.keys() <= columns(compare(record))
    if "'upload'" in str(statements):
        assert measured(record) == set()


def test_verification_excludes_changed_releases_and_advisories(record: Stores) -> None:
    rebuild(record.engine, record.driver, database=record.database)
    change(
        record,
        "UPDATE requirements SET specifier = '', raw = 'x', name = NULL WHERE position = 0",
        "UPDATE package_versions SET yanked = NOT yanked, requires_python = '<3'"
        " WHERE release_document_id IS NOT NULL",
        "DELETE FROM release_files WHERE purl LIKE 'pkg:pypi/numpy@1%'",
        "UPDATE advisories SET severity = 'harmless', withdrawn_at = now()",
        "UPDATE advisory_packages SET ranges = '[[1]]'",
        "UPDATE vulnerabilities SET score = 0.1",
        "DELETE FROM affected_versions",
    )
    first = compare(record)
    assert not first.equal
    assert first.counts["releases_restored"] > 10
    assert first.counts["advisories_restored"] == 2
    assert compare(record).equal
    project(record)
    assert verified(record).equal
    affects = "MATCH (:Vulnerability)-[:AFFECTS]->(v:PackageVersion) RETURN count(v)"
    assert answer(record, affects) == [[2]]


def large(stores: Stores, folder: Path) -> str:
    """Take in an inspection whose body goes to the document store; gives its identifier."""
    log = random.Random(1).randbytes(INLINE_LIMIT_BYTES).hex().encode()
    write(folder, directory_files(log=log))
    ingest_inspections(stores.settings, stores.engine, [str(folder)], SourceLimits())
    with stores.engine.connect() as connection:
        return connection.scalars(
            select(Document.document_id).where(Document.location.is_not(None))
        ).one()


@pytest.mark.slow
def test_damaged_document_body_is_repaired_by_a_new_delivery(
    record: Stores, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    stores = replace(record, settings=replace(record.settings, document_store_url=store.as_uri()))
    document_id = large(stores, tmp_path / "in")
    (path,) = (it for it in store.rglob("*") if it.is_file() and it.parent.name != "records")
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:100] + b"x" + whole[101:], b"", None):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        report = compare(stores)
        (found,) = report.differences
        assert (found.document_id, found.column) == (document_id, "documents.body")
        assert (report.damaged, refused(stores)) == (1, 1)
        with stores.engine.connect() as connection, pytest.raises(DamagedDocument):
            body_of(connection, stores.settings, document_id)
        ingest_inspections(stores.settings, stores.engine, [str(tmp_path / "in")], SourceLimits())
        assert path.read_bytes() == whole
        assert compare(stores).equal
        assert refused(stores) == 0
    change(stores, "UPDATE documents SET location = '../secret' WHERE location IS NOT NULL")
    (found,) = compare(stores).differences
    assert found.stored == "its recorded location is wrong"


def test_record_verification_in_portions_continues_and_starts_again(record: Stores) -> None:
    with record.engine.connect() as connection:
        total = connection.scalar(select(func.count()).select_from(Document)) or 0
    seen, rounds = 0, 0
    while not rounds:
        report = compare(record, most=50)
        assert report.documents.total() <= 50
        seen += report.documents.total()
        rounds += report.complete
    assert seen == total
    # A difference in the last portion is met in the last portion.
    change(
        record,
        "UPDATE inspections SET job_count = 99"
        " WHERE document_id = (SELECT max(document_id) FROM inspections)",
    )
    found = [compare(record, most=50).tampered for _ in range(total // 50 + 1)]
    assert sum(found) == 1
    # A whole run always begins with the first document, and ends where it is over.
    compare(record, most=50)
    whole = compare(record)
    assert (whole.documents.total(), whole.tampered, whole.complete) == (total, 1, True)
    assert not compare(record, seconds=1e-9).complete


def test_nightly_run_verifies_a_portion_of_the_record(stores: Stores) -> None:
    settings = replace(stores.settings, ingest_sources=(str(GENERATIONS / "2020-02"),))
    first = thoth_json(settings, "ingest", "nightly")["record"]
    assert (first["equal"], first["complete"]) == (True, True)
    change(stores, "UPDATE observations SET rate = rate * 2 WHERE rate > 1")
    done = thoth(settings, "ingest", "nightly", "--json")
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert report["record"]["tampered"] == first["documents"]["inspection"]
    assert report["graph"] == {"lag": 0, "error": None}
    question = "MATCH (o:Observation {quarantine_reason: 'tampered'}) RETURN count(o)"
    assert answer(stores, question) == [[refused(stores)]]
    done = thoth(settings, "ingest", "nightly")
    assert " differ; see `thoth ingest quarantine`" in done.stdout


def test_columns_changed_by_a_later_parser_are_not_reported_as_tampered(
    record: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = parser_version.PARSER_VERSION + 1
    changed = MappingProxyType(
        {later - 1: frozenset[str](), later: frozenset({"observations.rate"})}
    )
    monkeypatch.setattr(parser_version, "CHANGED_COLUMNS", changed)
    change(record, FASTER)
    report = compare(record)
    assert (report.equal, report.outdated) == (True, {"observations.rate": 1})
    change(record, f"UPDATE documents SET parser_version = {later}")
    assert not compare(record).equal
    change(
        record,
        "UPDATE documents SET parser_version = 0",
        "UPDATE observations SET reported_rate = 1 WHERE rate IS NOT NULL",
    )
    assert "observations.reported_rate" in columns(compare(record))


def test_columns_stored_by_an_earlier_release_are_not_reported_as_tampered(
    stores: Stores, tmp_path: Path
) -> None:
    write(tmp_path, inspection_files(status=failed_status("cannot-confine", "no bwrap")))
    ingest_inspections(stores.settings, stores.engine, [str(tmp_path)], SourceLimits())
    earlier = "UPDATE observations SET outcome = 'build_failed', quarantine_reason = NULL"
    change(stores, earlier, "UPDATE documents SET parser_version = 0")
    report = compare(stores)
    assert report.equal
    assert report.outdated == {"observations.outcome": 1, "observations.quarantine_reason": 1}
    change(stores, f"UPDATE documents SET parser_version = {parser_version.PARSER_VERSION}")
    assert columns(compare(stores)) == set(report.outdated)


def test_damaged_advice_report_breaks_no_command_or_request(record: Stores) -> None:
    with record.engine.connect() as connection:
        (head,) = browse_advice(connection, AdviceFilter(), limit=20)
    change(
        record,
        "UPDATE documents SET body = set_byte(body, 40, get_byte(body, 40) # 1)"
        " WHERE kind = 'report'",
    )
    done = thoth(record.settings, "replay", head.advice_id)
    assert (done.returncode, done.stdout) == (1, "")
    assert "is damaged: its body" in done.stderr
    assert "Traceback" not in done.stderr
    with client_of(record.settings, Scope.ADVISE) as client:
        answer = client.get(f"/api/v2/advice/{head.advice_id}/report")
    assert (answer.status_code, answer.json["type"]) == (500, "/problems/internal")
    report = compare(record)
    assert (report.damaged, report.tampered) == (1, 1)
    assert columns(report) == {"documents.body"}


def test_verification_says_how_many_differences_it_does_not_print(record: Stores) -> None:
    change(record, "UPDATE observations SET rate = rate * 2, reported_rate = 1")
    done = thoth(record.settings, "record", "verify", "--replay", "0")
    assert done.returncode == 1
    assert done.stdout.count("observations.") == 20
    assert " more\n" in done.stdout
    url = "https://me:hunter2@host.example/x?token=hunter2"
    change(record, f"UPDATE inspections SET stack_note = '{url}'")
    done = thoth(record.settings, "record", "verify", "--replay", "0", "--all")
    assert done.stdout.count("observations.") > 100
    # No secret is printed.
    assert "host.example" in done.stdout
    quarantined = thoth(record.settings, "ingest", "quarantine").stdout
    assert "hunter2" not in done.stdout + quarantined
