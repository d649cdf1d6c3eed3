"""Several writers and readers of the same keys, and failures of PostgreSQL in between."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from click.testing import CliRunner
from sqlalchemy import event, text

from adviser.answering.knowledge import GraphSource
from cli.ingest import ingest
from graph.engine import Stores
from graph.projection import sync_few
from graph.record.releases import ReleaseDelivery, add_releases
from graph.verification.run import verify_record
from model.errors import DocumentStoreMismatch, StoreUnavailable
from model.packages.environments import environment
from tests.effort import examples
from tests.factories.inspections import write_stack
from tests.factories.releases import release
from tests.services.commands import row_counts
from tests.services.failing import FAULTS, failing
from tests.services.projection import answer, project, verified
from tests.services.threads import in_threads

pytestmark = pytest.mark.faults

#: With ``--all-examples``, 10,000 operations.
OPERATIONS = examples(10_000)
PACKAGES = tuple(f"package-{number}" for number in range(5))
WHERE = environment("3.11", "linux_x86_64")
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
WRITERS, ADVISERS = 2, 2


def delivery(number: int) -> ReleaseDelivery:
    """What an index said at one moment: the number is in three places of the release."""
    name = PACKAGES[number % len(PACKAGES)]
    delivered = release(
        name,
        "1.0",
        [f"required>={number}"],
        yanked=True,
        yanked_reason=f"operation {number}",
        license=f"license {number}",
    )
    return ReleaseDelivery(delivered, "memory://", FIRST + timedelta(seconds=number))


@pytest.mark.slow
@pytest.mark.timeout(7200)  # 10,000 operations take long on a busy machine
def test_concurrent_writers_lose_no_update_of_a_package(stores: Stores) -> None:
    """Deliveries arrive in any order. The newest of each package must win, for every reader."""
    numbers = list(range(OPERATIONS - OPERATIONS // 10))
    random.Random(5).shuffle(numbers)
    histories: list[list[dict[str, int]]] = [[] for _ in range(ADVISERS)]
    ended = threading.Event()

    def deliver(mine: Sequence[int]) -> None:
        for number in mine:
            with stores.engine.begin() as connection:
                add_releases(connection, stores.settings, [delivery(number)])

    def write_all() -> None:
        try:
            in_threads(*(lambda it=it: deliver(numbers[it::WRITERS]) for it in range(WRITERS)))
        finally:
            ended.set()

    def project_always() -> None:
        while not ended.is_set():
            project(stores)

    def advise(history: list[dict[str, int]]) -> None:
        while not ended.is_set() or len(history) < OPERATIONS // 20:
            snapshot, _ = GraphSource().read(stores, PACKAGES, WHERE)
            seen = {}
            for name in PACKAGES:
                for candidate in snapshot.packages.get(name, ()):
                    number = int((candidate.yanked_reason or "").removeprefix("operation "))
                    (required,) = candidate.requires
                    assert str(required.specifier) == f">={number}", "a torn read"
                    seen[name] = number
            history.append(seen)

    in_threads(write_all, project_always, *(lambda it=it: advise(it) for it in histories))
    newest = {name: max(n for n in numbers if delivery_name(n) == name) for name in PACKAGES}
    with stores.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, yanked_reason, license FROM package_versions"))
        final = {row.name: (row.yanked_reason, row.license) for row in rows if row.yanked_reason}
        documents = connection.scalar(text("SELECT count(*) FROM documents WHERE kind = 'release'"))
    assert final == {it: (f"operation {n}", f"license {n}") for it, n in newest.items()}
    assert documents == len(numbers)
    for history in histories:
        assert len(history) >= OPERATIONS // 20
        for before, after in pairwise(history):
            assert all(after.get(name, -1) >= number for name, number in before.items())
    project(stores)
    assert verified(stores).equal
    assert known_numbers(stores) == newest


def delivery_name(number: int) -> str:
    return PACKAGES[number % len(PACKAGES)]


def known_numbers(stores: Stores) -> dict[str, int]:
    snapshot, _ = GraphSource().read(stores, PACKAGES, WHERE)
    return {
        name: int((snapshot.packages[name][0].yanked_reason or "").removeprefix("operation "))
        for name in PACKAGES
    }


def test_update_during_a_projection_is_projected_as_a_whole(stores: Stores) -> None:
    """The version and its requirements are read by separate queries."""
    before, after = 0, len(PACKAGES)  # of the same package
    pending = [delivery(before), delivery(after)]

    def deliver() -> None:
        with stores.engine.begin() as connection:
            add_releases(connection, stores.settings, [pending.pop(0)])

    def update(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if pending and statement.startswith("SELECT package_versions."):
            deliver()

    deliver()
    event.listen(stores.engine, "after_cursor_execute", update)
    try:
        # The update remains in the outbox.
        assert sync_few(stores.engine, stores.driver, database=stores.database)
    finally:
        event.remove(stores.engine, "after_cursor_execute", update)
    assert not pending
    assert projected_numbers(stores) == [[f"operation {before}", f">={before}"]]
    project(stores)
    assert projected_numbers(stores) == [[f"operation {after}", f">={after}"]]


def projected_numbers(stores: Stores) -> list[list[str]]:
    return answer(
        stores,
        "MATCH (version:PackageVersion)-[edge:REQUIRES]->(:Package)"
        " RETURN version.yanked_reason, edge.specifier",
    )


@pytest.mark.slow
def test_failing_statements_neither_lose_nor_duplicate_rows(stores: Stores, tmp_path: Path) -> None:
    """One statement in ten fails. A run that gives up is repeated, as its message says."""
    count = 60
    for number in range(count):
        name = f"inspection-matmul-{number:08x}"
        write_stack(tmp_path, name, [200.0 + number], {"numpy": f"2.{number % 7}.0"})

    def run() -> Any:
        arguments = ["inspections", str(tmp_path), "--json"]
        return CliRunner().invoke(ingest, arguments, obj=stores.settings)

    runs: list[Any] = []
    with failing(0.1, seed=11) as injected:
        while not runs or runs[-1].exit_code != 0:
            runs.append(run())
            failure = runs[-1].exception
            assert failure is None or isinstance(failure, StoreUnavailable | SystemExit), failure
            assert len(runs) < 200
    assert {*injected} == {*FAULTS}
    project(stores)
    before = row_counts(stores.engine)
    assert before["documents"] == before["inspections"] == before["observations"] == count
    again = run()
    assert again.exit_code == 0, again.output
    assert row_counts(stores.engine) == before
    assert verified(stores).equal
    assert verify_record(stores.settings, stores.engine).equal


@contextmanager
def each_batch_beginning_with(work: Callable[[Any], object]) -> Iterator[None]:
    """Do something with the cursor of each batch before its first statement."""

    def before(_c: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "pg_advisory_xact_lock_shared" in statement:
            work(cursor)

    event.listen(sqlalchemy.Engine, "before_cursor_execute", before)
    try:
        yield
    finally:
        event.remove(sqlalchemy.Engine, "before_cursor_execute", before)


def test_batch_is_stored_again_after_a_transient_failure(stores: Stores, tmp_path: Path) -> None:
    name = "inspection-matmul-0000000a"
    write_stack(tmp_path, name, [200.0], {})
    left = list(FAULTS)
    with each_batch_beginning_with(lambda cursor: left and cursor.execute(left.pop())):
        done = CliRunner().invoke(ingest, ["inspections", str(tmp_path)], obj=stores.settings)
    assert left == []
    assert done.exit_code == 0, done.output
    assert "1 new" in done.output


def is_full(cursor: Any) -> None:
    error = "RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'"
    cursor.execute(f"DO $$ BEGIN {error}; END $$")


def lacks_its_documents(_cursor: Any) -> None:
    raise DocumentStoreMismatch("records/1")


@pytest.mark.parametrize("fault", [is_full, lacks_its_documents])
def test_permanent_database_failure_is_reported_without_a_retry(
    stores: Stores, tmp_path: Path, fault: Callable[[Any], None]
) -> None:
    name = "inspection-matmul-0000000a"
    write_stack(tmp_path, name, [200.0], {})
    attempts = []

    def fail(cursor: Any) -> None:
        attempts.append(cursor)
        fault(cursor)

    with each_batch_beginning_with(fail):
        done = CliRunner().invoke(ingest, ["inspections", str(tmp_path)], obj=stores.settings)
    assert isinstance(done.exception, StoreUnavailable), done.output
    assert len(attempts) == 1
