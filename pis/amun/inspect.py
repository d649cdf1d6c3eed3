"""Runs inspections: builds environments, runs the jobs and writes the documents.

Each result is on disk before the next job starts, so an interrupted run can be resumed by running
it again.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from filelock import FileLock, Timeout

from model.errors import AlreadyRunning, InvalidArgument, ProjectError
from model.json_documents import digest
from model.measurements.job_stability import HOST_FAILED, reason_of
from pis.amun.inspection_folder import (
    BuildStatus,
    InspectionOutcome,
    environments_of,
    finished_jobs,
    job_result,
    measured_jobs,
    outcome_of,
    read_job,
    recover,
    unknown_setup,
    with_environment,
    write_build,
    write_job,
)
from pis.amun.job_output import readings_of
from pis.amun.jobs import MissingJobs, blocks, failed_to_launch, reference_jobs
from pis.amun.launchers import (
    BuildFailed,
    Inspection,
    Job,
    JobResult,
    Launcher,
    PreparedInspection,
    Script,
)
from pis.amun.specification import Specification
from pis.bundle import script_of
from pis.catalogue import INDICATORS, arguments_of
from pis.command_specifications import CommandChanged

logger = logging.getLogger(__name__)

#: Fields that set how often and how long a job runs, not what it measures.
_NOT_IDENTITY = ("batch_size", "timeout_s")


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """How to run the inspections of one invocation.

    :param out: folder for the inspections
    :param jobs: jobs per inspection; by default the ``batch_size`` of its specification
    :param interleaved: alternate between the inspections, instead of one after another
    :param reference_jobs: jobs of the first inspection for each job of the others, if interleaved;
        by default :func:`pis.amun.jobs.reference_jobs`
    :param timeout_s: of each job; by default the limit in its specification
    :param submission: distinguishes inspections with equal specifications; without it, equal
        specifications are the same inspection
    :param trust_script: run submitted scripts as this process's user, without a sandbox. Only the
        command line can set this, never a request or a document
    """

    out: Path
    jobs: int | None = None
    interleaved: bool = True
    timeout_s: float | None = None
    submission: str | None = None
    trust_script: bool = False
    reference_jobs: int | None = None

    def jobs_per_block(self, inspections: int) -> list[int]:
        """Return the number of jobs per block for each inspection."""
        if not self.interleaved or inspections < 2:
            return [1] * inspections
        first = self.reference_jobs or reference_jobs(inspections - 1)
        return [first, *[1] * (inspections - 1)]


class Observer(Protocol):
    """Receives the progress of inspections."""

    def build_started(self, inspection: Inspection) -> None:
        """Called before an environment is built."""

    def build_finished(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        """Called after an environment was built, or when building it failed."""

    def jobs_started(self, jobs: int) -> None:
        """Called once with the number of jobs to run."""

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        """Called after each job."""


def inspect(
    specifications: Sequence[Specification],
    launcher: Launcher,
    options: InspectOptions,
    observer: Observer,
) -> list[InspectionOutcome]:
    """Build the environments of ``specifications`` and run their missing jobs.

    If the first job of a submitted script breaks the result protocol, no other job runs.

    :returns: one outcome per specification, in their order
    :raises AlreadyRunning: if another process uses ``options.out``
    :raises InvalidArgument: if scripts are trusted with another launcher than ``local``
    """
    if options.trust_script and launcher.name != "local":
        raise InvalidArgument("--trust-script works with `--launcher local` only")
    inspections = inspections_of(specifications, launcher.name, options)
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(options.out / ".lock", timeout=0):
            failures = _run(inspections, launcher, options, observer)
    except Timeout:
        raise AlreadyRunning(f"another process uses {options.out}: wait for it") from None
    return [
        outcome_of(inspection, options.out, failures.get(inspection.inspection_id))
        for inspection in inspections
    ]


def inspections_of(
    specifications: Sequence[Specification], launcher: str, options: InspectOptions
) -> list[Inspection]:
    """Return the inspections of ``specifications``; their identifiers are reproducible.

    A specification that is given twice results in two inspections, so that a stack can be compared
    with itself.
    """
    seen: Counter[str] = Counter()
    inspections = []
    per_block = options.jobs_per_block(len(specifications))
    for original, jobs in zip(specifications, per_block, strict=True):
        specification = _with_options(original, options, 1)
        script = script_to_run(specification, trust=options.trust_script)
        identity: dict[str, Any] = {
            "specification": {
                name: value
                for name, value in specification.document.items()
                if name not in _NOT_IDENTITY and not name.startswith("@")
            },
            "script": script.sha256,
            "launcher": launcher,
        }
        if script.trusted:  # jobs with and without a sandbox must not be compared
            identity["trusted_script"] = True
        if options.submission is not None:
            identity["submission"] = options.submission
        occurrence = seen[digest(identity)]
        seen[digest(identity)] += 1
        name = specification.identifier or script.name or "script"
        suffix = digest([identity, occurrence]).removeprefix("sha256:")[:8]
        identifier = f"inspection-{name}-{suffix}"
        size = _recorded_per_block(options.out / identifier) or jobs
        inspections.append(Inspection(identifier, _with_options(original, options, size), script))
    return inspections


def script_to_run(specification: Specification, *, trust: bool = False) -> Script:
    """Return the script of a specification, with its arguments.

    :param trust: run a submitted script without a sandbox
    """
    if specification.script in INDICATORS:
        name = specification.script
        text, arguments = script_of(name), arguments_of(name, specification.parameters)
        return Script(text, name, _sha256(text), (*arguments, "--quiet"))
    text = specification.script or ""
    return Script(text, None, _sha256(text), trusted=trust)


def _with_options(
    specification: Specification, options: InspectOptions, per_block: int
) -> Specification:
    jobs = (options.jobs or specification.batch_size) * per_block
    timeout_s = options.timeout_s or specification.timeout_s
    document = {**specification.document, "batch_size": jobs, "timeout_s": timeout_s}
    return replace(specification, batch_size=jobs, timeout_s=timeout_s, document=document)


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _run(
    inspections: Sequence[Inspection],
    launcher: Launcher,
    options: InspectOptions,
    observer: Observer,
) -> dict[str, BuildFailed]:
    prepared: dict[str, PreparedInspection] = {}
    failures: dict[str, BuildFailed] = {}
    plans = []
    per_block = options.jobs_per_block(len(inspections))
    for inspection, jobs in zip(inspections, per_block, strict=True):
        folder = options.out / inspection.inspection_id
        recorded = _recorded_per_block(folder)
        recover(folder)  # an interrupted run
        # Jobs without a result, and jobs that the host ended.
        measured, numbers = measured_jobs(folder), range(inspection.specification.batch_size)
        missing = tuple(n for n in numbers if n not in measured)
        if not missing:
            continue
        plan = MissingJobs(inspection.inspection_id, missing, recorded or jobs)
        observer.build_started(inspection)
        built = _built(inspection, launcher, folder)
        failure = built if isinstance(built, BuildFailed) else None
        observer.build_finished(inspection, failure)
        if isinstance(built, BuildFailed):
            failures[inspection.inspection_id] = built
        else:
            prepared[inspection.inspection_id] = built
            plans.append(plan)
    work = blocks(plans, str(uuid.uuid4()), interleaved=options.interleaved, slots=launcher.slots())
    observer.jobs_started(sum(map(len, work)))
    _run_blocks(work, prepared, launcher, options, observer)
    return failures


def _recorded_per_block(folder: Path) -> int | None:
    """Return an earlier run's number of jobs per block, which a resumed inspection keeps.

    :returns: ``None`` if only jobs of the first block ran, or if no size fits all jobs
    """
    blocks_of = {
        number: int(block)
        for number in finished_jobs(folder)
        if (block := _block_number(read_job(folder, number))).isdigit()
    }
    # The smallest size that fits every block. Every size fits if only the first job ran.
    sizes = range(1, max(blocks_of, default=0) + 2)
    fitting = (size for size in sizes if all(n // size == b for n, b in blocks_of.items()))
    return next(fitting, None) if max(blocks_of, default=0) else None


def _block_number(result: Mapping[str, Any]) -> str:
    schedule = result.get("schedule")
    block = schedule.get("block") if isinstance(schedule, dict) else None
    return str(block).rpartition(":")[2]


def _built(
    inspection: Inspection, launcher: Launcher, folder: Path
) -> PreparedInspection | BuildFailed:
    """Build the environment and write the outcome to ``folder``."""
    started_at = datetime.now(UTC)
    try:
        prepared = _prepared(launcher, inspection)
        _require_same_environment(prepared, folder)
    except BuildFailed as error:
        status = BuildStatus(
            error.reason, error.message, error.exit_code, started_at, datetime.now(UTC), None,
            launcher.name,
        )  # fmt: skip
        # Jobs that were already measured keep the description of their build.
        if not finished_jobs(folder):
            write_build(folder, inspection, status, error.log, None)
        return error
    logger.info(
        "environment_built",
        extra={"inspection_id": inspection.inspection_id, "environment": prepared.environment},
    )
    status = BuildStatus(
        None, "", 0, started_at, datetime.now(UTC), prepared.environment, launcher.name,
        prepared.bundled,
    )  # fmt: skip
    write_build(folder, inspection, status, prepared.log, prepared.dockerfile)
    return prepared


def _prepared(launcher: Launcher, inspection: Inspection) -> PreparedInspection:
    """Let the launcher build; an unexpected error makes only this inspection fail."""
    try:
        return launcher.prepare(inspection)
    except BuildFailed:
        raise
    except Exception as error:  # launchers use libraries with their own errors
        logger.exception("build_failed", extra={"inspection_id": inspection.inspection_id})
        hint = getattr(error, "hint", None) or ""
        reason = reason_of(error) or HOST_FAILED
        raise BuildFailed(reason, _message(error), hint=hint) from error


def _require_same_environment(prepared: PreparedInspection, folder: Path) -> None:
    """Check that earlier jobs ran in the same environment; a sample must have one stack."""
    others = environments_of(folder) - {prepared.environment}
    if prepared.environment is None or not others:
        return
    raise BuildFailed(
        "environment-changed",
        f"earlier jobs ran in {', '.join(sorted(others))}, "
        f"but the environment is now {prepared.environment}",
        log=prepared.log,
        hint="give another folder with --out to measure the stack as it is now",
    )


def _message(error: Exception) -> str:
    """Return the message of ``error``, with its class if it comes from a library."""
    return str(error) if isinstance(error, ProjectError) else f"{type(error).__name__}: {error}"


def _run_blocks(
    work: Sequence[Sequence[Job]],
    prepared: Mapping[str, PreparedInspection],
    launcher: Launcher,
    options: InspectOptions,
    observer: Observer,
) -> None:
    """Run blocks of different slots concurrently, and blocks of one slot one after another.

    No further job starts if the first job of a submitted script breaks the result protocol: all
    other jobs would break it, too.
    """
    stop = Event()
    measured = {
        it.inspection.script.sha256
        for it in prepared.values()
        if _has_measurement(options.out / it.inspection.inspection_id)
    }

    def run_slot(slot: int) -> None:
        for job in (job for block in work for job in block if job.slot == slot):
            if stop.is_set():
                return
            result = _run_job(launcher, prepared[job.inspection_id], job)
            write_job(options.out / job.inspection_id, job.number, result)
            fields = {name: result.result.get(name) for name in ("ended", "exit_code")}
            logger.info(
                "job_finished",
                extra={"inspection_id": job.inspection_id, "number": job.number, **fields},
            )
            observer.job_finished(job, result.result)
            script, readings = (
                prepared[job.inspection_id].inspection.script,
                readings_of(result.result),
            )
            if readings.rates:
                measured.add(script.sha256)
            elif readings.fault and not script.bundled and script.sha256 not in measured:
                stop.set()

    slots = sorted({job.slot for block in work for job in block})
    if len(slots) < 2:
        for slot in slots:
            run_slot(slot)
        return
    with ThreadPoolExecutor(len(slots)) as pool:
        try:
            for running in [pool.submit(run_slot, slot) for slot in slots]:
                running.result()
        finally:
            stop.set()


def _has_measurement(folder: Path) -> bool:
    return any(readings_of(read_job(folder, it)).rates for it in finished_jobs(folder))


def _run_job(launcher: Launcher, prepared: PreparedInspection, job: Job) -> JobResult:
    """Run one job; any other error of the launcher becomes the job's result."""
    started_at = datetime.now(UTC)
    try:
        result = launcher.run(prepared, job)
    except CommandChanged:  # no further job would be of the series
        raise
    except Exception as error:  # launchers use libraries with their own errors
        fields = {"inspection_id": job.inspection_id, "number": job.number}
        logger.exception("launch_failed", extra=fields)
        finished = failed_to_launch(_message(error), started_at)
        result = job_result(prepared.inspection, job, finished, unknown_setup(launcher.name))
    return with_environment(result, prepared)
