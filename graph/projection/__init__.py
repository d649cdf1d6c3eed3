"""The projection of the record to the graph: safe to repeat, and built anew at any time."""

from graph.projection.sync import SyncReport, lag, rebuild, sync, sync_few
from graph.projection.verify import Difference, KindReport, VerifyReport, verify

__all__ = [
    "Difference",
    "KindReport",
    "SyncReport",
    "VerifyReport",
    "lag",
    "rebuild",
    "sync",
    "sync_few",
    "verify",
]
