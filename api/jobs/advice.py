"""Jobs of the adviser: advice, replays, why-not questions and checks of provenance."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from time import monotonic
from typing import Any

from sqlalchemy import Connection

from adviser.advice_request import StackRequest, parse_dependencies
from adviser.advise import Advice, Resolver
from adviser.answering.answers import metadata, on_hardware, store
from adviser.answering.file_listings import recorded_listings
from adviser.answering.index_resolution import IndexResolution, ResolutionProgress
from adviser.answering.index_selection import called_indexes
from adviser.answering.knowledge import Knowledge, KnowledgeSources, ReadingCallbacks
from adviser.answering.recorded_advice import (
    replay_stored,
    request_in,
    stored_advice,
    why_it_may_differ,
)
from adviser.answering.target_hardware import recorded_target
from adviser.provenance import KnownIndexes, check_lock
from adviser.reports.documents import conflict_document
from adviser.reports.serialization import plain
from adviser.why import ForcedStack, why_not
from api.http.project_files import public_indexes
from api.jobs.queue import PROJECT_SOON
from api.jobs.request_run import WorkerContext, log_for_client, store_result
from api.jobs.stored_requests import AdviceRequest, ProvenanceRequest
from common.index.configuration import configured_indexes
from graph.engine import Stores
from graph.record.advice import report_document_of
from graph.record.analyses import Analysis, set_progress, supersede
from graph.record.hardware import jobs_on, recorded_hardware
from graph.record.postgresql_helpers import commit_unflushed
from ingest.crawl.record_writer import store_read
from model.json_documents import digest_bytes
from model.measurements.evidence import RecordedHardware
from model.packages.candidates import Dependency, IndexesSilent

#: Shortest time between two updates of a request's progress, s.
_UPDATED_EVERY_S = 0.5
#: Fields that identify a processor, by the names that ``thamos`` has for them.
_CPU = {"cpu_family": "family", "cpu_model": "model"}
_PROVENANCE_SCHEMA = "provenance-1"


class JobObserver:
    """Stores the progress of a request and its reads, and logs for the client."""

    def __init__(self, worker: WorkerContext, stores: Stores, analysis: Analysis) -> None:
        self._worker, self._stores = worker, stores
        self._analysis_id = analysis.analysis_id
        self._due = 0.0

    def before_graph(self) -> None:
        """Refuse a graph that was not projected from this record."""
        self._worker.require_own_graph(self._stores)

    @contextmanager
    def reading(self) -> Iterator[ReadingCallbacks]:
        """Store the progress at most once every :data:`_UPDATED_EVERY_S` seconds."""
        self._due = monotonic() + _UPDATED_EVERY_S

        def update(progress: ResolutionProgress) -> None:
            if monotonic() >= self._due:
                self._store(progress)

        yield update, lambda _name, _version: None

    def after_reading(self, resolution: IndexResolution) -> None:
        """Store the data that was read."""
        self._store(resolution.progress)
        if unstored := resolution.listed.unstored():
            store_read(self._stores.settings, self._stores.engine, unstored)
        read = resolution.progress
        log_for_client(
            f"read {read.read:,} of {read.listed:,} listed releases of {read.packages:,} packages;"
            f" rounds: {read.rounds:,}, requests: {read.requests:,}, bytes: {read.bytes_received:,}"
        )
        for name, reason in resolution.unmet().items():
            log_for_client(f"still missing: {name}: {reason}")

    def on_silence(self, error: IndexesSilent) -> None:
        """Have equal requests answered anew."""
        for name, absence in error.absences.items():
            log_for_client(f"still missing: {name}: {absence.message}")
        log_for_client("no index gave a page of a required package: only stored releases count")
        with self._worker.service.writing() as connection:
            supersede(connection, self._analysis_id)

    def _store(self, progress: ResolutionProgress) -> None:
        with self._worker.service.writing() as connection:
            set_progress(connection, self._analysis_id, asdict(progress))
        self._due = monotonic() + _UPDATED_EVERY_S


def worker_knowledge(
    worker: WorkerContext,
    stores: Stores,
    analysis: Analysis,
    request: StackRequest,
    fetch: bool | None,
    more: Iterable[Dependency] = (),
) -> Knowledge:
    """The knowledge for a request of a client.

    :param more: requirements whose packages are read besides those of the request
    :param fetch: as for :meth:`Knowledge.for_request`
    """
    sources = KnowledgeSources(stores, worker.graph, worker.index_memory)
    observer = JobObserver(worker, stores, analysis)
    return Knowledge.for_request(sources, request, fetch, observer, worker.resolver.resolve, more)


def run_advice(worker: WorkerContext, analysis: Analysis, document: dict[str, Any]) -> str:
    """Answer a request and store its report under the analysis' identifier.

    :param document: a stored :class:`AdviceRequest`
    :returns: the identifier of the report's document
    :raises InvalidArgument: if another version of the service stored the request
    """
    request = AdviceRequest.from_document(document)
    with worker.service.stores() as stores:
        with stores.engine.connect() as connection:
            # A worker may have died between the report and the end of the analysis.
            stored = report_document_of(connection, analysis.analysis_id)
        if stored is not None:
            return stored
        stack_request = _on_hardware(stores, request)
        fetch = None if request.may_fetch else False
        known = worker_knowledge(worker, stores, analysis, stack_request, fetch)
        answered = known.answer(advice_id=analysis.analysis_id)

        def also(connection: Connection) -> None:
            commit_unflushed(connection)  # the end of the analysis follows
            worker.service.queue.enqueue(connection, PROJECT_SOON)
            if answered.unread:
                supersede(connection, analysis.analysis_id)

        report = store(stores, answered, also)
    result = answered.report["result"]
    search = result["report"]["search"]
    log_for_client(
        f"{search['candidates']} versions may be chosen, {search['refused']} are refused by rules"
    )
    if stack_request.options.debug:
        for step, seconds in answered.timings.items():
            log_for_client(f"{step.removesuffix('_s')}: {seconds:.3f} s")
    status = result["report"]["certificate"]["status"]
    log_for_client(f"{status}: {result['error_msg']}" if result["error"] else status)
    return report


def _on_hardware(stores: Stores, request: AdviceRequest) -> StackRequest:
    """Return the adviser's request with its hardware class, never with the worker's own class."""
    if request.hardware_prefix is not None:
        return on_hardware(stores, request.asked, request.hardware_prefix)
    if not request.described_hardware:
        return request.asked
    with stores.engine.connect() as connection:
        recorded_classes, jobs = recorded_hardware(connection), jobs_on(connection)
    digest = matching_hardware(recorded_classes, jobs, request.described_hardware)
    if digest is None:
        return request.asked
    target = recorded_target(digest, recorded_classes)
    return replace(request.asked, hardware=target.digest, hardware_name=target.name)


def matching_hardware(
    recorded: Sequence[RecordedHardware], jobs: Mapping[str, int], described: Mapping[str, Any]
) -> str | None:
    """Digest of the class with the most jobs, among classes with the described processor and GPU.

    ``thamos`` sends only family and model, which several classes may share. Evidence always comes
    from one class, which the report names.

    :param jobs: measured on each class, by digest
    :returns: ``None`` if no processor is described, or no class matches
    """
    identity = {field: described.get(name) for name, field in _CPU.items()}
    if None in identity.values():
        return None
    digests = (
        row.digest
        for row in recorded
        if jobs.get(row.digest)
        and all(str(row.identity.get(name)) == str(value) for name, value in identity.items())
        and _has_gpu(row, described.get("gpu_model"))
    )
    return min(digests, key=lambda digest: (-jobs[digest], digest), default=None)


def _has_gpu(row: RecordedHardware, model: object) -> bool:
    """Whether a class has the named GPU; without a name, whether it has no GPU."""
    names = [str(gpu.get("name", "")).lower() for gpu in row.identity.get("gpus") or ()]
    if not model:
        return not names
    return any(str(model).lower() in name for name in names)


def run_replay(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Answer a recorded request again with the recorded data, and compare the reports.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if there is no such advice
    """
    with worker.service.relational() as stores:
        stored = stored_advice(stores, request["advice_id"])
    advice, report = replay_stored(stored)
    same = report == stored.report
    result = {
        "advice_id": request["advice_id"],
        "same": same,
        "recorded_digest": digest_bytes(stored.report),
        "replayed_digest": digest_bytes(report),
        "reason": None if same else why_it_may_differ(stored, advice),
    }
    return store_result(worker, analysis, result)


