"""Lists results of other benchmark systems, and then results of our own inspections.

A result of our own covers the jobs of one inspection with the same indicator, parameters and
machine. It is read from their observations, and nothing is stored for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from statistics import median
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
    text,
    true,
    tuple_,
)

from graph.record.bulk import columns_of
from graph.record.measurements import installed_component
from graph.tables import (
    BenchmarkEntryPart,
    BenchmarkEntryRow,
    BenchmarkResultRow,
    BenchmarkRow,
    HardwarePartRow,
)
from model.declared_fields import Field
from model.json_documents import canonical_json
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    SharedMetric,
    Validity,
)
from model.measurements.units import Unit

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
    matches, of_result = _FEW, _of_result(chosen)
    # Several conditions may contradict each other.
    if limit is not None and of_result and len(of_result) + len(_of_entry(chosen)) > 1:
        matches = count_foreign(connection, chosen, _FEW)
    if not matches:
        return
    if matches < _FEW:
        query = _few(chosen, after)
    # Few entries match, and no index of results does better.
    elif chosen.benchmark is None and (chosen.hardware or chosen.software) is not None:
        query = _by_entry(chosen, after, limit)
    else:
        query = _matching(chosen, *_OF_ENTRY, *_OF_RESULT)
        query = query.order_by(BenchmarkResultRow.entry_id, BenchmarkResultRow.position)
        query = query if after is None else query.where(after < _PLACE)
    if limit is not None:
        query = query.limit(limit)
    streamed = query.execution_options(yield_per=_READ_AT_ONCE)
    for row in connection.execute(streamed):
        yield _listed(row)


_OF_ENTRY = tuple(getattr(BenchmarkEntryRow, name) for name in ENTRY_COLUMNS)
_OF_RESULT = tuple(getattr(BenchmarkResultRow, name) for name in RESULT_COLUMNS[1:])
_PLACE = tuple_(BenchmarkResultRow.entry_id, BenchmarkResultRow.position)


def _few(chosen: BenchmarkFilter, after: tuple[str, int] | None) -> Select[*tuple[Any, ...]]:
    """The same rows, read in any order.

    With an order and a limit, PostgreSQL expects matches everywhere, and reads all results in order
    until enough match.
    """
    query = _matching(chosen, *_OF_ENTRY, *_OF_RESULT)
    query = query if after is None else query.where(after < _PLACE)
    matching = query.cte("matching").prefix_with("MATERIALIZED")
    return select(*matching.c).order_by(matching.c.entry_id, matching.c.position)


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

    Each entry stores its number of results.
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
        # Entries with a part of this model, however it is spelled: "tesla v100" is "NVIDIA V100".
        model = func.hardware_model(chosen.hardware)
        part, link = HardwarePartRow, BenchmarkEntryPart
        query = select(link.entry_id).join(part, part.part_id == link.part_id)
        conditions.append(
            or_(entry.entry_id.in_(query.where(model != "", part.model.contains(model))), *spelled)
        )
    if chosen.software is not None:
        conditions.append(entry.software.has_key(chosen.software.lower()))
    return conditions


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


#: Key of our own inspections among the benchmark systems.
OWN_SYSTEM = "thoth"

#: Metrics by the definition of the script; those by the definitions of other systems follow.
_METRICS = ("median_elapsed", "median_rate", "median_corrected_rate")
#: A result's position is that of its first job, times this, plus the number of its metric.
_NUMBERS = 64

#: Groups of jobs, in the order of their inspections. Grouping inside each inspection lets a page
#: read no further than it needs.
_GROUPS = """
FROM inspections AS inspection
CROSS JOIN LATERAL (
    SELECT min(position) AS position, min(indicator_id) AS indicator_id,
           min(hardware_digest) AS hardware_digest, environment_digest, comparison_key,
           (array_agg(parameters))[1] AS parameters, min(device) AS device, min(unit) AS unit,
           min(correction) AS correction, min(started_at) AS started_at, min(threads) AS threads,
           array_agg(elapsed_s ORDER BY position) FILTER (WHERE rate IS NOT NULL) AS elapsed,
           array_agg(rate ORDER BY position) FILTER (WHERE rate IS NOT NULL) AS rates,
           array_agg(coalesce(reported_rate, rate) ORDER BY position)
               FILTER (WHERE rate IS NOT NULL) AS reported,
           count(*) AS jobs, count(rate) AS measured, count(unstable_reason) AS unstable,
           min(quarantine_reason) AS quarantine_reason,
           min(coalesce(failure_reason, outcome)) FILTER (WHERE rate IS NULL) AS failure
    FROM observations AS job WHERE job.document_id = inspection.document_id
    GROUP BY comparison_key, environment_digest
) AS jobs
JOIN indicators AS indicator USING (indicator_id)
JOIN hardware AS machine ON machine.digest = jobs.hardware_digest
JOIN runtime_environments AS environment ON environment.digest = jobs.environment_digest
CROSS JOIN LATERAL (
    SELECT number, name, indicator.name AS benchmark
    FROM (VALUES (0, 'median_elapsed'), (1, 'median_rate'), (2, 'median_corrected_rate'))
        AS own (number, name)
    UNION ALL
    SELECT number, name, benchmark
    FROM unnest(
        CAST(:numbers AS integer[]), CAST(:indicators AS text[]), CAST(:parameters AS jsonb[]),
        CAST(:units AS text[]), CAST(:benchmarks AS text[]), CAST(:metrics AS text[])
    ) AS shared (number, indicator, parameters, unit, benchmark, name)
    WHERE shared.indicator = indicator.name AND jobs.parameters @> shared.parameters
      AND (shared.unit IS NULL OR shared.unit = jobs.unit)
) AS metric
WHERE CASE metric.number
    WHEN 1 THEN true
    WHEN 2 THEN measured > 0 AND correction IS NOT NULL
    ELSE measured > 0
