"""Jobs that bring knowledge in: submitted inspections, which run here, uploads, and fetches."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from api.jobs.queue import PROJECT, Queue, QueueJob, QueueName
from api.jobs.request_run import WorkerContext, log_for_client, store_result
from common.files import private_folder
from common.settings import Settings
from graph.engine import Stores
from graph.record.analyses import Analysis, AnalysisKind, NewAnalysis, accept, analysis_of
from graph.record.documents import body_of
from graph.record.postgresql_helpers import lock_name
from ingest.crawl.closure import CrawlBounds
from ingest.crawl.runs import add_packages, packages_document, unanswered, wanted_packages
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import MEBIBYTE, SourceLimits
from model.errors import (
    AlreadyRunning,
    DamagedDocument,
    IndexFault,
    IndexProblem,
    InvalidArgument,
    Reason,
)
from model.json_documents import digest, digest_bytes
from model.text import counted
from pis.amun.conditions import free_machine
from pis.amun.inspect import InspectOptions, inspect, inspections_of
from pis.amun.inspection_folder import InspectionOutcome
from pis.amun.launchers import BuildFailed, Inspection, Job
from pis.amun.launchers.local import LocalLauncher
from pis.amun.specification import Specification, load_specification

#: How long to wait for another run, s; two at a time would disturb each other's measurements.
_MACHINE_WAIT_S = 3600.0
_PAUSE_S = 1.0
#: Limits for uploads; sources of the operator have none of these.
LIMITS = SourceLimits(
    document_bytes=64 * MEBIBYTE, archive_bytes=2048 * MEBIBYTE, members=100_000, ratio=200.0
)
#: How long to wait for another worker that ingests the same content, s.
SAME_UPLOAD_WAIT_S = 600.0


def folder_of(settings: Settings) -> Path:
    """Folder of all inspections; each has a folder named by its identifier."""
    return settings.home / "inspections"


def options_of(settings: Settings, submission: str) -> InspectOptions:
    """InspectOptions for a submitted inspection.

    :param submission: random, so that the same specification can be measured again
    """
    return InspectOptions(private_folder(folder_of(settings)).absolute(), submission=submission)


def public_parameters(inspection: Inspection) -> dict[str, Any]:
    """The specification as it runs, without the content of script, files and lock."""
    document = inspection.specification.document
    parameters = {k: v for k, v in document.items() if k not in ("script", "files", "python")}
    return {**parameters, "script_sha256": inspection.script.sha256}


def enqueue_inspection(
    stores: Stores, queue: Queue, value: Mapping[str, Any], submission: str
) -> tuple[str, bool]:
    """Accept a specification of this machine, and enqueue its run; safe to repeat.

    :param submission: an equal specification with an equal submission is the same inspection
    :returns: the identifier of the inspection, and whether it is new
    :raises InvalidSpecification: if the specification is invalid
    :raises Overloaded: if too many jobs wait; then nothing is stored
    """
    settings = stores.settings
    specification = load_specification(value, dict(settings.package_indexes))
    (inspection,) = inspections_of([specification], "local", options_of(settings, submission))
    new = NewAnalysis(
        inspection.inspection_id,
        AnalysisKind.INSPECTION,
        {"specification": dict(value), "submission": submission},
        public_parameters(inspection),
        submission,
    )
    with stores.engine.begin() as connection:
        lock_name(connection, new.analysis_id)
        if analysis_of(connection, new.analysis_id) is not None:
            return new.analysis_id, False
        queue.admit(connection, QueueName.INSPECTIONS)
        accept(connection, settings, new, force=True)
        job = QueueJob("inspections.run", QueueName.INSPECTIONS, {"analysis_id": new.analysis_id})
        queue.enqueue(connection, job)
    return new.analysis_id, True


def run_inspection(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Build, measure and ingest; an interrupted run resumes.

    A failed build and a failed job are results, too.

    :returns: the identifier of the result's document
    """
    specification = load_specification(
        request["specification"], dict(worker.settings.package_indexes)
    )
    options = options_of(worker.settings, request["submission"])
    outcome = _in_turn(specification, options, worker.settings)
    log_for_client(f"{outcome.state}: {outcome.measured} measured, {outcome.failed} failed")
    taken_in = take_in(worker, str(outcome.folder))
    result = {
        "inspection_id": outcome.inspection_id,
        "state": outcome.state,
        "measured": outcome.measured,
        "failed": outcome.failed,
        "reason": str(outcome.failure) if outcome.failure else outcome.fault,
        "ingested": taken_in,
    }
    return store_result(worker, analysis, result)


def _in_turn(
    specification: Specification, options: InspectOptions, settings: Settings
) -> InspectionOutcome:
    """Run an inspection once no other inspection is running on this machine.

    :raises AlreadyRunning: if another one runs for too long
    """
    until = time.monotonic() + _MACHINE_WAIT_S
    launcher = LocalLauncher(settings)
    try:
        with free_machine(_MACHINE_WAIT_S, on_wait=_log_wait):
            while True:
                try:
                    (outcome,) = inspect([specification], launcher, options, _LogProgress())
                except AlreadyRunning:
                    if time.monotonic() > until:
                        raise
                    time.sleep(_PAUSE_S)
                else:
                    return outcome
    finally:
        launcher.close()


