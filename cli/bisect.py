"""``thoth bisect``: which release, or which package of a lock, changed the speed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.bisect_measurer import (
    ExecutorMeasurer,
    SearchFolder,
    StackPinner,
    StackSeries,
    pinned_requirements,
    pins_of,
)
from cli.inspect import (
    UnusableSpecification,
    hint_to_resume,
    ingest_folders,
    machine_of_this_command,
    machine_options,
    warn_if_busy,
)
from cli.options import NamedPath, as_json_option, key_and_value
from common.errors import InvalidArgument
from common.formats.json_documents import digest
from common.settings import Settings
from common.terminal import printable

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

    from adviser.bisect.search import SearchProgress, StepSearch
    from common.index.project_pages import ListedVersion
    from pis.amun.launchers import Launcher


@click.command()
@click.argument("subjects", nargs=-1, required=True, metavar="REQUIREMENT | OLD_LOCK NEW_LOCK")
@click.option("--pi", "indicator", required=True, metavar="NAME",
              help="Performance indicator, such as matmul; see `thoth pi list`.")  # fmt: skip
@click.option("-p", "--parameter", "parameters", multiple=True, metavar="NAME=VALUE",
              help="A parameter of the indicator; repeat the option for more.")  # fmt: skip
@click.option("--with", "others", multiple=True, metavar="REQUIREMENT",
              help="Another package of every stack; repeat the option for more.")  # fmt: skip
@click.option("--python", "python_version", metavar="VERSION",
              help="Python version, such as 3.11.  [default: this interpreter's]")  # fmt: skip
@click.option("--index", metavar="NAME", help="Name of a configured package index.")
@click.option("--max-jobs", type=click.IntRange(4, 10_000), default=200, show_default=True,
              help="Stop before more jobs than this are measured.")  # fmt: skip
@click.option("--max-minutes", type=click.FloatRange(0, 100_000, min_open=True),
              help="Start no new block after this time.")  # fmt: skip
@click.option("--out", type=NamedPath(file_okay=False, path_type=Path),
              help="Folder of the search.  [default: a new one in THOTH_HOME/bisect]")  # fmt: skip
@click.option("--ingest/--no-ingest", default=False, show_default=True,
              help="Ingest the inspections when the search ends.")  # fmt: skip
@machine_options
@as_json_option
@click.pass_context
def bisect(  # noqa: PLR0913, PLR0917 - one for each option
    context: click.Context,
    subjects: tuple[str, ...],
    indicator: str,
    parameters: tuple[str, ...],
    others: tuple[str, ...],
    python_version: str | None,
    index: str | None,
    max_jobs: int,
    max_minutes: float | None,
    out: Path | None,
    ingest: bool,
    wait: float,
    share_machine: bool,
    as_json: bool,
) -> None:
    """Find the release that made an operation slower or faster.

    Give a requirement, such as 'numpy>=1.24,<2.4', or two locks. Between two locks, the command
    first finds the package, then its release. Each block measures the two stacks that are expected
    to tell most about the step, and fresh jobs confirm it. Run the same command again to continue
    after an interruption.

    Exit code 0 if a step was confirmed, or if there is none; 1 if the search ended without an
    answer.
    """
    from cli.bisect_view import print_searches
    from common.packages import DEFAULT_INDEX
    from pis.amun.launchers.local import LocalLauncher
    from pis.amun.processes import interrupted_by_signals
    from pis.amun.schema import InvalidSpecification

    settings: Settings = context.obj
    question = _question(subjects, indicator, parameters, others, python_version, index)
    short = digest(question).removeprefix("sha256:")[:8]
    folder = SearchFolder((out or settings.home / "bisect" / short).absolute())
    pinner = StackPinner(
        folder, indicator, dict(key_and_value(text, "-p") for text in parameters), python_version,
        index or DEFAULT_INDEX, dict(settings.package_indexes),
    )  # fmt: skip
    state = folder.state(question)
    deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
    with ExitStack() as stack:
        stack.enter_context(interrupted_by_signals())
        stack.enter_context(hint_to_resume())
        launcher = stack.enter_context(closing(LocalLauncher(settings)))
        hold = partial(_hold_machine, stack, wait, share=share_machine)
        searches = _StepSearches(pinner, launcher, hold, max_jobs, deadline, quiet=as_json)
        try:
            if len(subjects) == 1:
                searches.search(
                    _release_series(settings, folder, state, pinner, subjects[0], others)
                )
            else:
                _search_locks(settings, folder, state, pinner, subjects, searches.search)
        except InvalidSpecification as error:
            raise UnusableSpecification(str(error)) from None
    print_searches(searches.done, folder.path, as_json=as_json)
    accepted = not ingest or ingest_folders(settings, searches.folders, as_json=as_json)
    if not accepted or any(result.state not in {"step", "none"} for _, result in searches.done):
        context.exit(1)


def _hold_machine(stack: ExitStack, wait_s: float, *, share: bool) -> None:
    """Hold this machine until the stack is closed, and warn if others use it."""
    stack.enter_context(machine_of_this_command(wait_s, share))
    warn_if_busy()


def _question(
    subjects: Sequence[str],
    indicator: str,
    parameters: Sequence[str],
    others: Sequence[str],
    python_version: str | None,
    index: str | None,
) -> dict[str, Any]:
    """What the search is about, as JSON values; the default folder is named by their digest.

    :raises click.UsageError: if there are more than two subjects, or packages besides two locks
    """
    from pis.catalogue import indicator_of

    indicator_of(indicator)
    if len(subjects) > 2:
        raise click.UsageError("give one requirement, or two locks")
    if len(subjects) == 2 and others:
        raise click.UsageError("--with is for a requirement; two locks name all packages")
    return {
        "subjects": [_content(it) for it in subjects] if len(subjects) == 2 else list(subjects),
        "indicator": indicator,
        "parameters": sorted(parameters),
        "with": sorted(others),
        "python": python_version,
        "index": index,
    }


@dataclass
class _StepSearches:
    """Runs the searches of a command: one for a requirement, up to two between locks.

    :param hold_machine: called before the first search, when all arguments are known to be valid
    :ivar done: each series with its result
    :ivar folders: folders of all inspections
    """

    pinner: StackPinner
    launcher: Launcher
    hold_machine: Callable[[], None]
    max_jobs: int
    deadline: float | None
    quiet: bool
    done: list[tuple[StackSeries, StepSearch]] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)

    def search(self, series: StackSeries) -> StepSearch:
        """Search a series with the jobs that earlier searches left."""
        from adviser.bisect.search import find_step

        if not self.done:
            self.hold_machine()
        measurer = ExecutorMeasurer(
            series.name, self.pinner.folder, self.launcher, _Quiet(), self.pinner.indexes,
            series.specification_of, self.deadline,
        )  # fmt: skip
        spent = sum(earlier.jobs for _, earlier in self.done)
        result = find_step(
            measurer, len(series.labels), max_jobs=self.max_jobs - spent,
            progress=lambda at: _show(at, series, spent, quiet=self.quiet),
        )  # fmt: skip
        self.folders.extend(measurer.folders)
        self.done.append((series, result))
        return result


class _Quiet:
    """Reports nothing; the search has its own progress."""

    def build_started(self, inspection: object) -> None: ...
    def build_finished(self, inspection: object, failure: object) -> None: ...
    def jobs_started(self, jobs: int) -> None: ...
    def job_finished(self, job: object, result: object) -> None: ...


def _release_series(
    settings: Settings,
    folder: SearchFolder,
    state: dict[str, Any],
    pinner: StackPinner,
    requirement: str,
    others: Sequence[str],
) -> StackSeries:
    """The releases that meet a requirement, oldest first, with all other packages held."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    try:
        parsed = Requirement(requirement)
    except InvalidRequirement as error:
        raise InvalidArgument(f"{requirement!r}: {str(error).splitlines()[0]}") from None
    if parsed.url or parsed.marker or parsed.extras:
        raise InvalidArgument(f"{requirement!r}: give a name and versions only")
    name = canonicalize_name(parsed.name)
    versions = state.setdefault("releases", {}).get(name)
    if versions is None:
        versions = state["releases"][name] = _releases(settings, pinner, name, parsed.specifier)
    if len(versions) < 2:
        raise InvalidArgument(
            f"{requirement!r}: the index lists {len(versions)} matching releases; two are needed"
        )
    held = state.get("held")
    if held is None:
        held = state["held"] = _held_pins(pinner, name, versions, others)
    folder.write_state(state)

    def specification_of(place: int) -> tuple[dict[str, Any] | None, str]:
        return pinner.specification([f"{name}=={versions[place]}", *pinned_requirements(held)])

    labels = [f"{name} {version}" for version in versions]
    return StackSeries("releases", labels, specification_of, name)


