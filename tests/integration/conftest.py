"""Both graph products, a filled record, and waits that suit tests."""

from collections.abc import Iterator
from functools import partial

import pytest

from api.health import checks as health
from common.index import client
from graph import hung_stores
from tests.services.filled import filled, filled_app, filled_client
from tests.services.fixtures import (
    graph_driver,
    graph_settings,
    neo4j_for_tests,
    shared_stores,
    stores_on_each_product,
)
from tests.services.index import Index, package_index
from tests.services.unmigrated import empty
from tests.services.waiting import DEADLINE_S

__all__ = [
    "empty", "filled", "filled_app", "filled_client", "graph_driver", "graph_settings",
    "neo4j_for_tests", "shared_stores", "stores_on_each_product",
]  # fmt: skip


@pytest.fixture
def index() -> Iterator[Index]:
    """``app`` needs ``lib``."""
    with package_index(protected=False, json=True, ranges=True, validators=True) as made:
        for version in ("1.0", "1.1"):
            made.add_wheel("app", version, metadata="Requires-Dist: lib>=1\n")
        made.add_wheel("lib", "2.0")
        yield made


@pytest.fixture(scope="session", autouse=True)
def impatient_clients() -> Iterator[None]:
    """Clients of this process that pause for moments before they ask an index again.

    By default they pause for up to seven seconds in all, which made up half of the time of tests
    with a missing index.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "FetchLimits", partial(client.FetchLimits, pause_s=0.01))
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_services() -> Iterator[None]:
    """Services of this process that wait for minutes before a store counts as down.

    How soon a store answers says how busy the machine is. Tests of stores that do not answer set a
    time of their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(health, "PROBE_TIMEOUT_S", DEADLINE_S)
        patch.setattr(hung_stores, "PROBE_S", DEADLINE_S)
        yield
