"""A request in, an answer out: the whole way through the resolver, in this process."""

from __future__ import annotations

from adviser.resolver.answers import answer, out_of_time, status_of
from adviser.resolver.branching import branched
from adviser.resolver.compression import compressed
from adviser.resolver.requests import Budget, Clock, OutOfTime
from adviser.resolver.results import Resolution, Status
from adviser.resolver.universe import Universe


def resolve(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
    """The ``count`` best stacks of a universe, or why there is none, in this process.

    A limit of memory is only kept to by :class:`adviser.resolver.worker.Worker`.
    """
    spend = budget or Budget()
    clock = Clock(spend)
    try:
        problem = compressed(universe, count, clock)
    except OutOfTime:
        return out_of_time(clock)
    found = branched(problem, count, spend.steps)
    if found is None:
        # Loads the solver, which takes longer than most answers.
        from adviser.resolver.search import search

        found = search(problem, clock.left, count)
    conflict = None
    if status_of(found) is Status.INFEASIBLE:
        from adviser.resolver.conflicts import conflict_of

        conflict = conflict_of(universe, clock.left)
    return answer(universe, problem, found, conflict, None, spend, clock)
