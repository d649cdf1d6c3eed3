"""Inspections into the record: rows and their outbox entries in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, Connection, Integer, Text, bindparam, text

from common.inspection import (
    Hardware,
    Indicator,
    InspectionDocument,
    Observation,
    Outcome,
    RuntimeEnvironment,
)
from common.settings import Settings
from graph.repositories.affected import share_advisories
from graph.repositories.bulk import copy_new, copy_rows, insert_new
from graph.repositories.documents import DeliveredDocument, add_documents
from graph.repositories.stacks import add_stacks
from graph.tables import (
    Base,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    OutboxEntry,
    RuntimeEnvironmentRow,
    table_of,
)

_HARDWARE_COLUMNS = ("digest", "label", "identity", "document_id")
_ENVIRONMENT_COLUMNS = (
    "digest", "os_name", "os_version", "python_version", "cuda_version", "base_image",
    "native_packages", "document_id",
)  # fmt: skip
_INDICATOR_COLUMNS = ("indicator_id", "name", "component", "script_sha256", "document_id")
_INSPECTION_COLUMNS = (
    "document_id", "name", "stack_digest", "stack_note", "job_count", "created_at",
)  # fmt: skip
_OBSERVATION_COLUMNS = (
    "observation_id",
    "document_id",
    "job_id",
    "position",
    "outcome",
    "exit_code",
    "indicator_id",
    "hardware_digest",
    "environment_digest",
    "comparison_key",
    "parameters",
    "device",
    "elapsed_s",
    "rate",
    "reported_rate",
    "unit",
    "repetitions_s",
    "correction",
    "quarantine_reason",
    "unstable_reason",
    "failure_reason",
    "failure_message",
    "host",
    "block",
    "turn",
    "steal_share",
    "started_at",
    "ended_at",
    "memory_bytes",
    "user_s",
    "system_s",
    "spread",
    "minor_faults",
    "major_faults",
    "voluntary_switches",
    "involuntary_switches",
    "blocks_read",
    "blocks_written",
    "throttled",
    "swapped",
    "load",
    "launcher",
    "threads",
    "blas",
)


_MARK_HOST_PROBLEMS = text(
    "UPDATE observations SET outcome = 'host_problem', quarantine_reason = 'host-problem'"
    " WHERE observation_id = ANY(:observations) AND outcome <> 'host_problem'"
    " RETURNING document_id"
).bindparams(bindparam("observations", type_=ARRAY(Text)))
_COUNT_JOBS = text(
    "UPDATE inspections SET job_count = counted.jobs"
    " FROM unnest(:ids, :jobs) AS counted (id, jobs) WHERE document_id = counted.id"
).bindparams(bindparam("ids", type_=ARRAY(Text)), bindparam("jobs", type_=ARRAY(Integer)))

#: A row's values by column.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """An inspection and where it was read from."""

    document: InspectionDocument
    source: str


def add_inspections(
    connection: Connection, settings: Settings, deliveries: Sequence[Delivery]
) -> set[str]:
    """Store each inspection once; the caller owns the transaction.

    Of inspections that were stored before, problems of the host are set right: earlier releases
    stored them as failures of the stack.

    Whatever the number of deliveries, the number of statements is the same.

    :returns: the identifiers of the documents that were new
    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    share_advisories(connection)
    unique = {delivery.document.document_id: delivery for delivery in deliveries}
    delivered = (
        DeliveredDocument(
            it.document.document_id, "inspection", it.document.schema_version.value,
            it.source, it.document.body, it.document.collector,
        )
        for it in unique.values()
    )  # fmt: skip
    added = add_documents(connection, settings, delivered)
    documents = [it.document for key, it in unique.items() if key in added]
    entries = [
        *_add_stacks(connection, documents),
        *_add_circumstances(connection, documents),
        *_add_measurements(connection, documents),
        *_set_host_problems_right(connection, [it.document for it in unique.values()]),
    ]
    outbox = table_of(OutboxEntry)
    copy_rows(connection, outbox.name, outbox, entries, ("kind", "key"))
    return added


def _entries(kind: str, keys: Iterable[str]) -> list[tuple[str, str]]:
    return [(kind, key) for key in keys]


