"""Measures the stacks of ``thoth compare`` with the executor, and reads their jobs."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from string import ascii_uppercase
from typing import Any

from adviser.answering.target_hardware import own_hardware
from adviser.bisect.search import SearchStopped, StopReason
from adviser.planned_comparison import (
    LOOK_BLOCKS,
    Attribution,
    ComparedStack,
    PlannedLook,
    judge_look,
)
from cli.bisect_measurer import MachineGuard
from common.formats.job_results import Measurement, measurements_of, run_of
from ingest.inspections.results import library_of
from model.errors import ProjectError
from model.json_documents import digest
from model.json_fields import ROOT, Fields
from model.measurements.evidence import MeasuredObservation, Reading, Series
from model.measurements.inspection import Hardware
from model.measurements.job_stability import instability
from model.packages.identity import package_version
from model.packages.native_libraries import bundled_of, bundled_steps, context_lines
from pis.amun.inspect import InspectOptions, inspect, inspections_of
from pis.amun.inspection_folder import measured_jobs, read_build, read_job
from pis.amun.job_output import duration_s, error_lines, readings_of
from pis.amun.launchers import Inspection, Launcher
from pis.amun.outcomes import InspectionOutcome
from pis.amun.specification import Specification, load_specification
from pis.commands import VARIABLES

#: What a command used beside the time.
_USAGE = ("user_s", "system_s", "memory_bytes", "energy_j")
#: Failed jobs of one stack from which the comparison ends.
_MOST_FAILED = 3


class StackFailed(ProjectError):
    """The environment of a stack could not be built, or the command failed in it."""


@dataclass
class StackMeasurer:
    """Runs blocks of jobs until every comparison is settled, or the time is over.

    :param specifications: of each stack, one for each thing to measure
    :param trusted: whether the script is that of a command, which runs as in a shell
    :param labels: of each stack
    :param hardware: label of this machine
    :param limit_s: no new block starts after this time, from the first one
    :param progress: called after each look
    :param say: called with what is done before the jobs
    :ivar folders: of all inspections
    """

    path: Path
    launcher: Launcher
    guard: MachineGuard
    indexes: Mapping[str, str]
    stacks: Sequence[ComparedStack]
    labels: Sequence[str]
    specifications: Sequence[Sequence[dict[str, Any]]]
    trusted: bool
    state: dict[str, Any]
    write_state: Callable[[], None]
    limit_s: float
    progress: Callable[[PlannedLook], None]
    say: Callable[[str], None]
    folders: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    hardware: Hardware = field(default_factory=own_hardware)
    _warm: set[int] = field(default_factory=set)
    began: float | None = None

    def run(self) -> tuple[PlannedLook, SearchStopped | None]:
        """Measure, and return the last look and why measuring stopped before all was settled.

        :raises StackFailed: if a stack cannot be measured
        """
        look: PlannedLook | None = None
        letters = {it.letter for it in self.stacks}
        for number, blocks in enumerate(LOOK_BLOCKS):
            try:
                self._measure(letters, blocks)
            except SearchStopped as stopped:
                return self._judged(number, None, look), stopped
            look = self._judged(number, blocks, look)
            self.progress(look)
            if look.settled:
                return look, None
            letters = {"A", *look.open_stacks}
        assert look is not None  # noqa: S101 - there are looks
        return look, SearchStopped(StopReason.JOBS, f"{LOOK_BLOCKS[-1]} jobs of each stack ran")

    def _measure(self, letters: set[str], blocks: int) -> None:
        """Run the missing jobs of the first ``blocks`` blocks."""
        places = [n for n, it in enumerate(self.stacks) if it.letter in letters]
        for number in range(len(self.specifications[0])):
            documents = [self.specifications[it][number] for it in places]
            keys = [f"{self.stacks[it].letter}{number}" for it in places]
            inspections = inspections_of(
                self._loaded(documents, blocks), self.launcher.name, self._options(None)
            )
            self.folders |= {
                key: self.path / it.inspection_id for key, it in zip(keys, inspections, strict=True)
            }
            if any(len(measured_jobs(self.folders[it])) < blocks for it in keys):
                if number not in self._warm:
                    self._warm_up(number)
                self._inspect(documents, blocks, None)
            for key in keys:
                self._read(key, blocks)
                failed = [it for it in self.jobs[key].values() if not readings_of(it).rates]
                if len(failed) >= _MOST_FAILED:
                    self._require_result(key[0], failed[-1])

    def _loaded(self, documents: Sequence[Mapping[str, Any]], jobs: int) -> list[Specification]:
        return [load_specification({**it, "batch_size": jobs}, self.indexes) for it in documents]

    def _options(self, submission: str | None) -> InspectOptions:
        return InspectOptions(
            self.path, trust_script=self.trusted, reference_jobs=1, submission=submission
        )

    def _inspect(
        self, documents: Sequence[Mapping[str, Any]], jobs: int, submission: str | None
    ) -> list[InspectionOutcome]:
        specifications = self._loaded(documents, jobs)
        observer = _BlockObserver(self, len(specifications), submission is not None)
        outcomes = inspect(specifications, self.launcher, self._options(submission), observer)
        for document, outcome in zip(documents, outcomes, strict=True):
            if outcome.failure is not None:
                stack = self._label(str(document["identifier"])[-1].upper())
                raise StackFailed(f"{stack}: {outcome.failure}", hint=outcome.failure.hint)
        return outcomes

    def _warm_up(self, number: int) -> None:
        """Run each stack once, so that files are in the cache, and see whether the command works.

        :raises StackFailed: with the last lines of the command's errors
        """
        self._warm.add(number)
        self.state["warm_ups"] = self.state.get("warm_ups", 0) + 1
        self.write_state()
        documents = [it[number] for it in self.specifications]
        outcomes = self._inspect(documents, 1, f"warm-up {self.state['warm_ups']}")
        for stack, outcome in zip(self.stacks, outcomes, strict=True):
            self._require_result(stack.letter, read_job(outcome.folder, 0))

    def _label(self, letter: str) -> str:
        return self.labels[ascii_uppercase.index(letter)]

    def _require_result(self, letter: str, result: Mapping[str, Any]) -> None:
        readings = readings_of(result)
        if readings.rates:
            return
        message = readings.fault or f"exit code {result.get('exit_code')} ({result.get('ended')})"
        text = f"{self._label(letter)}: no measurement: {message}"
        raise StackFailed("\n  ".join([text, *error_lines(result)]))

    def _read(self, key: str, blocks: int) -> None:
        """Read the jobs of the first blocks that are not known yet."""
        for job in range(blocks):
            if job not in self.jobs[key] and (result := read_job(self.folders[key], job)):
                self.jobs[key][job] = result

    def _judged(self, number: int, blocks: int | None, earlier: PlannedLook | None) -> PlannedLook:
        """:param blocks: of the look; ``None`` for all jobs so far, between two looks"""
        if blocks is None:
            for key in self.folders:
                self._read(key, LOOK_BLOCKS[number])
        observed: dict[Any, list[MeasuredObservation]] = defaultdict(list)
        for series, row in self._measurements(blocks):
            observed[series.comparison_key].append(row)
        # Stacks that an earlier look settled run no longer.
        letters = {it.letter for it in self.stacks} if earlier is None else earlier.open_stacks
        done, block_s = blocks_so_far(self.jobs, {"A", *letters})
        return judge_look(list(observed.values()), number, blocks or done, block_s, earlier)

    def _measurements(self, blocks: int | None) -> Iterator[tuple[Series, MeasuredObservation]]:
        for key, results in self.jobs.items():
            for job, result in results.items():
                if (blocks is None or job < blocks) and readings_of(result).rates:
                    for each in measurements_of(result["stdout"], "", ROOT):
                        yield self._observed(key[0], job, result, each)

    def _observed(
        self, letter: str, job: int, result: Mapping[str, Any], measurement: Measurement
    ) -> tuple[Series, MeasuredObservation]:
        name = str(result["stdout"].get("name"))
        stack, identity = self.stacks[ascii_uppercase.index(letter)], f"{letter}{job}"
        # A comparison may vary the variables.
        stated = measurement.parameters.record.items()
        parameters = {it: value for it, value in stated if it != VARIABLES}
        key = digest([name, parameters, measurement.unit, self.hardware.digest])
        series = Series(
            key, name, result.get("script_sha256"), parameters, None, measurement.unit,
            self.hardware.digest, ".".join(str(result.get("python_full_version")).split(".")[:2]),
        )  # fmt: skip
        schedule = result.get("schedule") or {}
        reading = Reading(
            identity, 0, letter, letter, identity, measurement.rate,
            # Repetitions of a person's own benchmark may scatter: the job counts by its median.
            instability((), run_of(Fields(dict(result))).conditions), result.get("host"),
            f"{schedule.get('run')}:{schedule.get('block')}",
            datetime.fromisoformat(result["end_datetime"]),
        )  # fmt: skip
        packages = tuple(package_version(*it) for it in stack.pins.items())
        label = self._label(letter).removesuffix(f" ({letter})")
        return series, MeasuredObservation(
            series, reading, self.hardware.label, label, None, packages
        )

    def usage(self, letter: str | None) -> dict[str, float]:
        """Medians of what the first command's jobs used on a stack, by name with the unit."""
        ended = [it for it in self.jobs.get(f"{letter}0", {}).values() if readings_of(it).rates]
        outputs = (it["stdout"] for it in ended)
        results = [dict(it.get("process") or it.get("@result") or {}) for it in outputs]
        for result, job in zip(results, ended, strict=True):
            if (energy := run_of(Fields(job)).energy_j) is not None:
                result["energy_j"] = energy
        columns = {name: [it[name] for it in results if name in it] for name in _USAGE}
        return {name: median(them) for name, them in columns.items() if them}

    def context(self, look: PlannedLook) -> list[str]:
        """What was observed beside settled differences: bundled libraries, and kernels that ran."""
        recorded: dict[str, Any] = {}
        for folder in self.folders.values():
            recorded |= read_build(folder).get("bundled") or {}
        bundled, baseline = bundled_of(Fields(recorded)), self.stacks[0]
        different = {
            it.stack_digest for _, it, judged in look.comparisons if judged.verdict.different
        }
        lines = []
        for stack in (it for it in self.stacks if it.letter in different):
            pins = ((it, stack.pins[it], baseline.pins.get(it)) for it in stack.pins)
            lines += context_lines(bundled_steps(bundled, pins), stack.pins)
            ours, theirs = map(self._kernels, (stack.letter, baseline.letter))
            if stack.attribution(baseline) is Attribution.SETTING and ours and theirs != ours:
                lines.append(f"{ours} ran with the setting, {theirs or 'unknown kernels'} without")
        return [f"{it}." for it in dict.fromkeys(lines)]

    def _kernels(self, letter: str) -> str:
        """The linear algebra libraries with their kernels that the jobs of a stack observed."""
        jobs = [it for key, them in self.jobs.items() if key[0] == letter for it in them.values()]
        observed = {library_of(it["stdout"]).blas for it in jobs if readings_of(it).rates}
        return " and ".join(sorted(filter(None, observed)))

    def excluded(self) -> list[str]:
        """Benchmarks that decide nothing, with the reason."""
        results = (
            it for jobs in self.jobs.values() for it in jobs.values() if readings_of(it).rates
        )
        reasons = (it["stdout"].get("excluded", {}) for it in results)
        return list(dict.fromkeys(f"{name}: {it}" for them in reasons for name, it in them.items()))