def _held_pins(
    pinner: StackPinner, name: str, versions: Sequence[str], others: Sequence[str]
) -> dict[str, str]:
    """The other packages of the newest release that can be installed; every stack has them."""
    reason = ""
    for version in reversed(versions):
        specification, reason = pinner.specification([f"{name}=={version}", *others])
        if specification is not None:
            pins = pins_of(specification)
            return {other: pinned for other, pinned in pins.items() if other != name}
    raise InvalidArgument(f"no release of {name} can be installed: {reason}")


def _search_locks(
    settings: Settings,
    folder: SearchFolder,
    state: dict[str, Any],
    pinner: StackPinner,
    names: Sequence[str],
    search: Callable[[StackSeries], StepSearch],
) -> None:
    """Find the package between two locks, then its release."""
    from adviser.bisect.lock_paths import PathStep, path_between

    if "path" not in state:
        old, new = (_lock_pins(name, pinner.python_version) for name in names)
        if old == new:
            raise InvalidArgument("both locks pin the same versions")
        for name, pins in zip(names, (old, new), strict=True):
            if not pinner.is_valid(pins):
                specification, reason = pinner.specification(pinned_requirements(pins))
                missing = sorted(pins_of(specification).keys() - pins) if specification else []
                reason = f"it lacks {', '.join(missing)}" if missing else reason
                raise InvalidArgument(f"{name}: cannot be installed: {printable(reason)}")
        path = path_between(old, new, pinner.is_valid)
        state["path"] = [{"moved": list(step.moved), "pins": dict(step.pins)} for step in path]
        folder.write_state(state)
    path = [PathStep(tuple(it["moved"]), it["pins"]) for it in state["path"]]
    labels = ["old lock", *(_move_label(*pair) for pair in itertools.pairwise(path))]
    first = search(
        StackSeries(
            "packages", labels, lambda i: pinner.specification(pinned_requirements(path[i].pins))
        )
    )
    if first.state != "step" or first.pair is None:
        return
    before, after = (path[place].pins for place in first.pair)
    moved = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    if len(moved) == 1 and moved[0] in before and moved[0] in after:
        series = _between(settings, folder, state, pinner, moved[0], (before, after))
        if len(series.labels) > 2:
            search(series)


