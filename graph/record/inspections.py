"""Stores inspections with outbox entries for the graph, and lists inspections for the API."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

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

from common.settings import Settings
from graph.record.benchmark_entries import enqueue_parts_of
from graph.record.bulk import add_entries, columns_of, copy_new, insert_new
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.postgresql_helpers import columns_for, first_as, matching, texts
from graph.record.stacks import add_stacks
from graph.record.vulnerabilities import share_advisories
from graph.tables import (
    Base,
    Document,
    HardwareRow,
    IndicatorRow,
    InspectionRow,
    ObservationRow,
    RuntimeEnvironmentRow,
)
from model.declared_fields import DIGEST, Field, public
from model.errors import Reason
from model.measurements.inspection import InspectionDocument, Observation, Outcome

#: Values of a row by column.
Row = dict[str, Any]

_MARK_HOST_PROBLEMS = text(
    "UPDATE observations SET outcome = 'host_problem', quarantine_reason = 'host-problem'"
    " WHERE observation_id = ANY(:observations) AND outcome <> 'host_problem'"
    " RETURNING document_id"
).bindparams(bindparam("observations", type_=ARRAY(Text)))
_COUNT_JOBS = text(
    "UPDATE inspections SET job_count = counted.jobs"
    " FROM unnest(:ids, :jobs) AS counted (id, jobs) WHERE document_id = counted.id"
).bindparams(bindparam("ids", type_=ARRAY(Text)), bindparam("jobs", type_=ARRAY(Integer)))
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


@dataclass(frozen=True, slots=True)
class InspectionDelivery:
    """An inspection and the source it was read from."""

    document: InspectionDocument
    source: str


@dataclass(frozen=True, slots=True)
class InspectionsAdded:
    """Identifiers of documents and observations that are new in the record."""

    documents: set[str]
    observations: set[str]


def add_inspections(
    connection: Connection, settings: Settings, deliveries: Sequence[InspectionDelivery]
) -> InspectionsAdded:
    """Store each inspection once; the caller owns the transaction.

    Several documents may contain the same observation; the observation is stored with the first of
    these documents. Earlier releases stored problems of the host as failures of the stack. If a
    document reports such problems, the stored inspection is corrected. The number of SQL
    statements does not depend on the number of deliveries.

    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    share_advisories(connection)
    unique = {delivery.document.document_id: delivery for delivery in deliveries}
    delivered = (
        DeliveredDocument(
            delivery.document.document_id, "inspection", delivery.document.schema_version.value,
            delivery.source, delivery.document.body, delivery.document.collector,
        )
        for delivery in unique.values()
    )  # fmt: skip
    added = add_documents(connection, settings, delivered)
    documents = [it.document for key, it in unique.items() if key in added]
    stacks = ((it.stack, it.document_id) for it in documents if it.stack is not None)
    entries: dict[str, Iterable[str]] = {
        "stack": add_stacks(connection, stacks),
        **_add_circumstances(connection, documents),
    }
    inspections = [_inspection_row(it) for it in documents]
    copy_new(connection, InspectionRow, *_values(InspectionRow, inspections))
    observations = [
        _observation_row(document.document_id, observation)
        for document in documents
        for observation in document.observations
    ]
    # An earlier delivery may have stored some jobs of the same inspection.
    new = copy_new(connection, ObservationRow, *_values(ObservationRow, observations))
    entries["inspection"] = [it.document_id for it in documents]
    entries["corrected_inspection"] = _correct_host_problems(
        connection, [it.document for it in unique.values()]
    )
    add_entries(connection, entries)
    enqueue_parts_of(connection, list(entries["hardware"]))
    return InspectionsAdded(added, set(new))


def derived_rows(document: InspectionDocument) -> Iterator[tuple[type[Base], Row]]:
    """Every row that :func:`add_inspections` writes for ``document``, except those of its stack.

    Rows of hardware, environments and indicators may occur several times. Several documents may
    share such a row. The row's ``document_id`` is then that of the first of these documents.
    """
    yield InspectionRow, _inspection_row(document)
    for observation in document.observations:
        for model, _, row in _circumstances(observation, document.document_id):
            yield model, row
        yield ObservationRow, _observation_row(document.document_id, observation)


