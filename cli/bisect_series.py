"""The series of stacks that ``thoth bisect`` searches: releases of a package, or between locks."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from adviser.bisect.search import StepSearch
from adviser.bisect.series import PathStep, StackSeries, path_between
from cli.bisect_measurer import SearchFolder, StackPinner, pinned_requirements, pins_of
from cli.project_files import read_lock_file
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.index.client import IndexClient
from common.index.configuration import index_of
from common.settings import Settings
from model.errors import InvalidArgument
from model.packages.environments import environment
from model.packages.project_pages import ListedVersion
from model.text import first_few, printable


@dataclass(frozen=True, slots=True)
class SeriesMaker:
    """Makes the series of one search, and stores in its folder what a later run must repeat.

    :param state: content of the folder's state file
    :param selection: what of two locks counts
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
        versions = self._kept_releases(name, lambda: self._listed(name, parsed.specifier))
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

        def listed() -> list[str]:
            inner = self._listed(name, SpecifierSet(f">{low},<{high}"))
            return [first, *inner[:: 1 if Version(first) == low else -1], last]

        versions = self._kept_releases(name, listed)
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

    def _listed(self, name: str, specifier: SpecifierSet) -> list[str]:
        """The releases that the index lists and a specifier admits, oldest first, none yanked.

        :raises model.errors.IndexProblem: if the index does not answer or lacks the package
        """

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
    """What a step of a path changes, such as ``numpy 2.0.2 → 2.1.0``."""
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

    :param selection: what of the lock counts; groups that it names are not for development
    :param dev: whether packages for development count
    """
    markers = environment(python_version).markers
    lock = read_lock_file(Path(name), selection, markers)
    if lock.elsewhere:
        names = first_few([it.what for it in lock.elsewhere], 5)
        raise InvalidArgument(f"{name}: every package must come from an index, unlike {names}")
    packages = lock.packages(markers, dev=dev)
    return {package: entry.version for package, entry in packages.items()}
