"""Inspections into the record: rows and their outbox entries in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    Connection,
    Integer,
    Select,
    Text,
    any_,
    bindparam,
    func,
    select,
    text,
    tuple_,
)

from common.inspection import (
    Hardware,
    Indicator,
    InspectionDocument,
    Observation,
    Outcome,
    RuntimeEnvironment,
)
from common.reasons import Reason
from common.settings import Settings
from graph.record.affected_versions import share_advisories
from graph.record.bulk import (
    copy_new,
    copy_rows,
    insert_new,
)
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.packages import add_entries
from graph.record.postgresql import texts
from graph.record.stacks import add_stacks
from graph.tables import (
    Base,
    Document,
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
class InspectionDelivery:
    """An inspection and where it was read from."""

    document: InspectionDocument
    source: str


@dataclass(frozen=True, slots=True)
class InspectionsAdded:
    """What the record did not have before, by identifier."""

    documents: set[str]
    observations: set[str]


def add_inspections(
    connection: Connection, settings: Settings, deliveries: Sequence[InspectionDelivery]
) -> InspectionsAdded:
    """Store each inspection once; the caller owns the transaction.

    Of inspections that were stored before, problems of the host are set right: earlier releases
    stored them as failures of the stack.

    Whatever the number of deliveries, the number of statements is the same.

    Different documents may hold the same observations, which are stored with the first of them.

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
    entries = [*_add_stacks(connection, documents), *_add_circumstances(connection, documents)]
    observations = _add_measurements(connection, documents)
    entries += [
        *_entries("inspection", (it.document_id for it in documents)),
        *_set_host_problems_right(connection, [it.document for it in unique.values()]),
    ]
    outbox = table_of(OutboxEntry)
    copy_rows(connection, outbox.name, outbox, entries, ("kind", "key"))
    return InspectionsAdded(added, set(observations))


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


def _add_measurements(connection: Connection, documents: Sequence[InspectionDocument]) -> list[str]:
    """Add inspections and their observations; returns the identifiers of new observations."""
    copy_new(connection, InspectionRow, [*map(_inspection_row, documents)], _INSPECTION_COLUMNS)
    # Jobs of a smaller delivery of the same inspection are there already.
    return copy_new(
        connection, ObservationRow,
        [_observation_row(document.document_id, seen)
         for document in documents for seen in document.observations],
        _OBSERVATION_COLUMNS,
    )  # fmt: skip


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


_REFUSE = text(
    "UPDATE observations SET quarantine_reason = :reason"
    " WHERE document_id = ANY(:documents) AND quarantine_reason IS DISTINCT FROM :reason"
    " RETURNING document_id"
)

_ACCEPT = text(
    "UPDATE observations SET quarantine_reason = new.reason"
    " FROM unnest(:observations, :reasons) AS new (observation_id, reason)"
    " WHERE observations.observation_id = new.observation_id AND document_id = :document"
    " AND quarantine_reason = 'tampered'"
    " RETURNING document_id"
).bindparams(bindparam("observations", type_=ARRAY(Text)), bindparam("reasons", type_=ARRAY(Text)))


def refuse_observations(connection: Connection, document_ids: Collection[str]) -> int:
    """Have no observation of these documents count; the caller owns the transaction.

    :returns: how many counted until now, or were refused for another reason
    """
    values = {"reason": Reason.TAMPERED.value, "documents": list(document_ids)}
    changed = connection.scalars(_REFUSE, values).all() if document_ids else []
    _tell(connection, changed)
    return len(changed)


def refused_documents(connection: Connection, document_ids: Collection[str]) -> set[str]:
    """Those of some documents that have refused observations."""
    query = select(ObservationRow.document_id).where(
        ObservationRow.document_id == any_(texts(document_ids)),
        ObservationRow.quarantine_reason == Reason.TAMPERED.value,
    )
    return set(connection.scalars(query.distinct()))