def _row(model: type[Base], source: object, **values: Any) -> Row:
    """A row of ``model``; columns missing in ``values`` come from attributes of ``source``."""
    return {
        name: values[name] if name in values else getattr(source, name)
        for name in columns_of(model)
    }


def _inspection_row(document: InspectionDocument) -> Row:
    digest = document.stack.digest if document.stack else None
    return _row(InspectionRow, document, stack_digest=digest)


def _observation_row(document_id: str, observation: Observation) -> Row:
    return _row(
        ObservationRow,
        observation,
        document_id=document_id,
        outcome=observation.outcome.value,
        indicator_id=observation.indicator.indicator_id,
        hardware_digest=observation.hardware.digest,
        environment_digest=observation.environment.digest,
    )


def _circumstances(
    observation: Observation, document_id: str, known: AbstractSet[str] = frozenset()
) -> Iterator[tuple[type[Base], str, Row]]:
    """Rows of an observation's hardware, environment and indicator, with their keys.

    :param known: keys whose rows are left out
    """
    for model, key, source in (
        (HardwareRow, observation.hardware.digest, observation.hardware),
        (RuntimeEnvironmentRow, observation.environment.digest, observation.environment),
        (IndicatorRow, observation.indicator.indicator_id, observation.indicator),
    ):
        if key not in known:
            yield model, key, _row(model, source, document_id=document_id)


def _values(model: type[Base], rows: Iterable[Row]) -> tuple[list[list[Any]], tuple[str, ...]]:
    return [list(row.values()) for row in rows], columns_of(model)


