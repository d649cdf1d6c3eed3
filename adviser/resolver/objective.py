"""The objective of the searches: levels of costs, each of which outweighs all later ones.

Levels in order: the criteria that come before newness, over all packages; the newness of each
direct requirement, in declared order; the newness of the packages at each distance from the
project; the newness of all other packages together; the number of versions that nothing but another
package's requirement admits; the number of newer versions passed over. The first levels are those
of the score; only the order of their values matters. The last two levels break ties.

A problem with costs of its own has one level for each of its criteria instead, before the two that
break ties. Then the absence of a package may have a cost, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul

from adviser.resolver.problem import SelectionProblem
from adviser.resolver.universe import DISTANCES

#: Contributions of a stack by level of the score; each at most 0, compared in order.
LevelValues = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """Costs of one level, at least 0.

    :param costs: by node; the cost of a stack is the sum over its nodes
    :param most: upper bound of the cost of a stack
    :param package: the only package with costs; ``None`` if several may have some
    :param values: contribution by cost; empty if the contribution is minus the cost
    :param absence: by package, the cost of a stack without it, at least 0; empty if none costs
    """

    costs: tuple[int, ...]
    most: int
    package: int | None = None
    values: tuple[int, ...] = ()
    absence: tuple[int, ...] = ()

    def contribution(self, cost: int) -> int:
        """The contribution to the score for a cost, or for a lower bound of a cost."""
        return self.values[min(cost, len(self.values) - 1)] if self.values else -cost


def levels_of(problem: SelectionProblem) -> tuple[Level, ...]:
    """The levels of the score, then the two levels that break ties."""
    nodes, packages = problem.nodes, problem.by_package()
    levels = _own(problem) if problem.absence or problem.costs else _of_advice(problem)
    levels.append(_summed(packages, [int(node.uninvited) for node in nodes]))
    levels.append(_summed(packages, [max(node.place, 0) for node in nodes]))
    return tuple(levels)


def _own(problem: SelectionProblem) -> list[Level]:
    """One level for each criterion."""
    packages, levels = problem.by_package(), list[Level]()
    for at in range(problem.level_count):
        costs = [it[at] for it in problem.costs]
        absence = tuple(it[at] for it in problem.absence)
        least = absence or (0,) * len(packages)
        most = sum(
            max((*(costs[it] for it in numbers), without))
            for numbers, without in zip(packages, least, strict=True)
        )
        levels.append(Level(tuple(costs), most, absence=absence))
    return levels


def _of_advice(problem: SelectionProblem) -> list[Level]:
    nodes, packages = problem.nodes, problem.by_package()
    levels = [_summed(packages, [-node.first for node in nodes])]
    direct = problem.level_count - DISTANCES - 2
    for level in range(1, problem.level_count):
        members = [package for package, at in enumerate(problem.levels) if at == level]
        if level <= direct:
            package = members[0] if members else None
            numbers = packages[package] if package is not None else []
            levels.append(_ranked(problem, package, numbers))
        else:
            costs = [-it.newness if problem.levels[it.package] == level else 0 for it in nodes]
            levels.append(_summed(packages, costs))
    return levels


def _summed(packages: Iterable[Sequence[int]], costs: Sequence[int]) -> Level:
    most = sum(max((costs[it] for it in numbers), default=0) for numbers in packages)
    return Level(tuple(costs), most)


def _ranked(problem: SelectionProblem, package: int | None, numbers: Sequence[int]) -> Level:
    """The level of one package, which every stack contains.

    Ranks order versions as the values do, and are small numbers.
    """
    nodes = problem.nodes
    values = sorted({nodes[it].newness for it in numbers}, reverse=True)
    ranks = {value: rank for rank, value in enumerate(values)}
    costs = [0] * len(nodes)
    for it in numbers:
        costs[it] = ranks[nodes[it].newness]
    return Level(tuple(costs), max(len(values) - 1, 0), package, tuple(values))


def weights_of(levels: Sequence[Level]) -> tuple[int, ...]:
    """Weights for a single sum of all levels that orders stacks as the levels do.

    >>> weights_of([Level((0, 1), 1), Level((4, 9), 9), Level((2, 0), 2)])
    (30, 3, 1)
    """
    weights: list[int] = []
    weight = 1
    for level in reversed(levels):
        weights.append(weight)
        weight *= level.most + 1
    return tuple(reversed(weights))


def combined_costs(levels: Sequence[Level]) -> list[int]:
    """The cost of each node over all levels as one exact integer, which may be large."""
    return _weighted(levels, [it.costs for it in levels])


def combined_absence(levels: Sequence[Level]) -> list[int]:
    """The same for the absence of each package; empty if no absence costs anything."""
    count = max((len(it.absence) for it in levels), default=0)
    return _weighted(levels, [it.absence or (0,) * count for it in levels]) if count else []


def _weighted(levels: Sequence[Level], rows: Sequence[Sequence[int]]) -> list[int]:
    weights = weights_of(levels)
    return [sum(map(mul, weights, costs)) for costs in zip(*rows, strict=True)]


def parts_of(cost: int, levels: Sequence[Level]) -> list[int]:
    """The costs by level, or lower bounds of them, from a sum that :func:`combined_costs` made.

    >>> parts_of(30 + 9 * 3 + 2, [Level((0, 1), 1), Level((4, 9), 9), Level((2, 0), 2)])
    [1, 9, 2]
    """
    parts = []
    for weight in weights_of(levels):
        part, cost = divmod(cost, weight)
        parts.append(part)
    return parts


def value_of(problem: SelectionProblem, nodes: Iterable[int]) -> LevelValues:
    """The contributions of a stack by level."""
    values = [0] * problem.level_count
    if problem.costs or problem.absence:
        chosen = list(nodes)
        present = {problem.nodes[it].package for it in chosen}
        rows = [problem.costs[it] for it in chosen]
        rows += [it for package, it in enumerate(problem.absence) if package not in present]
        return tuple(-sum(column) for column in zip(values, *rows, strict=True))
    for number in nodes:
        node = problem.nodes[number]
        values[0] += node.first
        values[problem.levels[node.package]] += node.newness
    return tuple(values)


def packs(levels: Sequence[Level], limit: int) -> list[list[Level]]:
    """Group consecutive levels; each group is as large as one sum below ``limit`` can represent.

    Levels without any cost are left out. A level that exceeds the limit by itself gets its own
    group.
    """

    def added(groups: list[list[Level]], level: Level) -> list[list[Level]]:
        if groups and _range([*groups[-1], level]) < limit:
            groups[-1].append(level)
        else:
            groups.append([level])
        return groups

    return reduce(added, (it for it in levels if it.most), [])


def _range(levels: Iterable[Level]) -> int:
    return reduce(lambda product, level: product * (level.most + 1), levels, 1)
