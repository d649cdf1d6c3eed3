"""Lists results of other benchmark systems."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    any_,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)

from graph.record.bulk import columns_of
from graph.tables import (
    BenchmarkEntryPart,
    BenchmarkEntryRow,
    BenchmarkResultRow,
    BenchmarkRow,
    HardwarePartRow,
)
from model.declared_fields import Field
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Validity,
)

#: Results that are read at once; this bounds memory.
_READ_AT_ONCE = 5000
#: Fewer matches than this are found without an order, and then sorted.
_FEW = 1000
#: Those that a reader fills.
ENTRY_COLUMNS = tuple(
    it
    for it in columns_of(BenchmarkEntryRow)
    if it not in {"ingested_at", "result_count", "reader_version"}
)
RESULT_COLUMNS = columns_of(BenchmarkResultRow)


@dataclass(frozen=True, slots=True)
class BenchmarkFilter:
    """Which results to list; ``None`` does not restrict.

    Case does not matter, nor do vendor and punctuation of a processor or an accelerator.
    """

    system: Annotated[
        str | None, Field("Key of the benchmark system; `thoth` for our own inspections.", "thoth")
    ] = None
    benchmark: Annotated[str | None, Field("Name of the benchmark, in any case.", "resnet50")] = (
        None
    )
    metric: Annotated[str | None, Field("Name of the metric.", "median_rate")] = None
    hardware: Annotated[
        str | None, Field("Part of the name of a processor, an accelerator or a machine.", "V100")
    ] = None
    software: Annotated[
        str | None, Field("Name of software that the result names.", "tensorflow")
    ] = None
    validity: Annotated[Validity | None, Field("Validity by the rules of the system.")] = None


@dataclass(frozen=True, slots=True)
class ListedResult:
    """A result and its place in the order of all results.

    :param own: 1 for our own inspections, which follow the results of other systems
    """

    own: int
    entry_id: str
    position: int
    result: BenchmarkResult


def foreign_results(
    connection: Connection,
    chosen: BenchmarkFilter,
    *,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ListedResult]:
    """Results of other systems, ordered by entry and by position within the entry.

    :param after: entry and position of the last result of the previous page
    """
    matches = _FEW
    if limit is not None and _may_be_few(chosen):
        matches = count_foreign(connection, chosen, _FEW)
    if not matches:
        return
    if matches < _FEW:
        query = _few(chosen, after)
    elif _names_parts(chosen):
        query = _by_entry(chosen, after, limit)
    else:
        query = _in_order(chosen, after)
    if limit is not None:
        query = query.limit(limit)
    streamed = query.execution_options(yield_per=_READ_AT_ONCE)
    for row in connection.execute(streamed):
        yield _listed(row)


_OF_ENTRY = tuple(getattr(BenchmarkEntryRow, name) for name in ENTRY_COLUMNS)
_OF_RESULT = tuple(getattr(BenchmarkResultRow, name) for name in RESULT_COLUMNS[1:])
_PLACE = tuple_(BenchmarkResultRow.entry_id, BenchmarkResultRow.position)


def _names_parts(chosen: BenchmarkFilter) -> bool:
    """Whether few entries match, and no index of results does better."""
    return chosen.benchmark is None and (chosen.hardware or chosen.software) is not None


def _may_be_few(chosen: BenchmarkFilter) -> bool:
    """Whether several conditions may contradict each other."""
    return bool(_of_result(chosen)) and len(_of_result(chosen)) + len(_of_entry(chosen)) > 1


def _few(chosen: BenchmarkFilter, after: tuple[str, int] | None) -> Select[*tuple[Any, ...]]:
    """The same rows, found in any order.

    With an order and a limit, PostgreSQL expects matches everywhere, and reads all results in order
    until enough match.
    """
    query = _matching(chosen, *_OF_ENTRY, *_OF_RESULT)
    query = query if after is None else query.where(after < _PLACE)
    matching = query.cte("matching").prefix_with("MATERIALIZED")
    return select(*matching.c).order_by(matching.c.entry_id, matching.c.position)


def _in_order(chosen: BenchmarkFilter, after: tuple[str, int] | None) -> Select[*tuple[Any, ...]]:
    query = _matching(chosen, *_OF_ENTRY, *_OF_RESULT)
    query = query.order_by(BenchmarkResultRow.entry_id, BenchmarkResultRow.position)
    return query if after is None else query.where(after < _PLACE)


def _by_entry(
    chosen: BenchmarkFilter, after: tuple[str, int] | None, limit: int | None
) -> Select[*tuple[Any, ...]]:
    """The same rows, read from each matching entry.

    As a plain join, PostgreSQL reads the results of all entries in order until enough match.
    """
    entry = BenchmarkEntryRow
    results = select(*_OF_RESULT).where(
        BenchmarkResultRow.entry_id == entry.entry_id, *_of_result(chosen)
    )
    query = select(*_OF_ENTRY).where(*_of_entry(chosen))
    if after is not None:
        results = results.where(after < _PLACE)
        query = query.where(entry.entry_id >= after[0])
    inner = results.order_by(BenchmarkResultRow.position).limit(limit).lateral()
    return (
        query.add_columns(*inner.c).join(inner, true()).order_by(entry.entry_id, inner.c.position)
    )


def count_foreign(connection: Connection, chosen: BenchmarkFilter, most: int) -> int:
    """Number of results of other systems that match; counts at most ``most``, if it has to count.

    Entries know how many results they have.
    """
    if _of_result(chosen):
        matching = _matching(chosen, literal(1)).limit(most).subquery()
        query = select(func.count()).select_from(matching)
    else:
        total = func.coalesce(func.sum(BenchmarkEntryRow.result_count), 0)
        query = select(total).where(*_of_entry(chosen))
    return min(most, int(connection.execute(query).scalar_one()))


def _matching(chosen: BenchmarkFilter, *columns: Any) -> Select[*tuple[Any, ...]]:
    entry, result = BenchmarkEntryRow, BenchmarkResultRow
    query = select(*columns).join_from(result, entry, result.entry_id == entry.entry_id)
    return query.where(*_of_result(chosen), *_of_entry(chosen))


def _of_result(chosen: BenchmarkFilter) -> list[ColumnElement[bool]]:
    result = BenchmarkResultRow
    conditions: list[ColumnElement[bool]] = []
    if chosen.benchmark is not None:
        names = select(BenchmarkRow.name).where(
            func.lower(BenchmarkRow.name) == chosen.benchmark.lower()
        )
        if chosen.system is not None:
            names = names.where(BenchmarkRow.system == chosen.system)
        # The array is computed once, so the index of exact names is used.
        conditions.append(result.benchmark == any_(func.array(names.scalar_subquery())))
    if chosen.metric is not None:
        conditions.append(result.metric == chosen.metric)
    if chosen.validity is not None:
        conditions.append(result.validity == chosen.validity.value)
    return conditions


def _of_entry(chosen: BenchmarkFilter) -> list[ColumnElement[bool]]:
    entry = BenchmarkEntryRow
    conditions: list[ColumnElement[bool]] = []
    if chosen.system is not None:
        conditions.append(entry.system == chosen.system)
    if chosen.hardware is not None:
        wanted = pattern_of(chosen.hardware)
        parts = ("accelerator", "cpu", "description")
        spelled = (entry.hardware[it].astext.ilike(wanted) for it in parts)
        conditions.append(or_(entry.entry_id.in_(_having_part(chosen.hardware)), *spelled))
    if chosen.software is not None:
        conditions.append(entry.software.has_key(chosen.software.lower()))
    return conditions


def _having_part(name: str) -> Select[*tuple[Any, ...]]:
    """Entries with a part of this model, however it is spelled: "tesla v100" is "NVIDIA V100"."""
    model = func.hardware_model(name)
    part, link = HardwarePartRow, BenchmarkEntryPart
    query = select(link.entry_id).join(part, part.part_id == link.part_id)
    return query.where(model != "", part.model.contains(model))


def pattern_of(text: str) -> str:
    """A pattern of ILIKE for texts that contain ``text``.

    >>> pattern_of("50%")
    '%50\\\\%%'
    """
    return f"%{_escaped(text)}%"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _listed(row: Row[Any]) -> ListedResult:
    measured_at: datetime | None = row.measured_at
    result = BenchmarkResult(
        system=row.system,
        source=row.source,
        benchmark=row.benchmark,
        metric=Metric(row.metric, row.unit, Direction(row.direction), row.definition),
        value=row.value,
        aggregate=Aggregate(row.aggregate),
        parameters=row.parameters,
        samples=tuple(row.samples),
        validity=Validity(row.validity),
        reason=row.reason,
        hardware=row.hardware,
        accelerators=row.accelerators,
        software=row.software,
        measured_at=measured_at,
        files=tuple(MeasuredFile(it["place"], it["sha256"]) for it in row.files),
    )
    return ListedResult(0, row.entry_id, row.position, result)
