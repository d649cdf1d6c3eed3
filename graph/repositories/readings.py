"""What was measured, row by row, as every comparison needs it."""

from __future__ import annotations

from statistics import median
from typing import Any

from sqlalchemy import Row, Select, func, select

from common.job_stability import instability
from common.units import Unit
from graph.evidence import Reading, Series
from graph.tables import IndicatorRow, InspectionRow, ObservationRow, RuntimeEnvironmentRow


def measured() -> Select[Any]:
    """Every measurement that may be compared; callers narrow it down and add columns.

    Crashes and quarantined definitions are left out; unstable jobs are not.
    """
    return (
        select(
            ObservationRow.observation_id,
            ObservationRow.document_id,
            ObservationRow.job_id,
            ObservationRow.comparison_key,
            ObservationRow.parameters,
            ObservationRow.device,
            ObservationRow.unit,
            ObservationRow.rate,
            ObservationRow.elapsed_s,
            ObservationRow.repetitions_s,
            ObservationRow.unstable_reason,
            ObservationRow.host,
            ObservationRow.block,
            func.coalesce(
                ObservationRow.ended_at, ObservationRow.started_at, InspectionRow.created_at
            ).label("seen_at"),
            ObservationRow.hardware_digest,
            InspectionRow.stack_digest,
            IndicatorRow.name.label("indicator"),
            IndicatorRow.script_sha256,
            RuntimeEnvironmentRow.python_version,
        )
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
        .join(
            RuntimeEnvironmentRow,
            RuntimeEnvironmentRow.digest == ObservationRow.environment_digest,
        )
        .where(ObservationRow.outcome == "measured", ObservationRow.quarantine_reason.is_(None))
    )


def series_of(row: Row[Any]) -> Series:
    """The series that a row of :func:`measured` is of."""
    return Series(
        comparison_key=row.comparison_key,
        indicator=row.indicator,
        script_sha256=row.script_sha256,
        parameters=row.parameters,
        device=row.device,
        unit=Unit(row.unit),
        hardware_digest=row.hardware_digest,
        python_version=minor(row.python_version),
    )


def reading_of(row: Row[Any], series: int, stack: str) -> Reading:
    """A row of :func:`measured` as a reading; whether its job was stable is judged here."""
    return Reading(
        observation_id=row.observation_id,
        series=series,
        stack=stack,
        document_id=row.document_id,
        job_id=row.job_id,
        rate=_rate(row),
        unstable_reason=row.unstable_reason or instability(row.repetitions_s),
        host=row.host,
        block=row.block,
        seen_at=row.seen_at,
    )


def minor(version: str | None) -> str | None:
    """``3.11`` of ``3.11.7``."""
    return None if version is None else ".".join(version.split(".")[:2])


def _rate(row: Row[Any]) -> float:
    """Of the median repetition where there are any; a script may have reported the mean."""
    if not row.repetitions_s or row.elapsed_s is None:
        return float(row.rate)
    return float(row.rate * row.elapsed_s / median(row.repetitions_s))
