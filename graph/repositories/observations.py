"""What was measured, as the comparison of stacks needs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, any_, select

from common.packages import MEASURED_PACKAGES, distributions_of
from graph.evidence import (
    UNKNOWN_STACK,
    MeasuredObservation,
)
from graph.repositories.affected import texts
from graph.repositories.readings import measured, reading_of, series_of
from graph.tables import (
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
    StackPackage,
)


def measured_observations(
    connection: Connection,
    *,
    indicator: str | None = None,
    hardware: str | None = None,
    keys: Sequence[str] | None = None,
) -> Iterator[MeasuredObservation]:
    """Every measurement that may be compared, streamed, series by series.

    Crashes and quarantined definitions are left out; unstable jobs are marked.

    :param indicator: only this indicator, by name
    :param hardware: only hardware classes whose digest begins so
    :param keys: only these comparison keys
    """
    releases = _releases(connection)
    query = (
        measured()
        .add_columns(IndicatorRow.component, HardwareRow.label.label("hardware_label"))
        .join(HardwareRow, HardwareRow.digest == ObservationRow.hardware_digest)
        .order_by(
            ObservationRow.comparison_key,
            RuntimeEnvironmentRow.python_version,
            ObservationRow.observation_id,
        )
    )
    if indicator is not None:
        query = query.where(IndicatorRow.name == indicator)
    if hardware is not None:
        query = query.where(ObservationRow.hardware_digest.startswith(hardware, autoescape=True))
    if keys is not None:
        query = query.where(ObservationRow.comparison_key == any_(texts(keys)))
    numbers: dict[tuple[str, str | None], int] = {}
    for row in connection.execution_options(yield_per=1000).execute(query):
        series = series_of(row)
        number = numbers.setdefault((series.comparison_key, series.python_version), len(numbers))
        component, version = _component(row.component, releases.get(row.stack_digest, {}))
        yield MeasuredObservation(
            series=series,
            reading=reading_of(row, number, row.stack_digest or UNKNOWN_STACK),
            hardware_label=row.hardware_label,
            component=component,
            component_version=version,
        )


def _component(library: str | None, installed: dict[str, str]) -> tuple[str | None, str | None]:
    """The package of a stack that provides a library, and its version."""
    for package in distributions_of(library):
        if package in installed:
            return package, installed[package]
    return library, None


def _releases(connection: Connection) -> dict[str, dict[str, str]]:
    """Stack digest to the measured libraries that the stack holds, by package name."""
    rows = connection.execute(
        select(StackPackage.stack_digest, PackageVersionRow.name, PackageVersionRow.version)
        .join(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
        .where(
            PackageVersionRow.name.in_(MEASURED_PACKAGES),
            StackPackage.stack_digest.in_(select(InspectionRow.stack_digest)),
        )
    )
    releases: dict[str, dict[str, str]] = defaultdict(dict)
    for stack, name, version in rows:
        releases[stack][name] = version
    return releases
