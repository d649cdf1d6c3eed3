"""Hardware classes and operating systems that inspections ran on."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

from sqlalchemy import Connection, func, select

from graph.record.postgresql_helpers import columns_for, first_as
from graph.tables import MEASURED, HardwareRow, ObservationRow, RuntimeEnvironmentRow
from model.declared_fields import DIGEST, HARDWARE_DIGEST, public
from model.measurements.evidence import RecordedHardware
from model.measurements.hardware import distinct_labels


def recorded_hardware(connection: Connection) -> list[RecordedHardware]:
    """All hardware classes, by digest."""
    query = select(HardwareRow.digest, HardwareRow.label, HardwareRow.identity)
    return [
        RecordedHardware(*row) for row in connection.execute(query.order_by(HardwareRow.digest))
    ]


def labels_apart(connection: Connection) -> dict[str, str]:
    """Labels of classes with equal labels, with their differences, by digest."""
    row = HardwareRow
    shared = select(row.label).group_by(row.label).having(func.count() > 1)
    query = select(row.digest, row.label, row.identity).where(row.label.in_(shared))
    return distinct_labels(map(tuple, connection.execute(query)))


def jobs_on(connection: Connection) -> dict[str, int]:
    """Number of measured jobs by hardware class (digest); classes without jobs are left out."""
    table = ObservationRow
    query = (
        select(table.hardware_digest, func.count(table.job_id.distinct()).label("jobs"))
        .where(*MEASURED)
        .group_by(table.hardware_digest)
    )
    return {row.hardware_digest: row.jobs for row in connection.execute(query)}


def measurements_on(connection: Connection, digests: Iterable[str], most: int) -> dict[str, int]:
    """Number of measurements of each of these hardware classes (digest), counted up to ``most``."""
    table = ObservationRow
    counts = {}
    for digest in digests:
        measured = select(table.observation_id).where(table.hardware_digest == digest, *MEASURED)
        query = select(func.count()).select_from(measured.limit(most).subquery())
        counts[digest] = connection.scalar(query) or 0
    return counts


@dataclass(frozen=True, slots=True)
class KnownSystem:
    """An operating system and a Python version that an inspection ran on."""

    os_name: str
    os_version: str
    python_version: str


def known_systems(connection: Connection) -> list[KnownSystem]:
    """Distinct systems of inspections, sorted; incomplete systems are left out."""
    table = RuntimeEnvironmentRow
    columns = table.os_name, table.os_version, table.python_version
    query = select(*columns).where(*(it.is_not(None) for it in columns)).distinct()
    rows = connection.execute(query.order_by(*columns))
    return [KnownSystem(str(name), str(version), str(python)) for name, version, python in rows]


@dataclass(frozen=True, slots=True)
class HardwareHead:
    """A hardware class; its digest is computed from ``identity``."""

    digest: Annotated[str, HARDWARE_DIGEST]
    label: Annotated[str, public("Name for people.", "AMD EPYC, 2 processors")]
    identity: Annotated[dict[str, Any], public("Properties that the digest covers.")]
    document_id: Annotated[str, public("First document that names the class.", DIGEST)]


def browse_hardware(
    connection: Connection,
    *,
    like: str | None = None,
    measured: bool | None = None,
    after: str | None = None,
    limit: int,
) -> list[HardwareHead]:
    """Hardware classes in the order of their digests.

    :param like: part of a label, in upper or lower case
    :param measured: whether there is a comparable measurement
    """
    row = HardwareRow
    query = select(*columns_for(HardwareHead, row))
    if like is not None:
        query = query.where(row.label.icontains(like, autoescape=True))
    if measured is not None:
        table = ObservationRow
        of_class = select(table.observation_id).where(
            table.hardware_digest == row.digest, *MEASURED
        )
        query = query.where(of_class.exists() if measured else ~of_class.exists())
    if after is not None:
        query = query.where(row.digest > after)
    rows = connection.execute(query.order_by(row.digest).limit(limit))
    labels = labels_apart(connection)
    heads = [HardwareHead(*it) for it in rows]
    return [replace(it, label=labels.get(it.digest, it.label)) for it in heads]


def hardware_named(connection: Connection, digest: str) -> HardwareHead | None:
    """A hardware class by its digest, or ``None``."""
    row = HardwareRow
    query = select(*columns_for(HardwareHead, row))
    head = first_as(connection, query.where(row.digest == digest), HardwareHead)
    return head and replace(head, label=labels_apart(connection).get(digest, head.label))
