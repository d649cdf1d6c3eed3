"""The stacks of ``thoth compare``, which are resolved once and measured."""

import json
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean, median
from string import ascii_uppercase
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from adviser.answering.index_stacks import NoValidStack
from adviser.answering.target_hardware import own_hardware
from adviser.bisect.search import SearchStopped, StopReason
from adviser.planned_comparison import (
    LOOK_BLOCKS,
    Attribution,
    ComparedStack,
    PlannedLook,
    judge_look,
)
from adviser.projects.pyproject import has_requirements
from cli.measuring import (
    MachineGuard,
    StackFailed,
    StackPinner,
    StackRuns,
    pinned_requirements,
    pins_of,
)
from cli.project_files import names_file, read_lock_file, read_project
from common.formats.job_results import Measurement, measurements_of, run_of
from common.formats.locks.entries import LockEntry, LockSelection
from common.settings import Settings
from ingest.inspections.results import library_of
from model.errors import InvalidArgument, InvalidFile
from model.json_documents import digest
from model.json_fields import ROOT, Fields
from model.measurements.evidence import MeasuredObservation, Reading, Series
from model.measurements.inspection import Hardware
from model.measurements.job_stability import instability
from model.packages.environments import environment
from model.packages.identity import package_version
from model.packages.native_libraries import bundled_of, bundled_steps, context_lines
from model.text import first_few, printable
from pis.amun.inspection_folder import InspectionOutcome, measured_jobs, read_build, read_job
from pis.amun.job_output import duration_s, error_lines, readings_of
from pis.amun.launchers import Inspection
from pis.amun.locks import Lock, pipfile_lock_of
from pis.amun.specification import (
    Specification,
    load_specification,
    packages_of,
    read_specification,
)
from pis.catalogue import indicator_of
from pis.command_specifications import VARIABLES

#: Name of the file in a folder of a comparison that keeps the question and the resolved stacks.
STATE_NAME = "compare.json"
#: Versions of a resolved stack, by name.
Pins = Mapping[str, str]


#: What a command used beside the time.
_USAGE = ("user_s", "system_s", "memory_bytes", "energy_j")
#: The comparison ends when one stack has this number of failed jobs.
_MOST_FAILED = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """A stack that the command line names.

    :param requirements: of a requirement; empty for a lock or a specification
    :param lock: the packages that a lock installs here
    :param left_out: entries of the lock from other sources than an index, or without a version
    :param document: of a specification
    """

    text: str
    requirements: tuple[str, ...] = ()
    lock: tuple[LockEntry, ...] = ()
    left_out: tuple[str, ...] = ()
    document: Mapping[str, Any] | None = None

    @property
    def identity(self) -> Any:
        """Its identity: the requirements, or the content of the file."""
        return list(self.requirements) or self.pins or self.document

    @property
    def pins(self) -> dict[str, str]:
        """The version of each package of a lock."""
        return {it.name: it.version for it in self.lock}

    def locked_part(self, pinner: StackPinner) -> dict[str, Any] | None:
        """The part ``python`` of a specification; ``None`` if the lock lacks a hash."""
        if not all(it.hashes for it in self.lock):
            return None
        names = {url: name for name, url in pinner.indexes.items()}
        packages = tuple(
            replace(it, marker=None, index=names.get(it.index or "", pinner.index))
            for it in self.lock
        )
        python = pinner.python_version or f"{sys.version_info.major}.{sys.version_info.minor}"
        lock = pipfile_lock_of(Lock(packages, python))
        return {
            "requirements": {"packages": {}, "requires": {"python_version": python}},
            "requirements_locked": lock,
        }


def subject_of(text: str, python_version: str | None, selection: LockSelection) -> Subject:
    """A requirement, a lock or a specification.

    :param selection: parts of a lock that count
    :raises InvalidArgument: if the text is no requirement, lock or specification
    :raises InvalidFile: for a lock that cannot be used
    :raises InvalidSpecification: for an invalid specification
    """
    if text.endswith(".json"):
        return Subject(text, document=read_specification(text))
    if names_file(text):
        markers = environment(python_version).markers
        lock = read_lock_file(Path(text), selection, markers)
        others = tuple(it.what for it in lock.elsewhere)
        return Subject(text, lock=tuple(lock.packages(markers).values()), left_out=others)
    return Subject(text, (_requirement(text),))


