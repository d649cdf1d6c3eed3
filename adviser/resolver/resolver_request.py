"""What is asked of the resolver, beside the snapshot that it chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic

from common.packages import DEFAULT_INDEX, Purl
from graph.candidates import Dependency


@dataclass(frozen=True, slots=True)
class ResolverRequest:
    """The rules of one request; markers are evaluated already.

    Of the dependencies only name and specifier count, except for roots and their extras.

    :param roots: what is asked for; ``None`` for the roots of the snapshot
    :param constraints: bounds for whatever of these packages is installed; they install nothing
    :param exclusions: versions that are not to be chosen, an empty specifier for all of them
    :param overrides: by name, the specifier that replaces whatever anybody asks of the package,
        the roots included (what uv calls an override)
    :param removed: packages that no requirement brings, not even a root
    :param bare: packages of which no requirement of another asks for extras
    :param prereleases: packages whose pre-releases are as good as any other version
    :param all_prereleases: the same for every package
    :param published_before: later releases are left out, as those without a time are
    :param published_after: earlier releases are left out
    :param indexes: searched in this order; a package comes from the first that has it, in any
        version, as with uv. pip would take the best version of all of them
    :param index_of: packages that come from one named index and no other
    :param refused: versions that a rule of the caller's refuses, with its words
    """

    roots: tuple[Dependency, ...] | None = None
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
    refused: Mapping[Purl, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may spend, and how.

    :param time_s: seconds of wall time for all of it: compression, search and explanation
    :param memory_bytes: of the search; only a child process can be held to it
    :param threads: of the solver; the answer does not depend on them
    :param seed: of the solver; neither on this
    :param steps: of branch and bound, before the solver is asked; neither on these. A number
        and not a time, so that equal problems are always proven in the same way; 0 for none
    """

    time_s: float = 10.0
    memory_bytes: int | None = None
    threads: int = 1
    seed: int = 0
    steps: int = 30_000


class OutOfTime(Exception):
    """The time of a budget is spent; within the resolver alone, which answers all the same."""


class SearchClock:
    """When a request began, and what is left of its time; one for all steps of it."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._began = monotonic()

    @property
    def wall_s(self) -> float:
        """Seconds since it began."""
        return monotonic() - self._began

    @property
    def left(self) -> Budget:
        """The budget with what time is left of it, 0 at least."""
        return replace(self._budget, time_s=max(0.0, self._budget.time_s - self.wall_s))

    def check(self) -> None:
        """Go on if there is time.

        :raises OutOfTime: if there is none
        """
        if self.wall_s > self._budget.time_s:
            raise OutOfTime
