"""Series and jobs of ``thoth bisect``, and the state of the search in the record."""

import asyncio
import itertools
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchState, StackUnavailable, StepSearch
from adviser.bisect.series import PathStep, StackSeries, path_between, search_document
from adviser.scoring.samples import job_log_rate, mean_of
from cli.measuring import (
    SearchFolder,
    StackPinner,
    StackRuns,
    TimeIsOver,
    pinned_requirements,
    pins_of,
)
from cli.project_files import read_lock_file
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.settings import Settings
from graph.engine import Stores, relational_errors
from graph.migrate import migrated_stores
from graph.record.bisects import Bisect, bisect_named, write_bisect
from model.errors import InvalidArgument, ProjectError
from model.packages.environments import environment
from model.packages.project_pages import ListedVersion
from model.redaction import scrubbed, without_secrets
from model.text import first_few, printable
from pis.amun.inspect import Observer
from pis.amun.inspection_folder import InspectionOutcome, measured_jobs, read_job
from pis.amun.job_output import error_lines, readings_of
from pis.amun.specification import Specification

#: Maximum number of stored characters of a reason, such as the end of a build's log.
_MOST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class SeriesMaker:
    """Makes the series of one search, and stores its choices in the folder for later runs.

    :param state: content of the folder's state file
    :param selection: parts of two locks that count
    :param dev: whether packages of two locks for development count
    """

    settings: Settings
    folder: SearchFolder
    state: dict[str, Any]
    pinner: StackPinner
    selection: LockSelection = DEFAULT_SELECTION
    dev: bool = False

    def releases(self, requirement: str, others: Sequence[str]) -> StackSeries:
        """The releases that meet a requirement, oldest first, with all other packages held.

        :raises InvalidArgument: if there are fewer than two
        """
        try:
            parsed = Requirement(requirement)
        except InvalidRequirement as error:
            raise InvalidArgument(f"{requirement!r}: {str(error).splitlines()[0]}") from None
        if parsed.url or parsed.marker or parsed.extras:
            raise InvalidArgument(f"{requirement!r}: give a name and versions only")
        name = canonicalize_name(parsed.name)
        versions = self._kept_releases(name, lambda: self._listed_releases(name, parsed.specifier))
        if len(versions) < 2:
            raise InvalidArgument(
                f"{requirement!r}: the index lists {len(versions)} matching releases; two are"
                " needed"
            )
        held = self.state.get("held")
        if held is None:
            held = self.state["held"] = self._held_pins(name, versions, others)
            self.folder.write_state(self.state)

        def specification_of(place: int) -> tuple[dict[str, Any] | None, str]:
            pinned = [f"{name}=={versions[place]}", *pinned_requirements(held)]
            return self.pinner.specification(pinned)

        return StackSeries("releases", _labels(name, versions), specification_of, name)

    def search_locks(
        self, names: Sequence[str], search: Callable[[StackSeries], StepSearch]
    ) -> None:
        """Search the package between two locks, then its release.

        :raises InvalidArgument: if a lock cannot be installed, or both are equal
        """
        path = self._path(names)
        moves = ["", *(_move(*pair) for pair in itertools.pairwise(path))]
        first = search(
            StackSeries(
                "packages",
                ["the old lock", *(f"the stack with {it}" for it in moves[1:])],
                lambda place: self.pinner.exact_specification(path[place].pins),
                moves=moves,
            )
        )
        if first.state != "step" or first.pair is None:
            return
        before, after = (path[place].pins for place in first.pair)
        moved = sorted(
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        )
        if len(moved) == 1 and moved[0] in before and moved[0] in after:
            series = self._between(moved[0], before, after)
            if len(series.labels) > 2:
                search(series)

    def _path(self, names: Sequence[str]) -> list[PathStep]:
        if "path" not in self.state:
            old, new = (
                lock_pins(it, self.pinner.python_version, self.selection, dev=self.dev)
                for it in names
            )
            if old == new:
                raise InvalidArgument("both locks pin the same versions")
            for name, pins in zip(names, (old, new), strict=True):
                specification, reason = self.pinner.exact_specification(pins)
                if specification is None:
                    raise InvalidArgument(f"{name}: cannot be installed: {printable(reason)}")
            steps = path_between(old, new, self.pinner.is_valid)
            self.state["path"] = [{"moved": list(it.moved), "pins": dict(it.pins)} for it in steps]
            self.folder.write_state(self.state)
        return [PathStep(tuple(it["moved"]), it["pins"]) for it in self.state["path"]]

    def _between(
        self, name: str, before: Mapping[str, str], after: Mapping[str, str]
    ) -> StackSeries:
        """The releases of a package between its versions in two stacks, in this direction."""
        first, last = before[name], after[name]
        low, high = sorted((Version(first), Version(last)))

        def list_releases() -> list[str]:
            inner = self._listed_releases(name, SpecifierSet(f">{low},<{high}"))
            return [first, *inner[:: 1 if Version(first) == low else -1], last]

        versions = self._kept_releases(name, list_releases)
        return StackSeries(
            "releases",
            _labels(name, versions),
            lambda place: self.pinner.exact_specification({**after, name: versions[place]}),
            name,
        )

    def _held_pins(
        self, name: str, versions: Sequence[str], others: Sequence[str]
    ) -> dict[str, str]:
        """The other packages of the newest release that can be installed; every stack has them."""
        reason = ""
        for version in reversed(versions):
            specification, reason = self.pinner.specification([f"{name}=={version}", *others])
            if specification is not None:
                pins = pins_of(specification)
                return {other: pinned for other, pinned in pins.items() if other != name}
        raise InvalidArgument(f"no release of {name} can be installed: {reason}")

    def _kept_releases(self, name: str, listed: Callable[[], list[str]]) -> list[str]:
        """The releases of the series, as the first run of the search listed them."""
        releases: dict[str, list[str]] = self.state.setdefault("releases", {})
        if name not in releases:
            releases[name] = listed()
            self.folder.write_state(self.state)
        return releases[name]

    def _listed_releases(self, name: str, specifier: SpecifierSet) -> list[str]:
        """The releases that the index lists and a specifier admits, oldest first, none yanked."""

        async def read() -> Mapping[str, ListedVersion]:
            index = index_of(self.settings, self.pinner.index)
            async with IndexClient(self.settings, index) as client:
                return (await client.project(name)).listed

        admitted = []
        for text, release in asyncio.run(read()).items():
            try:
                version = Version(text)
            except InvalidVersion:
                continue
            wanted = specifier.contains(version, prereleases=bool(specifier.prereleases))
            if wanted and release.file_count and not release.yanked:
                admitted.append((version, text))
        return [text for _, text in sorted(admitted)]


