"""What was measured, as the comparison of stacks needs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from common.measurements import Unit
from common.packages import MEASURED_PACKAGES, distributions_of
from graph.tables import (
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    StackPackage,
)


@dataclass(frozen=True, slots=True)
class MeasuredObservation:
    """One measurement of one job, with the stack and the machine it was made on.

    :param component: package that provides the measured library, else the library's own name
    :param rate: in ``unit``
    :param host: digest of the machine; ``None`` where documents do not say
    :param block: jobs of one block on one host ran in turns
    :param component_version: its release in the stack, if that is known
    """

    stack_digest: str | None
    component: str | None
    component_version: str | None
    script_sha256: str | None
    indicator: str
    parameters: dict[str, Any]
    device: str | None
    hardware_digest: str
    hardware_label: str
    comparison_key: str
    job_id: str
    elapsed_s: float | None
    rate: float
    unit: Unit
    repetitions_s: tuple[float, ...]
    unstable_reason: str | None
    host: str | None
    block: str | None


def measured_observations(
    connection: Connection, *, indicator: str | None = None, hardware: str | None = None
) -> Iterator[MeasuredObservation]:
    """Every measurement that may be compared, streamed, in the order of comparison keys.

    Crashes and quarantined definitions are left out; unstable jobs are marked.

    :param indicator: only this indicator, by name
    :param hardware: only hardware classes whose digest begins so
    """
    releases = _releases(connection)
    query = (
        select(
            InspectionRow.stack_digest,
            IndicatorRow.component,
            IndicatorRow.script_sha256,
            IndicatorRow.name.label("indicator"),
            ObservationRow.parameters,
            ObservationRow.device,
            ObservationRow.hardware_digest,
            HardwareRow.label.label("hardware_label"),
            ObservationRow.comparison_key,
            ObservationRow.job_id,
            ObservationRow.elapsed_s,
            ObservationRow.rate,
            ObservationRow.unit,
            ObservationRow.repetitions_s,
            ObservationRow.unstable_reason,
            ObservationRow.host,
            ObservationRow.block,
        )
        .join(InspectionRow, InspectionRow.document_id == ObservationRow.document_id)
        .join(IndicatorRow, IndicatorRow.indicator_id == ObservationRow.indicator_id)
        .join(HardwareRow, HardwareRow.digest == ObservationRow.hardware_digest)
        .where(ObservationRow.outcome == "measured", ObservationRow.quarantine_reason.is_(None))
        .order_by(ObservationRow.comparison_key, ObservationRow.observation_id)
    )
    if indicator is not None:
        query = query.where(IndicatorRow.name == indicator)
    if hardware is not None:
        query = query.where(ObservationRow.hardware_digest.startswith(hardware, autoescape=True))
    for row in connection.execution_options(yield_per=1000).execute(query):
        values = dict(row._mapping)
        values |= {"repetitions_s": tuple(row.repetitions_s), "unit": Unit(row.unit)}
        installed = releases.get(row.stack_digest, {})
        for package in distributions_of(row.component):
            if package in installed:
                values |= {"component": package, "component_version": installed[package]}
                break
        yield MeasuredObservation(**{"component_version": None, **values})


def _releases(connection: Connection) -> dict[str, dict[str, str]]:
    """Stack digest to the measured libraries that the stack holds, by package name."""
    rows = connection.execute(
        select(StackPackage.stack_digest, PackageVersionRow.name, PackageVersionRow.version)
        .join(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
        .where(PackageVersionRow.name.in_(MEASURED_PACKAGES))
    )
    releases: dict[str, dict[str, str]] = defaultdict(dict)
    for stack, name, version in rows:
        releases[stack][name] = version
    return releases
