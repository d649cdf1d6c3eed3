"""Search with CP-SAT: find the best stacks of a problem in order, each with its proof.

The model has one Boolean for each version, specifier and extra. At most one version of a package is
true. A version implies its requirements, and a specifier implies a version that satisfies the
specifier. The objective is the cost of the versions; versions that nothing requires are removed
afterwards.

Stacks are ordered level after level (:mod:`adviser.resolver.objective`). The levels are optimised
in order, in groups as large as one exact sum can represent. Remaining ties are settled package by
package in the same way. So the result is the same for every seed and any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from math import ceil
from time import monotonic

from ortools.sat.python import cp_model

from adviser.resolver.objective import (
    Level,
    combined_absence,
    combined_costs,
    levels_of,
    packs,
    parts_of,
    value_of,
)
from adviser.resolver.problem import Atom, Nodes, SearchResult, SelectionProblem
from adviser.resolver.resolver_request import Budget

#: Bound of objectives, so that sums and products stay exact in the solver and in floats.
MAX_OBJECTIVE = 1 << 52


@dataclass(frozen=True, slots=True)
class SolverRun:
    """Result of one run of the solver.

    :param proven: whether no better solution exists or, if ``chosen`` is ``None``, no solution
    :param chosen: nodes that are true
    :param atoms: atoms that are true
    :param cost: objective of this run
    :param bound: lower bound of the cost
    """

    proven: bool
    chosen: frozenset[int] | None = None
    atoms: frozenset[Atom] = frozenset()
    cost: int = 0
    bound: int = 0


class CpSatModel:
    """A problem as a CP-SAT model; constraints can be added between runs."""

    def __init__(self, problem: SelectionProblem) -> None:
        self._problem = problem
        self._model = cp_model.CpModel()
        add = self._model.new_bool_var
        self._nodes = [add("") for _ in problem.nodes]
        self._atoms = [add("") for _ in problem.members]
        #: What may cost something: the nodes, and the absence of each package.
        self._priced = [*self._nodes, *(add("") for _ in problem.absence)]
        self._pairs: dict[tuple[int, Atom], cp_model.IntVar] = {}
        #: By atom, the nodes that require it, each with the extra that adds this requirement.
        self._requirers: list[list[tuple[int, Atom | None]]] = [[] for _ in problem.members]
        for number, node in enumerate(problem.nodes):
            for atom in node.requires:
                self._requirers[atom].append((number, None))
            for extra, brought in node.by_extra:
                for atom in brought:
                    self._requirers[atom].append((number, extra))
        self._without_cost = True
        self._choose_one_of_each_package()
        self._require()
        self._permit()
        if problem.absence:
            self._require_askers(range(len(problem.members)))
            self._choose_only_required()

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
        """Add constraints: a permitted version needs an atom of its permit, and the atom a node."""
        for permit in self._problem.permits:
            atoms = (self._atoms[it] for it in permit.atoms)
            self._model.add_bool_or(~self._nodes[permit.node], *atoms)
        self._require_askers({it for permit in self._problem.permits for it in permit.atoms})

    def _require_askers(self, atoms: Iterable[Atom]) -> None:
        for atom in sorted(atoms):
            if atom not in self._problem.roots:
                self._model.add_bool_or(*self._askers(atom), ~self._atoms[atom])

    def _choose_only_required(self) -> None:
        """Add constraints: something requires each chosen version, and absence is recognised."""
        asking: list[list[cp_model.IntVar]] = [[] for _ in self._nodes]
        for literal, members in zip(self._atoms, self._problem.members, strict=True):
            for number in members or ():
                asking[number].append(literal)
        for node, atoms in zip(self._nodes, asking, strict=True):
            self._model.add_bool_or(*atoms, ~node)
        absences = self._priced[len(self._nodes) :]
        for numbers, absent in zip(self._problem.by_package(), absences, strict=True):
            self._model.add_bool_or(absent, *(self._nodes[it] for it in numbers))

    def _askers(
        self, atom: Atom, nodes: frozenset[int] = frozenset(), atoms: frozenset[Atom] = frozenset()
    ) -> list[cp_model.IntVar]:
        """Literals that require ``atom``, but not those of ``nodes`` or of extras in ``atoms``."""
        return [
            self._nodes[number] if extra is None else self._both(number, extra)
            for number, extra in self._requirers[atom]
            if number not in nodes and (extra is None or extra not in atoms)
        ]

    def _both(self, number: int, extra: Atom) -> cp_model.IntVar:
        """A literal that implies a version and the requirement of this extra."""
        pair = self._pairs.get((number, extra))
        if pair is None:
            pair = self._pairs[number, extra] = self._model.new_bool_var("")
            implied = self._model.add_bool_and(self._nodes[number], self._atoms[extra])
            implied.only_enforce_if(pair)
        return pair

    def minimize(self, costs: Iterable[tuple[int, int]]) -> None:
        """Set the objective: the sum of the costs of true literals.

        :param costs: by number of a node; higher numbers are for the absence of packages
        """
        terms = [(self._priced[number], cost) for number, cost in costs if cost]
        self._model.clear_objective()  # type: ignore[no-untyped-call]
        self._without_cost = not terms
        if terms:
            variables, factors = zip(*terms, strict=True)
            self._model.minimize(cp_model.LinearExpr.weighted_sum(variables, factors))

    def limit(self, costs: Iterable[tuple[int, int]], most: int) -> None:
        """Add a constraint: the sum of these costs is at most ``most``."""
        costs = list(costs)
        for number, cost in costs:
            if cost > most:
                self._model.add_bool_and(~self._priced[number])
        terms = [(self._priced[number], cost) for number, cost in costs if 0 < cost <= most]
        if terms:
            variables, factors = zip(*terms, strict=True)
            self._model.add(cp_model.LinearExpr.weighted_sum(variables, factors) <= most)

    def exclude(self, nodes: Iterable[int]) -> None:
        """Add a constraint: none of ``nodes``."""
        if excluded := sorted(nodes):
            self._model.add_bool_and(~self._nodes[it] for it in excluded)

    def forbid(self, nodes: Iterable[int]) -> None:
        """Add a constraint: not all of ``nodes`` together."""
        self._model.add_bool_or(~self._nodes[it] for it in sorted(nodes))

    def unfound(self, run: SolverRun) -> None:
        """Forbid the versions in ``run`` that only each other require: no root reaches them.

        A version of such a set may be chosen only if a version outside the set requires one of them
        (a loop formula, as in answer set programming: Lin and Zhao 2004).
        """
        nodes, atoms = self._problem.reached(run.chosen or frozenset())
        loose, loose_atoms = (run.chosen or frozenset()) - nodes, run.atoms - atoms
        inside = loose_atoms | {
            atom
            for atom, members in enumerate(self._problem.members)
            if not loose.isdisjoint(members or ())
        }
        support = [it for atom in sorted(inside) for it in self._askers(atom, loose, loose_atoms)]
        for atom in sorted(loose_atoms):
            self._model.add_bool_or(*support, ~self._atoms[atom])

    def copy(self) -> CpSatModel:
        """An independent copy of the model."""
        other = copy(self)
        other._model = self._model.clone()
        other._pairs = dict(self._pairs)
        return other

    def solve(
        self,
        budget: Budget,
        time_s: float,
        progress: Callable[[frozenset[int]], None] | None = None,
        enough: int | None = None,
    ) -> SolverRun:
        """Run the solver once.

        :param progress: called with each better solution during the run
        :param enough: stop as soon as the cost is proven to be above this
        """
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = max(time_s, 0.0)
        solver.parameters.num_workers = budget.threads
        solver.parameters.random_seed = budget.seed
        # Measured: the relaxation with every clause is nearly integral and proves the optimum of
        # large universes in a second, while the search alone takes minutes. Symmetry detection
        # and probing cost small universes more than everything else.
        solver.parameters.linearization_level = 0 if self._without_cost else 2
        solver.parameters.max_presolve_iterations = 1
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        if budget.memory_bytes is not None:
            solver.parameters.max_memory_in_mb = max(budget.memory_bytes >> 20, 64)
        if enough is not None:
            solver.best_bound_callback = partial(_stop_above, solver, enough)
        status = solver.solve(self._model, _Teller(self._nodes, progress) if progress else None)
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
    """The least integer cost that a bound allows. Costs are exact in floats, bounds are not."""
    return ceil(bound - 1e-6)


def _stop_above(solver: cp_model.CpSolver, enough: int, bound: float) -> None:
    if _above(bound) > enough:
        solver.stop_search()


class _Teller(cp_model.CpSolverSolutionCallback):
    def __init__(
        self, nodes: Sequence[cp_model.IntVar], progress: Callable[[frozenset[int]], None]
    ) -> None:
        super().__init__()
        self._nodes = nodes
        self._progress = progress

    def on_solution_callback(self) -> None:
        """Report a solution; the solver calls this."""
        self._progress(frozenset(i for i, it in enumerate(self._nodes) if self.boolean_value(it)))


def search(
    problem: SelectionProblem,
    budget: Budget,
    count: int = 1,
    progress: Callable[[SearchResult], None] | None = None,
) -> SearchResult:
    """Find the ``count`` best stacks of a problem.

    :param progress: called with each better result during the search
    :returns: no stack with ``complete`` if none exists, without it if time ran out
    """
    return _Search(problem, budget, progress).best(count)


#: Problems with more versions than this first search for any stack, since the optimum takes long.
LARGE = 1000


class _Search:
    def __init__(
        self,
        problem: SelectionProblem,
        budget: Budget,
        progress: Callable[[SearchResult], None] | None,
    ) -> None:
        self._problem = problem
        self._budget = budget
        self._progress = progress
        self._until = monotonic() + budget.time_s
        self._packages = [frozenset(numbers) for numbers in problem.by_package()]
        self._levels = levels_of(problem)
        self._objectives = list(_objectives(problem, self._levels))
        #: Upper bound of the score by level, as far as it is proven.
        self._bound = [it.contribution(0) for it in self._levels[: problem.level_count]]
        self._known = SearchResult()

    def best(self, count: int) -> SearchResult:
        forbidden: list[Nodes] = []
        while len(forbidden) < count:
            stack, proven = self._next(forbidden)
            if stack is None:
                self._report(settled=proven and self._known.settled, complete=proven)
                break
            forbidden.append(stack)
            self._report(settled=proven)
            if not proven:
                break
        return self._known

    def _next(self, forbidden: list[Nodes]) -> tuple[Nodes | None, bool]:
        """The best stack except ``forbidden``, and whether it is proven best, ties included."""
        model = CpSatModel(self._problem)
        for stack in forbidden:
            model.forbid(stack)
        best: Nodes | None = None
        if not (forbidden or self._problem.costs) and len(self._problem.nodes) > LARGE:
            self._any(model)
        for number, objective in enumerate(self._objectives):
            model.minimize(enumerate(objective.costs))
            run = self._run(model, tells=number == 0 and not forbidden)
            if run.chosen is None:
                return best or self._any_stack(forbidden), run.proven
            best = self._reduced(run.chosen)
            if not forbidden:
                self._prove(objective, run)
            self._note((*forbidden, best))
            if not run.proven:
                return best, False
            if number + 1 < len(self._objectives):
                if objective.last and self._is_unique(model, best, run.cost):
                    return best, True
                self._fix(model, objective, best)
        return best, True

    def _fix(self, model: CpSatModel, objective: _Objective, best: Nodes) -> None:
        """Keep the levels of an objective at their optimum.

        Fixing a level of a single package rules out versions, which constrains the search far more
        than a sum does.
        """
        rest = []
        for level in objective.levels:
            if level.package is None:
                rest.append(level)
                continue
            numbers = self._packages[level.package]
            cost = sum(level.costs[it] for it in best.intersection(numbers))
            model.exclude(it for it in numbers if level.costs[it] != cost)
        costs = _costs(rest) if objective.levels else list(objective.costs)
        if costs:
            model.limit(enumerate(costs), sum(costs[it] for it in self._true(best, costs)))

    def _true(self, stack: Nodes, costs: Sequence[int]) -> list[int]:
        """The numbers of true literals in a stack, as in costs."""
        true = sorted(stack)
        if len(costs) > len(self._problem.nodes):
            absent = (n for n, it in enumerate(self._packages) if it.isdisjoint(stack))
            true += [len(self._problem.nodes) + it for it in absent]
        return true

    def _any(self, model: CpSatModel) -> None:
        """Find any stack quickly, so that a timeout can return it.

        Passing that stack as a hint slows the solver.
        """
        model.minimize(())
        run = self._run(model)
        if run.chosen is not None:
            stack = self._reduced(run.chosen)
            self._known = SearchResult((stack,), value_of(self._problem, stack), tuple(self._bound))
            if self._progress:
                self._progress(self._known)

    def _prove(self, objective: _Objective, run: SolverRun) -> None:
        """Tighten the bounds of the levels of an objective, once all earlier levels are proven."""
        parts = parts_of(run.cost if run.proven else run.bound, objective.levels)
        for level, part in zip(objective.levels, parts, strict=True):
            place = next(n for n, it in enumerate(self._levels) if it is level)
            if place < len(self._bound):
                self._bound[place] = level.contribution(part)

    def _note(self, stacks: tuple[Nodes, ...]) -> None:
        """Update the result."""
        objective = value_of(self._problem, stacks[0])
        self._known = SearchResult(stacks, objective, tuple(self._bound))
        if self._progress:
            self._progress(self._known)

    def _any_stack(self, forbidden: list[Nodes]) -> Nodes | None:
        """The stack found before the first run, if no better one was found."""
        return self._known.stacks[0] if self._known.stacks and not forbidden else None

    def _is_unique(self, model: CpSatModel, best: Nodes, cost: int) -> bool:
        """Whether every other stack costs more.

        This searches for the next best stack: the relaxation gives a good bound on its cost.
        Proving directly that no other stack costs as little is far harder.
        """
        other = model.copy()
        other.forbid(best)
        run = self._run(other, enough=cost)
        return (run.proven and run.chosen is None) or run.bound > cost

    def _run(
        self, model: CpSatModel, *, tells: bool = False, enough: int | None = None
    ) -> SolverRun:
        """Run the solver until no versions in the solution are required only by each other."""
        while True:
            progress = self._better if tells and self._progress else None
            run = model.solve(self._budget, self._until - monotonic(), progress, enough)
            if run.chosen is None or self._holds(run.chosen):
                return run
            model.unfound(run)

    def _better(self, chosen: Nodes) -> None:
        """Report an intermediate solution if it is valid."""
        if self._progress and self._holds(chosen):
            stack = self._reduced(chosen)
            value = value_of(self._problem, stack)
            self._progress(SearchResult((stack,), value, tuple(self._bound)))

    def _reduced(self, chosen: Nodes) -> Nodes:
        return self._problem.reached(chosen)[0]

    def _holds(self, chosen: Nodes) -> bool:
        """Whether requirements that the roots reach meet the condition of every permit.

        If absence costs, also whether they reach every version.
        """
        if not self._problem.permits and not self._problem.absence:
            return True
        nodes, atoms = self._problem.reached(chosen)
        if self._problem.absence and nodes != chosen:
            return False
        return all(
            it.node not in nodes or not atoms.isdisjoint(it.atoms) for it in self._problem.permits
        )

    def _report(self, *, settled: bool, complete: bool = False) -> None:
        known = self._known
        self._known = SearchResult(known.stacks, known.objective, known.bound, settled, complete)
        if self._progress:
            self._progress(self._known)


@dataclass(frozen=True, slots=True)
class _Objective:
    """Costs that the solver minimises in one run.

    :param costs: by node
    :param levels: the levels that they combine; none for a part of the order by name
    :param last: whether it contains the last level, so that only the order by name follows
    """

    costs: Sequence[int]
    levels: tuple[Level, ...] = ()
    last: bool = True


def _objectives(problem: SelectionProblem, levels: Sequence[Level]) -> Iterator[_Objective]:
    """Objectives in order of priority; together they tell any two stacks apart."""
    groups = packs(levels, MAX_OBJECTIVE)
    for number, group in enumerate(groups, 1):
        yield _Objective(_costs(group), tuple(group), number == len(groups))
    # Of large problems with costs of their own, equal stacks are as good: the order by name takes
    # several times as long as everything else.
    if not problem.costs or len(problem.nodes) <= LARGE:
        yield from _by_name(problem)


def _costs(levels: Sequence[Level]) -> list[int]:
    """The costs of all nodes, followed by the costs of the absence of packages."""
    return [*combined_costs(levels), *combined_absence(levels)] if levels else []


def _by_name(problem: SelectionProblem) -> Iterator[_Objective]:
    """Objectives that break ties package by package: absent before present, newer before older."""
    factor = 1
    # A new part starts where the factors would exceed the exact range.
    parts: list[list[list[int]]] = [[]]
    for numbers in problem.by_package():
        if factor * (len(numbers) + 1) > MAX_OBJECTIVE:
            parts.append([])
            factor = 1
        factor *= len(numbers) + 1
        parts[-1].append(numbers)
    for part in parts:
        costs, factor = [0] * len(problem.nodes), 1
        for numbers in reversed(part):
            for place, number in enumerate(numbers, 1):
                costs[number] = factor * place
            factor *= len(numbers) + 1
        yield _Objective(costs)
