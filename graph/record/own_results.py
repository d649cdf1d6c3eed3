"""Our own inspections in the form of results of a benchmark system, read from their observations.

A result covers the jobs of one inspection with the same indicator, parameters and machine. Nothing
is stored for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from sqlalchemy import Connection, Row, text

from common.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Validity,
)
from common.units import Unit
from graph.record.benchmark_results import BenchmarkFilter, ListedResult, pattern_of

#: Key of our own inspections among the benchmark systems.
OWN_SYSTEM = "thoth"

#: Metrics of a group of jobs; the number is part of a result's position.
_METRICS = ("median_elapsed", "median_rate", "median_corrected_rate")

#: Groups of jobs, in the order of their inspections. Grouping inside each inspection lets a page
#: read no further than it needs.
_GROUPS = """
FROM inspections AS inspection
CROSS JOIN LATERAL (
    SELECT min(position) AS position, min(indicator_id) AS indicator_id,
           min(hardware_digest) AS hardware_digest, environment_digest,
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
CROSS JOIN (VALUES (0, 'median_elapsed'), (1, 'median_rate'), (2, 'median_corrected_rate'))
    AS metric (number, name)
WHERE CASE metric.number
    WHEN 0 THEN measured > 0
    WHEN 1 THEN true
    ELSE measured > 0 AND correction IS NOT NULL
END
"""
_VALIDITY = """
CASE WHEN measured = 0 THEN 'failed' WHEN quarantine_reason IS NOT NULL THEN 'invalid'
     ELSE 'valid' END
"""
_POSITION = "jobs.position * 3 + metric.number"
_COLUMNS = f"""
SELECT inspection.document_id AS entry_id, {_POSITION} AS position, inspection.name AS source,
       indicator.name AS benchmark, indicator.component, indicator.script_sha256,
       metric.name AS metric, {_VALIDITY} AS validity, machine.label, machine.identity,
       environment.python_version, environment.cuda_version, environment.os_name,
       environment.os_version, jobs.*, inspection.created_at,
       (SELECT jsonb_object_agg(name, version)
        FROM stack_packages JOIN package_versions USING (purl)
        WHERE stack_packages.stack_digest = inspection.stack_digest) AS packages,
       cpu_of(machine.label, machine.identity) AS cpu
"""
_CONDITIONS = {
    "benchmark": "lower(indicator.name) = lower(:benchmark)",
    "metric": "metric.name = :metric",
    "hardware": "machine.label ILIKE :hardware",
    "validity": f"{_VALIDITY} = :validity",
    "software": """
        (lower(:software) = 'python' AND environment.python_version IS NOT NULL
         OR lower(:software) = 'cuda' AND environment.cuda_version IS NOT NULL
         OR EXISTS (SELECT FROM stack_packages JOIN package_versions USING (purl)
                    WHERE stack_packages.stack_digest = inspection.stack_digest
                      AND package_versions.name = lower(:software)))
    """,
}


def own_results(
    connection: Connection,
    chosen: BenchmarkFilter,
    *,
    after: tuple[str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ListedResult]:
    """Results of our own inspections, ordered by inspection and position.

    :param after: inspection and position of the last result of the previous page
    """
    if chosen.system not in (None, OWN_SYSTEM):
        return
    conditions, values = _filtered(chosen)
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
        yield ListedResult(1, row.entry_id, row[1], _result(row))


_AFTER = f"inspection.document_id > :entry OR {_POSITION} > :position"


def count_own(connection: Connection, chosen: BenchmarkFilter, most: int) -> int:
    """Number of results of our own inspections that match; counts at most ``most``."""
    if chosen.system not in (None, OWN_SYSTEM):
        return 0
    conditions, values = _filtered(chosen)
    query = f"SELECT count(*) FROM (SELECT{_GROUPS}{conditions} LIMIT :most) AS matching"
    return int(connection.execute(text(query), {**values, "most": most}).scalar_one())


def _filtered(chosen: BenchmarkFilter) -> tuple[str, dict[str, Any]]:
    values = {name: getattr(chosen, name) for name in _CONDITIONS}
    values = {name: value for name, value in values.items() if value is not None}
    if "hardware" in values:
        values["hardware"] = pattern_of(values["hardware"])
    if chosen.validity is not None:
        values["validity"] = chosen.validity.value
    return "".join(f" AND {_CONDITIONS[name]}" for name in values), values


def _result(row: Row[Any]) -> BenchmarkResult:
    samples, metric = _measured(row)
    return BenchmarkResult(
        system=OWN_SYSTEM,
        source=row.source,
        benchmark=row.benchmark,
        metric=metric,
        value=median(samples) if samples else None,
        aggregate=Aggregate.MEDIAN,
        parameters=_parameters(row),
        samples=samples,
        validity=Validity(row.validity),
        reason=_reason(row),
        hardware=_hardware(row),
        accelerators=_accelerators(row),
        software=_software(row),
        measured_at=row.started_at or row.created_at,
        files=(MeasuredFile(row.source, row.entry_id.removeprefix("sha256:")),),
    )


def _measured(row: Row[Any]) -> tuple[tuple[float, ...], Metric]:
    """The samples of a metric, and the metric; a script is the definition of its values."""
    definition = row.script_sha256 or f"{row.benchmark} of an unknown script"
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


def _parameters(row: Row[Any]) -> dict[str, str | int | float | bool]:
    parameters = {
        key: it for key, it in row.parameters.items() if isinstance(it, str | int | float | bool)
    }
    stated = {"component": row.component, "device": row.device, "threads": row.threads}
    return {**{key: it for key, it in stated.items() if it is not None}, **parameters}


def _hardware(row: Row[Any]) -> dict[str, str]:
    hardware = {"description": row.label, "cpu": row.cpu}
    gpus = row.identity.get("gpus") or []
    if gpus and "name" in gpus[0]:
        hardware["accelerator"] = gpus[0]["name"]
    return hardware


def _accelerators(row: Row[Any]) -> int | None:
    if row.device == "cpu":
        return 0
    return None if row.device is None else len(row.identity.get("gpus") or []) or None


def _software(row: Row[Any]) -> dict[str, str | None]:
    stated = {
        "python": row.python_version, "cuda": row.cuda_version, row.os_name: row.os_version,
    }  # fmt: skip
    known = {name: version for name, version in stated.items() if name and version}
    packages = row.packages or {}
    measured = {row.component: packages[row.component]} if row.component in packages else {}
    return {**measured, **known, **dict(sorted(packages.items()))}
