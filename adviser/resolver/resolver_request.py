"""Input of the resolver in addition to the snapshot: the rules of a request, and its budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fnmatch import fnmatchcase
from time import monotonic

from model.packages.candidates import Dependency
from model.packages.identity import DEFAULT_INDEX, Purl


@dataclass(frozen=True, slots=True)
class ResolverRequest:
    """The rules of one request, with markers already evaluated.

    Only the name and specifier of a dependency count; its extras count only in roots.

    :param roots: requirements; ``None`` for the roots of the snapshot
    :param direct: names of the direct requirements in declared order, which decides between them;
        without it, names in ``roots`` in alphabetical order
    :param constraints: bounds on packages that are installed for another reason
    :param exclusions: versions that must not be chosen; an empty specifier excludes all
    :param overrides: specifier by package name that replaces every requirement on the package,
        roots included (an override in uv)
    :param removed: packages that no requirement, not even a root, installs
    :param bare: packages whose extras are ignored in requirements of other packages
    :param prereleases: packages whose pre-releases count like other versions
    :param all_prereleases: the same for every package
    :param published_before: later releases, and those without a date, are left out
    :param published_after: earlier releases are left out
    :param indexes: in search order. A package comes from the first index that has any version of
        it, as in uv; pip would take the best version of all indexes
    :param index_of: index by package, for packages that come from one index only
    :param owners: patterns of package names, each with the only index that may have such packages
    :param refused: versions that a rule of the caller refuses, with the reason as text
    :param only_wheels: whether versions are left out that would have to be built
    :param wheels_of: packages whose versions are left out in any case if they would have to be
        built
    :param builds_of: exceptions from ``only_wheels``
    :param inferred_bounds: whether bounds count that no package declares
        (:mod:`adviser.resolver.inferred_bounds`)
    :param unbounded: packages for whose versions they do not count
    """

    roots: tuple[Dependency, ...] | None = None
    direct: tuple[str, ...] = ()
    constraints: tuple[Dependency, ...] = ()
    exclusions: tuple[Dependency, ...] = ()
    overrides: Mapping[str, str] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    bare: frozenset[str] = frozenset()
    prereleases: frozenset[str] = frozenset()
    all_prereleases: bool = False
    published_before: datetime | None = None
    published_after: datetime | None = None
    indexes: tuple[str, ...] = (DEFAULT_INDEX,)
    index_of: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[tuple[str, str], ...] = ()
    refused: Mapping[Purl, str] = field(default_factory=dict)
    inferred_bounds: bool = False
    unbounded: frozenset[str] = frozenset()
    only_wheels: bool = False
    wheels_of: frozenset[str] = frozenset()
    builds_of: frozenset[str] = frozenset()

    def may_build(self, name: str) -> bool:
        """Whether versions of a package count that would have to be built."""
        return name not in self.wheels_of and (not self.only_wheels or name in self.builds_of)

    def owner_of(self, name: str) -> str | None:
        """The index that owns the name of a package."""
        return next((it for pattern, it in self.owners if fnmatchcase(name, pattern)), None)

    def only_index_of(self, name: str) -> str | None:
        """The index that a package must come from: its owner, or the one that the project names."""
        return self.owner_of(name) or self.index_of.get(name)

    def indexes_of(self, name: str) -> tuple[str, ...]:
        """The indexes that a package may come from, in search order."""
        only = self.only_index_of(name)
        return self.indexes if only is None else (only,)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a search. The result does not depend on the threads, the seed or the steps.

    :param time_s: wall time in seconds for compression, search and explanation together
    :param memory_bytes: memory of the search; enforced in a child process only
    :param threads: threads of the solver
    :param seed: seed of the solver
    :param steps: steps of branch and bound before the solver takes over; 0 skips it. This is a
        number and not a time, so that equal problems are always proven in the same way
    """

    time_s: float = 10.0
    memory_bytes: int | None = None
    threads: int = 1
    seed: int = 0
    steps: int = 30_000


class OutOfTime(Exception):
    """The time limit is reached. The resolver catches this and still returns a resolution."""


class SearchClock:
    """Elapsed and remaining time of one request, over all its steps."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._began = monotonic()

    @property
    def wall_s(self) -> float:
        """Seconds since the start."""
        return monotonic() - self._began

    @property
    def left(self) -> Budget:
        """The budget with the remaining time, at least 0."""
        return replace(self._budget, time_s=max(0.0, self._budget.time_s - self.wall_s))

    def check(self) -> None:
        """Check the time limit.

        :raises OutOfTime: if it is exceeded
        """
        if self.wall_s > self._budget.time_s:
            raise OutOfTime
