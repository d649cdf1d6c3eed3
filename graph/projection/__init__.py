"""The projection of the record (PostgreSQL) to the graph; repeatable, and rebuilt at any time.

Start with :func:`graph.projection.sync.sync`; :mod:`graph.projection.registry` lists all kinds of
nodes and edges.
"""

from graph.projection.sync import SyncReport, lag, rebuild, sync, sync_few
from graph.projection.verify import ElementDifference, KindReport, VerifyReport, verify

__all__ = [
    "ElementDifference",
    "KindReport",
    "SyncReport",
    "VerifyReport",
    "lag",
    "rebuild",
    "sync",
    "sync_few",
    "verify",
]
