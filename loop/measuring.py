"""Measures the batches of a night, one at a time on a free machine, and ingests them."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.samples import JobPlace, Sample, job_log_rate
from common.files import private_folder
from common.settings import Settings
from graph.engine import Stores, relational_errors
from graph.record.loop import BatchState, LoopBatch, batches_in, set_batch_state, set_measured_jobs
from graph.record.watches import watch_of
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from loop.stacks import BENCHMARK
from loop.watched_projects import confirmed_benchmarks
from model.errors import AlreadyRunning, InvalidArgument, StoreUnavailable
from model.json_documents import finite_or_none
from pis.amun.conditions import MachineBusy, free_machine
from pis.amun.inspect import InspectOptions, inspect
from pis.amun.inspection_folder import InspectionOutcome, finished_jobs, read_job
from pis.amun.job_output import readings_of
from pis.amun.launchers import BuildFailed, Inspection, Job, Launcher
from pis.amun.launchers.local import LocalLauncher
from pis.amun.specification import load_specification
from pis.command_specifications import COMMAND_TIMEOUT_S, Command

_LOG = logging.getLogger(__name__)

#: Called with the number of measured jobs of a batch, and of all its jobs.
OnJob = Callable[[int, int], None]


#: Why a batch waits for the next night.
_TIME_IS_OVER = "the minutes of the night are over"


class _BudgetSpent(Exception):
    """The minutes of a night are over."""


def measure_batches(stores: Stores, on_job: OnJob, until: float | None = None) -> dict[str, Any]:
    """Measure the planned batches, oldest first, until the minutes of the night are over.

    Each job's result is on disk after the job, so an interrupted batch continues. A batch waits
    for the next night if the minutes are over. A batch that cannot be measured waits, too, and is
    given up after ``LOOP_NIGHTS`` nights without a new job.

    :param until: time of :func:`time.monotonic` after which no job starts
    :returns: numbers of measured batches, of postponed batches, and of jobs measured this night
    """
    settings = stores.settings
    deadline = time.monotonic() + 60 * settings.loop_minutes if until is None else until
    counts: dict[str, Any] = {"measured": 0, "jobs": 0, "postponed": 0}
    with stores.engine.connect() as connection:
        planned = batches_in(connection, [BatchState.PLANNED])
    for batch in planned:
        problem = None
        if time.monotonic() >= deadline:
            counts["postponed"] += 1
            with stores.engine.begin() as connection:
                set_batch_state(connection, batch.batch_id, BatchState.PLANNED, _TIME_IS_OVER)
            continue
        try:
            outcomes = _measured(stores, batch, on_job, deadline)
        except (MachineBusy, AlreadyRunning, InvalidArgument) as error:
            problem = str(error)
        except _BudgetSpent:
            problem = _TIME_IS_OVER
        done = jobs_done(settings, batch)
        with stores.engine.begin() as connection:
            if problem is None:
                counts["measured"] += 1
                report = quality_report(batch, outcomes)
                set_batch_state(
                    connection, batch.batch_id, BatchState.MEASURED,
                    measured_jobs=done, report=report,
                )  # fmt: skip
            else:
                counts["postponed"] += 1
                attempts = batch.attempts + (done <= batch.measured_jobs)
                lost = attempts >= settings.loop_nights
                set_batch_state(
                    connection, batch.batch_id,
                    BatchState.GIVEN_UP if lost else BatchState.PLANNED, problem,
                    measured_jobs=done, attempts=attempts,
                )  # fmt: skip
        counts["jobs"] += max(0, done - batch.measured_jobs)
    return counts


def jobs_done(settings: Settings, batch: LoopBatch) -> int:
    """Number of jobs of a batch that have a result."""
    folder = _folder(settings, batch)
    return sum(len(finished_jobs(it)) for it in folder.glob("inspection-*") if it.is_dir())


def _folder(settings: Settings, batch: LoopBatch) -> Path:
    return settings.home / "loop" / batch.batch_id.rpartition(":")[2][:16]


def _measured(
    stores: Stores, batch: LoopBatch, on_job: OnJob, deadline: float
) -> list[InspectionOutcome]:
    settings = stores.settings
    indexes = dict(settings.package_indexes)
    documents = [it["specification"] for it in batch.stacks]
    command = None
    if batch.indicator.startswith(BENCHMARK):
        command = _confirmed_command(stores, batch)
        # Only the lock comes from the record, never what runs.
        documents = [command.specification(it["python"], {}, COMMAND_TIMEOUT_S) for it in documents]
    specifications = [load_specification(it, indexes) for it in documents]
    options = InspectOptions(
        private_folder(_folder(settings, batch).absolute()), batch.blocks,
        submission=batch.batch_id, reference_jobs=1, trust_script=command is not None,
    )  # fmt: skip
    launcher = (
        loop_launcher(settings) if command is None else LocalLauncher(settings, commands=[command])
    )
    progress = _BatchProgress(stores, batch, on_job, deadline)
    try:
        if settings.loop_runner != "local":
            return inspect(specifications, launcher, options, progress)
        with free_machine(settings.loop_wait_s, settings.loop_busy_share):
            return inspect(specifications, launcher, options, progress)
    finally:
        launcher.close()


def _confirmed_command(stores: Stores, batch: LoopBatch) -> Command:
    """The command of a batch, as the files of its project name it now.

    :raises InvalidArgument: if the project does not name it, or nobody confirmed it
    """
    name = batch.indicator.removeprefix(BENCHMARK)
    with stores.engine.connect() as connection:
        watch = watch_of(connection, batch.watch_id)
    command = None if watch is None else confirmed_benchmarks(stores.settings, watch).get(name)
    if command is None:
        raise InvalidArgument(f"nobody confirmed the benchmark {name} as it is now")
    return command


def loop_launcher(settings: Settings) -> Launcher:
    """The launcher that ``LOOP_RUNNER`` names; its libraries are imported only if it is used."""
    if settings.loop_runner == "ray":
        from pis.amun.launchers.ray import RayLauncher

        return RayLauncher(settings)
    if settings.loop_runner == "container":
        from pis.amun.launchers.container import ContainerLauncher

        return ContainerLauncher(settings)
    if settings.loop_runner == "kubernetes":
        from pis.amun.launchers.kubernetes import KubernetesLauncher

        return KubernetesLauncher(settings)
    return LocalLauncher(settings)


class _BatchProgress:
    """Counts the jobs of a batch, and stops it when the minutes of the night are over."""

    def __init__(self, stores: Stores, batch: LoopBatch, on_job: OnJob, deadline: float) -> None:
        self._stores, self._batch = stores, batch
        self._done = jobs_done(stores.settings, batch)
        self._on_job, self._deadline = on_job, deadline

    def build_started(self, inspection: Inspection) -> None:
        _LOG.info("loop_build", extra={"inspection": inspection.inspection_id})

    def build_finished(self, inspection: Inspection, failure: BuildFailed | None) -> None:
        if failure is not None:
            extra = {"inspection": inspection.inspection_id, "reason": failure.reason}
            _LOG.warning("loop_build_failed", extra=extra)

    def jobs_started(self, jobs: int) -> None:
        self._on_job(self._done, self._batch.jobs)

    def job_finished(self, job: Job, result: Mapping[str, Any]) -> None:
        self._done += 1
        # Store the number of finished jobs. A batch goes on while PostgreSQL does not answer.
        try:
            with relational_errors(), self._stores.engine.begin() as connection:
                set_measured_jobs(connection, self._batch.batch_id, self._done)
        except StoreUnavailable as error:
            extra = {"batch": self._batch.batch_id, "error": str(error)}
            _LOG.warning("loop_jobs_not_counted", extra=extra)
        self._on_job(self._done, self._batch.jobs)
        if time.monotonic() > self._deadline:
            raise _BudgetSpent


def ingest_batches(stores: Stores) -> dict[str, int]:
    """Ingest the measured batches; a document that is stored already is not stored again.

    :returns: counts for people
    """
    settings = stores.settings
    with stores.engine.connect() as connection:
        measured = batches_in(connection, [BatchState.MEASURED])
    counts = {"batches": 0, "documents": 0}
    for batch in measured:
        folders = sorted(str(it) for it in _folder(settings, batch).glob("inspection-*"))
        report = ingest_inspections(settings, stores.engine, folders, SourceLimits())
        with stores.engine.begin() as connection:
            set_batch_state(connection, batch.batch_id, BatchState.INGESTED)
        counts["batches"] += 1
        counts["documents"] += len(folders) - report.quarantined
    return counts


def quality_report(batch: LoopBatch, outcomes: Sequence[InspectionOutcome]) -> dict[str, Any]:
    """The quality of a batch: jobs, exclusions, noise, and the verdict on its A/A pair.

    ``aa_verdict`` compares the reference with its repetition by the rules of every comparison:
    any verdict except ``equivalent`` or ``undetermined`` is a false claim.
    ``within_variation`` and ``between_variation`` are standard deviations of natural logs:
    between the jobs of a stack, and between the means of the blocks over all stacks.
    """
    samples = [_sample(it) for it in outcomes]
    reference, again = samples[0], samples[1]
    (pair,) = compare_candidates(reference, [again])
    means = _block_means(samples)
    left_out: Counter[str] = Counter()
    for noise in (noise for it in outcomes for noise in it.noise):
        left_out.update(noise.left_out)
    return {
        "jobs": batch.jobs,
        "measured": sum(it.measured for it in outcomes),
        "failed": sum(it.failed for it in outcomes),
        "left_out": dict(sorted(left_out.items())),
        "aa_verdict": pair.verdict.value,
        "aa_difference_pct": finite_or_none(pair.difference_pct) if pair.jobs else None,
        "aa_interval_pct": [
            finite_or_none(pair.interval_low_pct),
            finite_or_none(pair.interval_high_pct),
        ],
        "within_variation": _deviation([x for it in samples for x in _centred(it.log_rates)]),
        "between_variation": _deviation(means),
        "stacks": [
            {
                "label": stack["label"],
                "inspection_id": outcome.inspection_id,
                "state": outcome.state,
                "measured": outcome.measured,
                "failed": outcome.failed,
                "reason": str(outcome.failure) if outcome.failure else outcome.fault,
                "median_rate": outcome.median_rate,
                "unit": outcome.unit,
            }
            for stack, outcome in zip(batch.stacks, outcomes, strict=True)
        ],
    }


def _sample(outcome: InspectionOutcome) -> Sample:
    rates, places = [], []
    for number in sorted(finished_jobs(outcome.folder)):
        result = read_job(outcome.folder, number)
        readings = readings_of(result)
        if len(readings.rates) == 1 and not readings.unstable[0] and readings.rates[0] > 0:
            rates.append(job_log_rate([readings.rates[0]]))
            schedule = result.get("schedule", {})
            block = str(schedule.get("block"))
            places.append(JobPlace(str(result.get("host")), block, outcome.inspection_id))
    return Sample(outcome.inspection_id, tuple(rates), "batch", tuple(places))


def _block_means(samples: Sequence[Sample]) -> list[float]:
    blocks: dict[str | None, list[float]] = {}
    for sample in samples:
        centred = _centred(sample.log_rates)
        for place, rate in zip(sample.places, centred, strict=True):
            blocks.setdefault(place.block, []).append(rate)
    return [math.fsum(it) / len(it) for it in blocks.values()]


def _centred(rates: Sequence[float]) -> list[float]:
    mean = math.fsum(rates) / len(rates) if rates else 0.0
    return [it - mean for it in rates]


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((it - mean) ** 2 for it in values) / (len(values) - 1))