def _requirement(text: str) -> str:
    try:
        parsed = Requirement(text)
    except InvalidRequirement as error:
        message = f"{text!r} is neither a file nor a requirement: {str(error).splitlines()[0]}"
        raise InvalidArgument(message) from None
    if parsed.url:
        raise InvalidArgument(f"{text!r}: give a requirement without a URL")
    return text


def pinned_versions(subject: Subject) -> dict[str, str]:
    """The versions that a subject names, without resolving anything.

    :raises InvalidArgument: for a specification, or a requirement that pins no version
    """
    if subject.lock:
        return subject.pins
    versions: dict[str, str] = {}
    for parsed in map(Requirement, subject.requirements):
        pins = [it.version for it in parsed.specifier if it.operator in {"==", "==="}]
        if len(parsed.specifier) == len(pins) == 1 and "*" not in pins[0]:
            versions[canonicalize_name(parsed.name)] = pins[0]
    if not versions:
        raise InvalidArgument(
            f"{subject.text!r} names no version", hint="write numpy==2.1.0, or name a lock"
        )
    return versions


def project_requirements(folder: Path) -> list[str]:
    """Requirements of the ``pyproject.toml`` in a folder, including development requirements.

    Commands such as pytest are installed for development. Empty without a ``pyproject.toml``.

    :raises InvalidArgument: if the file cannot be read
    """
    path = folder / "pyproject.toml"
    try:
        if not path.is_file() or not has_requirements(tomllib.loads(path.read_text("utf-8"))):
            return []
        project = read_project(path)
    except (OSError, ValueError, InvalidFile) as error:
        raise InvalidArgument(f"{path}: {error}", hint="--no-project leaves it out") from None
    return [it.text for it in (*project.requirements, *project.dev)]


def resolved_stacks(
    pinner: StackPinner,
    subjects: Sequence[Subject],
    others: Sequence[str],
    variables: Sequence[Mapping[str, str]],
    state: dict[str, Any],
) -> tuple[list[ComparedStack], list[dict[str, Any]]]:
    """The stacks, and the part ``python`` of the specification of each.

    :param others: further requirements of every stack
    :param state: keeps the versions of resolved requirements
    :raises NoValidStack: if a subject cannot be installed
    """
    required = [it for it in subjects if it.requirements]
    if required and "resolved" not in state:
        sides = [[*it.requirements, *others] for it in required]
        names = {
            canonicalize_name(Requirement(it).name) for side in required for it in side.requirements
        }
        state["resolved"] = resolve_alike(pinner.stacks.best, sides, names)
        pinner.folder.write_state(state)
    resolved = iter(state.get("resolved", ()))
    stacks, parts = [], []
    for letter, subject, own in zip(ascii_uppercase, subjects, variables, strict=False):
        if subject.document is not None:
            checked = load_specification(subject.document, pinner.indexes)
            part = checked.document["python"]
        else:
            part = subject.locked_part(pinner) if subject.lock else None
            if part is None:
                pins = next(resolved) if subject.requirements else subject.pins
                specification, reason = pinner.exact_specification(pins)
                if specification is None:
                    raise NoValidStack(f"{subject.text}: cannot be installed: {printable(reason)}")
                part = specification["python"]
        stacks.append(ComparedStack(letter, subject.text, pins_of({"python": part}), own))
        parts.append(part)
    return stacks, parts


def resolve_alike(
    best: Callable[[Sequence[str]], dict[str, str]],
    sides: Sequence[Sequence[str]],
    compared: Collection[str],
) -> list[dict[str, str]]:
    """Resolve several lists of requirements so that other packages differ as little as possible.

    :param best: resolves requirements
    :param compared: normalised names of the packages that may differ
    :raises NoValidStack: if one of them has no stack
    """
    alone = [best(side) for side in sides]
    for chosen in alone:
        held = {it: version for it, version in chosen.items() if it not in compared}
        try:
            return [best([*side, *pinned_requirements(held)]) for side in sides]
        except NoValidStack:
            continue
    first = alone[0]
    return [
        first,
        *(_nearest(best, side, own, first) for side, own in zip(sides[1:], alone[1:], strict=True)),
    ]


def _nearest(
    best: Callable[[Sequence[str]], dict[str, str]], side: Sequence[str], own: Pins, first: Pins
) -> dict[str, str]:
    """The stack of a side with as many versions of the first stack as fit, tried by name."""
    stack, kept = dict(own), dict[str, str]()
    for name in sorted(own.keys() & first.keys()):
        if stack.get(name) == first[name]:
            continue
        try:
            stack = best([*side, *pinned_requirements({**kept, name: first[name]})])
            kept[name] = first[name]
        except NoValidStack:
            continue
    return stack