def run_why_not(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Explain what a requirement would change in the stack of a request, with current data.

    If the client may request it, the job first reads releases that the store lacks from the
    indexes.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if there is no such advice
    """
    (requirement,) = parse_dependencies([request["requirement"]])

    def explain(advice: Advice, resolver: Resolver) -> ForcedStack:
        return why_not(advice, requirement, resolver=resolver)

    with worker.service.stores() as stores:
        stack_request, *_ = request_in(stored_advice(stores, request["advice_id"]))
        fetch = None if request.get("may_fetch") else False
        known = worker_knowledge(worker, stores, analysis, stack_request, fetch, [requirement])
        explanation = known.explain(explain)
    if explanation.unread:
        with worker.service.writing() as connection:
            supersede(connection, analysis.analysis_id)
    result = {
        "advice_id": request["advice_id"], **plain(explanation),
        "conflict": conflict_document(explanation.conflict),
    }  # fmt: skip
    return store_result(worker, analysis, result)


def check_provenance(worker: WorkerContext, analysis: Analysis, document: dict[str, Any]) -> str:
    """Check a lock and store the report.

    :param document: a stored :class:`ProvenanceRequest`
    :returns: the identifier of the report's document
    :raises InvalidArgument: if another version of the service stored the request
    """
    began = time.perf_counter()
    request = ProvenanceRequest.from_document(document)
    project = request.project
    with worker.service.relational() as stores:
        listings = recorded_listings(stores, project.lock_entries)
    allowed = list(configured_indexes(worker.settings))
    called = called_indexes(worker.settings, project)
    unread = {(it.name, it.version) for it in project.lock_entries}
    issues = check_lock(project, KnownIndexes(listings, allowed, called, unread=unread))
    # Equal requests share a report, whoever sends them.
    shown = public_indexes(worker.settings, anonymous=True)
    result = {
        "error": False,
        "error_msg": None,
        "input": None,
        "report": [it.document() for it in issues],
        "parameters": {
            "project": {
                "requirements": request.requirements,
                "requirements_locked": request.requirements_locked,
                "constraints": [],
                "runtime_environment": {},
            },
            "whitelisted_sources": list(shown.values()),
        },
    }
    timings = {"total_s": time.perf_counter() - began}
    report = {"metadata": metadata(timings, analysis.analysis_id), "result": result}
    return store_result(worker, analysis, report, "provenance-report", _PROVENANCE_SCHEMA)