END
"""
_VALIDITY = """
CASE WHEN measured = 0 THEN 'failed' WHEN quarantine_reason IS NOT NULL THEN 'invalid'
     ELSE 'valid' END
"""
_POSITION = f"jobs.position * {_NUMBERS} + metric.number"
_COLUMNS = f"""
SELECT inspection.document_id AS entry_id, {_POSITION} AS position, inspection.name AS source,
       metric.benchmark, indicator.name AS indicator, indicator.component,
       indicator.script_sha256, metric.name AS metric, metric.number,
       {_VALIDITY} AS validity, machine.label, machine.identity,
       environment.python_version, environment.cuda_version, environment.os_name,
       environment.os_version, jobs.*, inspection.created_at,
       (SELECT jsonb_object_agg(name, version)
        FROM stack_packages JOIN package_versions USING (purl)
        WHERE stack_packages.stack_digest = inspection.stack_digest) AS packages,
       cpu_of(machine.label, machine.identity) AS cpu,
       CASE WHEN metric.number >= {len(_METRICS)} THEN (
           SELECT jsonb_agg(jsonb_build_array(rate, elapsed_s, repetitions_s) ORDER BY position)
           FROM observations AS job
           WHERE job.document_id = inspection.document_id AND rate IS NOT NULL
             AND job.comparison_key = jobs.comparison_key
             AND job.environment_digest = jobs.environment_digest
       ) END AS timed