def _add_stacks(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> list[tuple[str, str]]:
    new = add_stacks(
        connection, ((it.stack, it.document_id) for it in documents if it.stack is not None)
    )
    return _entries("stack", new)


def _add_circumstances(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> list[tuple[str, str]]:
    """Hardware classes, runtime environments and indicators: few, and met again and again."""
    hardware: dict[str, tuple[Hardware, str]] = {}
    environments: dict[str, tuple[RuntimeEnvironment, str]] = {}
    indicators: dict[str, tuple[Indicator, str]] = {}
    for document in documents:
        origin = document.document_id
        for seen in document.observations:
            hardware.setdefault(seen.hardware.digest, (seen.hardware, origin))
            environments.setdefault(seen.environment.digest, (seen.environment, origin))
            indicators.setdefault(seen.indicator.indicator_id, (seen.indicator, origin))
    new_hardware = insert_new(
        connection, HardwareRow,
        [_hardware_row(it, origin) for it, origin in hardware.values()],
        _HARDWARE_COLUMNS, "digest",
    )  # fmt: skip
    new_environments = insert_new(
        connection, RuntimeEnvironmentRow,
        [_environment_row(it, origin) for it, origin in environments.values()],
        _ENVIRONMENT_COLUMNS, "digest",
    )  # fmt: skip
    new_indicators = insert_new(
        connection, IndicatorRow,
        [_indicator_row(it, origin) for it, origin in indicators.values()],
        _INDICATOR_COLUMNS, "indicator_id",
    )  # fmt: skip
    return [
        *_entries("hardware", new_hardware),
        *_entries("runtime_environment", new_environments),
        *_entries("indicator", new_indicators),
    ]


def derived_rows(document: InspectionDocument) -> Iterator[tuple[type[Base], Row]]:
    """Every row that :func:`add_inspections` makes of ``document``, by column; without its stack.

    Rows of hardware, environments and indicators may come several times, and other documents may
    make the same ones: their ``document_id`` is that of whichever came first.
    """
    origin = document.document_id
    yield InspectionRow, _by_column(_INSPECTION_COLUMNS, _inspection_row(document))
    for seen in document.observations:
        yield HardwareRow, _by_column(_HARDWARE_COLUMNS, _hardware_row(seen.hardware, origin))
        environment = _environment_row(seen.environment, origin)
        yield RuntimeEnvironmentRow, _by_column(_ENVIRONMENT_COLUMNS, environment)
        yield IndicatorRow, _by_column(_INDICATOR_COLUMNS, _indicator_row(seen.indicator, origin))
        yield ObservationRow, _by_column(_OBSERVATION_COLUMNS, _observation_row(origin, seen))


def _by_column(columns: Sequence[str], values: Sequence[Any]) -> Row:
    return dict(zip(columns, values, strict=True))


def _hardware_row(hardware: Hardware, document_id: str) -> tuple[Any, ...]:
    return hardware.digest, hardware.label, hardware.identity, document_id


def _indicator_row(indicator: Indicator, document_id: str) -> tuple[Any, ...]:
    return (
        indicator.indicator_id, indicator.name, indicator.component, indicator.script_sha256,
        document_id,
    )  # fmt: skip


def _inspection_row(it: InspectionDocument) -> tuple[Any, ...]:
    return (
        it.document_id, it.name, it.stack.digest if it.stack else None, it.stack_note,
        it.job_count, it.created_at,
    )  # fmt: skip


def _environment_row(environment: RuntimeEnvironment, document_id: str) -> tuple[Any, ...]:
    return (
        environment.digest, environment.os_name, environment.os_version,
        environment.python_version, environment.cuda_version, environment.base_image,
        environment.native_packages, document_id,
    )  # fmt: skip


def _add_measurements(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> list[tuple[str, str]]:
    new = copy_new(
        connection, InspectionRow, [*map(_inspection_row, documents)], _INSPECTION_COLUMNS
    )
    # Jobs of a smaller delivery of the same inspection are there already.
    copy_new(
        connection, ObservationRow,
        [_observation_row(document.document_id, seen)
         for document in documents for seen in document.observations],
        _OBSERVATION_COLUMNS,
    )  # fmt: skip
    return _entries("inspection", new)


def _set_host_problems_right(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> list[tuple[str, str]]:
    counts = {
        it.document_id: it.job_count
        for it in documents
        if any(seen.outcome is Outcome.HOST_PROBLEM for seen in it.observations)
    }
    if not counts:
        return []
    observations = [
        seen.observation_id
        for it in documents
        for seen in it.observations
        if seen.outcome is Outcome.HOST_PROBLEM
    ]
    changed = connection.scalars(_MARK_HOST_PROBLEMS, {"observations": observations}).all()
    if changed:
        ids, jobs = list(counts), list(counts.values())
        connection.execute(_COUNT_JOBS, {"ids": ids, "jobs": jobs})
    return _entries("corrected_inspection", sorted(set(changed)))


def _observation_row(document_id: str, seen: Observation) -> tuple[Any, ...]:
    return (
        seen.observation_id, document_id, seen.job_id, seen.position, seen.outcome.value,
        seen.exit_code, seen.indicator.indicator_id, seen.hardware.digest,
        seen.environment.digest, seen.comparison_key, seen.parameters, seen.device,
        seen.elapsed_s, seen.rate, seen.reported_rate, seen.unit, seen.repetitions_s,
        seen.correction, seen.quarantine_reason, seen.unstable_reason, seen.failure_reason,
        seen.failure_message, seen.host, seen.block, seen.turn, seen.steal_share,
        seen.started_at, seen.ended_at, seen.memory_bytes, seen.user_s, seen.system_s,
        seen.spread, seen.minor_faults, seen.major_faults, seen.voluntary_switches,
        seen.involuntary_switches, seen.blocks_read, seen.blocks_written, seen.throttled,
        seen.swapped, seen.load, seen.launcher, seen.threads, seen.blas,
    )  # fmt: skip