def _add_circumstances(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> dict[str, list[str]]:
    """Add hardware classes, runtime environments and indicators; few of these are distinct.

    :returns: keys of new rows by the kind of their outbox entry
    """
    # Most observations of an inspection share these objects, so each row is built once.
    rows: dict[type[Base], list[Row]] = defaultdict(list)
    known: set[str] = set()
    for document in documents:
        for observation in document.observations:
            for model, key, row in _circumstances(observation, document.document_id, known):
                rows[model].append(row)
                known.add(key)
    return {
        kind: insert_new(connection, model, *_values(model, rows[model]), key)
        for kind, model, key in (
            ("hardware", HardwareRow, "digest"),
            ("runtime_environment", RuntimeEnvironmentRow, "digest"),
            ("indicator", IndicatorRow, "indicator_id"),
        )
    }


def _correct_host_problems(
    connection: Connection, documents: Sequence[InspectionDocument]
) -> set[str]:
    counts = {
        it.document_id: it.job_count
        for it in documents
        if any(job.outcome is Outcome.HOST_PROBLEM for job in it.observations)
    }
    if not counts:
        return set()
    observations = [
        job.observation_id
        for it in documents
        for job in it.observations
        if job.outcome is Outcome.HOST_PROBLEM
    ]
    changed = connection.scalars(_MARK_HOST_PROBLEMS, {"observations": observations}).all()
    if changed:
        ids, jobs = list(counts), list(counts.values())
        connection.execute(_COUNT_JOBS, {"ids": ids, "jobs": jobs})
    return set(changed)


def refuse_observations(connection: Connection, document_ids: Collection[str]) -> int:
    """Quarantine all observations of these documents; the caller owns the transaction.

    :returns: number of observations that were not quarantined for this reason before
    """
    values = {"reason": Reason.TAMPERED.value, "documents": list(document_ids)}
    changed = connection.scalars(_REFUSE, values).all() if document_ids else []
    add_entries(connection, {"corrected_inspection": set(changed)})
    return len(changed)


def refused_documents(connection: Connection, document_ids: Collection[str]) -> set[str]:
    """The documents whose observations are quarantined because the document was tampered with."""
    query = select(ObservationRow.document_id).where(
        ObservationRow.document_id == any_(texts(document_ids)),
        ObservationRow.quarantine_reason == Reason.TAMPERED.value,
    )
    return set(connection.scalars(query.distinct()))


def accept_observations(
    connection: Connection, document_id: str, reasons: Mapping[str, str | None]
) -> int:
    """Undo :func:`refuse_observations` for a document.

    :param reasons: the quarantine reason of each observation according to the document
    :returns: number of observations that were refused
    """
    values = {
        "document": document_id, "observations": list(reasons), "reasons": list(reasons.values()),
    }  # fmt: skip
    changed = connection.scalars(_ACCEPT, values).all()
    add_entries(connection, {"corrected_inspection": set(changed)})
    return len(changed)


@dataclass(frozen=True, slots=True)
class InspectionHead:
    """An inspection with the fields that are shown in lists."""

    document_id: Annotated[str, public("Digest of the document.", DIGEST)]
    name: Annotated[str, public("Name in the document.", "inspection-matmul-1f2e3d4c")]
    schema_version: Annotated[
        str, public("Schema version of the document.", "inspection-directory")
    ]
    collector: Annotated[str | None, public("Program that made the document.", "thoth")]
    stack_digest: Annotated[str | None, public("Digest of the inspected stack; null if unknown.")]
    stack_note: Annotated[
        str | None, public("Why the stack is unknown, or which part of its lock was ignored.")
    ]
    job_count: Annotated[int, public("Number of jobs.", 10)]
    created_at: Annotated[
        datetime | None, public("When the inspection was made, if the document says so.")
    ]
    ingested_at: Annotated[datetime, public("When the document was ingested.")]


@dataclass(frozen=True, slots=True)
class InspectionSummary:
    """Summary of the jobs of an inspection; names and digests are sorted."""

    outcomes: Annotated[dict[str, int], Field("Number of jobs by outcome.", {"measured": 10})]
    indicators: Annotated[tuple[str, ...], Field("Names of the indicators that ran.", ["PiMatmul"])]
    hardware: Annotated[
        tuple[str, ...], Field("Digests of the hardware classes that jobs ran on.", [DIGEST])
    ]


def browse_inspections(
    connection: Connection,
    *,
    stack: str | None = None,
    hardware: str | None = None,
    indicator: str | None = None,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[InspectionHead]:
    """Inspections, the latest first.

    :param stack: digest of the inspected stack
    :param hardware: digest of the hardware class of a job
    :param indicator: name of the indicator of a job
    :param after: time of arrival and identifier of the last inspection on the previous page
    """
    query = select_inspections().where(*matching({InspectionRow.stack_digest: stack}))
    jobs = select(ObservationRow.document_id).where(
        ObservationRow.document_id == InspectionRow.document_id
    )
    if hardware is not None:
        query = query.where(jobs.where(ObservationRow.hardware_digest == hardware).exists())
    if indicator is not None:
        named = select(IndicatorRow.indicator_id).where(IndicatorRow.name == indicator)
        # As values, so that PostgreSQL knows whether its jobs are many or few.
        scripts = texts(connection.scalars(named))
        query = query.where(jobs.where(ObservationRow.indicator_id == any_(scripts)).exists())
    if after is not None:
        position = tuple_(Document.ingested_at, Document.document_id)
        query = query.where(position < tuple_(*after))
    order = Document.ingested_at.desc(), Document.document_id.desc()
    return [InspectionHead(*it) for it in connection.execute(query.order_by(*order).limit(limit))]


def inspection_named(connection: Connection, document_id: str) -> InspectionHead | None:
    """An inspection by the digest of its document, or ``None``."""
    query = select_inspections().where(InspectionRow.document_id == document_id)
    return first_as(connection, query, InspectionHead)


def inspection_summary(connection: Connection, document_id: str) -> InspectionSummary:
    """Summary of the jobs of an inspection."""
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


def select_inspections() -> Select[*tuple[Any, ...]]:
    """The fields of :class:`InspectionHead`."""
    columns = columns_for(
        InspectionHead,
        InspectionRow,
        schema_version=Document.schema_version,
        collector=Document.collector,
        ingested_at=Document.ingested_at,
    )
    return (
        select(*columns)
        .join(Document, Document.document_id == InspectionRow.document_id)
        .where(Document.kind == "inspection")
    )
