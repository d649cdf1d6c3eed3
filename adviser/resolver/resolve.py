"""A request in, an answer out: the whole way through the resolver, in this process."""

from __future__ import annotations

from time import monotonic

from adviser.resolver.answers import answer, status_of
from adviser.resolver.branching import branched
from adviser.resolver.compression import compressed
from adviser.resolver.requests import Budget
from adviser.resolver.results import Resolution, Status
from adviser.resolver.universe import Universe


def resolve(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
    """The ``count`` best stacks of a universe, or why there is none, in this process.

    A limit of memory is only kept to by :class:`adviser.resolver.worker.Worker`.
    """
    began, spend = monotonic(), budget or Budget()
    problem = compressed(universe, keep=count)
    found = branched(problem, count, spend.steps)
    if found is None:
        # Loads the solver, which takes longer than most answers.
        from adviser.resolver.search import search

        found = search(problem, spend, count)
    conflict = None
    if status_of(found) is Status.INFEASIBLE:
        from adviser.resolver.conflicts import conflict_of

        conflict = conflict_of(universe, spend)
    return answer(universe, problem, found, conflict, None, spend, began)
