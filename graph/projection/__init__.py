"""The projection of the record to the graph: safe to repeat, and built anew at any time."""

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
