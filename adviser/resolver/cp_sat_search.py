"""The problem as a CP-SAT model, and what one run of the solver says of it.

One Boolean a version, one an asked specifier or extra. At most one version of a package; a
version implies what it requires; a specifier implies a version that satisfies it. The objective
is the cost of the versions, so what nobody requires is left out or cut off afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import ceil
from time import monotonic

from ortools.sat.python import cp_model

from adviser.resolver.problem import (
    Atom,
    Nodes,
    SearchResult,
    SelectionProblem,
    weight_of,
)
from adviser.resolver.resolver_request import Budget

#: Keeps the sum of the objective and its products exact, in the solver and in floats.
MAX_OBJECTIVE = 1 << 52


@dataclass(frozen=True, slots=True)
class SolverRun:
    """What one run of the solver found.

    :param proven: whether there is no better answer, or none at all if ``chosen`` is ``None``
    :param chosen: the nodes that are true, and ``atoms`` the atoms
    :param cost: by the objective of this run
    :param bound: no answer costs less
    """

    proven: bool
    chosen: frozenset[int] | None = None
    atoms: frozenset[Atom] = frozenset()
    cost: int = 0
    bound: int = 0


class CpSatModel:
    """A problem in the solver's terms; constraints can be added between runs."""

    def __init__(self, problem: SelectionProblem) -> None:
        self._problem = problem
        self._model = cp_model.CpModel()
        add = self._model.new_bool_var
        self._nodes = [add("") for _ in problem.nodes]
        self._atoms = [add("") for _ in problem.members]
        self._pairs: dict[tuple[int, Atom], cp_model.IntVar] = {}
        self._without_cost = True
        self._choose_one_of_each_package()
        self._require()
        self._permit()

    def _choose_one_of_each_package(self) -> None:
        for numbers in self._problem.by_package():
            if len(numbers) > 1:
                self._model.add_at_most_one(self._nodes[it] for it in numbers)

    def _require(self) -> None:
        model, nodes, atoms = self._model, self._nodes, self._atoms
        for node, literal in zip(self._problem.nodes, nodes, strict=True):
            if node.requires:
                implied = model.add_bool_and(atoms[it] for it in node.requires)
                implied.only_enforce_if(literal)
            for extra, brought in node.by_extra:
                implied = model.add_bool_and(atoms[it] for it in brought)
                implied.only_enforce_if(literal, atoms[extra])
        for literal, members in zip(atoms, self._problem.members, strict=True):
            if members is not None:
                model.add_bool_or(*(nodes[it] for it in members), ~literal)
        if self._problem.roots:
            model.add_bool_and(atoms[it] for it in self._problem.roots)

    def _permit(self) -> None:
        """What has to be asked for, and that what counts as asked is asked by something."""
        for permit in self._problem.permits:
            asked = (self._atoms[it] for it in permit.atoms)
            self._model.add_bool_or(~self._nodes[permit.node], *asked)
        for atom in sorted({it for permit in self._problem.permits for it in permit.atoms}):
            if atom not in self._problem.roots:
                self._model.add_bool_or(*self._askers(atom), ~self._atoms[atom])

    def _askers(
        self, atom: Atom, nodes: frozenset[int] = frozenset(), atoms: frozenset[Atom] = frozenset()
    ) -> list[cp_model.IntVar]:
        """Literals of which one holds if something outside of ``nodes`` and ``atoms`` asks."""
        found = []
        for number, node in enumerate(self._problem.nodes):
            if number in nodes:
                continue
            if atom in node.requires:
                found.append(self._nodes[number])
            for extra, brought in node.by_extra:
                if atom in brought and extra not in atoms:
                    found.append(self._both(number, extra))
        return found

    def _both(self, number: int, extra: Atom) -> cp_model.IntVar:
        """A literal that implies a version and that this extra is asked of it."""
        found = self._pairs.get((number, extra))
        if found is None:
            found = self._pairs[number, extra] = self._model.new_bool_var("")
            implied = self._model.add_bool_and(self._nodes[number], self._atoms[extra])
            implied.only_enforce_if(found)
        return found

    def minimize(self, costs: Iterable[tuple[int, int]]) -> None:
        """Make the sum of these costs, each of a node, the objective."""
        terms = [(self._nodes[number], cost) for number, cost in costs if cost]
        self._model.clear_objective()  # type: ignore[no-untyped-call]
        self._without_cost = not terms
        if terms:
            variables, factors = zip(*terms, strict=True)
            self._model.minimize(cp_model.LinearExpr.weighted_sum(variables, factors))

    def limit(self, costs: Iterable[tuple[int, int]], most: int) -> None:
        """No more than ``most`` from here on."""
        costs = list(costs)
        for number, cost in costs:
            if cost > most:
                self._model.add_bool_and(~self._nodes[number])
        terms = [(self._nodes[number], cost) for number, cost in costs if 0 < cost <= most]
        if terms:
            variables, factors = zip(*terms, strict=True)
            self._model.add(cp_model.LinearExpr.weighted_sum(variables, factors) <= most)

    def forbid(self, nodes: Iterable[int]) -> None:
        """Not all of these together from here on."""
        self._model.add_bool_or(~self._nodes[it] for it in sorted(nodes))

    def unfound(self, run: SolverRun) -> None:
        """Forbid what holds only because of itself: what is true and the roots do not reach.

        Of such a set, one holds only if something outside of it asks for one of them
        (a loop formula, as of answer set programming: Lin and Zhao 2004).
        """
        nodes, atoms = self._problem.reached(run.chosen or frozenset())
        loose, asked = (run.chosen or frozenset()) - nodes, run.atoms - atoms
        inside = asked | {
            atom
            for atom, members in enumerate(self._problem.members)
            if not loose.isdisjoint(members or ())
        }
        support = [it for atom in sorted(inside) for it in self._askers(atom, loose, asked)]
        for atom in sorted(asked):
            self._model.add_bool_or(*support, ~self._atoms[atom])

    def copy(self) -> CpSatModel:
        """The same constraints, to be added to apart."""
        other = copy(self)
        other._model = self._model.clone()
        other._pairs = dict(self._pairs)
        return other

    def solve(
        self,
        budget: Budget,
        time_s: float,
        told: Callable[[frozenset[int]], None] | None = None,
        enough: int | None = None,
    ) -> SolverRun:
        """SolverRun the solver once.

        :param enough: stop once it is proven that no answer costs as little as this

        :param told: hears of every better answer while the search goes on
        """
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(time_s, 0.0)
        solver.parameters.num_workers = budget.threads
        solver.parameters.random_seed = budget.seed
        # Measured: the relaxation with every clause in it is nearly integral and proves the
        # optimum of large universes in a second, where the search alone takes minutes; and
        # looking for symmetries and probing cost small ones more than all the rest.
        solver.parameters.linearization_level = 0 if self._without_cost else 2
        solver.parameters.max_presolve_iterations = 1
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        if budget.memory_bytes is not None:
            solver.parameters.max_memory_in_mb = max(budget.memory_bytes >> 20, 64)
        if enough is not None:
            solver.best_bound_callback = partial(_stop_above, solver, enough)
        status = solver.solve(self._model, _Teller(self._nodes, told) if told else None)
        if status == cp_model.INFEASIBLE:
            return SolverRun(proven=True)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            bound = 0 if self._without_cost else _above(solver.best_objective_bound)
            return SolverRun(proven=False, bound=bound)
        true = solver.boolean_value
        chosen = frozenset(number for number, it in enumerate(self._nodes) if true(it))
        atoms = frozenset(number for number, it in enumerate(self._atoms) if true(it))
        if self._without_cost:
            return SolverRun(True, chosen, atoms)
        cost, bound = round(solver.objective_value), _above(solver.best_objective_bound)
        return SolverRun(status == cp_model.OPTIMAL, chosen, atoms, cost, bound)


