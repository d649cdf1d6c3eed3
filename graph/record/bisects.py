"""Searches of ``thoth bisect``: written after each block, so that others can follow them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import Connection, func, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from graph.record.postgresql_helpers import matching, texts
from graph.tables import BisectRow
from model.declared_fields import HARDWARE_DIGEST, HARDWARE_LABEL, INDICATOR, PARAMETERS, Field


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisect:
    """A call of ``thoth bisect``, which searches one series, or two between locks.

    :param others: further requirements of every stack
    :param command: continues the search
    :param searches: as :func:`adviser.bisect.series.search_document` makes them, in order
    """

    bisect_id: Annotated[str, Field("Identifier of the search.", "bisect-0123456789abcdef")]
    subjects: Annotated[
        Sequence[str], Field("A requirement, or the names of two locks.", ["numpy>=1.24,<2.4"])
    ]
    packages: Annotated[Sequence[str], Field("Packages whose releases were searched.", ["numpy"])]
    indicator: Annotated[str, INDICATOR]
    parameters: Annotated[Mapping[str, str], PARAMETERS]
    others: Sequence[str]
    python_version: str | None
    index_name: str
    hardware_digest: Annotated[str, HARDWARE_DIGEST]
    hardware_label: Annotated[str, HARDWARE_LABEL]
    command: str
    state: str
    reason: Annotated[str | None, Field("Why the command ended before the search did.")] = None
    jobs: Annotated[int, Field("Number of measured jobs.", 44)] = 0
    max_jobs: Annotated[int, Field("Limit of this number.", 200)]
    searches: Sequence[Mapping[str, Any]] = ()
    started_at: Annotated[datetime, Field("Start of the first run.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBisect(Bisect):
    """A search with the columns that PostgreSQL adds.

    :param updated_at: when its state was last written
    """

    updated_at: datetime


@dataclass(frozen=True, slots=True)
class BisectFilter:
    """Filter for searches; a field that is ``None`` matches all of them."""

    package: Annotated[
        str | None, Field("Name of a package whose releases were searched.", "numpy")
    ] = None
    indicator: Annotated[str | None, INDICATOR] = None
    state: str | None = None
    hardware: Annotated[str | None, HARDWARE_DIGEST] = None


_OF_BISECT = tuple(field.name for field in fields(RecordedBisect))


def write_bisect(connection: Connection, bisect: Bisect) -> None:
    """Store the state of a search; writing it again changes only the time."""
    values = asdict(bisect)
    statement = insert(BisectRow).values(**values)
    changed = {name: statement.excluded[name] for name in values.keys() - {"bisect_id"}}
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["bisect_id"],
            set_={**changed, "started_at": BisectRow.started_at, "updated_at": func.now()},
        )
    )


def browse_bisects(
    connection: Connection,
    wanted: BisectFilter,
    *,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[RecordedBisect]:
    """Searches, last started first.

    :param after: start and identifier of the last search on the previous page
    """
    row = BisectRow
    values = {
        row.indicator: wanted.indicator,
        row.state: wanted.state,
        row.hardware_digest: wanted.hardware,
    }
    query = select(*(getattr(row, name) for name in _OF_BISECT)).where(*matching(values))
    if wanted.package is not None:
        query = query.where(row.packages.op("@>")(texts([wanted.package])))
    if after is not None:
        query = query.where(tuple_(row.started_at, row.bisect_id) < tuple_(*after))
    newest_first = query.order_by(row.started_at.desc(), row.bisect_id.desc()).limit(limit)
    return [RecordedBisect(**it._mapping) for it in connection.execute(newest_first)]


def bisect_named(connection: Connection, bisect_id: str) -> RecordedBisect | None:
    """A search by its identifier, or ``None``."""
    query = select(*(getattr(BisectRow, name) for name in _OF_BISECT))
    row = connection.execute(query.where(BisectRow.bisect_id == bisect_id)).one_or_none()
    return None if row is None else RecordedBisect(**row._mapping)