def _log_wait(cause: str, waited_s: float) -> None:
    if not waited_s:
        log_for_client(cause)


class _LogProgress:
    """Logs the progress for the client."""

    def build_started(self, inspection: Inspection) -> None:
        log_for_client(f"building {inspection.inspection_id}")

    def build_finished(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        log_for_client(f"the build failed: {failure}" if failure else "built")

    def jobs_started(self, jobs: int) -> None:
        log_for_client(f"{counted(jobs, 'job')} to run")

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        log_for_client(
            f"job {job.number} ended: {result.get('ended')}, exit code {result.get('exit_code')}"
        )


def upload_id(analysis_id: str) -> str:
    """Identifier of the stored upload of a request.

    The identifier is not the digest of the content, because the ingested document may have that
    digest as its identifier. Uploads with the same content are stored separately, each for as long
    as its request needs it.
    """
    return digest(["upload", analysis_id])


def ingest_upload(worker: WorkerContext, analysis: Analysis, request: Mapping[str, Any]) -> str:
    """Ingest the inspections of an upload.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if the upload was deleted in the meantime, or is refused whole
    """
    with worker.service.reading() as connection:
        body = body_of(connection, worker.settings, upload_id(analysis.analysis_id))
    if body is None:
        raise InvalidArgument("the upload has been deleted: send it again")
    if digest_bytes(body) != request["document_id"]:
        raise DamagedDocument(request["document_id"], "its body has another SHA-256")
    # Named by its digest, so that a second ingest of the same content replaces its quarantine.
    name = request["document_id"].removeprefix("sha256:")
    path = private_folder(worker.settings.home / "uploads") / f"{name}{request['suffix']}"
    try:
        with lock_of(worker.settings, request["document_id"]):
            path.touch(0o600)
            path.write_bytes(body)
            try:
                result = take_in(worker, str(path))
            finally:
                path.unlink(missing_ok=True)
    except Timeout:
        raise AlreadyRunning("the same upload is being ingested") from None
    _refuse_whole(result)
    return store_result(worker, analysis, result)


def _refuse_whole(result: Mapping[str, Any]) -> None:
    """:raises InvalidArgument: if the upload is refused, or all its paths leave the archive"""
    refusals = result["refusals"]
    nothing = not result["new"] + result["known"]
    leaving = nothing and all(it["reason"] == Reason.ARCHIVE_PATH for it in refusals)
    refusal = next((each for each in refusals if not each["place"] or leaving), None)
    if refusal is None:
        return
    at = ", ".join(filter(None, (refusal["place"], refusal["field"])))
    message = (
        f"the upload is refused: {refusal['reason']}: {at + ': ' if at else ''}{refusal['message']}"
    )
    taken = "" if nothing else f" ({result['new']} inspections before it were ingested)"
    raise InvalidArgument(message + taken)


def lock_of(settings: Settings, content: str) -> FileLock:
    """The lock for the temporary file of an upload.

    The lock is a file lock, because the upload's file is also local to this machine. The lock is
    released when its process ends. Digests with the same first digits share a lock, so that there
    are few locks.
    """
    name = content.removeprefix("sha256:")[:2]
    return FileLock(
        settings.home / "uploads" / f"{name}.lock", timeout=SAME_UPLOAD_WAIT_S, mode=0o600
    )


def take_in(worker: WorkerContext, source: str) -> dict[str, Any]:
    """Ingest all inspections of a local file or folder, and enqueue their projection."""
    with worker.service.relational() as stores:
        report = ingest_inspections(worker.settings, stores.engine, [source], LIMITS)
    if report.new:
        with worker.service.writing() as connection:
            worker.service.queue.enqueue(connection, PROJECT)
    return {**report.as_json(), "refusals": report.refusals}


#: Maximum number of packages that one request fetches, including dependencies.
MAX_PACKAGES = 250


def fetch(
    settings: Settings, index: str | None, requirements: Sequence[str], *, prereleases: bool = False
) -> dict[str, Any]:
    """Fetch packages and their dependencies from a configured index.

    :returns: the report of ``thoth packages add --json``
    :raises InvalidArgument: if there is no such index, or a requirement is invalid
    :raises IndexProblem: if the index does not answer
    """
    bounds = CrawlBounds(max_packages=MAX_PACKAGES, prereleases=prereleases)
    outcome = add_packages(
        settings, wanted_packages(requirements), bounds, index=index, watching=False
    )
    if unanswered(outcome.report):
        raise IndexProblem(IndexFault.UNREACHABLE, "the index does not answer")
    # Turns the enumeration members among the keys into strings.
    return dict(
        orjson.loads(orjson.dumps(packages_document(outcome), option=orjson.OPT_NON_STR_KEYS))
    )


def fetch_requested(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Fetch the packages of a request.

    :returns: the identifier of the report's document
    """
    report = fetch(
        worker.settings,
        request["index"],
        request["requirements"],
        prereleases=request["prereleases"],
    )
    return store_result(worker, analysis, report)
