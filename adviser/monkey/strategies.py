"""Choose stacks to measure by one of several strategies; each stack with the reason for it."""

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import islice
from time import monotonic

from adviser.monkey.coverage import Classes, CoveringArray, TooManyCombinations
from adviser.monkey.job_value import JobValue, job_values
from adviser.monkey.space import (
    STATE_LIMIT,
    SpaceSize,
    SpaceTooLarge,
    StackSpace,
    distinct_ranks,
    group_versions,
)
from adviser.resolver.resolve import resolve, resolved_stack
from adviser.resolver.resolver_request import Budget, SearchClock
from adviser.resolver.results import ResolutionStatus, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import Universe
from model.errors import ProjectError
from model.packages.candidates import Dependency
from model.packages.identity import Purl
from model.text import counted

#: Walks for each requested stack, if a space is too large for its diagram.
_WALKS = 50
#: Time for each explanation of an infeasible combination, and for all of them, in seconds.
_EXPLANATION_S, _EXPLANATIONS_S = 1.0, 15.0
#: Why the strategy ``informative`` stops before the limit.
_NOTHING_WORTH_MEASURING = "stopped because nothing else is worth measuring"


class Strategy(StrEnum):
    """How stacks are chosen."""

    ALL = "all"
    RANDOM = "random"
    COVERAGE = "coverage"
    INFORMATIVE = "informative"