def blocks_so_far(
    jobs: Mapping[str, Mapping[int, Mapping[str, Any]]], letters: set[str]
) -> tuple[int, float]:
    """How many blocks of some stacks ran, and the mean duration of one, s.

    :param jobs: results by number, of each thing that is measured on a stack: ``A0`` of stack A
    :param letters: of the stacks that still run
    """
    running = [it for key, it in jobs.items() if key[0] in letters]
    spans = (fmean(map(duration_s, it.values())) for it in running if it)
    return min(map(len, running), default=0), sum(spans)


@dataclass
class _BlockObserver:
    """Ends measuring between two blocks when the time is over."""

    measurer: StackMeasurer
    stacks: int
    warming_up: bool
    finished: int = 0

    def build_started(self, inspection: Inspection) -> None:
        """Print which stack is being prepared."""
        if self.warming_up:
            letter = str(inspection.specification.identifier)[-1].upper()
            self.measurer.say(f"preparing {self.measurer.labels[ascii_uppercase.index(letter)]}")

    def build_finished(self, inspection: Any, failure: object) -> None: ...

    def jobs_started(self, jobs: int) -> None:
        """Wait until the machine is quiet."""
        if jobs and not self.warming_up:
            self.measurer.guard.jobs_started(jobs)
            self.measurer.began = self.measurer.began or time.monotonic()

    def job_finished(self, job: Any, result: Mapping[str, Any]) -> None:
        """Count a job.

        :raises SearchStopped: after a block, if there is no time for another one
        """
        self.finished += 1
        began = self.measurer.began or time.monotonic()
        over = time.monotonic() - began > self.measurer.limit_s
        if over and not self.warming_up and self.finished % self.stacks == 0:
            raise SearchStopped(StopReason.TIME, "the limit of time was reached")
