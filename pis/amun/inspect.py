"""An inspection from specification to documents: build, run the jobs in turn, write.

Everything that finished is on disk before the next thing begins, so a run that ends at any
moment is taken up where it was by running it again.
"""

from __future__ import annotations

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

from common.errors import AlreadyRunning, InvalidArgument, ProjectError
from common.formats.json_documents import digest
from common.host_problems import HOST_FAILED, reason_of
from pis.amun.inspection_folder import (
    BuildStatus,
    attributed,
    environments_of,
    failed_to_launch,
    finished_jobs,
    job_result,
    measured_jobs,
    read_job,
    recover,
    unknown_run,
    write_build,
    write_job,
)
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, Launcher, Prepared, Script
from pis.amun.outcomes import InspectionOutcome, outcome_of
from pis.amun.schedule import MissingJobs, blocks, reference_jobs
from pis.amun.specification import Specification
from pis.bundle import script_of
from pis.catalogue import INDICATORS, arguments_of

logger = logging.getLogger(__name__)

#: Fields that say how often and how long, and not what is measured.
_NOT_IDENTITY = ("batch_size", "timeout_s")


@dataclass(frozen=True, slots=True)
class Order:
    """How the inspections of one invocation are to be run.

    :param out: where the folders of inspections are written
    :param jobs: of each inspection; its own ``batch_size`` if unset
    :param reference_jobs: of the first inspection for each job of the others, if they run in turn;
        :func:`pis.amun.schedule.reference_jobs` if unset
    :param timeout_s: of each job; its own if unset
    :param submission: makes identifiers other than those of equal specifications; without one
        the same specification is the same inspection
    :param trust_script: run scripts that are not bundled as the user of this process, without a
        sandbox. Only the command line sets it: never a request, and no field of a document
    """

    out: Path
    jobs: int | None = None
    interleaved: bool = True
    timeout_s: float | None = None
    submission: str | None = None
    trust_script: bool = False
    reference_jobs: int | None = None

    def jobs_per_block(self, inspections: int) -> list[int]:
        """Jobs of each inspection in a block."""
        if not self.interleaved or inspections < 2:
            return [1] * inspections
        first = self.reference_jobs or reference_jobs(inspections - 1)
        return [first, *[1] * (inspections - 1)]