"""
_CONDITIONS = {
    "benchmark": "lower(metric.benchmark) = lower(:benchmark)",
    "metric": "metric.name = :metric",
    "hardware": """
        (machine.label ILIKE :hardware
         OR hardware_model(:part) <> '' AND (
             strpos(hardware_model(cpu_of(machine.label, machine.identity)),
                    hardware_model(:part)) > 0
             OR strpos(hardware_model(machine.identity #>> '{gpus,0,name}'),
                       hardware_model(:part)) > 0))
    """,
    "validity": f"{_VALIDITY} = :validity",
    "software": """
        (lower(:software) = 'python' AND environment.python_version IS NOT NULL
         OR lower(:software) = 'cuda' AND environment.cuda_version IS NOT NULL
         OR EXISTS (SELECT FROM stack_packages JOIN package_versions USING (purl)
                    WHERE stack_packages.stack_digest = inspection.stack_digest
                      AND package_versions.name = lower(:software)))
    """,
}


def _own_results(
    connection: Connection,
    chosen: BenchmarkFilter,
    shared: Sequence[SharedMetric] = (),
    *,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ListedResult]:
    """Results of our own inspections, ordered by inspection and position.

    :param shared: metrics by definitions of other systems, which are listed with those systems, too
    :param after: inspection and position of the last result of the previous page
    """
    if chosen.system not in (None, OWN_SYSTEM):
        return
    conditions, values = _filtered(chosen, shared)
    if after is not None:
        # The first condition lets PostgreSQL begin at the inspection.
        conditions += f" AND inspection.document_id >= :entry AND ({_AFTER})"
        values |= {"entry": after[0], "position": after[1]}
    query = f"{_COLUMNS}{_GROUPS}{conditions} ORDER BY inspection.document_id, {_POSITION}"
    if limit is not None:
        query += " LIMIT :limit"
        values["limit"] = limit
    streamed = text(query).execution_options(yield_per=1_000)
    for row in connection.execute(streamed, values):
        yield ListedResult(1, row.entry_id, row[1], _result(row, shared))


_AFTER = f"inspection.document_id > :entry OR {_POSITION} > :position"


def _count_own(
    connection: Connection, chosen: BenchmarkFilter, shared: Sequence[SharedMetric], most: int
) -> int:
    """Number of results of our own inspections that match; counts at most ``most``."""
    if chosen.system not in (None, OWN_SYSTEM):
        return 0
    conditions, values = _filtered(chosen, shared)
    query = f"SELECT count(*) FROM (SELECT{_GROUPS}{conditions} LIMIT :most) AS matching"
    return int(connection.execute(text(query), {**values, "most": most}).scalar_one())


def _filtered(
    chosen: BenchmarkFilter, shared: Sequence[SharedMetric]
) -> tuple[str, dict[str, Any]]:
    values = {name: getattr(chosen, name) for name in _CONDITIONS}
    values = {name: value for name, value in values.items() if value is not None}
    conditions = "".join(f" AND {_CONDITIONS[name]}" for name in values)
    if chosen.hardware is not None:
        values |= {"hardware": pattern_of(chosen.hardware), "part": chosen.hardware}
    if chosen.validity is not None:
        values["validity"] = chosen.validity.value
    values |= {
        "numbers": [len(_METRICS) + number for number in range(len(shared))],
        "indicators": [it.indicator for it in shared],
        "parameters": [canonical_json(dict(it.parameters)).decode() for it in shared],
        "units": [it.unit for it in shared],
        "benchmarks": [it.benchmark for it in shared],
        "metrics": [it.metric.name for it in shared],
    }
    return conditions, values


def _result(row: Row[Any], shared: Sequence[SharedMetric]) -> BenchmarkResult:
    if row.number < len(_METRICS):
        samples, metric = _measured(row)
    else:
        by_definition = shared[row.number - len(_METRICS)]
        metric = by_definition.metric
        samples = tuple(
            by_definition.formula(rate * elapsed_s, repetitions_s or (elapsed_s,))
            for rate, elapsed_s, repetitions_s in row.timed
        )
    parameters = {
        key: it for key, it in row.parameters.items() if isinstance(it, str | int | float | bool)
    }
    stated = {"component": row.component, "device": row.device, "threads": row.threads}
    hardware = {"description": row.label, "cpu": row.cpu}
    gpus = row.identity.get("gpus") or []
    if gpus and "name" in gpus[0]:
        hardware["accelerator"] = gpus[0]["name"]
    return BenchmarkResult(
        system=OWN_SYSTEM,
        source=row.source,
        benchmark=row.benchmark,
        metric=metric,
        value=median(samples) if samples else None,
        aggregate=Aggregate.MEDIAN,
        parameters={**{key: it for key, it in stated.items() if it is not None}, **parameters},
        samples=samples,
        validity=Validity(row.validity),
        reason=_reason(row),
        hardware=hardware,
        accelerators=_accelerators(row),
        software=_software(row),
        measured_at=row.started_at or row.created_at,
        files=(MeasuredFile(row.source, row.entry_id.removeprefix("sha256:")),),
    )


def _measured(row: Row[Any]) -> tuple[tuple[float, ...], Metric]:
    """The samples of a metric, and the metric, whose definition is the script."""
    definition = row.script_sha256 or f"{row.indicator} of an unknown script"
    if row.metric == "median_elapsed":
        samples = tuple(it * 1_000 for it in row.elapsed or () if it is not None)
        return samples, Metric(row.metric, "ms", Direction.LOWER, definition)
    corrected = row.metric == "median_corrected_rate"
    if corrected:
        definition = f"{definition} {row.correction}"
    in_flops = row.unit == Unit.FLOP_PER_SECOND
    rates = (row.rates if corrected else row.reported) or ()
    samples = tuple(it / 1e9 if in_flops else it for it in rates)
    unit = "GFLOPS" if in_flops else row.unit or ""
    return samples, Metric(row.metric, unit, Direction.HIGHER, definition)


def _reason(row: Row[Any]) -> str | None:
    if row.measured == 0:
        return str(row.failure)
    reasons = [row.quarantine_reason] if row.quarantine_reason else []
    if row.measured < row.jobs:
        reasons.append(f"{row.jobs - row.measured} of {row.jobs} jobs failed: {row.failure}")
    if row.unstable:
        reasons.append(f"{row.unstable} of {row.jobs} jobs are unstable")
    return "; ".join(reasons) or None


def _accelerators(row: Row[Any]) -> int | None:
    if row.device == "cpu":
        return 0
    return None if row.device is None else len(row.identity.get("gpus") or []) or None


def _software(row: Row[Any]) -> dict[str, str | None]:
    stated = {"python": row.python_version, "cuda": row.cuda_version, row.os_name: row.os_version}
    known = {name: version for name, version in stated.items() if name and version}
    packages = row.packages or {}
    package, version = installed_component(row.component, packages)
    measured = {package: version} if package and version else {}
    return {**measured, **known, **dict(sorted(packages.items()))}


def benchmark_results(
    connection: Connection,
    chosen: BenchmarkFilter,
    shared: Sequence[SharedMetric] = (),
    *,
    after: tuple[int, str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ListedResult]:
    """Results that match, in a fixed order.

    :param shared: metrics that our own inspections have by definitions of other systems
    :param after: ``own``, ``entry_id`` and ``position`` of the last result of the previous page
    """
    return islice(_results(connection, chosen, shared, after, limit), limit)


def _results(
    connection: Connection,
    chosen: BenchmarkFilter,
    shared: Sequence[SharedMetric],
    after: tuple[int, str, int] | None,
    limit: int | None,
) -> Iterator[ListedResult]:
    begun = after is not None and after[0] == 1
    place = None if after is None else after[1:]
    left = limit
    if not begun and chosen.system != OWN_SYSTEM:
        for listed in foreign_results(connection, chosen, after=place, limit=limit):
            yield listed
            left = None if left is None else left - 1
    if left is None or left > 0:
        after_own = place if begun else None
        yield from _own_results(connection, chosen, shared, after=after_own, limit=left)


def count_results(
    connection: Connection, chosen: BenchmarkFilter, shared: Sequence[SharedMetric], most: int
) -> int:
    """Number of results that match; counts at most ``most``."""
    foreign = count_foreign(connection, chosen, most)
    if foreign == most:
        return most
    return foreign + _count_own(connection, chosen, shared, most - foreign)