def _between(
    settings: Settings,
    folder: SearchFolder,
    state: dict[str, Any],
    pinner: StackPinner,
    name: str,
    stacks: tuple[Mapping[str, str], Mapping[str, str]],
) -> StackSeries:
    """The releases of a package between its versions in two stacks, in this direction."""
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    first, last = stacks[0][name], stacks[1][name]
    versions = state.setdefault("releases", {}).get(name)
    if versions is None:
        low, high = sorted((Version(first), Version(last)))
        inner = _releases(settings, pinner, name, SpecifierSet(f">{low},<{high}"))
        versions = [first, *inner[:: 1 if Version(first) == low else -1], last]
        state["releases"][name] = versions
        folder.write_state(state)

    def specification_of(place: int) -> tuple[dict[str, Any] | None, str]:
        pins = {**stacks[1], name: versions[place]}
        specification, reason = pinner.specification(pinned_requirements(pins))
        if specification is not None and pins_of(specification) != pins:
            return None, "it needs other packages than the locks"
        return specification, reason

    labels = [f"{name} {version}" for version in versions]
    return StackSeries("releases", labels, specification_of, name)


def _move_label(before: Any, after: Any) -> str:
    return ", ".join(
        f"{name} {before.pins.get(name, 'added')} → {after.pins.get(name, 'removed')}"
        for name in after.moved
    )


def _releases(
    settings: Settings, pinner: StackPinner, name: str, specifier: SpecifierSet
) -> list[str]:
    """The releases on the index that a specifier admits, oldest first, without yanked ones.

    :raises common.errors.IndexProblem: if the index does not answer or lacks the package
    """
    import asyncio

    from packaging.version import InvalidVersion, Version

    from common.index.client import IndexClient
    from common.index.configuration import index_of

    async def read() -> Mapping[str, ListedVersion]:
        async with IndexClient(settings, index_of(settings, pinner.index)) as client:
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


def _content(name: str) -> str:
    """The digest of a lock, so that a changed lock is another question."""
    from hashlib import sha256

    try:
        return sha256(Path(name).read_bytes()).hexdigest()
    except OSError as error:
        raise InvalidArgument(f"{name}: {error.strerror or error}") from None


def _lock_pins(name: str, python_version: str | None) -> dict[str, str]:
    """The version of each package that a lock installs here, without development packages."""
    from adviser.projects.locks import read_lock, require_pins
    from common.environments import environment

    path = Path(name)
    lock = require_pins(read_lock(path.name, {path.name: path.read_bytes()}))
    packages = lock.packages(environment(python_version).markers, dev=False)
    if lock.elsewhere:
        raise InvalidArgument(f"{name}: every package must come from an index")
    return {package: entry.version for package, entry in packages.items()}


def _show(at: SearchProgress, series: StackSeries, spent: int, *, quiet: bool) -> None:
    from cli.bisect_view import progress_line

    if not quiet:
        click.echo(printable(progress_line(at, series.labels, spent)), err=True)
