"""Both graph products, a filled record, and indexes that are asked again at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from common.index import client
from tests.services.filled import filled, filled_app
from tests.services.fixtures import graph_driver, graph_settings, neo4j_for_tests
from tests.services.unmigrated import empty

__all__ = ["empty", "filled", "filled_app", "graph_driver", "graph_settings", "neo4j_for_tests"]


@pytest.fixture(scope="session", autouse=True)
def impatient_clients() -> Iterator[None]:
    """Clients of this process that pause for moments before they ask an index again.

    By default they pause for up to seven seconds in all, which made up half of the time of tests
    with a missing index.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "FetchLimits", partial(client.FetchLimits, pause_s=0.01))
        yield
