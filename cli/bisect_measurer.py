"""Measures the stacks of ``thoth bisect`` with the executor, and replays what was measured before.

A folder of a search contains ``bisect.json`` (the question and its releases), ``stacks`` (one
specification or refusal per stack) and one inspection folder for each stack and call.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from adviser.answering.index_stacks import IndexStacks, NoValidStack
from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchStopped, StackUnavailable, StopReason
from adviser.scoring.samples import job_log_rate, mean_of
from common.private_folders import private_folder
from model.errors import InvalidArgument
from model.json_documents import digest
from pis.amun.conditions import MachineBusy, OnWait, wait_until_quiet
from pis.amun.inspect import InspectOptions, Observer, inspect, inspections_of
from pis.amun.inspection_folder import measured_jobs, read_job
from pis.amun.job_output import error_lines, readings_of
from pis.amun.launchers import BuildFailed, Launcher
from pis.amun.outcomes import InspectionOutcome
from pis.amun.pinning import pinned_specification
from pis.amun.specification import Specification, load_specification

#: From this number of unusable jobs in one run, the search is stopped if they are the majority.
_UNUSABLE_JOBS = 20


@dataclass(frozen=True)
class SearchFolder:
    """The folder of one search. Everything that a later run must repeat is stored here."""

    path: Path
    state_name: str = "bisect.json"

    def state(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored state, or a new one for this question.

        :raises InvalidArgument: if the folder holds the search of another question
        """
        try:
            state = json.loads((self.path / self.state_name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"question": dict(question)}
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"--out: {self.path / self.state_name}: {error}") from None
        if not isinstance(state, dict) or state.get("question") != dict(question):
            raise InvalidArgument(
                f"--out: {self.path} holds the search of another question: give another folder"
            )
        return state

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Write the state atomically."""
        _write(self.path / self.state_name, state)

    def stack(self, requirements: Sequence[str], pin: Callable[[], dict[str, Any]]) -> Any:
        """Return the stored document of a stack, or make and store it.

        The document has either ``specification`` or ``refusal``.

        :param pin: makes the specification
        :raises BuildFailed: if the host or the index prevents an answer
        """
        name = digest(sorted(requirements)).removeprefix("sha256:")[:16]
        path = self.path / "stacks" / f"{name}.json"
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        try:
            document: dict[str, Any] = {"specification": pin()}
        except NoValidStack as error:
            document = {"refusal": str(error)}
        except BuildFailed as error:
            if error.host_problem:
                raise
            document = {"refusal": error.message}
        _write(path, document)
        return document


def _write(path: Path, document: Mapping[str, Any]) -> None:
    if not path.parent.exists():
        private_folder(path.parent)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


@dataclass(frozen=True)
class StackPinner:
    """Locks stacks for one script, Python and index, and keeps the locks in a folder.

    The adviser's resolver chooses and checks the versions; uv adds the hashes of their wheels.

    :param script: name of an indicator, or the text of a script
    """

    folder: SearchFolder
    stacks: IndexStacks
    script: str
    parameters: Mapping[str, str]
    python_version: str | None
    index: str
    indexes: Mapping[str, str]

    def specification(self, requirements: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
        """Return the specification of a stack, or ``None`` and the reason why there is none."""
        document = self.folder.stack(requirements, lambda: self._pinned(requirements))
        return document.get("specification"), str(document.get("refusal", ""))

    def exact_specification(self, pins: Mapping[str, str]) -> tuple[dict[str, Any] | None, str]:
        """The same for a stack with exactly these versions."""
        specification, refusal = self.specification(pinned_requirements(pins))
        if specification is not None and (other := pins_of(specification).keys() - pins.keys()):
            return None, f"it needs other packages, too: {', '.join(sorted(other))}"
        return specification, refusal

    def is_valid(self, pins: Mapping[str, str]) -> bool:
        """Whether exactly these versions can be installed together, by the adviser's resolver."""
        try:
            return self.stacks.best(pinned_requirements(pins)).keys() == pins.keys()
        except NoValidStack:
            return False

    def _pinned(self, requirements: Sequence[str]) -> dict[str, Any]:
        versions = self.stacks.best(requirements)
        specification = pinned_specification(
            self.script, pinned_requirements(versions), self.python_version,
            dict(self.parameters), index=self.index, indexes=self.indexes,
        )  # fmt: skip
        if other := pins_of(specification).keys() ^ versions.keys():
            raise NoValidStack(f"uv and the resolver disagree about {', '.join(sorted(other))}")
        return specification


def pinned_requirements(pins: Mapping[str, str]) -> list[str]:
    """Return one exact requirement for each package, by name."""
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def pins_of(specification: Mapping[str, Any]) -> dict[str, str]:
    """Return the version of each locked package."""
    packages = specification["python"]["requirements_locked"]["default"]
    return {name: entry["version"].removeprefix("==") for name, entry in packages.items()}


