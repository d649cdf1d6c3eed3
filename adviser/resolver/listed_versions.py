"""Resolve over all listed versions, but read the metadata of only a few.

The page of an index lists every version of a package; only requirements and extras are missing. A
version whose metadata was not read takes part as if it required nothing
(:class:`~adviser.resolver.universe.Universe`). This can only add stacks. So the best stack of such
a relaxed universe is at least as good as the best stack of the true universe. If all versions of
that stack have been read, no listed versions make a better stack. If there is no such stack, no
listed versions meet the request. Otherwise the unread versions of the stack are read, and the
universe is resolved again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from adviser.resolver.branch_and_bound import search_by_branching
from adviser.resolver.compression import compress
from adviser.resolver.inferred_bounds import head_of
from adviser.resolver.objective import LevelValues, value_of
from adviser.resolver.results import Resolution, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency

#: Versions of a package to read together, by how often it was chosen unread before. The solver
#: walks down the unread versions of a package whose requirements conflict. A round costs as much as
#: reading a dozen versions at the same time. A walk that does not end soon is mostly a long one,
#: such as through a thousand releases of botocore; so batches double.
BATCHES = (4, 24, 31, 62, 124, 248)
#: The same for source distributions, which take longer to read.
SDIST_BATCHES = (1, 4, 16, 31)
#: The same if a stack of read versions shows how far the solver can walk down.
BOUNDED_BATCHES = (8, 31, 31, 62, 124, 248)
#: Steps of the search for such a stack.
_STEPS = 10_000
#: Steps of the search for a better stack with invited versions.
_STEPS_OF_INVITED = 30_000


@dataclass(frozen=True, slots=True)
class NeededReads:
    """Versions and pages that must be read before a resolution is proven; falsy if there are none.

    :param versions: unread versions, the most important first, each once
    :param packages: unlisted packages whose index page is needed, sorted
    :param chosen: versions among them that are in a stack; their requirements are likely needed
        next
    """

    versions: tuple[Candidate, ...] = ()
    packages: tuple[str, ...] = ()
    chosen: tuple[Candidate, ...] = ()

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

    :param known: the data that was listed and read so far, such as a snapshot
    :param universe_of: returns the known universe, and all its candidates by name, with refused
        ones, because they are evidence for inferred bounds
    :returns: the data of the last round, with its universe and its resolution
    :raises ValueError: if none of the versions that a round needs was read
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
            raise ValueError(
                "the caller read none of the versions and packages that this round needs"
            )


class ReadingRounds:
    """Decides after each round which versions must be read."""

    def __init__(self) -> None:
        self._batch_numbers: Counter[str] = Counter()

    def needed(
        self, universe: Universe, resolution: Resolution, candidates: AllCandidates
    ) -> NeededReads:
        """What must be read before ``resolution`` is proven for all listed versions.

        :param candidates: as in :func:`resolve_listed`
        """
        chosen_unread: dict[Candidate, None] = {}
        heads: dict[Candidate, None] = {}
        neighbours: dict[Candidate, None] = {}
        packages: set[str] = set()
        walks: list[_Walk] = []
        for stack in resolution.stacks:
            chosen = {it.name: universe.packages[it.name][it.place] for it in stack.choices}
            requirements = _requirements(universe, stack, chosen)
            packages.update(it.name for it in requirements if it.name in universe.unlisted)
            unread = [it for it in chosen.values() if not it.read]
            chosen_unread.update(dict.fromkeys(unread))
            walks += [_Walk(it, stack.levels) for it in unread]
            if universe.bounds_inferred:
                heads.update(dict.fromkeys(_unread_heads(chosen.values(), candidates)))
        if resolution.stacks:
            heads.update(dict.fromkeys(universe.nearness.unread))
            packages.update(universe.nearness.unlisted)
        reached = _reached_by_read(universe, len(resolution.stacks)) if chosen_unread else None
        for walk in walks:
            neighbours.update(dict.fromkeys(self._neighbours(universe, walk, reached)))
        for name in {it.version.name for it in walks}:
            self._batch_numbers[name] += 1
        return NeededReads(
            tuple({**chosen_unread, **heads, **neighbours}),
            tuple(sorted(packages)),
            tuple(chosen_unread),
        )

    def _batch(self, name: str, batches: Sequence[int] = BATCHES) -> int:
        return batches[min(self._batch_numbers[name], len(batches) - 1)]

    def _neighbours(
        self, universe: Universe, walk: _Walk, reached: LevelValues | None
    ) -> list[Candidate]:
        """The unread versions that would be chosen next if the chosen version turns out unusable.

        Versions that other specifiers admit are included, because packages that are released
        together pin each other. A source distribution that is not chosen is read only together with
        a chosen source distribution.

        :param reached: score of a stack of read versions, below which the solver never walks
        """
        chosen = walk.version
        candidates = universe.packages[chosen.name]
        places = {it.purl: place for place, it in enumerate(candidates)}
        limit = None if walk.levels is None else reached
        invited = universe.needs_invitation(chosen)

        def order(candidate: Candidate) -> tuple[int, ...]:
            return *universe.preference(candidate), places[candidate.purl]

        after = order(chosen)
        left = (
            candidate
            for candidate in candidates
            if not candidate.read
            and (chosen.sdist_only or not candidate.sdist_only)
            and universe.needs_invitation(candidate) <= invited
            and order(candidate) > after
            and all(
                admits(universe.specifier_of(root), candidate.version)
                for root in universe.roots
                if root.name == candidate.name
            )
            and (limit is None or walk.score_with(universe, candidate) >= limit)
        )
        batches: Sequence[int] = BATCHES if limit is None else BOUNDED_BATCHES
        if universe.criteria_levels:
            # A round takes longer than many reads then.
            batches = BOUNDED_BATCHES[1:]
        batch = self._batch(chosen.name, SDIST_BATCHES if chosen.sdist_only else batches)
        return sorted(left, key=order)[: batch - 1]


def may_invite_better(universe: Universe, resolution: Resolution) -> bool:
    """Whether unread versions might invite versions that make a better stack.

    The bound of a resolution holds for all stacks in which a version that was read invites each
    pre-release and each yanked version. It holds for all stacks if no stack scores more even in a
    universe where unread versions invite everything. If that takes too many steps to find out, the
    answer is true.
    """
    bound, wider = resolution.bound, universe.inviting()
    if bound is None or not any(bound) or wider is None:
        return False
    problem = compress(wider)
    result = search_by_branching(problem, 1, _STEPS_OF_INVITED)
    return result is None or (result.bound is not None and result.bound > bound)


@dataclass(frozen=True, slots=True)
class _Walk:
    """An unread version whose neighbours are considered; ``levels`` is the score of its stack."""

    version: Candidate
    levels: LevelValues | None = None

    def score_with(self, universe: Universe, other: Candidate) -> LevelValues:
        """Upper bound of the stack's score if another version replaces this version."""
        ours, theirs = universe.level_values(self.version), universe.level_values(other)
        return tuple(
            at + their - our for at, our, their in zip(self.levels or (), ours, theirs, strict=True)
        )


def _reached_by_read(universe: Universe, count: int) -> LevelValues | None:
    """Score of the ``count``-th best stack of read versions; ``None`` if not found quickly."""
    read = {name: [it for it in them if it.read] for name, them in universe.packages.items()}
    problem = compress(replace(universe, packages=read), count)
    result = search_by_branching(problem, count, _STEPS)
    if result is None or len(result.stacks) < count:
        return None
    return value_of(problem, result.stacks[-1])


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
    for candidate in chosen:
        head = (
            None
            if not candidate.read or not candidate.requires
            else head_of(candidates[candidate.name], candidate)
        )
        if head is not None and not head.read:
            yield head