def _labels(name: str, versions: Sequence[str]) -> list[str]:
    return [f"{name} {version}" for version in versions]


def _move(before: PathStep, after: PathStep) -> str:
    """The change in a step of a path, such as ``numpy 2.0.2 → 2.1.0``."""
    return ", ".join(
        f"{name} {before.pins.get(name, 'added')} → {after.pins.get(name, 'removed')}"
        for name in after.moved
    )


def lock_pins(
    name: str,
    python_version: str | None,
    selection: LockSelection = DEFAULT_SELECTION,
    *,
    dev: bool = False,
) -> dict[str, str]:
    """The version of each package that a lock installs here.

    :param selection: parts of the lock that count; its groups are not for development
    :param dev: whether packages for development count
    """
    markers = environment(python_version).markers
    lock = read_lock_file(Path(name), selection, markers)
    if lock.elsewhere:
        names = first_few([it.what for it in lock.elsewhere], 5)
        raise InvalidArgument(f"{name}: every package must come from an index, unlike {names}")
    packages = lock.packages(markers, dev=dev)
    return {package: entry.version for package, entry in packages.items()}


def identity(state: Mapping[str, Any]) -> dict[str, str]:
    """Identifier and start of a search: stored in its folder, or new."""
    known = state.get("bisect")
    return known or {
        "bisect_id": f"bisect-{secrets.token_hex(8)}",
        "started_at": datetime.now(UTC).isoformat(),
    }


