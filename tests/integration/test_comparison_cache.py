"""What a service keeps: after a change of the record, only changed series are read."""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import pytest
import sqlalchemy
from flask import Flask
from sqlalchemy import Connection, event, select, text

from adviser.stack_comparison import SeriesEstimates, compare_stacks, judged_groups
from adviser.stacks_document import stacks_document
from api import store_access
from api.http import comparison_cache
from api.http.comparison_cache import ComparisonCache, SeriesFamily, SeriesFilter
from api.store_access import EXTENSION, ServiceStores
from cli.stores import status
from common.settings import Settings
from graph.engine import Stores, relational_engine
from graph.record.freshness import count_change
from graph.record.inspections import accept_observations, refuse_observations
from graph.record.measurements import SeriesMark, components_of, measured_observations, series_marks
from graph.record.observations import browse_series, measured_totals, newest_series
from graph.tables import InspectionRow, ObservationRow
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from model.errors import StoreUnavailable
from model.measurements.evidence import MeasuredObservation
from tests.factories.inspections import MATMUL, measured, printed, write_stack
from tests.services.commands import run_here
from tests.services.databases import new_database

VERSIONS = ("2.0.2", "2.1.0", "2.2.0")
SIZES = (64, 128)


@pytest.fixture
def stores(settings: Settings, relational: sqlalchemy.Engine) -> Stores:
    """PostgreSQL alone; no test reads the graph."""
    return Stores(settings, relational, None)


