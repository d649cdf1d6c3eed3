"""What indexes list of a request's packages beside what was read, out of the record."""

from __future__ import annotations

from adviser.reports.unfetched_versions import ListedVersions
from graph.engine import Stores
from graph.record.release_details import unread_of
from graph.snapshot import Snapshot


def listed_unread(stores: Stores, snapshot: Snapshot) -> ListedVersions:
    """Versions that nobody has read, of every package of a snapshot; one question."""
    with stores.engine.connect() as connection:
        return unread_of(connection, list(snapshot.revisions))