@dataclass
class BisectRecorder:
    """Records one call of ``thoth bisect``.

    A measurement never fails because of the record: if PostgreSQL does not answer, the search goes
    on, and the next block tries again. Every write holds the whole state, so no state is lost.

    :param wanted: whether to record at all
    :param template: the search without its results
    """

    settings: Settings
    template: Bisect
    wanted: bool
    _stores: Stores | None = None
    _state: Bisect | None = None
    _opened: ExitStack = field(default_factory=ExitStack)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Close the record at the end; a search that did not end is recorded as interrupted."""
        with self._opened:
            try:
                yield
            except BaseException as error:
                self._write_interruption(error)
                raise

    def open(self) -> None:
        """Open the record."""
        if not self.wanted:
            return
        try:
            opened = self._opened.enter_context(migrated_stores(self.settings, graph=False))
        except ProjectError as error:
            self._warn(error)
            return
        self._stores = opened
        self._state = self._continued_state(opened)
        self._write(self._state)

    def _continued_state(self, stores: Stores) -> Bisect:
        """The search with the results of an earlier run, until the first block of this one."""
        try:
            with relational_errors(self.settings), stores.engine.connect() as connection:
                known = bisect_named(connection, self.template.bisect_id)
        except ProjectError as error:
            self._warn(error)
            known = None
        if known is None:
            return self.template
        return replace(
            self.template, searches=known.searches, jobs=known.jobs, packages=known.packages
        )

    def progress(self, searches: Iterable[tuple[StackSeries, StepSearch]]) -> None:
        """Write the state of all searches so far."""
        if self._stores is None:
            return
        documents = [search_document(*it) for it in searches]
        for skipped in (skip for document in documents for skip in document["skipped"]):
            skipped["reason"] = _public(skipped["reason"], keep="\n")
        packages = {it["package"] for it in documents if it["package"]}
        self._state = replace(
            self.template, state=documents[-1]["state"], searches=documents,
            jobs=sum(it["jobs"] for it in documents),
            packages=sorted({*self.template.packages, *packages}),
        )  # fmt: skip
        self._write(self._state)

    def _write_interruption(self, error: BaseException) -> None:
        state = self._state or self.template
        if self._stores is None or state.state != SearchState.RUNNING:
            return
        text = error.message if isinstance(error, click.ClickException) else str(error)
        reason = _public(text) or None
        self._write(replace(state, state=SearchState.INTERRUPTED.value, reason=reason))

    def _write(self, bisect: Bisect) -> None:
        assert self._stores is not None  # noqa: S101 - callers checked
        try:
            with relational_errors(self.settings), self._stores.engine.begin() as connection:
                write_bisect(connection, bisect)
        except ProjectError as error:
            self._warn(error)

    @staticmethod
    def _warn(error: ProjectError) -> None:
        click.echo(printable(f"warning: the search is not recorded: {error}"), err=True)


def _public(text: str, *, keep: str = "") -> str:
    """A text of a build for everyone who may read searches.

    It may be long, have the password of an index, and hold characters that PostgreSQL refuses.
    """
    return scrubbed(without_secrets(printable(text, keep=keep)))[:_MOST_CHARACTERS]


@dataclass
class ExecutorMeasurer:
    """Measures the stacks of one search, with one submission for each call.

    :param name: distinguishes the searches of a folder
    :param specification_of: returns the specification of a stack, or ``None`` and the reason
    :param deadline: time by ``time.monotonic`` from which no new block starts
    :param warm: whether the first run counts, without a warm-up before it
    :ivar folders: folders of all inspections so far
    """

    name: str
    stacks: StackRuns
    observer: Observer
    specification_of: Callable[[int], tuple[dict[str, Any] | None, str]]
    deadline: float | None = None
    warm: bool = True
    folders: list[Path] = field(default_factory=list)
    _calls: int = 0
    _warmed: set[int] = field(default_factory=set)

    def measure(self, stacks: Sequence[int], blocks: int) -> Sequence[MeasuredRate]:
        """Run ``blocks`` blocks; results of a stored inspection are not measured again."""
        chosen: list[tuple[int, Specification]] = []
        for stack in stacks:
            document, refusal = self.specification_of(stack)
            if document is None:
                raise StackUnavailable(stack, refusal)
            chosen += [(stack, it) for it in self.stacks.specifications([document])]
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise TimeIsOver
        self._calls += 1
        if self._calls % 2 == 0:  # blocks alternate their order, so that a drift cancels
            chosen.reverse()
        submission = f"bisect {self.name} {self._calls}"
        folders = self.stacks.folders([it for _, it in chosen], blocks, submission)
        if not self.warm and any(len(measured_jobs(it)) < blocks for it in folders):
            self._warm_up(chosen)
        jobs: list[MeasuredRate] = []
        for stack, outcome in self._outcomes(chosen, blocks, submission):
            self.folders.append(outcome.folder)
            jobs += _rates_of(stack, outcome, blocks)
        return jobs

    def _outcomes(
        self, chosen: Sequence[tuple[int, Specification]], blocks: int, submission: str
    ) -> list[tuple[int, InspectionOutcome]]:
        outcomes = self.stacks.run([it for _, it in chosen], blocks, submission, self.observer)
        paired = [(stack, it) for (stack, _), it in zip(chosen, outcomes, strict=True)]
        for stack, outcome in paired:
            if outcome.failure is not None:
                if outcome.failure.host_problem:
                    raise outcome.failure
                raise StackUnavailable(stack, str(outcome.failure))
        return paired

    def _warm_up(self, chosen: Sequence[tuple[int, Specification]]) -> None:
        """Run stacks that did not run yet once, so that their files are in the cache.

        A later search runs them again: failures may be repaired, and caches may be cold again.
        """
        cold = [it for it in chosen if it[0] not in self._warmed]
        self._warmed |= {stack for stack, _ in cold}
        for stack, outcome in self._outcomes(cold, 1, f"warm-up {uuid4()}"):
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
