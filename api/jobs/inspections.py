"""Jobs that run submitted inspections on this machine and ingest their results."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from api.jobs.queue import Queue, QueueJob, QueueName
from api.jobs.request_run import log_for_client, store_result
from api.jobs.uploads import take_in
from api.jobs.worker_context import WorkerContext
from common.private_folders import private_folder
from common.settings import Settings
from graph.engine import Stores
from graph.record.analyses import Analysis, AnalysisKind, NewAnalysis, accept, analysis_of
from graph.record.postgresql_helpers import lock_name
from model.errors import AlreadyRunning
from model.text import counted
from pis.amun.free_machine import free_machine
from pis.amun.inspect import InspectOptions, inspect, inspections_of
from pis.amun.launchers import BuildFailed, Inspection, Job
from pis.amun.launchers.local import LocalLauncher
from pis.amun.outcomes import InspectionOutcome
from pis.amun.specification import Specification, load_specification

#: How long to wait for another run, s; two at a time would disturb each other's measurements.
_MACHINE_WAIT_S = 3600.0
_PAUSE_S = 1.0


def folder_of(settings: Settings) -> Path:
    """Folder of all inspections; each has a folder named by its identifier."""
    return settings.home / "inspections"


def options_of(settings: Settings, submission: str) -> InspectOptions:
    """InspectOptions for a submitted inspection.

    :param submission: random, so that the same specification can be measured again
    """
    return InspectOptions(private_folder(folder_of(settings)).absolute(), submission=submission)


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
    document = inspection.specification.document
    parameters = {k: v for k, v in document.items() if k not in ("script", "files", "python")}
    new = NewAnalysis(
        inspection.inspection_id,
        AnalysisKind.INSPECTION,
        {"specification": dict(value), "submission": submission},
        {**parameters, "script_sha256": inspection.script.sha256},
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