@pytest.fixture
def read_keys(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each reading of measurements, the number of comparison keys."""
    numbers: list[int] = []

    def noted(connection: Connection, *, keys: set[str]) -> Iterator[MeasuredObservation]:
        numbers.append(len(keys))
        return measured_observations(connection, keys=keys)

    monkeypatch.setattr(comparison_cache, "measured_observations", noted)
    return numbers


def write_inspection(folder: Path, name: str, version: str, size: int) -> None:
    parameters = {**MATMUL, "matrix_size": size}
    rate = 90.0 + VERSIONS.index(version) * 5
    outputs = [printed(measured(rate + it / 10, parameters=parameters)) for it in range(6)]
    write_stack(folder, name, outputs, {"numpy": version}, VERSIONS.index(version))


def deliver(stores: Stores, folder: Path, name: str, version: str, size: int) -> None:
    write_inspection(folder, name, version, size)
    ingest_inspections(stores.settings, stores.engine, [str(folder / name)], SourceLimits())


def deliver_first(settings: Settings, engine: sqlalchemy.Engine, folder: Path) -> None:
    """Ingest three versions of NumPy in two series."""
    for size in SIZES:
        for version in VERSIONS:
            write_inspection(folder, f"inspection-{size}-{version}", version, size)
    ingest_inspections(settings, engine, [str(folder)], SourceLimits())


@pytest.fixture
def delivered(stores: Stores, tmp_path: Path) -> Stores:
    """A record that a test changes."""
    deliver_first(stores.settings, stores.engine, tmp_path / "first")
    return stores


@pytest.fixture(scope="module")
def record(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Settings, sqlalchemy.Engine]]:
    """The same record, for tests that only read."""
    with new_database(postgresql, embedded_settings) as settings:
        engine = relational_engine(settings)
        deliver_first(settings, engine, tmp_path_factory.mktemp("first"))
        yield settings, engine
        engine.dispose()


@pytest.fixture
def connection(record: tuple[Settings, sqlalchemy.Engine]) -> Iterator[Connection]:
    with record[1].connect() as connection:
        yield connection


def documents(family: SeriesFamily) -> list[dict[str, Any]]:
    return family.groups(range(len(family.series)))


def test_comparison_cache_reads_only_the_series_of_a_new_measurement(
    delivered: Stores, read_keys: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marked: list[int | None] = []

    def noted(connection: Connection, keys: Collection[str] | None) -> dict[str, SeriesMark]:
        marked.append(None if keys is None else len(keys))
        return series_marks(connection, keys)

    monkeypatch.setattr(comparison_cache, "series_marks", noted)
    cache = ComparisonCache()
    with delivered.engine.connect() as connection:
        before = documents(cache.family(connection))
        assert documents(cache.family(connection)) == before
    deliver(delivered, tmp_path, "inspection-again", "2.2.0", 64)
    deliver(delivered, tmp_path, "inspection-new", "2.0.2", 256)
    with delivered.engine.connect() as connection:
        after = documents(cache.family(connection))
        seen = list(measured_observations(connection))
    assert after == stacks_document(compare_stacks(seen))["groups"]
    assert (read_keys, marked) == ([2, 2], [None, 2])
    assert [it["recent"]["inspections"] for it in before] == [3, 3]
    assert sorted(it["recent"]["inspections"] for it in after) == [1, 3, 4]


def test_comparison_cache_is_filled_in_batches_at_start_up(
    record: tuple[Settings, sqlalchemy.Engine],
    read_keys: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_access, "_STEP_JOBS", 20)  # a series has 18
    service = ServiceStores(record[0])
    service.read_comparisons()
    assert read_keys == [1, 1]
    with service.reading() as connection:
        assert len(documents(service.comparisons.family(connection))) == 2
    service.close()
    assert read_keys == [1, 1]


def test_comparison_with_another_baseline_reads_no_measurements_again(
    connection: Connection, read_keys: list[int]
) -> None:
    cache = ComparisonCache()
    groups = documents(cache.family(connection))
    seen = list(measured_observations(connection))
    for base in (*(it["stack_digest"] for it in groups[0]["stacks"]), "newest"):
        family = cache.family(connection, base)
        assert documents(family) == stacks_document(compare_stacks(seen, base))["groups"]
    assert read_keys == [2]


def test_component_version_is_taken_from_the_stack(stores: Stores, tmp_path: Path) -> None:
    for component, packages in (
        ("pandas", {"pandas": "2.2.3", "numpy": "2.0.2"}),
        ("sklearn", {"scikit-learn": "1.7.2", "numpy": "2.0.2"}),
        ("Keras_Preprocessing", {"keras-preprocessing": "1.1.2"}),
    ):
        job = printed(measured(9.0), component=component)
        write_stack(tmp_path, f"inspection-{component}", [job] * 5, packages)
    ingest_inspections(stores.settings, stores.engine, [str(tmp_path)], SourceLimits())
    with stores.engine.connect() as connection:
        groups = compare_stacks(measured_observations(connection))
        digests = [str(it.stacks[0].stack_digest) for it in groups]
        totals, labels = measured_totals(connection), components_of(connection, digests)
    shown = {(it.stacks[0].component, it.stacks[0].component_version) for it in groups}
    assert shown == set(labels.values()) == {
        ("pandas", "2.2.3"), ("scikit-learn", "1.7.2"), ("keras-preprocessing", "1.1.2"),
    }  # fmt: skip
    assert totals.versions == 3


def test_status_and_start_page_count_the_same_measurements(delivered: Stores) -> None:
    with delivered.engine.begin() as connection:
        whole = measured_totals(connection)
        stack = connection.scalar(select(InspectionRow.stack_digest).limit(1))
        of_stack = select(InspectionRow.document_id).where(InspectionRow.stack_digest == stack)
        refused = refuse_observations(connection, connection.scalars(of_stack).all())
        totals = measured_totals(connection)
    assert totals.measurements == whole.measurements - refused
    assert totals.stacks == whole.stacks - 1
    shown = json.loads(run_here(status, delivered.settings, "--json").stdout)
    contents = shown["stores"][0]["contents"]
    counted = {name: contents[name] for name in ("measurements", "stacks", "hardware")}
    assert counted.items() <= asdict(totals).items()


def test_series_evicted_from_the_comparison_cache_are_read_again(
    connection: Connection, read_keys: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_cache, "_MOST_JOBS", 20)
    monkeypatch.setattr(comparison_cache, "_MOST_STACKS", 3)
    cache = ComparisonCache()
    groups = documents(cache.family(connection))
    base = groups[0]["stacks"][-1]["stack_digest"]
    first = documents(cache.family(connection, base))
    assert read_keys == [2, 1], "the jobs of one series fit"
    assert documents(cache.family(connection, base)) == first
    assert documents(cache.family(connection)) == groups
    assert read_keys == [2, 1]


def test_number_of_cached_comparison_documents_is_bounded(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison_cache, "_MOST_STACKS", 6)
    judged: list[int] = []

    def noted(series: Sequence[SeriesEstimates], places: Sequence[int]) -> Iterable[Any]:
        judged.append(len(places))
        return judged_groups(series, places)

    monkeypatch.setattr(comparison_cache, "judged_groups", noted)
    cache = ComparisonCache()
    first = cache.family(connection)
    second = cache.family(connection, wanted=SeriesFilter(package="numpy"))
    assert cache.family(connection) is first
    for family in (first, first, second, second, first):
        assert len(documents(family)) == len(SIZES)
    assert judged == [2, 0, 2, 0, 2]


def test_only_selected_series_are_read_into_the_comparison_cache(
    delivered: Stores, read_keys: list[int], tmp_path: Path
) -> None:
    cache = ComparisonCache()
    with delivered.engine.connect() as connection:
        first, second = sorted(
            {it.series.comparison_key for it in measured_observations(connection)}
        )
        before = documents(cache.family(connection, keys=[first]))
        assert [it["comparison_key"] for it in before] == [first]
        documents(cache.family(connection))
    assert read_keys == [1, 1]
    for size in SIZES:
        deliver(delivered, tmp_path, f"inspection-{size}-again", "2.2.0", size)
    with delivered.engine.connect() as connection:
        (after,) = documents(cache.family(connection, keys=[first]))
        assert read_keys == [1, 1, 1]
        assert after["recent"]["inspections"] == 4
        documents(cache.family(connection, keys=[second]))
        assert len(documents(cache.family(connection))) == 2
    assert read_keys == [1, 1, 1, 1]


def test_comparison_cache_repeats_a_failed_read(
    delivered: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ComparisonCache()
    with delivered.engine.connect() as connection:
        documents(cache.family(connection))
    deliver(delivered, tmp_path, "inspection-again", "2.2.0", 64)
    with delivered.engine.connect() as connection:
        with monkeypatch.context() as patch:
            patch.setattr(comparison_cache, "series_progress", _fail)
            with pytest.raises(StoreUnavailable):
                cache.family(connection)
        seen = stacks_document(compare_stacks(measured_observations(connection)))["groups"]
        assert documents(cache.family(connection)) == seen


def _fail(_connection: Connection) -> NoReturn:
    raise StoreUnavailable("PostgreSQL", "it was stopped", "start it")


def test_excluding_or_restoring_a_measurement_updates_its_comparisons(delivered: Stores) -> None:
    cache = ComparisonCache()
    with delivered.engine.connect() as connection:
        before = documents(cache.family(connection))
        query = select(ObservationRow.document_id, ObservationRow.observation_id)
        rows = connection.execute(query).all()
    document = rows[0].document_id
    jobs = [it.observation_id for it in rows if it.document_id == document]
    with delivered.engine.begin() as connection:
        assert refuse_observations(connection, [document]) == len(jobs)
        count_change(connection)
    with delivered.engine.connect() as connection:
        excluded = documents(cache.family(connection))
    assert sorted(len(it["stacks"]) for it in excluded) == [2, 3]
    with delivered.engine.begin() as connection:
        assert accept_observations(connection, document, dict.fromkeys(jobs)) == len(jobs)
        count_change(connection)
    with delivered.engine.connect() as connection:
        assert documents(cache.family(connection)) == before


def test_late_commit_of_a_slow_writer_is_compared(delivered: Stores, tmp_path: Path) -> None:
    """Its transaction begins before others are read, and its rows have that of a savepoint."""
    cache = ComparisonCache()
    with delivered.engine.connect() as connection, delivered.engine.begin() as writer:
        documents(cache.family(connection))
        connection.rollback()
        known = writer.scalar(select(InspectionRow.document_id).limit(1))
        with writer.begin_nested():
            for statement in _COPY:
                writer.execute(text(statement), {"known": known})
        deliver(delivered, tmp_path, "inspection-again", "2.2.0", 64)
        documents(cache.family(connection))
        connection.rollback()
        writer.commit()
        seen = stacks_document(compare_stacks(measured_observations(connection)))["groups"]
        assert documents(cache.family(connection)) == seen
    assert sorted(it["recent"]["inspections"] for it in seen) in ([3, 5], [4, 4])


#: Statements that copy an inspection with its document and its jobs.
_COPY = tuple(
    f"INSERT INTO {table} SELECT (jsonb_populate_record(known, {changes})).*"
    f" FROM {table} AS known WHERE document_id = :known"
    for table, changes in (
        ("documents", "jsonb_build_object('document_id', 'copy', 'ingested_at', now())"),
        ("inspections", "jsonb_build_object('document_id', 'copy')"),
        (
            "observations",
            "jsonb_build_object('document_id', 'copy', 'observation_id', 'copy ' ||"
            " observation_id, 'job_id', 'copy ' || job_id)",
        ),
    )
)


def test_cached_value_is_recomputed_only_after_a_change(stores: Stores) -> None:
    service, computed = ServiceStores(stores.settings), list[int]()

    def value() -> int:
        computed.append(1)
        return len(computed)

    with service.reading() as connection:
        assert [service.record_value(connection, "a", value) for _ in range(3)] == [1, 1, 1]
        assert service.record_value(connection, "b", value) == 2
    with service.writing() as connection:
        count_change(connection)
    with service.reading() as connection:
        assert service.record_value(connection, "a", value) == 3
    service.close()


def test_series_counts_are_cached_between_requests(filled_app: Flask) -> None:
    client, statements = filled_app.test_client(), list[str]()
    first = client.get("/api/v2/reports?limit=7").get_json()

    def note(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    engine = filled_app.extensions[EXTENSION].engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        again = client.get("/api/v2/reports?limit=7").get_json()
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert again == first
    assert first["items"]
    assert statements
    assert not any("observations" in it for it in statements)


def test_page_of_series_counts_measurements_only_of_its_series(filled_app: Flask) -> None:
    counted: list[list[str]] = []

    def note(*arguments: Any) -> None:
        if "GROUP BY" in arguments[2]:
            counted.extend(it for it in arguments[3].values() if isinstance(it, list))

    engine = filled_app.extensions[EXTENSION].engine
    with engine.connect() as connection:
        keys = [it.comparison_key for it in browse_series(connection)]
        event.listen(engine, "before_cursor_execute", note)
        try:
            page = browse_series(connection, after=keys[0], limit=2)
        finally:
            event.remove(engine, "before_cursor_execute", note)
    assert [it.comparison_key for it in page] == keys[1:3]
    assert counted == [keys[1:3]]


def test_listing_of_newest_series_has_a_maximum_length(filled_app: Flask) -> None:
    with filled_app.extensions[EXTENSION].engine.connect() as connection:
        every = newest_series(connection, 50, 2_000)
        assert len(every) == 6
        assert len(newest_series(connection, 2, 2_000)) == 2
        # The series of two stacks have 20 measurements each; those with more are left out.
        assert len(newest_series(connection, 50, 59)) == 2
        assert newest_series(connection, 50, 10) == ()
