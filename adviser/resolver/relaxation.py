"""Resolve over all listed versions, but read the metadata of only a few.

The page of an index lists every version of a package; only requirements and extras are missing. A
version whose metadata was not read takes part as if it required nothing
(:class:`~adviser.resolver.universe.Universe`). That only adds stacks, so the best stack of such a
relaxed universe is at least as good as the best stack of the true one. If all versions of that
stack have been read, no listed versions make a better stack. If there is no such stack, no listed
versions meet the request. Otherwise the unread versions of the stack are read, and the universe is
resolved again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from adviser.resolver.inferred_bounds import head_of
from adviser.resolver.results import Choice, Resolution, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import Universe
from graph.candidates import Candidate, Dependency

#: Versions of a package to read together, by how often it was chosen unread before. The solver
#: walks down the unread versions of a package whose requirements conflict; reading more each time
#: bounds the number of rounds by their logarithm and the reads by four times the needed ones.
BATCHES = (1, 4, 16, 31)


@dataclass(frozen=True, slots=True)
class NeededReads:
    """What must be read before a resolution is proven; false if nothing.

    :param versions: unread versions, the most important first, each once
    :param packages: unlisted packages whose index page is needed, sorted
    """

    versions: tuple[Candidate, ...] = ()
    packages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.versions or self.packages)


#: Candidates by name, newest first.
AllCandidates = Mapping[str, Sequence[Candidate]]
#: What is known in a round.
Known = TypeVar("Known")


class UniverseResolver(Protocol):
    """Resolves a universe within a budget, as :func:`adviser.resolver.resolve.resolve` does."""

    def __call__(self, universe: Universe, *, count: int = 1) -> Resolution: ...


def resolve_listed(
    known: Known,
    universe_of: Callable[[Known], tuple[Universe, AllCandidates]],
    resolver: UniverseResolver,
    *,
    count: int = 1,
) -> Generator[NeededReads, Known, tuple[Known, Universe, Resolution]]:
    """Resolve in rounds: yield what must be read, receive the new universe, return the result.

    The generator does no I/O, so synchronous and asynchronous code can drive it. If a version turns
    out to be unreadable, the next universe must exclude it, with the reason.

    :param known: what was listed and read so far, such as a snapshot
    :param universe_of: the universe of what is known, and all its candidates by name, also those
        that the request refuses, because they are evidence for inferred bounds
    :returns: what was known in the last round, with its universe and its resolution
    :raises ValueError: if nothing was read of what a round needs
    """
    rounds = ReadingRounds()
    universe, candidates = universe_of(known)
    while True:
        resolution = resolver(universe, count=count)
        reads = rounds.needed(universe, resolution, candidates)
        if not reads:
            return known, universe, resolution
        known = yield reads
        universe, candidates = universe_of(known)
        unread = {it.purl for them in candidates.values() for it in them if not it.read}
        if unread.issuperset(it.purl for it in reads.versions) and (
            universe.unlisted.issuperset(reads.packages)
        ):
            raise ValueError("nothing was read of what a round needs")


class ReadingRounds:
    """Decides after each round what must be read."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def needed(
        self,
        universe: Universe,
        resolution: Resolution,
        candidates: AllCandidates,
    ) -> NeededReads:
        """What must be read before ``resolution`` is proven over everything that is listed.

        :param candidates: as in :func:`resolve_listed`
        """
        versions: dict[Candidate, None] = {}
        heads: dict[Candidate, None] = {}
        neighbours: dict[Candidate, None] = {}
        packages: set[str] = set()
        for stack in resolution.stacks:
            chosen = {it.name: _candidate(universe, it) for it in stack.choices}
            asked = list(_requirements(universe, stack, chosen))
            packages.update(it.name for it in asked if it.name in universe.unlisted)
            versions.update(dict.fromkeys(it for it in chosen.values() if not it.read))
            versions.update(dict.fromkeys(self._extra_offers(universe, asked, chosen)))
            if universe.bounds_inferred:
                heads.update(dict.fromkeys(_unread_heads(chosen.values(), candidates)))
        for it in versions:
            neighbours.update(dict.fromkeys(self._neighbours(universe, it)))
        for name in {it.name for it in versions}:
            self._asked[name] += 1
        return NeededReads(tuple({**versions, **heads, **neighbours}), tuple(sorted(packages)))

    def _batch(self, name: str) -> int:
        return BATCHES[min(self._asked[name], len(BATCHES) - 1)]

    def _neighbours(self, universe: Universe, chosen: Candidate) -> list[Candidate]:
        """The unread versions that would be chosen next if ``chosen`` turned out to be impossible.

        Versions that other specifiers admit are included, because packages that are released
        together pin each other. Source distributions are read on speculation only beside another.
        """
        candidates = universe.packages[chosen.name]
        places = {it.purl: place for place, it in enumerate(candidates)}

        def order(it: Candidate) -> tuple[int, int, int]:
            first, newness = universe.values(it)
            return -first, -newness, places[it.purl]

        after = order(chosen)
        left = (
            it
            for it in candidates
            if not it.read
            and (chosen.sdist_only or not it.sdist_only)
            and not universe.needs_invitation(it)
            and order(it) > after
            and all(
                admits(universe.asked(root), it.version)
                for root in universe.roots
                if root.name == it.name
            )
        )
        return sorted(left, key=order)[: self._batch(chosen.name) - 1]

    def _extra_offers(
        self, universe: Universe, asked: Iterable[Dependency], chosen: Mapping[str, Candidate]
    ) -> Iterator[Candidate]:
        """Unread releases that may offer a required extra, which no read one offers."""
        for dependency in asked:
            candidate = chosen.get(dependency.name)
            if candidate is None or not candidate.read:
                continue
            for extra in dependency.extras:
                if extra in candidate.extras:
                    continue
                within = [
                    it
                    for it in universe.packages[dependency.name]
                    if not it.prerelease
                    and not it.yanked
                    and admits(universe.asked(dependency), it.version)
                ]
                if not any(extra in it.extras for it in within):
                    unread = [it for it in within if not it.read]
                    yield from unread[: max(4, self._batch(dependency.name))]


def _candidate(universe: Universe, choice: Choice) -> Candidate:
    return universe.packages[choice.name][choice.place]


def _requirements(
    universe: Universe, stack: ResolvedStack, chosen: Mapping[str, Candidate]
) -> Iterator[Dependency]:
    """Every requirement in force, except those of a package on itself."""
    yield from universe.roots
    for choice in stack.choices:
        yield from (
            it
            for it in chosen[choice.name].requires
            if (it.extra is None or it.extra in choice.extras) and it.name != choice.name
        )


def _unread_heads(chosen: Iterable[Candidate], candidates: AllCandidates) -> Iterator[Candidate]:
    """Unread releases whose requirements are evidence about the chosen versions."""
    for it in chosen:
        head = None if not it.read or not it.requires else head_of(candidates[it.name], it)
        if head is not None and not head.read:
            yield head
