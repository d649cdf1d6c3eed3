"""The projection's calls with a test's stores."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from graph.engine import Stores
from graph.projection import SyncReport, VerifyReport, sync, verify
from graph.record.releases import ReleaseDelivery, add_releases
from model.packages.releases import Release

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
