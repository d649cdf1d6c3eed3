"""Why no stack meets a request: a smallest set of facts that cannot hold together.

Each fact (a root, a requirement of some versions, a rule of the request) gets an assumption.
The solver names assumptions that suffice for the contradiction, and each of those is then left
out in turn, deepest first: what is contradictory without it needs it not. What remains is
minimal. It is always worked out with one thread and one seed, so it is the same every time.

Most contradictions are near the request. So first only what the nearest packages require counts,
which leaves out facts and adds none: what contradicts itself there does so everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ortools.sat.python import cp_model

from adviser.resolver.contradictions import World
from adviser.resolver.requests import Budget, Clock, OutOfTime
from adviser.resolver.results import Conflict
from adviser.resolver.universe import Universe
from adviser.resolver.wording import Fact, conflict_of_roots, told_conflict

#: So many packages count first, nearest to the request; all of them where those agree.
NEAREST = (32, 256)


def conflict_of(universe: Universe, budget: Budget) -> Conflict:
    """The conflict of a universe without a stack.

    :param budget: its time bounds the search for a smallest set; a larger one is told as such
    """
    clock = Clock(budget)
    try:
        for most in (*NEAREST, None):
            world = World(universe, clock, most)
            found = _Smallest(world, clock).facts()
            if found is not None:
                return told_conflict(universe, *found)
            if world.whole:
                break
    except OutOfTime:
        pass
    return conflict_of_roots(universe)


class _Smallest:
    """Deletion: a contradictory set is made smaller until nothing can be spared."""

    def __init__(self, world: World, clock: Clock) -> None:
        self._world = world
        self._clock = clock

    def facts(self) -> tuple[list[Fact], bool] | None:
        """The facts, in the order in which a chain meets them, and whether they are minimal.

        :returns: ``None`` if they do not contradict each other, as far as there was time
        """
        core = self._contradictory(range(len(self._world.facts)))
        if core is None:
            return None
        minimal, needed = True, sorted(core)
        for fact in reversed(needed):
            if not self._clock.left.time_s:
                minimal = False
                break
            if fact not in needed:
                continue
            smaller = self._contradictory(it for it in needed if it != fact)
            if smaller is not None:
                needed = sorted(smaller)
        # What was not answered in time counts as needed, and may not be.
        minimal = minimal and bool(self._clock.left.time_s)
        return [self._world.facts[it] for it in needed], minimal

    def _contradictory(self, facts: Iterable[int]) -> set[int] | None:
        """Some of ``facts`` that suffice for a contradiction; ``None`` if there is none."""
        kept = sorted(set(facts))
        while True:
            model = cp_model.CpModel()
            literals = [model.new_bool_var("") for _ in range(self._world.count + 1)]
            guards = {fact: model.new_bool_var("") for fact in kept}
            self._add_clauses(model, literals, guards)
            model.add_assumptions(list(guards.values()))
            solver = self._solver()
            status = solver.solve(model)
            if status == cp_model.INFEASIBLE:
                by_index = {it.index: fact for fact, it in guards.items()}
                named = solver.sufficient_assumptions_for_infeasibility()
                return {by_index[it] for it in named}
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return None
            true = (number for number, it in enumerate(literals) if number and solver.value(it))
            if not self._world.forbid_circles(frozenset(true)):
                return None

    def _add_clauses(
        self,
        model: cp_model.CpModel,
        literals: list[cp_model.IntVar],
        guards: Mapping[int, cp_model.IntVar],
    ) -> None:
        for clause in self._world.clauses:
            terms = [literals[it] if it > 0 else ~literals[-it] for it in clause.literals]
            if clause.fact is None:
                model.add_bool_or(terms)
            elif clause.fact in guards:
                model.add_bool_or(*terms, ~guards[clause.fact])
        for versions in self._world.packages:
            if len(versions) > 1:
                model.add_at_most_one(literals[it] for it in versions)

    def _solver(self) -> cp_model.CpSolver:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 0
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        solver.parameters.max_time_in_seconds = self._clock.left.time_s
        return solver