@dataclass
class MachineGuard:
    """Lets jobs run only while this machine gives usable results; reports nothing.

    Only jobs that this run measures count, so that a later run can continue.

    :param wait_s: limit of each wait for other processes; ``None`` not to wait
    :param most_busy: share of all processors that other processes may use
    :ivar measured: jobs that this run has measured
    :ivar unusable: those that failed or were unstable
    """

    wait_s: float | None
    most_busy: float
    on_wait: OnWait
    measured: int = 0
    unusable: int = 0

    def build_started(self, inspection: object) -> None: ...
    def build_finished(self, inspection: object, failure: object) -> None: ...

    def job_finished(self, job: object, result: Mapping[str, Any]) -> None:
        """Count a job."""
        readings = readings_of(result)
        self.measured += 1
        self.unusable += not readings.rates or any(readings.unstable)

    def jobs_started(self, jobs: int) -> None:
        """Wait until the machine is quiet, if there are jobs to run.

        :raises SearchStopped: if the machine stays busy, or most jobs were unusable
        """
        if not jobs:
            return
        if self.unusable >= _UNUSABLE_JOBS and self.unusable > self.measured / 2:
            message = f"{self.unusable} of {self.measured} jobs failed or were unstable"
            raise SearchStopped(StopReason.UNSTABLE, message)
        if self.wait_s is None:
            return
        try:
            wait_until_quiet(self.wait_s, self.most_busy, self.on_wait)
        except MachineBusy as error:
            raise SearchStopped(StopReason.BUSY, str(error)) from error


@dataclass
class ExecutorMeasurer:
    """Measures stacks by :func:`pis.amun.inspect.inspect`, one submission for each call.

    :param name: distinguishes the searches of a folder
    :param specification_of: returns the specification of a stack, or ``None`` and the reason
    :param deadline: time by ``time.monotonic`` from which no new block starts
    :param trust_script: run a script that is no indicator without a sandbox
    :param warm: whether no run is needed before the first that counts
    :ivar folders: folders of all inspections so far
    """

    name: str
    folder: SearchFolder
    launcher: Launcher
    observer: Observer
    indexes: Mapping[str, str]
    specification_of: Callable[[int], tuple[dict[str, Any] | None, str]]
    deadline: float | None = None
    trust_script: bool = False
    warm: bool = True
    folders: list[Path] = field(default_factory=list)
    _calls: int = 0
    _warmed: set[int] = field(default_factory=set)

    def measure(self, stacks: Sequence[int], blocks: int) -> Sequence[MeasuredRate]:
        """Run ``blocks`` blocks; what a stored inspection holds is not measured again."""
        specifications = []
        for stack in stacks:
            document, refusal = self.specification_of(stack)
            if document is None:
                raise StackUnavailable(stack, refusal)
            document = {**document, "batch_size": blocks}
            specifications.append((stack, load_specification(document, self.indexes)))
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise SearchStopped(StopReason.TIME, "the limit of time was reached")
        self._calls += 1
        if self._calls % 2 == 0:  # blocks alternate their order, so that a drift cancels
            specifications.reverse()
        submission = f"bisect {self.name} {self._calls}"
        inspections = inspections_of(
            [it for _, it in specifications], self.launcher.name, self._options(submission)
        )
        folders = [self.folder.path / it.inspection_id for it in inspections]
        if not self.warm and any(len(measured_jobs(it)) < blocks for it in folders):
            self._warm_up(specifications)
        outcomes = self._inspect(specifications, submission)
        jobs: list[MeasuredRate] = []
        for (stack, _), outcome in zip(specifications, outcomes, strict=True):
            self.folders.append(outcome.folder)
            jobs += _rates_of(stack, outcome, blocks)
        return jobs

    def _options(self, submission: str) -> InspectOptions:
        return InspectOptions(
            self.folder.path, submission=submission, trust_script=self.trust_script,
            reference_jobs=1,
        )  # fmt: skip

    def _inspect(
        self, specifications: Sequence[tuple[int, Specification]], submission: str
    ) -> list[InspectionOutcome]:
        options, loaded = self._options(submission), [it for _, it in specifications]
        outcomes = inspect(loaded, self.launcher, options, self.observer)
        for (stack, _), outcome in zip(specifications, outcomes, strict=True):
            if outcome.failure is not None:
                if outcome.failure.host_problem:
                    raise outcome.failure
                raise StackUnavailable(stack, str(outcome.failure))
        return outcomes

    def _warm_up(self, specifications: Sequence[tuple[int, Specification]]) -> None:
        """Run stacks that did not run yet once, so that their files are in the cache.

        A later search runs them again: failures may be repaired, and caches may be cold again.

        :raises StackUnavailable: if a run fails
        """
        cold = [
            (stack, replace(specification, batch_size=1))
            for stack, specification in specifications
            if stack not in self._warmed
        ]
        self._warmed |= {stack for stack, _ in cold}
        for (stack, _), outcome in zip(
            cold, self._inspect(cold, f"warm-up {uuid4()}"), strict=True
        ):
            result = read_job(outcome.folder, 0)
            if not readings_of(result).rates:
                reason = (error_lines(result) or ["no output"])[-1]
                raise StackUnavailable(
                    stack, f"the command failed: exit code {result.get('exit_code')}: {reason}"
                )


def _rates_of(stack: int, outcome: InspectionOutcome, blocks: int) -> list[MeasuredRate]:
    """Read the jobs of an inspection; the rate of several measurements is their geometric mean."""
    rates = []
    for number in range(blocks):
        result = read_job(outcome.folder, number)
        readings = readings_of(result)
        schedule = result.get("schedule") or {}
        block = f"{schedule.get('run')} {schedule.get('block')}"
        log_rate = math.nan
        if readings.rates and not any(readings.unstable):
            log_rate = mean_of([job_log_rate([it]) for it in readings.rates])
        failed = not readings.rates
        rates.append(MeasuredRate(stack, block, log_rate, failed))
    return rates
