"""Projects the record (PostgreSQL) to the graph; the graph can be rebuilt at any time.

Entry point: :func:`graph.projection.sync.sync`. All kinds of nodes and edges are listed in
:mod:`graph.projection.outbox`.
"""

from graph.projection.sync import SyncReport, catch_up, lag, rebuild, sync, sync_few
from graph.projection.verification import ElementDifference, KindReport, VerifyReport, verify

__all__ = [
    "ElementDifference",
    "KindReport",
    "SyncReport",
    "VerifyReport",
    "catch_up",
    "lag",
    "rebuild",
    "sync",
    "sync_few",
    "verify",
]
