"""Changes of performance: adds entries to their list, which are never edited, and reads them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from sqlalchemy import Connection, Row, Select, func, select
from sqlalchemy.dialects.postgresql import insert

from graph.record.events import EventKind, record_event
from graph.record.evidence import recorded_bundled
from graph.record.postgresql_helpers import AdvisoryLock, lock_transaction, matching
from graph.tables import ChangeLookRow, ChangeRow
from model.changes import ChangeEvent, ChangeKind, ChangeLook, PerformanceChange, RecordedChange
from model.declared_fields import (
    DIGEST,
    Field,
)
from model.packages.native_libraries import bundled_changes

#: Changes in older measurements get no event: ingesting years of them must send no notices.
_NEWS = timedelta(days=14)
_NAMES = tuple(field.name for field in fields(PerformanceChange))
_RECORDED = (*_NAMES, "number", "recorded_at")


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """Filter for changes; a field that is ``None`` matches all of them."""

    since: Annotated[
        datetime | None, Field("Only entries from this time on.", "2026-01-01T00:00:00+00:00")
    ] = None
    package: Annotated[str | None, Field("Name of the package.", "numpy")] = None
    kind: Annotated[
        str | None, Field("What changed: a release or a machine.", values=ChangeKind)
    ] = None
    event: Annotated[
        str | None, Field("What the entry says about the change.", values=ChangeEvent)
    ] = None
    refers_to: Annotated[
        str | None, Field("Only entries about the change with this identifier.", DIGEST)
    ] = None


def lock_changes(connection: Connection) -> None:
    """Let only this transaction add changes, so that its view of earlier entries stays complete."""
    lock_transaction(connection, AdvisoryLock.CHANGES)


def add_changes(
    connection: Connection, entries: Sequence[PerformanceChange], looks: Mapping[str, ChangeLook]
) -> int:
    """Add entries and looks; the caller owns the transaction. Known entries are left as they are.

    :returns: number of new entries
    """
    added = 0
    for entry in entries:
        values = {name: getattr(entry, name) for name in _NAMES} | {
            "kind": entry.kind.value, "event": entry.event.value,
        }  # fmt: skip
        statement = (
            insert(ChangeRow)
            .values(**values)
            .on_conflict_do_nothing(index_elements=["change_id"])
            .returning(ChangeRow.number)
        )
        if connection.scalar(statement) is not None:
            added += 1
            _record_news(connection, entry)
    if looks:
        rows = [{"change_id": key, "looks": it.looks, "jobs": it.jobs} for key, it in looks.items()]
        upsert = insert(ChangeLookRow)
        newer = {name: upsert.excluded[name] for name in ("looks", "jobs")}
        connection.execute(
            upsert.on_conflict_do_update(index_elements=["change_id"], set_=newer), rows
        )
    return added


def _record_news(connection: Connection, entry: PerformanceChange) -> None:
    """Record the event of a new entry, unless the entry only confirms a known change, or is old."""
    recent = entry.seen_at is not None and entry.seen_at > datetime.now(UTC) - _NEWS
    if not recent or entry.event is ChangeEvent.CONFIRMED:
        return
    data = {
        "event": entry.event.value,
        "refers_to": entry.refers_to,
        "package": entry.package,
        "host": entry.host,
        "from_version": entry.from_version,
        "to_version": entry.to_version,
        "indicator": entry.indicator,
        "hardware": entry.hardware_label,
        "verdict": entry.verdict,
        "effect_percent": entry.effect_pct,
        "observed_percent": entry.observed_pct,
        "interval_percent": [entry.interval_low_pct, entry.interval_high_pct],
    }
    record_event(connection, EventKind.CHANGE_RECORDED, entry.change_id, data)


def all_changes(connection: Connection) -> list[RecordedChange]:
    """All entries, oldest first."""
    return [_change(row) for row in connection.execute(_changes().order_by(ChangeRow.number))]


def standing_changes(connection: Connection, packages: Collection[str]) -> list[RecordedChange]:
    """The last entry about each change in these packages, oldest first, without withdrawn ones."""
    row = ChangeRow
    announcement = func.coalesce(row.refers_to, row.change_id)
    latest = (
        select(func.max(row.number)).where(row.package.in_(packages)).group_by(announcement)
    ).scalar_subquery()
    query = _changes().where(row.number.in_(latest), row.event != ChangeEvent.WITHDRAWN.value)
    return [_change(it) for it in connection.execute(query.order_by(row.number))]


def change_looks(connection: Connection) -> dict[str, ChangeLook]:
    """How often each comparison was judged, by identifier of the change."""
    row = ChangeLookRow
    rows = connection.execute(select(row.change_id, row.looks, row.jobs))
    return {key: ChangeLook(looks, jobs) for key, looks, jobs in rows}


def browse_changes(
    connection: Connection, wanted: ChangeFilter, *, after: int | None = None, limit: int
) -> list[RecordedChange]:
    """Entries, newest first.

    :param after: number of the last entry on the previous page
    """
    row = ChangeRow
    values = {row.package: wanted.package, row.kind: wanted.kind, row.event: wanted.event}
    query = _changes().where(*matching(values))
    if wanted.since is not None:
        query = query.where(row.recorded_at >= wanted.since)
    if wanted.refers_to is not None:
        query = query.where(func.coalesce(row.refers_to, row.change_id) == wanted.refers_to)
    if after is not None:
        query = query.where(row.number < after)
    rows = connection.execute(query.order_by(row.number.desc()).limit(limit))
    return _with_bundled(connection, [_change(it) for it in rows])


def change_named(connection: Connection, change_id: str) -> RecordedChange | None:
    """An entry by its identifier, or ``None``."""
    row = connection.execute(_changes().where(ChangeRow.change_id == change_id)).one_or_none()
    return None if row is None else _with_bundled(connection, [_change(row)])[0]


def _with_bundled(
    connection: Connection, changes: Sequence[RecordedChange]
) -> list[RecordedChange]:
    """Add the known bundled libraries of both versions to changes by release."""
    stacks = {stack for it in changes if it.package for stack in (it.from_stack, it.to_stack)}
    bundled = recorded_bundled(connection, stacks)

    def step(change: RecordedChange) -> str | None:
        versions = change.to_version, change.from_version
        return bundled_changes(bundled, change.package, *versions) if change.package else None

    return [replace(it, bundled=step(it)) for it in changes]


def _changes() -> Select[Any]:
    return select(*(getattr(ChangeRow, name) for name in _RECORDED))


def _change(row: Row[Any]) -> RecordedChange:
    values = dict(row._mapping)
    kind, event = ChangeKind(values.pop("kind")), ChangeEvent(values.pop("event"))
    return RecordedChange(kind=kind, event=event, **values)