def indicator_fields(settings: Settings, stacks: Sequence[ComparedStack]) -> list[dict[str, Any]]:
    """Script and parameters of the indicators that measure a package that differs.

    :raises InvalidArgument: if there is none
    """
    from loop.stacks import indicator_named  # slow, and needed only here

    moved = {name for it in stacks for name in it.moved(stacks[0])}
    fields = [
        {"script": it.name, "parameters": {**it.parameters, "framework": framework}}
        for it in map(indicator_named, settings.loop_indicators)
        for framework in indicator_of(it.name).frameworks
        if moved.intersection(packages_of(framework))
    ]
    if not fields:
        names = first_few(sorted(moved), 5) or "stacks that are equal"
        raise InvalidArgument(f"no indicator measures {names}: give a command behind --")
    return fields


def changed_series(folder: Path, question: Mapping[str, Any]) -> str | None:
    """The files that changed since an earlier comparison of the same stacks, if there was one.

    :param folder: of this comparison
    """
    files = dict(question.get("files", {}))
    for path in sorted(folder.parent.glob(f"*/{STATE_NAME}")):
        earlier = _question_in(path)
        if path.parent != folder and {**earlier, "files": {}} == {**question, "files": {}}:
            before = dict(earlier.get("files", {}))
            names = sorted(
                it for it in files.keys() | before.keys() if files.get(it) != before.get(it)
            )
            if not names:
                continue
            return (
                f"{first_few(names, 3)} changed since an earlier comparison, so this is another"
                " series: the jobs of that comparison are not used"
            )
    return None


def _question_in(path: Path) -> dict[str, Any]:
    """The question of an earlier comparison; empty if the file cannot be read."""
    try:
        question = json.loads(path.read_text(encoding="utf-8"))["question"]
    except (OSError, ValueError, LookupError, TypeError):
        return {}
    return question if isinstance(question, dict) else {}