class Observer(Protocol):
    """Is told what happens, for the person who waits."""

    def building(self, inspection: Inspection) -> None:
        """An environment is about to be built."""

    def built(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        """It stands, or could not be built."""

    def measuring(self, jobs: int) -> None:
        """So many jobs are left to run."""

    def ran(self, job: Job, result: Mapping[str, Any]) -> None:
        """A job has come to its end."""


def inspect(
    specifications: Sequence[Specification], launcher: Launcher, order: Order, observer: Observer
) -> list[InspectionOutcome]:
    """Build what ``specifications`` need, run what is missing of their jobs, write it all.

    :returns: one outcome a specification, in their order
    :raises AlreadyRunning: if another process works on ``order.out``
    :raises InvalidArgument: if scripts are to be trusted on other machines than this one
    """
    if order.trust_script and launcher.name != "local":
        raise InvalidArgument("scripts are trusted on this machine only: --launcher local")
    inspections = inspections_of(specifications, launcher.name, order)
    order.out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(order.out / ".lock", timeout=0):
            failures = _run(inspections, launcher, order, observer)
    except Timeout:
        raise AlreadyRunning(f"another process works on {order.out}") from None
    return [outcome_of(it, order.out, failures.get(it.inspection_id)) for it in inspections]


def inspections_of(
    specifications: Sequence[Specification], launcher: str, order: Order
) -> list[Inspection]:
    """The inspections with identifiers that are the same whenever they are asked for.

    A specification that is given twice makes two inspections: a stack compared with itself.
    """
    seen: Counter[str] = Counter()
    made = []
    per_block = order.jobs_per_block(len(specifications))
    for given, jobs in zip(specifications, per_block, strict=True):
        specification = _as_ordered(given, order, 1)
        script = script_to_run(specification, trust=order.trust_script)
        named: dict[str, Any] = {
            "specification": _identity(specification.document),
            "script": script.sha256,
            "launcher": launcher,
        }
        if script.trusted:  # jobs with and without a sandbox are no sample of one thing
            named["trusted_script"] = True
        if order.submission is not None:
            named["submission"] = order.submission
        occurrence = seen[digest(named)]
        seen[digest(named)] += 1
        name = specification.identifier or script.name or "script"
        suffix = digest([named, occurrence]).removeprefix("sha256:")[:8]
        identifier = f"inspection-{name}-{suffix}"
        size = _recorded_per_block(order.out / identifier) or jobs
        made.append(Inspection(identifier, _as_ordered(given, order, size), script))
    return made


def script_to_run(specification: Specification, *, trust: bool = False) -> Script:
    """The script of a specification, with its command line.

    :param trust: whether a script that is not bundled is vouched for
    """
    if specification.script in INDICATORS:
        name = specification.script
        text, arguments = script_of(name), arguments_of(name, specification.parameters)
        return Script(text, name, _sha256(text), (*arguments, "--quiet"))
    text = specification.script or ""
    return Script(text, None, _sha256(text), trusted=trust)


def _as_ordered(specification: Specification, order: Order, per_block: int) -> Specification:
    jobs = (order.jobs or specification.batch_size) * per_block
    timeout_s = order.timeout_s or specification.timeout_s
    document = {**specification.document, "batch_size": jobs, "timeout_s": timeout_s}
    return replace(specification, batch_size=jobs, timeout_s=timeout_s, document=document)


def _identity(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in document.items()
        if name not in _NOT_IDENTITY and not name.startswith("@")
    }


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _run(
    inspections: Sequence[Inspection], launcher: Launcher, order: Order, observer: Observer
) -> dict[str, BuildFailed]:
    prepared: dict[str, Prepared] = {}
    failures: dict[str, BuildFailed] = {}
    plans = []
    per_block = order.jobs_per_block(len(inspections))
    for inspection, jobs in zip(inspections, per_block, strict=True):
        folder = order.out / inspection.inspection_id
        plan = _plan(inspection, folder, _recorded_per_block(folder) or jobs)
        if not plan.missing:
            continue
        observer.building(inspection)
        built = _built(inspection, launcher, folder)
        failure = built if isinstance(built, BuildFailed) else None
        observer.built(inspection, failure)
        if isinstance(built, BuildFailed):
            failures[inspection.inspection_id] = built
        else:
            prepared[inspection.inspection_id] = built
            plans.append(plan)
    work = blocks(plans, str(uuid.uuid4()), interleaved=order.interleaved, slots=launcher.slots())
    observer.measuring(sum(map(len, work)))
    _run_blocks(work, prepared, launcher, order, observer)
    return failures


def _plan(inspection: Inspection, folder: Path, per_block: int) -> MissingJobs:
    """What is missing: jobs without a result, and those that never began.

    What an interrupted run left is put in order first.
    """
    recover(folder)
    done = measured_jobs(folder)
    numbers = range(inspection.specification.batch_size)
    missing = tuple(n for n in numbers if n not in done)
    return MissingJobs(inspection.inspection_id, missing, per_block)


def _recorded_per_block(folder: Path) -> int | None:
    """Jobs in a block of an earlier run, which a resumed inspection keeps.

    :returns: ``None`` if no job ran after the first block, or if one size does not fit all jobs
    """
    blocks_of = {
        number: int(block)
        for number in finished_jobs(folder)
        if (block := _block_number(read_job(folder, number))).isdigit()
    }
    # The smallest size that explains every block; a first job alone explains all of them.
    sizes = range(1, max(blocks_of, default=0) + 2)
    fitting = (size for size in sizes if all(n // size == b for n, b in blocks_of.items()))
    return next(fitting, None) if max(blocks_of, default=0) else None


def _block_number(result: Mapping[str, Any]) -> str:
    schedule = result.get("schedule")
    block = schedule.get("block") if isinstance(schedule, dict) else None
    return str(block).rpartition(":")[2]


def _built(inspection: Inspection, launcher: Launcher, folder: Path) -> Prepared | BuildFailed:
    """Build, and record how it went."""
    started_at = datetime.now(UTC)
    try:
        prepared = _prepared(launcher, inspection)
        _require_same_environment(prepared, folder)
    except BuildFailed as error:
        status = BuildStatus(
            error.reason, error.message, error.exit_code, started_at, datetime.now(UTC), None,
            launcher.name,
        )  # fmt: skip
        # Jobs that were measured before keep the build that they were measured in.
        if not finished_jobs(folder):
            write_build(folder, inspection, status, error.log, None)
        return error
    logger.info(
        "environment_built",
        extra={"inspection_id": inspection.inspection_id, "environment": prepared.environment},
    )
    status = BuildStatus(
        None, "", 0, started_at, datetime.now(UTC), prepared.environment, launcher.name
    )
    write_build(folder, inspection, status, prepared.log, prepared.dockerfile)
    return prepared


def _prepared(launcher: Launcher, inspection: Inspection) -> Prepared:
    """What the launcher built; whatever else it raises costs this inspection and no other.

    :raises BuildFailed: for any error of the launcher
    """
    try:
        return launcher.prepare(inspection)
    except BuildFailed:
        raise
    except Exception as error:  # libraries of launchers raise kinds of their own
        logger.exception("build_failed", extra={"inspection_id": inspection.inspection_id})
        hint = getattr(error, "hint", None) or ""
        reason = reason_of(error) or HOST_FAILED
        raise BuildFailed(reason, _words(error), hint=hint) from error


def _require_same_environment(prepared: Prepared, folder: Path) -> None:
    """Jobs of two environments are no sample of one stack.

    :raises BuildFailed: if jobs that are there ran in another environment than ``prepared``
    """
    others = environments_of(folder) - {prepared.environment}
    if prepared.environment is None or not others:
        return
    raise BuildFailed(
        "environment-changed",
        f"jobs that are there ran in {', '.join(sorted(others))}, "
        f"and what was built now is {prepared.environment}",
        log=prepared.log,
        hint="measure the stack as it is now in another folder: --out",
    )


def _words(error: Exception) -> str:
    """What went wrong; errors that are not ours need their kind to be understood."""
    return str(error) if isinstance(error, ProjectError) else f"{type(error).__name__}: {error}"


def _run_blocks(
    work: Sequence[Sequence[Job]],
    prepared: Mapping[str, Prepared],
    launcher: Launcher,
    order: Order,
    observer: Observer,
) -> None:
    """Run the blocks, each slot its own one after another."""
    stop = Event()

    def run_slot(slot: int) -> None:
        for job in (job for block in work for job in block if job.slot == slot):
            if stop.is_set():
                return
            result = _ran(launcher, prepared[job.inspection_id], job)
            write_job(order.out / job.inspection_id, job.number, result)
            _log_job(job, result.result)
            observer.ran(job, result.result)

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


def _log_job(job: Job, result: Mapping[str, Any]) -> None:
    fields = {name: result.get(name) for name in ("ended", "exit_code")}
    logger.info(
        "job_finished",
        extra={"inspection_id": job.inspection_id, "number": job.number, **fields},
    )


def _ran(launcher: Launcher, prepared: Prepared, job: Job) -> JobResult:
    """One job; a launcher that fails at it is a recorded result, too, whatever it raises."""
    started_at = datetime.now(UTC)
    try:
        result = launcher.run(prepared, job)
    except Exception as error:  # libraries of launchers raise kinds of their own
        fields = {"inspection_id": job.inspection_id, "number": job.number}
        logger.exception("launch_failed", extra=fields)
        finished = failed_to_launch(_words(error), started_at)
        result = job_result(prepared.inspection, job, finished, unknown_run(launcher.name))
    return attributed(result, prepared)
