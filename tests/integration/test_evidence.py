"""From inspections, releases and advisories in the record to evidence, and to what it says."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Engine, event, insert, select, update

from adviser.scoring.assess import assess
from adviser.scoring.assessment_types import JustificationCode
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.estimates import Method
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from graph.engine import Stores
from graph.record.evidence import INSPECTIONS, EvidenceReader, evidence_for
from graph.record.hardware import browse_hardware
from graph.record.measurements import measured_observations
from graph.record.observations import browse_series
from graph.record.releases import ReleaseDelivery, add_releases
from graph.snapshot_reader import load_snapshot
from graph.tables import AdvisorySource, HardwareRow, ObservationRow
from ingest.advisories.sync import sync_source
from model.measurements.evidence import ADVISORIES, Evidence
from model.packages.environments import environment
from model.packages.snapshot import Snapshot
from tests.factories.advisories import affected, osv, write_archive
from tests.factories.inspections import BEGAN
from tests.factories.releases import release
from tests.services.projection import measure, project

LINUX = environment("3.11", "manylinux_2_28_x86_64")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ASKED = datetime(2025, 12, 31, tzinfo=UTC)
#: A machine that loses a third of its speed over ten blocks, GFLOPS.
FADING = [200.0 * 0.96**block for block in range(10)]
FASTER = [1.06 * rate * (1 + 0.002 * (-1) ** block) for block, rate in enumerate(FADING)]


@pytest.fixture(scope="module")
def filled(shared_stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Two stacks that ran in turns, a third with another package, releases and an advisory."""
    stores, folder = shared_stores, tmp_path_factory.mktemp("evidence")
    measure(
        stores, folder / "inspections",
        (FADING, {"numpy": "2.0.0"}), (FASTER, {"numpy": "2.1.0"}), (FADING, {"jax": "0.4.0"}),
    )  # fmt: skip
    with stores.engine.begin() as connection:
        releases = [release("numpy", version) for version in ("2.0.0", "2.1.0", "2.2.0")]
        deliveries = [ReleaseDelivery(it, "test", ASKED) for it in releases]
        add_releases(connection, stores.settings, deliveries)
    harm = osv(
        "GHSA-aaaa-bbbb-cccc", affected("numpy", ("introduced", "2.2.0")),
        aliases=["CVE-2025-1"], summary="numpy is too new",
    )  # fmt: skip
    sync_source(stores.settings, stores.engine, str(write_archive(folder / "all.zip", [harm])))
    project(stores)
    return stores


def shown(stores: Stores, *roots: str) -> Snapshot:
    return load_snapshot(stores.driver, roots, LINUX, database=stores.database)


def read(stores: Stores, *roots: str) -> tuple[Snapshot, Evidence]:
    snapshot = shown(stores, *roots)
    with stores.engine.connect() as connection:
        return snapshot, evidence_for(connection, snapshot, NOW)


def hardware(stores: Stores) -> str:
    with stores.engine.connect() as connection:
        return str(connection.scalars(select(HardwareRow.digest)).one())


def test_interleaved_measurements_become_a_claim_that_changes_the_score(filled: Stores) -> None:
    snapshot, evidence = read(filled, "numpy")
    found = assess(
        snapshot, evidence, RecommendationType.PERFORMANCE, {"numpy": "2.0.0"},
        Target(hardware(filled), LINUX.python_version),
    )  # fmt: skip
    (claim,) = found.claims
    assert (claim.verdict, claim.method, claim.pairs) == (Verdict.FASTER, Method.PAIRED, 10)
    assert claim.same_hardware
    assert claim.same_python
    assert claim.observed_pct == pytest.approx(6, abs=0.2)
    assert 0.02 < claim.bound < math.log(1.06)
    assert len(claim.evidence) == 20
    with filled.engine.connect() as connection:
        known = set(connection.scalars(select(ObservationRow.observation_id)))
    assert known.issuperset(claim.evidence)
    best = max(found.scores, key=lambda purl: sum(found.scores[purl]))
    assert best == "pkg:pypi/numpy@2.1.0"


def test_evidence_contains_only_requested_packages(filled: Stores) -> None:
    _, evidence = read(filled, "numpy")
    assert len(evidence.stacks) == 2
    assert len(evidence.readings) == 20
    (series,) = evidence.series
    assert (series.indicator, series.python_version) == ("PiMatmul", "3.11")
    assert evidence.hardware == {series.hardware_digest: "Example CPU, 4 CPUs, quota 2, threads 2"}
    assert evidence.readings[0].seen_at is not None
    nothing = read(filled, "unheard-of")[1]
    assert (nothing.readings, nothing.series, dict(nothing.stacks)) == ((), (), {})


