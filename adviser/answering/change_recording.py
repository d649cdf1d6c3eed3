"""Adds changes that new measurements show to the list; entry point :func:`record_changes`."""

from datetime import UTC, datetime

from sqlalchemy import Engine

from adviser.changes import new_entries
from graph.record.changes import add_changes, all_changes, change_looks, lock_changes
from graph.record.evidence import EvidenceReader
from graph.record.loop import reference_stacks
from model.changes import PerformanceChange


def record_changes(engine: Engine) -> tuple[PerformanceChange, ...]:
    """Add the changes that all measurements show now, in one transaction.

    Call this after an ingest. Without new measurements it adds nothing, and it may be interrupted
    and repeated at any time.

    :returns: the new entries
    """
    with engine.begin() as connection:
        lock_changes(connection)
        evidence = EvidenceReader(datetime.now(UTC)).all_measured(connection)
        known, looks = all_changes(connection), change_looks(connection)
        update = new_entries(evidence, known, looks, reference_stacks(connection))
        add_changes(connection, update.entries, update.looks)
    return update.entries
