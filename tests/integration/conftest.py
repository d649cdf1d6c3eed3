"""Both graph products, for tests that ask for ``graph_settings`` or ``graph_driver``."""

from __future__ import annotations

from tests.services.filled import filled, filled_app
from tests.services.fixtures import graph_driver, graph_settings, neo4j_for_tests

__all__ = ["filled", "filled_app", "graph_driver", "graph_settings", "neo4j_for_tests"]