def test_hardware_classes_with_equal_labels_are_distinguished(filled: Stores) -> None:
    snapshot = shown(filled, "numpy")
    with filled.engine.connect() as connection:  # without a commit
        own = connection.execute(select(HardwareRow)).one()
        identity = {**own.identity, "stepping": 99}
        twin = {**own._mapping, "digest": "sha256:twin", "identity": identity}
        connection.execute(insert(HardwareRow).values(twin))
        name = f"{own.label} (stepping 6)"
        assert evidence_for(connection, snapshot, NOW).hardware == {own.digest: name}
        labels = {it.digest: it.label for it in browse_hardware(connection, limit=9)}
        assert labels == {own.digest: name, "sha256:twin": f"{own.label} (stepping 99)"}
        assert {it.hardware_label for it in measured_observations(connection)} == {name}
        assert {it.hardware_label for it in browse_series(connection)} == {name}


def test_evidence_contains_only_requested_hardware(filled: Stores) -> None:
    snapshot, evidence = read(filled, "numpy")
    with filled.engine.connect() as connection:
        here, elsewhere, nowhere = (
            evidence_for(connection, snapshot, NOW, hardware=it)
            for it in ((hardware(filled),), ("sha256:elsewhere",), ())
        )
    assert here == evidence
    assert elsewhere == nowhere
    assert (nowhere.readings, dict(nowhere.stacks)) == ((), {})


def test_vulnerabilities_are_found_by_every_alias(filled: Stores) -> None:
    snapshot, evidence = read(filled, "numpy")
    (identifier,) = evidence.vulnerabilities
    harm = evidence.vulnerabilities[identifier]
    assert set(harm.aliases) == {"CVE-2025-1", "GHSA-aaaa-bbbb-cccc"}
    assert harm.summary == "numpy is too new"
    strict, lenient = (
        assess(
            snapshot,
            evidence,
            RecommendationType.SECURITY,
            None,
            Target(None, LINUX.python_version),
            allowed=allowed,
        )
        for allowed in ([], ["CVE-2025-1"])
    )
    assert list(strict.refused) == ["pkg:pypi/numpy@2.2.0"]
    assert lenient.refused == {}
    notes = strict.justifications_of({it.purl for it in snapshot.packages["numpy"][:1]})
    assert {it.code for it in notes} >= {JustificationCode.VULNERABLE}


def test_evidence_states_the_date_of_every_source(filled: Stores) -> None:
    sources = read(filled, "numpy")[1].sources
    assert sources["pypi"] == ASKED
    measured = sources[INSPECTIONS]
    assert measured is not None
    assert measured >= BEGAN
    (advisories,) = set(sources) - {"pypi", INSPECTIONS}
    assert advisories.endswith("/all.zip")
    assert sources[advisories] is not None


def test_advisory_source_without_advisories_is_no_evidence(filled: Stores) -> None:
    snapshot = shown(filled, "numpy")
    with filled.engine.connect() as connection:  # without a commit
        connection.execute(update(AdvisorySource).values(advisories=0))
        assert evidence_for(connection, snapshot, NOW).sources[ADVISORIES] is None


def test_evidence_revision_is_stable_within_a_day(filled: Stores) -> None:
    snapshot, _ = read(filled, "numpy")
    morning = datetime(2026, 1, 31, 0, 0, 1, tzinfo=UTC)
    eastern = datetime(2026, 2, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    with filled.engine.connect() as connection:
        first, last, next_day = (
            evidence_for(connection, snapshot, moment)
            for moment in (morning, eastern, morning + timedelta(days=1))
        )
    assert first.as_of == datetime(2026, 1, 31, tzinfo=UTC)
    assert first.revision == last.revision != next_day.revision


def test_number_of_evidence_queries_is_constant(filled: Stores) -> None:
    asked: list[str] = []
    event.listen(filled.engine, "before_cursor_execute", lambda *them: asked.append(them[2]))
    read(filled, "unheard-of")
    few = len(asked)
    assert few == 4
    read(filled, "numpy")
    assert len(asked) - few == 10


def test_evidence_reader_reads_each_package_only_once(filled: Stores) -> None:
    asked: list[str] = []
    snapshot, evidence = read(filled, "numpy")
    reader = EvidenceReader(NOW)
    with filled.engine.connect() as connection:
        first = reader.evidence(connection, snapshot)
        event.listen(filled.engine, "before_cursor_execute", lambda *them: asked.append(them[2]))
        assert reader.evidence(connection, snapshot) is first
        assert not asked
        smaller = replace(snapshot, packages={})
        assert not reader.evidence(connection, smaller).readings
        assert reader.evidence(connection, snapshot) == first == evidence


def test_empty_record_gives_empty_evidence(filled: Stores, relational: Engine) -> None:
    with relational.connect() as connection:
        evidence = evidence_for(connection, shown(filled, "unheard-of"), NOW)
    assert evidence.sources == {ADVISORIES: None, INSPECTIONS: None}
    assert Evidence.from_json(evidence.to_json()) == evidence