@dataclass
class StackMeasurer:
    """Runs blocks of jobs until every comparison is settled, or the time is over.

    :param specifications: of each stack, one for each thing to measure
    :param labels: of each stack
    :param hardware: label of this machine
    :param limit_s: no new block starts after this time, from the first one
    :param progress: called after each look
    :param say: called with a line about each step before the jobs
    :ivar folders: of all inspections
    """

    runner: StackRuns
    guard: MachineGuard
    stacks: Sequence[ComparedStack]
    labels: Sequence[str]
    specifications: Sequence[Sequence[dict[str, Any]]]
    state: dict[str, Any]
    write_state: Callable[[], None]
    limit_s: float
    progress: Callable[[PlannedLook], None]
    say: Callable[[str], None]
    folders: dict[str, Path] = field(default_factory=dict)
    jobs: dict[str, dict[int, dict[str, Any]]] = field(default_factory=lambda: defaultdict(dict))
    hardware: Hardware = field(default_factory=own_hardware)
    _warm: set[int] = field(default_factory=set)
    _began: float | None = None
    _warming_up: bool = False

    def run(self) -> tuple[PlannedLook, SearchStopped | None]:
        """Measure; return the last look, and why measuring stopped before all was settled.

        :raises StackFailed: if a stack cannot be measured
        """
        look: PlannedLook | None = None
        letters = {it.letter for it in self.stacks}
        for number, blocks in enumerate(LOOK_BLOCKS):
            try:
                self._measure(letters, blocks)
            except SearchStopped as stopped:
                return self._judge(number, None, look), stopped
            look = self._judge(number, blocks, look)
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
            specifications = self.runner.specifications(documents)
            folders = self.runner.folders(specifications, blocks, None)
            self.folders |= dict(zip(keys, folders, strict=True))
            if any(len(measured_jobs(it)) < blocks for it in folders):
                if number not in self._warm:
                    self._warm_up(number)
                self._outcomes(specifications, blocks, None)
            for key in keys:
                self._read(key, blocks)
                failed = [it for it in self.jobs[key].values() if not readings_of(it).rates]
                if len(failed) >= _MOST_FAILED:
                    self._require_result(key[0], failed[-1])

    def _outcomes(
        self, specifications: Sequence[Specification], jobs: int, submission: str | None
    ) -> list[InspectionOutcome]:
        outcomes = self.runner.run(specifications, jobs, submission, self, self._time_is_over)
        for specification, outcome in zip(specifications, outcomes, strict=True):
            if outcome.failure is not None:
                stack = self._label_of(specification)
                raise StackFailed(f"{stack}: {outcome.failure}", hint=outcome.failure.hint)
        return outcomes

    def _warm_up(self, number: int) -> None:
        """Run each stack once, to fill the file cache and to detect a command that fails."""
        self._warm.add(number)
        self.state["warm_ups"] = self.state.get("warm_ups", 0) + 1
        self.write_state()
        specifications = self.runner.specifications(it[number] for it in self.specifications)
        self._warming_up = True
        outcomes = self._outcomes(specifications, 1, f"warm-up {self.state['warm_ups']}")
        self._warming_up = False
        for stack, outcome in zip(self.stacks, outcomes, strict=True):
            self._require_result(stack.letter, read_job(outcome.folder, 0))

    def build_started(self, inspection: Inspection) -> None:
        """Print which stack is being prepared."""
        if self._warming_up:
            self.say(f"preparing {self._label_of(inspection.specification)}")

    def build_finished(self, inspection: object, failure: object) -> None: ...

    def jobs_started(self, jobs: int) -> None:
        """Wait until the machine is quiet."""
        if jobs and not self._warming_up:
            self.guard.jobs_started(jobs)
            self._began = self._began or time.monotonic()

    def job_finished(self, job: object, result: object) -> None: ...

    def _time_is_over(self) -> bool:
        began = None if self._warming_up else self._began
        return began is not None and time.monotonic() - began > self.limit_s

    def _label_of(self, specification: Specification) -> str:
        return self._label(str(specification.identifier)[-1].upper())

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

    def _judge(self, number: int, blocks: int | None, earlier: PlannedLook | None) -> PlannedLook:
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
                        yield self._observation(key[0], job, result, each)

    def _observation(
        self, letter: str, job: int, result: Mapping[str, Any], measurement: Measurement
    ) -> tuple[Series, MeasuredObservation]:
        name = str(result["stdout"].get("name"))
        stack, identity = self.stacks[ascii_uppercase.index(letter)], f"{letter}{job}"
        # A comparison may vary the variables.
        stated = measurement.parameters.record.items()
        parameters = {it: value for it, value in stated if it != VARIABLES}
        key = digest([name, parameters, measurement.unit, self.hardware.digest])
        series = Series(
            comparison_key=key,
            indicator=name,
            script_sha256=result.get("script_sha256"),
            parameters=parameters,
            device=None,
            unit=measurement.unit,
            hardware_digest=self.hardware.digest,
            python_version=".".join(str(result.get("python_full_version")).split(".")[:2]),
        )
        schedule = result.get("schedule") or {}
        reading = Reading(
            observation_id=identity,
            series=0,
            stack=letter,
            document_id=letter,
            job_id=identity,
            rate=measurement.rate,
            # Repetitions of a person's own benchmark may scatter: the job counts by its median.
            unstable_reason=instability((), run_of(Fields(dict(result))).conditions),
            host=result.get("host"),
            block=f"{schedule.get('run')}:{schedule.get('block')}",
            seen_at=datetime.fromisoformat(result["end_datetime"]),
        )
        packages = tuple(package_version(*it) for it in stack.pins.items())
        label = self._label(letter).removesuffix(f" ({letter})")
        return series, MeasuredObservation(
            series, reading, self.hardware.label, label, None, packages
        )

    def usage(self, letter: str | None) -> dict[str, float]:
        """Median resource usage of the first command's jobs on a stack, by name with the unit."""
        ended = [it for it in self.jobs.get(f"{letter}0", {}).values() if readings_of(it).rates]
        outputs = (it["stdout"] for it in ended)
        results = [dict(it.get("process") or it.get("@result") or {}) for it in outputs]
        for result, job in zip(results, ended, strict=True):
            if (energy := run_of(Fields(job)).energy_j) is not None:
                result["energy_j"] = energy
        columns = {name: [it[name] for it in results if name in it] for name in _USAGE}
        return {name: median(them) for name, them in columns.items() if them}

    def context(self, look: PlannedLook) -> list[str]:
        """Observations beside settled differences: bundled libraries, and kernels that ran."""
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
    """The number of finished blocks of some stacks, and the mean duration of a block, s.

    :param jobs: results by number, of each measurement on a stack: ``A0`` of stack A
    :param letters: of the stacks that still run
    """
    running = [it for key, it in jobs.items() if key[0] in letters]
    spans = (fmean(map(duration_s, it.values())) for it in running if it)
    return min(map(len, running), default=0), sum(spans)
