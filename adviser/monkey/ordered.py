"""Enumerate the stacks of a space lazily, from the lowest cost to the highest.

The cheapest stacks of a part follow from the cheapest of its branches, lazily (Huang & Chiang 2005,
"Better k-best parsing", algorithm 3).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from functools import reduce

from adviser.monkey.space import ChoicePoint, ClassChoice, StackSpace
from adviser.resolver.objective import combined_costs, levels_of

#: A cost, and the nodes of a stack or a part of one.
CostedNodes = tuple[int, tuple[int, ...]]


class _Listed:
    """A lazy sequence; items are computed once."""

    def __init__(self, items: Iterator[CostedNodes]) -> None:
        self._items = items
        self._known: list[CostedNodes] = []

    def get(self, place: int) -> CostedNodes | None:
        """The item at a place; ``None`` if there are fewer."""
        while len(self._known) <= place:
            item = next(self._items, None)
            if item is None:
                return None
            self._known.append(item)
        return self._known[place]

    def __iter__(self) -> Iterator[CostedNodes]:
        place = 0
        while (item := self.get(place)) is not None:
            yield item
            place += 1


def best_first(space: StackSpace) -> Iterator[tuple[int, ...]]:
    """All stacks in the order of the resolver's objective, best first, as sorted node numbers.

    :raises SpaceTooLarge: if the diagram exceeds its limit
    """
    costs = combined_costs(levels_of(space.classes.problem))
    known: dict[int, _Listed] = {}

    def listed(part: ChoicePoint) -> _Listed:
        if id(part) not in known:
            known[id(part)] = _Listed(heapq.merge(*map(of_branch, part.branches)))
        return known[id(part)]

    def of_branch(branch: ClassChoice) -> Iterator[CostedNodes]:
        versions = _Listed(
            iter(sorted((costs[node], (node,)) for node in branch.version_class.nodes))
        )
        # Parts are opened when the first stack of this branch is needed.
        yield from _all_sums([versions, *map(listed, branch.parts)])

    parts = space.parts()
    for _, nodes in _all_sums([_Listed(iter([(0, ())])), *map(listed, parts)]):
        yield tuple(sorted(nodes))


def _all_sums(factors: Sequence[_Listed]) -> _Listed:
    return reduce(lambda left, right: _Listed(_sums(left, right)), factors)


def _sums(left: _Listed, right: _Listed) -> Iterator[CostedNodes]:
    """All combinations of two sequences, cheapest first."""
    heap: list[tuple[int, tuple[int, ...], int, int]] = []

    def offer(i: int, j: int) -> None:
        first, second = left.get(i), right.get(j)
        if first is not None and second is not None:
            heapq.heappush(heap, (first[0] + second[0], first[1] + second[1], i, j))

    offer(0, 0)
    while heap:
        cost, nodes, i, j = heapq.heappop(heap)
        yield cost, nodes
        offer(i, j + 1)
        if j == 0:
            offer(i + 1, 0)