def _above(bound: float) -> int:
    """The least whole cost that a bound leaves; costs are exact in floats, bounds may be off."""
    return ceil(bound - 1e-6)


def _stop_above(solver: cp_model.CpSolver, enough: int, bound: float) -> None:
    if _above(bound) > enough:
        solver.stop_search()


class _Teller(cp_model.CpSolverSolutionCallback):
    def __init__(
        self, nodes: Sequence[cp_model.IntVar], told: Callable[[frozenset[int]], None]
    ) -> None:
        super().__init__()
        self._nodes = nodes
        self._told = told

    def on_solution_callback(self) -> None:
        """Called by the solver."""
        self._told(frozenset(i for i, it in enumerate(self._nodes) if self.boolean_value(it)))


def search(
    problem: SelectionProblem,
    budget: Budget,
    count: int = 1,
    told: Callable[[SearchResult], None] | None = None,
) -> SearchResult:
    """The ``count`` best stacks of a problem.

    :param told: hears of what is known so far whenever that gets better
    :returns: no stack and ``complete`` if there is none, no stack otherwise if time ran out
    """
    return _Search(problem, budget, told).best(count)


#: From so many versions on the optimum takes its time, and some stack is looked for before it.
LARGE = 1000


class _Search:
    def __init__(
        self, problem: SelectionProblem, budget: Budget, told: Callable[[SearchResult], None] | None
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._tell = told
        self._until = monotonic() + budget.time_s
        self._objectives = list(_objectives(problem))
        self._known = SearchResult()

    def best(self, count: int) -> SearchResult:
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
        model = CpSatModel(self._problem)
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

    def _any(self, model: CpSatModel) -> None:
        """Some stack at once, to have one to hand over; as a hint it would slow what follows."""
        model.minimize(())
        run = self._run(model)
        if run.chosen is not None:
            stack = self._reduced(run.chosen)
            self._known = SearchResult((stack,), self._score(stack), 0)
            if self._tell:
                self._tell(self._known)

    def _note(self, stacks: tuple[Nodes, ...], run: SolverRun, weight: int | None) -> None:
        """What the very first run proves holds for the answer as a whole."""
        objective, bound = self._known.objective, self._known.bound
        if weight is not None:
            objective = self._score(stacks[0])
            bound = objective if run.proven else -(run.bound // weight)
        self._known = SearchResult(stacks, objective, bound)
        if self._tell:
            self._tell(self._known)

    def _some(self, forbidden: list[Nodes]) -> Nodes | None:
        """The stack that was found first of all, where none better was."""
        return self._known.stacks[0] if self._known.stacks and not forbidden else None

    def _alone(self, model: CpSatModel, best: Nodes, cost: int) -> bool:
        """Whether every other stack costs more.

        The next best is looked for, which the relaxation bounds well; that none costs as little
        is far harder to prove.
        """
        other = model.copy()
        other.forbid(best)
        run = self._run(other, enough=cost)
        return (run.proven and run.chosen is None) or run.bound > cost

    def _run(
        self, model: CpSatModel, *, tells: bool = False, enough: int | None = None
    ) -> SolverRun:
        """SolverRun until the answer holds without holding itself up."""
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
            self._tell(SearchResult((stack,), self._score(stack), 0))

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
        self._known = SearchResult(known.stacks, known.objective, known.bound, settled, complete)
        if self._tell:
            self._tell(self._known)


#: Costs of nodes, and by how much a score outweighs all the rest of them.
_Objective = tuple[list[tuple[int, int]], int]


def _objectives(problem: SelectionProblem) -> Iterator[_Objective]:
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
