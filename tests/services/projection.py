"""What stores of a test take in, and how it is projected to the graph."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import select

from cli.ingest import ingest
from graph.engine import Stores
from graph.projection import SyncReport, VerifyReport, sync, verify
from graph.record.releases import ReleaseDelivery, add_releases
from graph.tables import HardwareRow
from model.packages.releases import Release
from tests.factories.inspections import write_stack
from tests.services.commands import run_here

DELIVERED = datetime(2026, 1, 1, tzinfo=UTC)


def project(stores: Stores, **options: Any) -> SyncReport:
    return sync(stores.engine, stores.driver, database=stores.database, **options)


def verified(stores: Stores) -> VerifyReport:
    return verify(stores.engine, stores.driver, database=stores.database)


def answer(stores: Stores, query: str, **parameters: Any) -> list[list[Any]]:
    with stores.driver.session(database=stores.database) as session:
        return [record.values() for record in session.run(query, parameters)]


def deliver(stores: Stores, releases: Iterable[Release]) -> None:
    """Record releases and project them."""
    with stores.engine.begin() as connection:
        deliveries = [ReleaseDelivery(it, "test", DELIVERED) for it in releases]
        add_releases(connection, stores.settings, deliveries)
    sync(stores.engine, stores.driver, database=stores.database)


def measure(stores: Stores, folder: Path, *stacks: tuple[Sequence[Any], Mapping[str, str]]) -> str:
    """Ingest stacks that ran in turns, given by the rates of their jobs and their packages.

    :returns: digest of their hardware class
    """
    for turn, (outputs, packages) in enumerate(stacks):
        write_stack(folder, f"inspection-matmul-{turn:08x}", outputs, packages, turn)
    done = run_here(ingest, stores.settings, "inspections", str(folder))
    assert done.exit_code == 0, done.stderr
    with stores.engine.connect() as connection:
        return str(connection.scalars(select(HardwareRow.digest)).one())
