"""Parses inspection documents of all generations.

Entry points: :func:`parse_inspections` for delivered documents, :func:`parse_stored` for stored
bodies.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

from ingest.inspections.generations import DeliveredInspection, deliveries_of, delivery_of_body
from ingest.inspections.results import UNKNOWN_INDICATOR, observations_of
from ingest.inspections.specification import (
    UNKNOWN,
    InspectionSpecification,
    bare_lock,
    environment_of,
    specification_of,
)
from ingest.personal_data import scrub_text
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.errors import InvalidDocument, Reason
from model.json_documents import digest, digest_bytes
from model.json_fields import MAX_NAME_LENGTH, Fields, Record, inside, relocated
from model.measurements.hardware import Allowance, hardware_class
from model.measurements.inspection import (
    DocumentId,
    Exclusion,
    InspectionDocument,
    Observation,
    Outcome,
    PerformanceIndicator,
    SchemaVersion,
)
from model.measurements.job_stability import is_host_build
from model.packages.native_libraries import bundled_document

#: Reason of a failed build whose status contains no reason.
BUILD_FAILED = "build-failed"

#: Maximum stored characters of a resolver's or compiler's message; the log has all of it.
_LONGEST_MESSAGE = 500
_LONGEST_READ = 2**20
_INT32 = 2**31 - 1


def observation_of_build(
    status: Record, canonical: bytes, specification: InspectionSpecification, now: datetime
) -> Observation:
    """Return the observation of a failed build: stack, reason and times.

    The hardware of a failed build counts as unknown, because builds depend on hardware far less
    than jobs do.

    :param status: ``build/status`` of an inspection
    :param canonical: bytes that identify this attempt
    :raises InvalidDocument: with fields relative to the status
    """
    name, component = specification.script_name or UNKNOWN_INDICATOR, specification.script_component
    indicator = PerformanceIndicator(digest([name, component, None]), name, component, None)
    hardware = hardware_class({}, Allowance())
    job_id = digest_bytes(canonical)
    fields = Fields(status)
    message = fields.text("message", _LONGEST_READ)
    reason = fields.text("reason") or BUILD_FAILED
    exit_code = fields.integer("exit_code", -_INT32, _INT32)
    by_host = is_host_build(reason, message or "")
    if "host_problem" in status:
        by_host = fields.flag("host_problem")
    return Observation(
        observation_id=digest([job_id, 0]),
        job_id=job_id,
        position=0,
        outcome=Outcome.HOST_PROBLEM if by_host else Outcome.BUILD_FAILED,
        exit_code=1 if exit_code is None else exit_code,
        indicator=indicator,
        hardware=hardware,
        environment=environment_of(Fields({}), specification),
        parameters={},
        device=None,
        comparison_key=digest([indicator.indicator_id, {}, None, hardware.digest]),
        quarantine_reason=Exclusion.HOST_PROBLEM if by_host else None,
        failure_reason=reason,
        failure_message=message and message[:_LONGEST_MESSAGE],
        started_at=fields.time("started_at", now),
        ended_at=fields.time("finished_at", now),
    )


def parse_inspections(
    raw: RawDocument, *, now: datetime | None = None
) -> Iterator[InspectionDocument | RefusedDocument]:
    """Yield the inspections in ``raw`` in their order; most documents contain one.

    An invalid inspection is yielded as a refusal, so that the other inspections of a dictionary are
    stored. Whatever a document contains, no error is raised.

    :param now: later timestamps are refused
    """
    moment = datetime.now(UTC) if now is None else now
    for delivery in deliveries_of(raw):
        if isinstance(delivery, InvalidDocument):
            yield _refusal(raw, delivery)
            continue
        try:
            yield _document(delivery, raw, moment)
        except InvalidDocument as error:
            yield _refusal(raw, error)


def parse_stored(
    body: bytes, schema_version: SchemaVersion, name: str, *, now: datetime | None = None
) -> InspectionDocument:
    """Parse the stored body of an inspection again.

    :param name: name of the inspection; the body of a folder does not contain it
    :param now: later timestamps are refused
    :raises InvalidDocument: if the present parser refuses ``body``
    """
    folder = schema_version is SchemaVersion.DIRECTORY
    raw = RawDocument("", place=name, data=None if folder else body)
    delivery = delivery_of_body(body, schema_version)
    return _document(delivery, raw, datetime.now(UTC) if now is None else now)


def _refusal(raw: RawDocument, error: InvalidDocument) -> RefusedDocument:
    """Refuse a document. The place is the whole document; the field may name a file inside it.

    Private data is removed from the refusal, because its message and field may quote the document.
    """
    message, field = scrub_text(error.message), scrub_text(error.field)
    return RefusedDocument(
        raw.source, InvalidDocument(error.reason, message, field=field, place=raw.place)
    )


def _document(delivery: DeliveredInspection, raw: RawDocument, now: datetime) -> InspectionDocument:
    specification = UNKNOWN
    with inside(delivery.location):
        if delivery.specification is not None:
            specification = specification_of(delivery.specification)
        elif delivery.lock is not None:
            specification = bare_lock(delivery.lock, delivery.pipfile)
        created_at = Fields(delivery.created).time("@created", now)
    observations = _observations(delivery, specification, now)
    document_id = digest_bytes(delivery.body)
    fallback = f"inspection-{document_id.removeprefix('sha256:')[:8]}"
    name = delivery.name or raw.folder_name or fallback
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidDocument(
            Reason.OUT_OF_RANGE,
            f"the name of the inspection is longer than {MAX_NAME_LENGTH} characters",
        )
    starts = [it.started_at or it.ended_at for it in observations]
    return InspectionDocument(
        document_id=DocumentId(document_id),
        schema_version=delivery.schema_version,
        collector=delivery.collector,
        name=name,
        stack=specification.stack,
        stack_note=specification.stack_note,
        created_at=created_at or min((start for start in starts if start), default=None),
        observations=tuple(observations),
        body=delivery.body,
        bundled=None if delivery.bundled is None else bundled_document(delivery.bundled),
    )


def _observations(
    delivery: DeliveredInspection, specification: InspectionSpecification, now: datetime
) -> list[Observation]:
    if (build := delivery.failed_build) is not None:
        attempt = b"[%b,%b]" % (build.canonical, delivery.specification or b"null")
        with inside(build.location):
            return [observation_of_build(build.result, attempt, specification, now)]
    observations: list[Observation] = []
    copies: Counter[bytes] = Counter()
    for job in delivery.jobs:
        copy = copies[job.canonical]
        copies[job.canonical] += 1
        try:
            # The identifier of a job is the same in a later delivery with more jobs.
            parts = [job.canonical, b"%d" % copy]
            if not job.result.keys() & {"hostname", "datetime", "start_datetime", "job_log"}:
                # It could belong to any inspection.
                parts.append(delivery.specification or delivery.lock or b"null")
            job_id = digest_bytes(b"[%b]" % b",".join(parts))
            observations += observations_of(
                job.result, job_id, len(observations), specification, now
            )
        except InvalidDocument as error:
            in_specification = error.field.startswith("$.run.")
            relocated(error, delivery.location if in_specification else job.location)
            raise
    return observations