def accept_observations(
    connection: Connection, document_id: str, reasons: Mapping[str, str | None]
) -> int:
    """Have the observations of a document count again as it says.

    :param reasons: by observation, why nothing is compared with it, if there is a reason
    :returns: how many were refused until now
    """
    values = {
        "document": document_id, "observations": list(reasons), "reasons": list(reasons.values()),
    }  # fmt: skip
    changed = connection.scalars(_ACCEPT, values).all()
    _tell(connection, changed)
    return len(changed)


def _tell(connection: Connection, document_ids: Iterable[str]) -> None:
    """Have the graph follow."""
    if changed := set(document_ids):
        add_entries(connection, {"corrected_inspection": changed})


@dataclass(frozen=True, slots=True)
class InspectionHead:
    """One stack, tried by a number of jobs.

    :param stack_digest: ``None`` where the stack is not known, then ``stack_note`` says why
    :param created_at: when the document was made, as it says; ``None`` if it does not
    """

    document_id: str
    name: str
    schema_version: str
    stack_digest: str | None
    stack_note: str | None
    job_count: int
    created_at: datetime | None
    ingested_at: datetime


@dataclass(frozen=True, slots=True)
class InspectionSummary:
    """What the jobs of an inspection came to.

    :param outcomes: jobs by how they ended
    :param indicators: names of those that ran, sorted
    :param hardware: digests of the classes that they ran on, sorted
    """

    outcomes: dict[str, int]
    indicators: tuple[str, ...]
    hardware: tuple[str, ...]


def browse_inspections(
    connection: Connection,
    *,
    stack: str | None = None,
    hardware: str | None = None,
    indicator: str | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[InspectionHead]:
    """Inspections, those first that came last.

    :param stack: digest of the stack that was tried
    :param hardware: digest of a class that a job ran on
    :param indicator: name of one that a job ran
    :param after: when the last one before came, and its identifier
    """
    query = _inspections()
    if stack is not None:
        query = query.where(InspectionRow.stack_digest == stack)
    seen = select(ObservationRow.document_id).where(
        ObservationRow.document_id == InspectionRow.document_id
    )
    if hardware is not None:
        query = query.where(seen.where(ObservationRow.hardware_digest == hardware).exists())
    if indicator is not None:
        named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == indicator)
        query = query.where(seen.where(ObservationRow.indicator_id.in_(named)).exists())
    place = tuple_(Document.ingested_at, Document.document_id)
    if after is not None:
        query = query.where(place < tuple_(*after))
    order = Document.ingested_at.desc(), Document.document_id.desc()
    return [InspectionHead(*it) for it in connection.execute(query.order_by(*order).limit(limit))]


def inspection_named(connection: Connection, document_id: str) -> InspectionHead | None:
    """An inspection by the digest of its document, or ``None``."""
    query = _inspections().where(InspectionRow.document_id == document_id)
    found = connection.execute(query).one_or_none()
    return None if found is None else InspectionHead(*found)


def inspection_summary(connection: Connection, document_id: str) -> InspectionSummary:
    """What the jobs of an inspection came to."""
    row = ObservationRow
    rows = connection.execute(
        select(row.outcome, IndicatorRow.name, row.hardware_digest, func.count())
        .join(IndicatorRow, IndicatorRow.indicator_id == row.indicator_id)
        .where(row.document_id == document_id)
        .group_by(row.outcome, IndicatorRow.name, row.hardware_digest)
        .order_by(row.outcome)
    ).all()
    outcomes: dict[str, int] = {}
    for outcome, _, _, count in rows:
        outcomes[outcome] = outcomes.get(outcome, 0) + count
    return InspectionSummary(
        outcomes, tuple(sorted({it[1] for it in rows})), tuple(sorted({it[2] for it in rows}))
    )


def _inspections() -> Select[*tuple[Any, ...]]:
    row = InspectionRow
    return (
        select(
            row.document_id, row.name, Document.schema_version, row.stack_digest, row.stack_note,
            row.job_count, row.created_at, Document.ingested_at,
        )
        .join(Document, Document.document_id == row.document_id)
        .where(Document.kind == "inspection")
    )  # fmt: skip
