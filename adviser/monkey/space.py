"""The space of valid stacks as a decision diagram: exact number, rank, and uniform sampling.

A stack is valid in the sense of the resolver: every requirement of the request and of each chosen
version holds, each package has at most one version, and each package is required by the request or
by another chosen package, through a chain that starts at the request.

The diagram decides required packages one after the other. A state has all that affects the open
packages: the classes that remain for each, and decided packages that may be required
again. Open packages that can no longer influence each other form parts, and the number of stacks is
the product over the parts (an AND/OR diagram; Mateescu, Dechter & Marinescu 2008,
doi:10.1613/jair.2605). Every valid stack is exactly one path, so that numbers are exact and
sampling by rank is uniform.

Versions of a package with the same requirements that satisfy the same requirements form a class.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from adviser.resolver.compression import compress
from adviser.resolver.problem import Atom, SelectionProblem
from adviser.resolver.resolver_request import SearchClock
from adviser.resolver.universe import Universe

#: States of a diagram that are kept; a state takes about a kilobyte.
STATE_LIMIT = 200_000

#: Steps of random walks that are kept before they are forgotten.
_STEPS_KEPT = 100_000

#: An open package: its number, the classes that remain, and flags.
_Open = tuple[int, int, int]
#: A decided package that may be required again: its number, class and flags.
_Decided = tuple[int, int, int]
#: Open and decided packages, each sorted.
_State = tuple[tuple[_Open, ...], tuple[_Decided, ...]]


class SpaceTooLarge(Exception):
    """The diagram has more states than the limit."""


@dataclass(slots=True, eq=False)
class ClassChoice:
    """One class of a package, and the independent parts that remain then.

    :param number: of the class among all classes of the problem
    :param count: number of stacks: versions of the class times the number of each part
    """

    number: int

    version_class: VersionClass
    parts: tuple[ChoicePoint, ...]
    count: int


@dataclass(slots=True, eq=False)
class ChoicePoint:
    """A state of the diagram: a package to decide, and its classes that lead to stacks.

    :param contains: numbers of the classes that occur in some stack of this part, as bits
    """

    package: int
    branches: list[ClassChoice] = field(default_factory=list)
    count: int = 0
    contains: int = 0


@dataclass(frozen=True, slots=True)
class SpaceSize:
    """Number of valid stacks.

    :param estimate: the exact number, or the mean of the estimate
    :param low: lower end of the 95 % interval; equals ``estimate`` if exact
    :param high: upper end of this interval
    """

    exact: bool
    estimate: int
    low: int
    high: int


class StackSpace:
    """All valid stacks of a problem. Stacks are node numbers of the problem, sorted.

    :param limit: number of states of the diagram
    """

    def __init__(self, classes: ClassedProblem, limit: int = STATE_LIMIT) -> None:
        self.classes = classes
        self._packages = classes.packages
        self._limit = limit
        self._parts: dict[_State, ChoicePoint] = {}
        self._steps: dict[tuple[_State, int], tuple[_State, ...] | None] = {}
        self._roots: tuple[ChoicePoint, ...] | None = None
        #: By package its place in the order of decisions: requiring packages before required ones.
        self._rank = [0] * len(self._packages)
        order = sorted(
            enumerate(self._packages), key=lambda it: (-it[1].reaches.bit_count(), it[0])
        )
        for place, (number, _) in enumerate(order):
            self._rank[number] = place
        #: By package, the number of its first class among all classes.
        self._first_numbers = list(
            accumulate((len(it.classes) for it in self._packages), initial=0)
        )

    @property
    def raw_product(self) -> int:
        """Product of the number of versions of every package that can occur."""
        return math.prod(it.version_count for it in self._packages)

    def product_of(self, names: Iterable[str]) -> int:
        """Product of the numbers of versions of these packages, without packages that have none."""
        wanted = set(names)
        return math.prod(it.version_count for it in self._packages if it.name in wanted)

    @property
    def states(self) -> int:
        """Number of states of the diagram so far."""
        return len(self._parts)

    def count(self) -> int:
        """The number of valid stacks.

        :raises SpaceTooLarge: if the diagram exceeds its limit
        """
        return math.prod(it.count for it in self.parts())

    def stack(self, rank: int) -> tuple[int, ...]:
        """The stack with a rank from 0 to ``count() - 1``.

        :raises SpaceTooLarge: if the diagram exceeds its limit
        """
        nodes: list[int] = []
        pending: list[tuple[ChoicePoint, int]] = []
        rank = _divided(rank, self.parts(), pending)
        while pending:
            part, rank = pending.pop()
            for branch in part.branches:
                if rank < branch.count:
                    break
                rank -= branch.count
            rank, version = divmod(rank, len(branch.version_class.nodes))
            nodes.append(branch.version_class.nodes[version])
            _divided(rank, branch.parts, pending)
        return tuple(sorted(nodes))

    def size(self, draw: random.Random, samples: int = 2_000) -> SpaceSize:
        """The number of valid stacks: exact if the diagram keeps its limit, else an estimate.

        :param samples: number of random walks for the estimate
        """
        try:
            exact = self.count()
        except SpaceTooLarge:
            return _estimated([self.walk(draw)[1] for _ in range(samples)])
        return SpaceSize(True, exact, exact, exact)

    def walk(self, draw: random.Random) -> tuple[tuple[int, ...], int]:
        """A random stack without the diagram, with its weight; weight 0 is a dead end.

        Each step chooses a class in proportion to its versions. The weight is the inverse of the
        probability of the choices, so that its mean is the number of stacks (Knuth 1975,
        "Estimating the efficiency of backtrack programs", Math. Comp. 29:121-136).
        """
        nodes: list[int] = []
        weight = 1
        pending = self._root_states()
        if pending is None:
            return (), 0
        states = list(pending)
        while states:
            state = states.pop()
            package, choices = self._choices(state)
            classes = self._packages[package].classes
            sizes = [len(classes[place].nodes) for place, _ in choices]
            total = sum(sizes)
            if not total:
                return (), 0
            rank = draw.randrange(total)
            for (place, children), size in zip(choices, sizes, strict=True):
                if rank < size:
                    nodes.append(classes[place].nodes[rank])
                    states.extend(children)
                    break
                rank -= size
            weight *= total
            if len(self._steps) > _STEPS_KEPT:
                self._steps.clear()
        return tuple(sorted(nodes)), weight

    def number_of(self, package: int, place: int) -> int:
        """The number of a class among all classes, as in :attr:`ChoicePoint.contains`."""
        return self._first_numbers[package] + place

    def parts(self) -> tuple[ChoicePoint, ...]:
        """The independent parts of the whole diagram, which is built when it is first needed.

        :raises SpaceTooLarge: if the diagram exceeds its limit
        """
        if self._roots is None:
            states = self._root_states()
            built = None if states is None else tuple(map(self._build, states))
            # An impossible request is one part without stacks.
            possible = built is not None and all(it.count for it in built)
            self._roots = built if built is not None and possible else (ChoicePoint(-1),)
        return self._roots

    def _root_states(self) -> tuple[_State, ...] | None:
        roots = self.classes.roots
        return None if roots is None else self._after({}, {}, list(roots))

    def _build(self, state: _State) -> ChoicePoint:
        """Build the diagram below a state, depth first and without recursion."""
        known = self._parts.get(state)
        if known is not None:
            return known
        pending = [(state, False)]
        while pending:
            top, expanded = pending.pop()
            if top in self._parts:
                continue
            if len(self._parts) >= self._limit:
                raise SpaceTooLarge
            package, choices = self._choices(top)
            if not expanded:
                pending.append((top, True))
                pending.extend(
                    (child, False)
                    for _, children in choices
                    for child in children
                    if child not in self._parts
                )
                continue
            part = ChoicePoint(package)
            for place, children in choices:
                version_class = self._packages[package].classes[place]
                parts = tuple(self._parts[it] for it in children)
                count = len(version_class.nodes) * math.prod(it.count for it in parts)
                if count:
                    number = self._first_numbers[package] + place
                    part.branches.append(ClassChoice(number, version_class, parts, count))
                    part.count += count
                    part.contains |= 1 << number
                    for it in parts:
                        part.contains |= it.contains
            self._parts[top] = part
        self._steps.clear()
        return self._parts[state]

    def _choices(self, state: _State) -> tuple[int, list[tuple[int, tuple[_State, ...]]]]:
        """The package to decide next, and its classes with the states that follow."""
        opened, decided = state
        package, mask, _ = min(opened, key=lambda it: self._rank[it[0]])
        choices = []
        for place in _places(mask):
            key = state, place
            if key not in self._steps:
                self._steps[key] = self._decide(opened, decided, package, place)
            children = self._steps[key]
            if children is not None:
                choices.append((place, children))
        return package, choices

    def _decide(
        self, opened: tuple[_Open, ...], decided: tuple[_Decided, ...], package: int, place: int
    ) -> tuple[_State, ...] | None:
        """The states after a class is chosen; ``None`` if no stack remains."""
        still_open = {it[0]: (it[1], it[2]) for it in opened}
        flags = still_open.pop(package)[1]
        settled = {it[0]: (it[1], it[2]) for it in decided}
        settled[package] = (place, 0)
        version_class = self._packages[package].classes[place]
        every = (1 << len(self._packages[package].classes)) - 1
        return self._after(
            still_open, settled, [Demands(package, every, flags), *version_class.requires]
        )

    def _after(
        self,
        opened: dict[int, tuple[int, int]],
        settled: dict[int, tuple[int, int]],
        demands: list[Demands],
    ) -> tuple[_State, ...] | None:
        while demands:
            demand = demands.pop()
            number = demand.package
            if number in settled:
                place, flags = settled[number]
                if not demand.admitted >> place & 1:
                    return None
                fresh = demand.flags & ~flags
                if fresh:
                    settled[number] = (place, flags | fresh)
                    for flag, brought in self._packages[number].classes[place].by_extra:
                        if flag & fresh:
                            demands.extend(brought)
            else:
                mask, flags = opened.get(number, (-1, 0))
                mask &= demand.admitted
                if not mask:
                    return None
                opened[number] = (mask, flags | demand.flags)
        return self._split(opened, settled)

    def _split(
        self, opened: dict[int, tuple[int, int]], settled: dict[int, tuple[int, int]]
    ) -> tuple[_State, ...] | None:
        """The independent parts of the open packages; ``None`` if a permit can no longer be met."""
        reach = {number: self._reach(number, mask) for number, (mask, _) in opened.items()}
        active: list[tuple[int, _Decided]] = []
        connected = 0
        ahead = 0
        for bits in reach.values():
            ahead |= bits
        passive: list[_Decided] = []
        for number, (place, flags) in settled.items():
            version_class = self._packages[number].classes[place]
            owed = any(not flags & permit for permit in version_class.permits)
            if not ahead >> number & 1:
                if owed:
                    return None
                continue
            kept = flags & version_class.flags
            if owed or any(not flags & flag for flag, _ in version_class.by_extra):
                active.append((number, (number, place, kept)))
            else:
                # All of its requirements hold already, so it only restricts.
                passive.append((number, place, kept))
                connected |= 1 << number
        groups: list[tuple[int, list[int]]] = []
        for number, bits in reach.items():
            joined, members = bits & ~connected, [number]
            apart = []
            for other, numbers in groups:
                if other & joined:
                    joined |= other
                    members += numbers
                else:
                    apart.append((other, numbers))
            groups = [*apart, (joined, members)]
        states = []
        for _, members in groups:
            seen = 0
            for number in members:
                seen |= reach[number]
            kept_decided = [it for it in passive if seen >> it[0] & 1]
            kept_decided += [it for number, it in active if seen >> number & 1]
            states.append((
                tuple(sorted((it, opened[it][0], self._read(it, *opened[it])) for it in members)),
                tuple(sorted(kept_decided)),
            ))  # fmt: skip
        return tuple(sorted(states))

    def _reach(self, number: int, mask: int) -> int:
        """Packages that the remaining classes of an open package can reach, and itself, as bits."""
        bits = 1 << number
        classes = self._packages[number].classes
        for place in _places(mask):
            version_class = classes[place]
            for demand in version_class.requires:
                if demand.package != number:
                    bits |= self._packages[demand.package].reaches
            for _, demands in version_class.by_extra:
                for demand in demands:
                    if demand.package != number:
                        bits |= self._packages[demand.package].reaches
        return bits

    def _read(self, number: int, mask: int, flags: int) -> int:
        """The flags that the remaining classes of a package read."""
        if not flags:
            return 0
        read = 0
        for place in _places(mask):
            read |= self._packages[number].classes[place].flags
        return flags & read


def _estimated(weights: Sequence[int]) -> SpaceSize:
    """The mean of the weights with a 95 % interval from its standard error.

    Weights are skewed, so the upper end may be too low.
    """
    count = len(weights)
    mean = sum(weights) // count
    # Weights may exceed the range of floating-point numbers.
    squares = sum((it - mean) ** 2 for it in weights)
    error = math.isqrt(squares // max(1, count - 1) // count)
    return SpaceSize(False, mean, max(0, mean - 196 * error // 100), mean + 196 * error // 100)


def _divided(
    rank: int, parts: Sequence[ChoicePoint], pending: list[tuple[ChoicePoint, int]]
) -> int:
    """Split a rank into one for each part."""
    for part in parts:
        rank, own = divmod(rank, part.count)
        pending.append((part, own))
    return rank


def _places(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def distinct_ranks(total: int, seed: int) -> Iterator[int]:
    """All numbers below ``total`` in random order, each order equally likely.

    A lazy shuffle (Fisher & Yates; Knuth, TAOCP 2, algorithm 3.4.2P): memory grows with the numbers
    taken, and the same seed always gives the same sequence.
    """
    draw, moved = random.Random(seed), dict[int, int]()  # noqa: S311 - a sample, no secret
    for place in range(total):
        other = draw.randrange(place, total)
        here = moved.pop(place, place)
        if other == place:
            yield here
        else:
            yield moved.get(other, other)
            moved[other] = here


#: More versions than any package has, so that compression keeps them all.
_ALL = 1 << 30


@dataclass(frozen=True, slots=True)
class Demands:
    """Requirements on one package.

    :param admitted: classes that satisfy all of them, as bits
    :param flags: atoms among them that matter beyond ``admitted``, as bits: extras that bring
        requirements, and atoms that permit a pre-release or a yanked version
    """

    package: int
    admitted: int
    flags: int


@dataclass(frozen=True, slots=True)
class VersionClass:
    """Versions of a package with the same requirements that satisfy the same requirements.

    :param nodes: node numbers in the problem, newest first
    :param requires: requirements that always hold, one entry for each package
    :param by_extra: flag of an extra, and the requirements that it adds
    :param permits: for each condition of a pre-release or yanked version, the flags of which one
        must be set
    :param flags: all flags that this class reads
    """

    nodes: tuple[int, ...]
    requires: tuple[Demands, ...]
    by_extra: tuple[tuple[int, tuple[Demands, ...]], ...]
    permits: tuple[int, ...]
    flags: int


@dataclass(frozen=True, slots=True)
class ClassedPackage:
    """A package with its classes.

    :param reaches: packages that it can require, directly or through others, and itself, as bits
    """

    name: str
    classes: tuple[VersionClass, ...]
    reaches: int

    @property
    def version_count(self) -> int:
        """Number of versions in all classes."""
        return sum(len(it.nodes) for it in self.classes)


@dataclass(frozen=True, slots=True)
class ClassedProblem:
    """A problem in classes. Nothing is lost: a stack is a choice of classes, and of a version each.

    :param roots: requirements of the request, one entry for each package; ``None`` if one of them
        admits no version
    """

    problem: SelectionProblem
    packages: tuple[ClassedPackage, ...]
    roots: tuple[Demands, ...] | None


def group_versions(universe: Universe, clock: SearchClock | None = None) -> ClassedProblem:
    """Group the versions of a closed universe.

    :raises OutOfTime: if the time limit is reached
    """
    return _Classes(compress(universe, _ALL, clock)).problem()


class _Classes:
    def __init__(self, problem: SelectionProblem) -> None:
        self._problem = problem
        self._package_of: dict[Atom, int] = {
            package_atom[1]: package_atom[0] for package_atom in problem.extras
        }
        self._satisfied: list[set[Atom]] = [set() for _ in problem.nodes]
        for atom, members in enumerate(problem.members):
            for node in members or ():
                self._satisfied[node].add(atom)
                self._package_of[atom] = problem.nodes[node].package
        self._permits: dict[int, list[tuple[Atom, ...]]] = {}
        for permit in problem.permits:
            self._permits.setdefault(permit.node, []).append(permit.atoms)
        self._flags = self._flagged()
        self._grouped = [self._groups(nodes) for nodes in problem.by_package()]
        #: Classes that satisfy an atom, as bits.
        self._masks: dict[Atom, int] = {}
        for groups in self._grouped:
            for place, nodes in enumerate(groups):
                for atom in self._satisfied[nodes[0]]:
                    self._masks[atom] = self._masks.get(atom, 0) | 1 << place

    def _flagged(self) -> dict[Atom, int]:
        """The bit of each atom that classes read."""
        read = {extra for node in self._problem.nodes for extra, _ in node.by_extra}
        read |= {atom for many in self._permits.values() for atoms in many for atom in atoms}
        counts: dict[int, int] = {}
        flags = {}
        # An atom without versions has no package, and never holds.
        for atom in sorted(read & self._package_of.keys()):
            package = self._package_of[atom]
            flags[atom] = 1 << counts.get(package, 0)
            counts[package] = counts.get(package, 0) + 1
        return flags

    def _groups(self, nodes: list[int]) -> list[list[int]]:
        groups: dict[tuple[object, ...], list[int]] = {}
        for number in nodes:
            node = self._problem.nodes[number]
            key = (
                node.requires, node.by_extra, frozenset(self._satisfied[number]),
                tuple(self._permits.get(number, ())),
            )  # fmt: skip
            groups.setdefault(key, []).append(number)
        return list(groups.values())

    def problem(self) -> ClassedProblem:
        made = [tuple(map(self._class, groups)) for groups in self._grouped]
        reaches = _reaches(
            [{it.package for one in classes for it in _every_demand(one)} for classes in made]
        )
        packages = tuple(
            ClassedPackage(name, classes, reach)
            for name, classes, reach in zip(self._problem.names, made, reaches, strict=True)
        )
        return ClassedProblem(self._problem, packages, self._demands(self._problem.roots))

    def _class(self, nodes: list[int]) -> VersionClass:
        node = self._problem.nodes[nodes[0]]
        # Compression keeps no version with a requirement that no version satisfies.
        requires = self._demands(node.requires) or ()
        by_extra = tuple(
            (self._flags[extra], self._demands(atoms, unsatisfiable=True) or ())
            for extra, atoms in node.by_extra
        )
        permits = tuple(
            sum(self._flags.get(it, 0) for it in set(atoms))
            for atoms in self._permits.get(nodes[0], ())
        )
        flags = 0
        for bits in (*(flag for flag, _ in by_extra), *permits):
            flags |= bits
        return VersionClass(tuple(nodes), requires, by_extra, permits, flags)

    def _demands(
        self, atoms: Iterable[Atom], unsatisfiable: bool = False
    ) -> tuple[Demands, ...] | None:
        """Group atoms by package; ``None`` if one of them admits no version.

        :param unsatisfiable: return such a demand instead of ``None``
        """
        admitted: dict[int, int] = {}
        flags: dict[int, int] = {}
        for atom in atoms:
            package = self._package_of.get(atom)
            if package is None:
                return (Demands(0, 0, 0),) if unsatisfiable else None
            mask = admitted.setdefault(package, (1 << len(self._grouped[package])) - 1)
            if self._problem.members[atom] is not None:
                admitted[package] = mask & self._masks[atom]
            flags[package] = flags.get(package, 0) | self._flags.get(atom, 0)
        return tuple(Demands(it, admitted[it], flags[it]) for it in sorted(admitted))


def _every_demand(version_class: VersionClass) -> Iterable[Demands]:
    yield from version_class.requires
    for _, demands in version_class.by_extra:
        yield from demands


def _reaches(requires: list[set[int]]) -> list[int]:
    """For each package the packages that it reaches, and itself, as bits."""
    reaches = [1 << number | sum(1 << it for it in targets - {number})
               for number, targets in enumerate(requires)]  # fmt: skip
    changed = True
    while changed:
        changed = False
        for number, targets in enumerate(requires):
            before = reaches[number]
            for target in targets:
                reaches[number] |= reaches[target]
            changed = changed or reaches[number] != before
    return reaches
