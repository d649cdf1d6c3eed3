"""Measures stacks on this machine, for ``thoth compare``, ``bisect``, ``advise`` and ``fix``.

Earlier results are replayed. A folder of a search or comparison contains its state (the question,
and choices that later runs repeat), ``stacks`` (one specification or refusal per stack) and
inspection folders.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from adviser.answering.index_stacks import IndexStacks, NoValidStack
from adviser.bisect.search import SearchStopped, StopReason
from cli.inspect import hint_to_resume
from cli.measuring_options import print_wait
from cli.project_files import write_file
from common.files import private_folder
from common.settings import Settings
from model.errors import InvalidArgument, ProjectError
from model.json_documents import digest
from pis.amun.conditions import MachineBusy, OnWait, wait_until_quiet
from pis.amun.inspect import InspectOptions, Observer, inspect, inspections_of
from pis.amun.inspection_folder import InspectionOutcome
from pis.amun.job_output import readings_of
from pis.amun.launchers import BuildFailed, Launcher
from pis.amun.launchers.local import LocalLauncher
from pis.amun.pinned_specifications import pinned_specification
from pis.amun.processes import interrupted_by_signals
from pis.amun.specification import Specification, load_specification
from pis.command_specifications import Command

#: From this number of unusable jobs in one run, the search is stopped if they are the majority.
_UNUSABLE_JOBS = 20


class StackFailed(ProjectError):
    """The environment of a stack could not be built, or the command failed in it."""


@contextmanager
def local_launcher(
    settings: Settings, commands: Sequence[Command], concealed: Mapping[str, str]
) -> Iterator[LocalLauncher]:
    """A launcher for this machine; after an interruption, the user learns how to continue.

    :param concealed: see :class:`LocalLauncher`
    """
    with (
        interrupted_by_signals(),
        hint_to_resume(),
        closing(LocalLauncher(settings, commands=commands, concealed=concealed)) as launcher,
    ):
        yield launcher


@dataclass
class StackRuns:
    """Builds the environments of stacks, and runs their jobs in blocks.

    :param path: folder of the inspections
    :param trusted: run scripts that are no indicators without a sandbox
    """

    path: Path
    launcher: Launcher
    indexes: Mapping[str, str]
    trusted: bool

    def specifications(self, documents: Iterable[Mapping[str, Any]]) -> list[Specification]:
        """:raises InvalidSpecification: if one is invalid"""
        return [load_specification(it, self.indexes) for it in documents]

    def folders(
        self, specifications: Sequence[Specification], jobs: int, submission: str | None
    ) -> list[Path]:
        """The folder of each inspection, which need not exist yet."""
        options = self._options(jobs, submission)
        inspections = inspections_of(specifications, self.launcher.name, options)
        return [self.path / it.inspection_id for it in inspections]

    def run(
        self,
        specifications: Sequence[Specification],
        jobs: int,
        submission: str | None,
        observer: Observer,
        time_is_over: Callable[[], bool] = lambda: False,
    ) -> list[InspectionOutcome]:
        """Run the jobs of each stack that have no result yet, in turns.

        :param submission: see :class:`InspectOptions`
        :param time_is_over: asked after each turn
        :raises SearchStopped: between two turns, if the time is over
        """
        turns = _Turns(observer, len(specifications), time_is_over)
        return inspect(specifications, self.launcher, self._options(jobs, submission), turns)

    def _options(self, jobs: int, submission: str | None) -> InspectOptions:
        return InspectOptions(
            self.path, jobs, submission=submission, trust_script=self.trusted, reference_jobs=1
        )


@dataclass
class _Turns:
    """Passes on the progress of jobs, and ends them between two turns when the time is over."""

    observer: Observer
    stacks: int
    time_is_over: Callable[[], bool]
    finished: int = 0

    def build_started(self, inspection: Any) -> None:
        self.observer.build_started(inspection)

    def build_finished(self, inspection: Any, failure: Any) -> None:
        self.observer.build_finished(inspection, failure)

    def jobs_started(self, jobs: int) -> None:
        self.observer.jobs_started(jobs)

    def job_finished(self, job: Any, result: Mapping[str, Any]) -> None:
        """:raises SearchStopped: after a turn, if there is no time for another one"""
        self.finished += 1
        self.observer.job_finished(job, result)
        if self.finished % self.stacks == 0 and self.time_is_over():
            raise TimeIsOver


class TimeIsOver(SearchStopped):
    """No block may start any more."""

    def __init__(self) -> None:
        super().__init__(StopReason.TIME, "the time limit was reached")


@dataclass(frozen=True)
class SearchFolder:
    """The folder of one search, with all choices that later runs repeat."""

    path: Path
    state_name: str = "bisect.json"

    def state(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the stored state, or a new one for this question.

        :raises InvalidArgument: if the folder holds a search with other arguments
        """
        try:
            state = json.loads((self.path / self.state_name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {"question": dict(question)}
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"--out: {self.path / self.state_name}: {error}") from None
        if not isinstance(state, dict) or state.get("question") != dict(question):
            raise InvalidArgument(
                f"--out: {self.path} holds a search with other arguments: give another folder"
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
    write_file(path, f"{json.dumps(document, indent=2)}\n".encode())


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
    :ivar unusable: jobs that failed or were unstable
    """

    wait_s: float | None
    most_busy: float
    on_wait: OnWait
    measured: int = 0
    unusable: int = 0

    @classmethod
    def of_this_command(cls, settings: Settings, wait_s: float, *, share: bool) -> MachineGuard:
        """With the options of a command.

        :param share: run beside other processes
        """
        on_wait = partial(print_wait, wait_s=wait_s)
        return cls(None if share else wait_s, settings.loop_busy_share, on_wait)

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