class NoStacks(ProjectError):
    """There is no valid stack; the message says why.

    :param names: the packages that the reason is about
    """

    def __init__(self, message: str, names: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.names = names


class StacksTooMany(ProjectError):
    """The space of stacks is too large for a strategy."""

    hint = "vary fewer packages (--only-packages), or use the strategy random"


#: Returns jobs by value, the most valuable first, from the versions of the reference stack by name
#: and the versions that could be measured.
JobRanking = Callable[[Mapping[str, str], Sequence[Purl]], Sequence[JobValue]]


def unmeasured_values(_: Mapping[str, str], versions: Sequence[Purl]) -> Sequence[JobValue]:
    """The ranking without any evidence: every version has the value of the prior."""
    return job_values((), versions, {}, {})


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of the generation.

    :param stacks: largest number of stacks; ``None`` for no limit
    :param varied: packages to vary, while all others keep their version; empty to vary all
    :param base: version by name that others keep; by default the versions of the newest stack
    :param strength: number of packages in a combination, for ``coverage``
    :param ranking: which versions are worth measuring, for ``informative``
    """

    strategy: Strategy = Strategy.RANDOM
    stacks: int | None = 10
    seed: int = 0
    varied: tuple[str, ...] = ()
    base: Mapping[str, str] | None = None
    strength: int = 2
    state_limit: int = STATE_LIMIT
    ranking: JobRanking = unmeasured_values


@dataclass(frozen=True, slots=True)
class GeneratedStack:
    """A stack to measure, and why it was chosen."""

    stack: ResolvedStack
    reason: str

    @property
    def pins(self) -> dict[str, str]:
        """Version by package name."""
        return self.stack.versions()


@dataclass(frozen=True, slots=True)
class InfeasiblePair:
    """Versions of different packages that no valid stack contains together.

    :param versions: by package, versions that behave alike
    :param proof: the lines of a minimal conflict; empty if the diagram, which has every valid
        stack, is the proof
    """

    versions: tuple[tuple[str, tuple[str, ...]], ...]
    proof: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ImpossibleVersions:
    """Versions of a package that no generated stack can contain, with the reason."""

    name: str
    versions: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class SpaceReport:
    """The size of a space.

    :param direct_product: product of the numbers of versions of the direct requirements
    :param raw_product: the same over all packages that can occur
    :param valid: number of valid stacks
    :param states: size of the diagram
    """

    packages: int
    versions: int
    classes: int
    direct_product: int
    raw_product: int
    valid: SpaceSize
    states: int


@dataclass(slots=True)
class StackGenerator:
    """Generates stacks of one universe.

    :param universe: with scores, by which stacks are the newest; unread versions do not count
    :raises NoStacks: if no stack meets the request with the versions that were read
    :raises OutOfTime: if the time limit for grouping the versions is reached
    """

    universe: Universe
    options: GenerationOptions
    clock: SearchClock | None = None
    space: StackSpace = field(init=False)
    infeasible: tuple[InfeasiblePair, ...] = field(init=False, default=())
    #: Statement about how the stacks were drawn.
    sampling: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.universe = closed_universe(self.universe)
        if self.options.varied or self.options.base is not None:
            base = self.options.base
            if base is None:
                newest = self._best({})
                if newest is None:
                    raise self._no_stacks()
                base = newest.versions()
            varied = self.options.varied or self.universe.direct
            self.universe = held_at(self.universe, base, varied)
        self.space = StackSpace(group_versions(self.universe, self.clock), self.options.state_limit)

    def _no_stacks(self) -> NoStacks:
        from adviser.resolver.conflicts import conflict_of  # loads OR-Tools

        conflict = conflict_of(self.universe, Budget(time_s=_EXPLANATIONS_S))
        lines = "\n".join(conflict.lines()) if conflict else ""
        message = f"no stack meets the request with the versions that were read\n{lines}"
        return NoStacks(message, conflict.names if conflict else frozenset())

    def size(self) -> SpaceReport:
        """The size of the space."""
        packages, universe = self.space.classes.packages, self.universe
        draw = random.Random(self.options.seed)  # noqa: S311 - a sample, no secret
        valid = self.space.size(draw)
        return SpaceReport(
            packages=len(packages),
            versions=sum(it.version_count for it in packages),
            classes=sum(len(it.classes) for it in packages),
            direct_product=direct_product(universe),
            raw_product=self.space.raw_product,
            valid=valid,
            states=self.space.states,
        )

    def stacks(self) -> Iterator[GeneratedStack]:
        """The stacks of a strategy, all different; the same options always give the same stacks.

        There are none if the strategy ``informative`` finds no job that is worth its time.

        :raises NoStacks: if no stack is valid
        :raises StacksTooMany: if the space is too large for the strategy
        """
        generated = self._generated()
        first = next(generated, None)
        if first is None:
            if self.sampling == _NOTHING_WORTH_MEASURING:
                return
            raise self._no_stacks()
        yield first
        most = self.options.stacks
        yield from generated if most is None else islice(generated, most - 1)

    def _generated(self) -> Iterator[GeneratedStack]:
        strategy = self.options.strategy
        try:
            self.space.count()
        except SpaceTooLarge as error:
            if strategy is Strategy.RANDOM:
                return self._walked()
            message = f"there are too many valid stacks for the strategy {strategy.value}"
            raise StacksTooMany(message) from error
        if strategy is Strategy.RANDOM:
            return self._random()
        if strategy is Strategy.COVERAGE:
            return self._covering()
        if strategy is Strategy.INFORMATIVE:
            return self._informative()
        return self._all()

    def _stack(self, nodes: Sequence[int], reason: str) -> GeneratedStack:
        problem = self.space.classes.problem
        return GeneratedStack(resolved_stack(self.universe, problem, frozenset(nodes)), reason)

    def _all(self) -> Iterator[GeneratedStack]:
        total = self.space.count()
        most = self.options.stacks
        self.sampling = "all" if most is None or most >= total else "the first"
        self.sampling += f" of {total:,} valid stacks"
        for rank in range(total):
            yield self._stack(self.space.stack(rank), f"stack {rank + 1:,} of {total:,}")

    def _random(self) -> Iterator[GeneratedStack]:
        total = self.space.count()
        self.sampling = f"uniform over all {total:,} valid stacks, without repetition"
        for rank in distinct_ranks(total, self.options.seed):
            yield self._stack(
                self.space.stack(rank), f"drawn at random, stack {rank + 1:,} of {total:,}"
            )

    def _walked(self) -> Iterator[GeneratedStack]:
        """Stacks of random walks, drawn by their weights without repetition.

        Sampling and importance resampling (Rubin 1988); the keys are those of Efraimidis & Spirakis
        2006, doi:10.1016/j.ipl.2005.11.003.
        """
        draw = random.Random(self.options.seed)  # noqa: S311 - a sample, no secret
        most = self.options.stacks or 100
        weights: dict[tuple[int, ...], int] = {}
        for _ in range(_WALKS * most):
            nodes, weight = self.space.walk(draw)
            if weight:
                weights[nodes] = weight
        self.sampling = (
            f"approximately uniform: drawn from {len(weights)} random walks by their weights,"
            " because there are too many stacks for exact sampling"
        )
        largest = max(weights.values(), default=1)
        keys = {nodes: draw.expovariate(max(weights[nodes] / largest, 1e-300)) for nodes in weights}
        for nodes in heapq.nsmallest(most, keys, key=keys.__getitem__):
            yield self._stack(nodes, "drawn at random, by the weight of a random walk")

    def _informative(self) -> Iterator[GeneratedStack]:
        """The reference, and for each valuable version the reference with that version.

        Of versions with the same value, the newest comes first.
        """
        reference = self._best(self.options.base or {}) or self._best({})
        if reference is None:
            return
        versions = reference.versions()
        possible = self._possible_purls()
        # Newest first by package.
        known = {
            it.purl: (name, it.version)
            for name in self.options.varied or self.universe.direct
            for it in self.universe.packages.get(name, ())
            if it.purl in possible
        }
        others = [it for it, (name, version) in known.items() if versions.get(name) != version]
        age = {purl: place for place, purl in enumerate(others)}
        ranked = self.options.ranking(versions, others)
        values = [it for it in ranked if it.purl in age]
        values.sort(key=lambda it: (-it.value, age[it.purl]))
        self.sampling = _NOTHING_WORTH_MEASURING
        stacks = self._valuable(versions, values, known)
        first = next(stacks, None)
        if first is None:
            return
        self.sampling = "by the value of further jobs"
        yield GeneratedStack(reference, "the reference that the others are compared with")
        yield first
        yield from stacks
        self.sampling = f"by the value of further jobs; {_NOTHING_WORTH_MEASURING}"

    def _valuable(
        self,
        reference: Mapping[str, str],
        values: Iterable[JobValue],
        known: Mapping[Purl, tuple[str, str]],
    ) -> Iterator[GeneratedStack]:
        """The stacks with valuable versions, nearest to the reference; each differs from it."""
        seen = {tuple(reference.items())}
        for value in values:
            name, version = known[value.purl]
            stack = self._best({**reference, name: version}) or self._best({name: version})
            if stack is None or stack.versions().get(name) != version:
                continue
            pins = tuple(stack.versions().items())
            if pins not in seen:
                seen.add(pins)
                yield GeneratedStack(stack, f"{name} {version}: {value.reason}")

    def _best(self, versions: Mapping[str, str]) -> ResolvedStack | None:
        """The best stack in which packages have these versions; ``None`` if there is none.

        The places of its versions are positions in this whole universe.
        """
        resolution = resolve(held_at(self.universe, versions, ()), Budget())
        if not resolution.stacks:
            return None
        choices = []
        for choice in resolution.stacks[0].choices:
            purls = [it.purl for it in self.universe.packages[choice.name]]
            choices.append(replace(choice, place=purls.index(choice.purl)))
        passed_over = sum(it.place for it in choices)
        return replace(resolution.stacks[0], choices=tuple(choices), passed_over=passed_over)

    def _covering(self) -> Iterator[GeneratedStack]:
        try:
            array = CoveringArray(
                self.space,
                self.universe.direct,
                strength=self.options.strength,
                varied=self.options.varied or None,
            )
        except TooManyCombinations as error:
            raise StacksTooMany(f"there are {error}") from error
        self.sampling = (
            "together they have each combination that can occur"
            if self.options.stacks is None
            else "the first that cover the combinations which can occur"
        )
        self.infeasible = tuple(self._explained(array.infeasible))
        for nodes, seed, covered in array.stacks():
            problem = self.space.classes.problem
            pair = resolved_stack(self.universe, problem, frozenset(seed))
            together = " with ".join(f"{it.name} {it.version}" for it in pair.choices)
            others = covered - 1
            rest = f" and {counted(others, 'other combination')}" if others else ""
            yield self._stack(nodes, f"first to contain {together}{rest}")

    def _explained(self, pairs: Iterable[Classes]) -> Iterator[InfeasiblePair]:
        until, problem = monotonic() + _EXPLANATIONS_S, self.space.classes.problem
        for classes in pairs:
            versions = []
            for number, place in classes:
                package = self.space.classes.packages[number]
                candidates = self.universe.packages[package.name]
                nodes = package.classes[place].nodes
                alike = tuple(candidates[problem.nodes[it].place].version for it in nodes)
                versions.append((package.name, alike))
            pins = [(name, them[0]) for name, them in versions]
            # Without a conflict, they only never meet.
            proof = _conflict_with(self.universe, pins) if monotonic() < until else []
            yield InfeasiblePair(tuple(versions), tuple(proof))

    def _possible_purls(self) -> set[Purl]:
        """The versions that some stack of this space contains."""
        contains = 0
        for part in self.space.parts():
            contains |= part.contains
        possible = {
            node
            for number, package in enumerate(self.space.classes.packages)
            for place, version_class in enumerate(package.classes)
            if contains >> self.space.number_of(number, place) & 1
            for node in version_class.nodes
        }
        problem = self.space.classes.problem
        return {
            self.universe.packages[problem.names[it.package]][it.place].purl
            for number, it in enumerate(problem.nodes)
            if number in possible
        }

    def impossible(self) -> Iterator[ImpossibleVersions]:
        """Versions that no stack of this space contains, by package and reason.

        Only packages that vary count: those of the options, or the direct requirements.
        """
        purls = self._possible_purls()
        until = monotonic() + _EXPLANATIONS_S
        for name in self.options.varied or self.universe.direct:
            reasons: dict[str, list[str]] = {}
            for refused in self.universe.refused.get(name, ()):
                reasons.setdefault(refused.message, []).append(refused.version)
            for candidate in self.universe.packages.get(name, ()):
                if candidate.purl not in purls:
                    pin = name, candidate.version
                    lines = [] if monotonic() > until else _conflict_with(self.universe, [pin])
                    reason = "; ".join(lines) or "no valid stack contains it"
                    reasons.setdefault(reason, []).append(candidate.version)
            for reason, versions in reasons.items():
                yield ImpossibleVersions(name, tuple(versions), reason)


def closed_universe(universe: Universe) -> Universe:
    """The universe without unread versions and without versions that require unlisted packages.

    A stack may contain only versions whose metadata was read, so these versions cannot occur.
    """
    packages = {
        name: tuple(it for it in candidates if it.read)
        for name, candidates in universe.packages.items()
    }
    return replace(universe, packages=packages, unlisted=frozenset(), unread_invite=False)


def held_at(universe: Universe, versions: Mapping[str, str], varied: Iterable[str]) -> Universe:
    """The universe in which packages keep their version.

    :param versions: version by name to keep; packages without one remain free
    :param varied: packages that remain free although ``versions`` names them
    """
    free = set(varied)
    packages = {
        name: candidates
        if name in free or name not in versions
        else tuple(it for it in candidates if it.version == versions[name])
        for name, candidates in universe.packages.items()
    }
    return replace(universe, packages=packages)


def direct_product(universe: Universe) -> int:
    """Product of the numbers of versions that the request admits of its direct requirements."""
    product = 1
    for name in universe.direct:
        texts = [universe.specifier_of(it) for it in universe.roots if it.name == name]
        product *= sum(
            not universe.needs_invitation(it) and all(admits(text, it.version) for text in texts)
            for it in universe.packages.get(name, ())
        )
    return product


def _conflict_with(universe: Universe, pins: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of the conflict between a universe and versions; empty if there is none."""
    roots = (*universe.roots, *(Dependency(name, f"=={version}") for name, version in pins))
    resolution = resolve(replace(universe, roots=roots), Budget(time_s=_EXPLANATION_S))
    conflict = resolution.conflict
    if resolution.status is not ResolutionStatus.INFEASIBLE or conflict is None:
        return []
    return conflict.lines()
