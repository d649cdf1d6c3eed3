"""Covering arrays over valid stacks: every combination that can occur occurs in some stack.

A combination of strength *t* is a set of versions of *t* packages that can interact. The diagram
decides exactly which combinations occur in any stack; the others are infeasible. Stacks are made
one at a time: each starts with a combination that is not covered yet and chooses, package by
package, the version that covers most others (a greedy method like AETG; Cohen et al. 1997,
doi:10.1109/32.605761). Every choice has a stack, so the method never runs into a dead end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product

from adviser.monkey.space import ChoicePoint, ClassChoice, StackSpace

#: Maximum number of combinations; one takes about 100 bytes of memory.
MOST_COMBINATIONS = 3_000_000

#: Node numbers of versions, sorted.
Combination = tuple[int, ...]


class TooManyCombinations(Exception):
    """There are more combinations than fit into memory.

    :ivar count: lower bound of their number
    """

    def __init__(self, count: int) -> None:
        super().__init__(f"more than {count:,} combinations")
        self.count = count


#: Package number and place of a class of versions, one for each package of a combination.
Classes = tuple[tuple[int, int], ...]


class CoveringArray:
    """The stacks that cover all feasible combinations.

    :param direct: packages that the project requires by name; they can interact with each other,
        because the project uses them together. Other packages can interact if one of them requires
        the other, directly or through other packages
    :param varied: packages whose combinations count; by default all
    :raises SpaceTooLarge: if the diagram exceeds its limit
    :raises TooManyCombinations: if the combinations do not fit into memory
    """

    def __init__(
        self,
        space: StackSpace,
        direct: Iterable[str],
        *,
        strength: int = 2,
        varied: Iterable[str] | None = None,
    ) -> None:
        self._space = space
        self._packages = space.classes.packages
        self._parts = space.parts()
        self._strength = strength
        self._direct = frozenset(direct)
        self._varied = None if varied is None else frozenset(varied)
        self._known: dict[tuple[int, int], int] = {}
        #: Classes of versions that no stack has together.
        self.infeasible: list[Classes] = []
        #: Combinations without a stack so far, in a fixed order.
        self.uncovered: dict[Combination, None] = {}
        self._left: dict[int, int] = {}
        #: By node, the others of its pairs in ``uncovered``.
        self._partners: defaultdict[int, set[int]] = defaultdict(set)
        self._sizes: set[int] = set()
        self._class_of = {
            node: space.number_of(number, place)
            for number, package in enumerate(self._packages)
            for place, version_class in enumerate(package.classes)
            for node in version_class.nodes
        }
        for group in self._groups():
            self._combine(group)

    def _groups(self) -> Iterator[tuple[int, ...]]:
        """Sets of packages of which each two can interact.

        A smaller set has no further package that could interact with all its members.
        """
        numbers = [
            number
            for number, it in enumerate(self._packages)
            if self._varied is None or it.name in self._varied
        ]
        for size in range(self._strength, 0, -1):
            for group in combinations(numbers, size):
                if not all(self._interact(*pair) for pair in combinations(group, 2)):
                    continue
                if size == self._strength or not any(
                    all(self._interact(number, it) for it in group)
                    for number in numbers
                    if number not in group
                ):
                    self._sizes.add(size)
                    yield group

    def _interact(self, left: int, right: int) -> bool:
        first, second = self._packages[left], self._packages[right]
        if first.name in self._direct and second.name in self._direct:
            return True
        return bool(first.reaches >> right & 1 or second.reaches >> left & 1)

    def _combine(self, group: tuple[int, ...]) -> None:
        for places in product(*(range(len(self._packages[it].classes)) for it in group)):
            classes = tuple(zip(group, places, strict=True))
            wanted = 0
            for number, place in classes:
                wanted |= 1 << self._space.number_of(number, place)
            if not self._together(self._parts, wanted):
                self.infeasible.append(classes)
                continue
            nodes = [self._packages[it].classes[place].nodes for it, place in classes]
            for combination in product(*nodes):
                self.uncovered[tuple(sorted(combination))] = None
                for node in combination:
                    self._left[node] = self._left.get(node, 0) + 1
                if len(combination) == 2:
                    left, right = combination
                    self._partners[left].add(right)
                    self._partners[right].add(left)
            if len(self.uncovered) > MOST_COMBINATIONS:
                raise TooManyCombinations(len(self.uncovered))

    def _together(self, parts: Sequence[ChoicePoint], wanted: int) -> bool:
        """Whether some stack of these parts has all wanted classes."""
        for part in parts:
            own = wanted & part.contains
            wanted &= ~own
            if own and not self._within(part, own):
                return False
        return not wanted

    def _within(self, part: ChoicePoint, wanted: int) -> bool:
        if not wanted & (wanted - 1):
            return True  # only wanted classes that the part contains are asked for
        key = id(part), wanted
        if key not in self._known:
            self._known[key] = any(self._fits(branch, wanted) for branch in part.branches)
        return bool(self._known[key])

    def _fits(self, branch: ClassChoice, wanted: int) -> bool:
        return self._together(branch.parts, wanted & ~(1 << branch.number))

    def stacks(self) -> Iterator[tuple[tuple[int, ...], Combination, int]]:
        """Stacks until every feasible combination is covered.

        :returns: node numbers, the combination that the stack started from, and the number of
            combinations that it covers first
        """
        while self.uncovered:
            seed = next(iter(self.uncovered))
            nodes = self._stack(seed)
            yield nodes, seed, self._cover(nodes)

    def _stack(self, seed: Combination) -> tuple[int, ...]:
        chosen = list(seed)
        wanted = 0
        for node in seed:
            wanted |= 1 << self._class_of[node]
        nodes: list[int] = []
        pending = [(self._parts, wanted)]
        while pending:
            parts, wanted = pending.pop()
            for part in parts:
                own = wanted & part.contains
                wanted &= ~own
                branches = [it for it in part.branches if self._fits(it, own)]
                branch, node = max(
                    ((branch, node) for branch in branches for node in branch.version_class.nodes),
                    key=self._gain(seed, chosen),
                )
                nodes.append(node)
                if node not in seed:
                    chosen.append(node)
                pending.append((branch.parts, own & ~(1 << branch.number)))
        return tuple(sorted(nodes))

    def _gain(
        self, seed: Combination, chosen: Sequence[int]
    ) -> Callable[[tuple[ClassChoice, int]], tuple[bool, int, int, int]]:
        """Sort key of a choice: versions of the seed, new combinations, all combinations."""
        uncovered, sizes = self.uncovered, sorted(self._sizes)

        def key(choice: tuple[ClassChoice, int]) -> tuple[bool, int, int, int]:
            node = choice[1]
            left = self._left.get(node, 0)
            gain = 0
            for size in sizes if left else ():
                if size == 2:
                    gain += len(self._partners[node].intersection(chosen))
                else:
                    groups = combinations(chosen, size - 1)
                    gain += sum(tuple(sorted((node, *it))) in uncovered for it in groups)
            return node in seed, gain, left, -node

        return key

    def _cover(self, nodes: Sequence[int]) -> int:
        before = len(self.uncovered)
        for size in self._sizes:
            for combination in combinations(nodes, size):
                if combination in self.uncovered:
                    del self.uncovered[combination]
                    for node in combination:
                        self._left[node] -= 1
                    if size == 2:
                        left, right = combination
                        self._partners[left].discard(right)
                        self._partners[right].discard(left)
        return before - len(self.uncovered)
