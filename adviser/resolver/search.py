"""From a problem to its best stacks in order, each with its proof.

The order of stacks is lexicographic (:class:`~adviser.resolver.results.Stack`). Its first two
parts are one objective; what still ties after them is settled package by package, as many at a
time as an exact sum can tell apart. So the answer is one and the same for every seed and any
number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

from adviser.resolver.model import MAX_OBJECTIVE, Model, Run
from adviser.resolver.problems import Found, Nodes, Problem, weight_of
from adviser.resolver.requests import Budget


def search(
    problem: Problem,
    budget: Budget,
    count: int = 1,
    told: Callable[[Found], None] | None = None,
) -> Found:
    """The ``count`` best stacks of a problem.

    :param told: hears of what is known so far whenever that gets better
    :returns: no stack and ``complete`` if there is none, no stack otherwise if time ran out
    """
    return _Search(problem, budget, told).best(count)


#: From so many versions on the optimum takes its time, and some stack is looked for before it.
LARGE = 1000


class _Search:
    def __init__(
        self, problem: Problem, budget: Budget, told: Callable[[Found], None] | None
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._tell = told
        self._until = monotonic() + budget.time_s
        self._objectives = list(_objectives(problem))
        self._known = Found()

    def best(self, count: int) -> Found:
        forbidden: list[Nodes] = []
        while len(forbidden) < count:
            stack, proven = self._next(forbidden)
            if stack is None:
                self._say(settled=proven and self._known.settled, complete=proven)
                break
            forbidden.append(stack)
            self._say(settled=proven)
            if not proven:
                break
        return self._known

    def _next(self, forbidden: list[Nodes]) -> tuple[Nodes | None, bool]:
        """The best stack that is none of these, and whether that is proven to the last tie."""
        model = Model(self._problem)
        for stack in forbidden:
            model.forbid(stack)
        best: Nodes | None = None
        if not forbidden and len(self._problem.nodes) > LARGE:
            self._any(model)
        for number, (costs, weight) in enumerate(self._objectives):
            model.minimize(costs)
            run = self._run(model, tells=number == 0 and not forbidden)
            if run.chosen is None:
                return best or self._some(forbidden), run.proven
            best = self._reduced(run.chosen)
            self._note((*forbidden, best), run, weight if number == 0 and not forbidden else None)
            if not run.proven:
                return best, False
            if number + 1 < len(self._objectives):
                if self._alone(model, best, run.cost):
                    return best, True
                model.limit(costs, run.cost)
        return best, True

    def _any(self, model: Model) -> None:
        """Some stack at once, to have one to hand over; as a hint it would slow what follows."""
        model.minimize(())
        run = self._run(model)
        if run.chosen is not None:
            stack = self._reduced(run.chosen)
            self._known = Found((stack,), self._score(stack), 0)
            if self._tell:
                self._tell(self._known)

    def _note(self, stacks: tuple[Nodes, ...], run: Run, weight: int | None) -> None:
        """What the very first run proves holds for the answer as a whole."""
        objective, bound = self._known.objective, self._known.bound
        if weight is not None:
            objective = self._score(stacks[0])
            bound = objective if run.proven else -(run.bound // weight)
        self._known = Found(stacks, objective, bound)
        if self._tell:
            self._tell(self._known)

    def _some(self, forbidden: list[Nodes]) -> Nodes | None:
        """The stack that was found first of all, where none better was."""
        return self._known.stacks[0] if self._known.stacks and not forbidden else None

    def _alone(self, model: Model, best: Nodes, cost: int) -> bool:
        """Whether every other stack costs more.

        The next best is looked for, which the relaxation bounds well; that none costs as little
        is far harder to prove.
        """
        other = model.copy()
        other.forbid(best)
        run = self._run(other, enough=cost)
        return (run.proven and run.chosen is None) or run.bound > cost

    def _run(self, model: Model, *, tells: bool = False, enough: int | None = None) -> Run:
        """Run until the answer holds without holding itself up."""
        while True:
            told = self._better if tells and self._tell else None
            run = model.solve(self._budget, self._until - monotonic(), told, enough)
            if run.chosen is None or self._holds(run.chosen):
                return run
            model.unfound(run)

    def _better(self, chosen: Nodes) -> None:
        """An answer on the way; passed on if it is one."""
        if self._tell and self._holds(chosen):
            stack = self._reduced(chosen)
            self._tell(Found((stack,), self._score(stack), 0))

    def _score(self, stack: Nodes) -> int:
        return sum(self._problem.nodes[it].score for it in stack)

    def _reduced(self, chosen: Nodes) -> Nodes:
        return self._problem.reached(chosen)[0]

    def _holds(self, chosen: Nodes) -> bool:
        """Whether what has to be asked for is asked by something that the roots need."""
        if not self._problem.permits:
            return True
        nodes, atoms = self._problem.reached(chosen)
        return all(
            it.node not in nodes or not atoms.isdisjoint(it.atoms) for it in self._problem.permits
        )

    def _say(self, *, settled: bool, complete: bool = False) -> None:
        known = self._known
        self._known = Found(known.stacks, known.objective, known.bound, settled, complete)
        if self._tell:
            self._tell(self._known)


#: Costs of nodes, and by how much a score outweighs all the rest of them.
_Objective = tuple[list[tuple[int, int]], int]


def _objectives(problem: Problem) -> Iterator[_Objective]:
    """What to minimise, one after the other; together they tell any two stacks apart."""
    nodes, packages = problem.nodes, problem.by_package()
    weight = weight_of(problem)
    worst = sum(max((-nodes[it].score for it in numbers), default=0) for numbers in packages)
    if worst * weight < MAX_OBJECTIVE:
        yield [(i, it.place - weight * it.score) for i, it in enumerate(nodes)], weight
    else:
        yield [(i, -it.score) for i, it in enumerate(nodes)], 1
        yield [(i, it.place) for i, it in enumerate(nodes)], 1
    yield from _by_name(packages)


def _by_name(packages: list[list[int]]) -> Iterator[_Objective]:
    """Not there before there, newer before older; the first package outweighs those after it."""
    costs: list[tuple[int, int]] = []
    factor = 1
    # Built from the last package of a part to its first: a part starts where the sum is full.
    parts: list[list[list[int]]] = [[]]
    for numbers in packages:
        if factor * (len(numbers) + 1) > MAX_OBJECTIVE:
            parts.append([])
            factor = 1
        factor *= len(numbers) + 1
        parts[-1].append(numbers)
    for part in parts:
        costs, factor = [], 1
        for numbers in reversed(part):
            costs.extend((number, factor * place) for place, number in enumerate(numbers, 1))
            factor *= len(numbers) + 1
        yield costs, 1
