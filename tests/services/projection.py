"""The projection's calls with a test's stores."""

from __future__ import annotations

from typing import Any

from graph.engine import Stores
from graph.projection import SyncReport, VerifyReport, sync, verify


def project(stores: Stores, **options: Any) -> SyncReport:
    return sync(stores.engine, stores.driver, database=stores.database, **options)


def verified(stores: Stores) -> VerifyReport:
    return verify(stores.engine, stores.driver, database=stores.database)


def answer(stores: Stores, query: str, **parameters: Any) -> list[list[Any]]:
    with stores.driver.session(database=stores.database) as session:
        return [record.values() for record in session.run(query, parameters)]
