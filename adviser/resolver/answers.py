"""What a search found, in the terms of the universe."""

from __future__ import annotations

from adviser.resolver.branching import BRANCH_AND_BOUND
from adviser.resolver.problems import Found, Nodes, Problem
from adviser.resolver.requests import Budget, Clock
from adviser.resolver.results import Choice, Conflict, Limit, Resolution, Stack, Status
from adviser.resolver.universe import Universe


def answer(
    universe: Universe,
    problem: Problem,
    found: Found,
    conflict: Conflict | None,
    limit: Limit | None,
    budget: Budget,
    clock: Clock,
) -> Resolution:
    """What a search found, in the terms of the universe.

    :param limit: what ended it from outside
    """
    wall_s = clock.wall_s
    if limit is None and not (found.settled or found.complete):
        # The solver stops by itself at either limit, and does not say at which.
        early = wall_s < 0.9 * budget.time_s
        limit = Limit.MEMORY if budget.memory_bytes is not None and early else Limit.TIME
    status = status_of(found)
    # A smallest conflict is the same every time.
    told = status is Status.INFEASIBLE and conflict is not None and conflict.minimal
    return Resolution(
        status=status,
        stacks=tuple(_stack(universe, problem, nodes) for nodes in found.stacks),
        objective=found.objective,
        bound=found.bound,
        settled=found.settled or told,
        complete=found.complete,
        conflict=conflict,
        limit=limit,
        sizes=problem.sizes,
        model=problem.digest,
        solver=BRANCH_AND_BOUND if found.branched else _solver(),
        wall_s=wall_s,
    )


def out_of_time(clock: Clock) -> Resolution:
    """The answer where time was spent before any search began."""
    return Resolution(Status.UNKNOWN, limit=Limit.TIME, wall_s=clock.wall_s)


def _solver() -> str:
    from importlib.metadata import version  # slow, and seldom needed

    return f"ortools {version('ortools')}"


def status_of(found: Found) -> Status:
    """How what was found is to be taken."""
    if found.stacks:
        return Status.OPTIMAL if found.objective == found.bound else Status.FEASIBLE
    return Status.INFEASIBLE if found.complete else Status.UNKNOWN


def _stack(universe: Universe, problem: Problem, nodes: Nodes) -> Stack:
    _, atoms = problem.reached(nodes)
    extras: dict[int, list[str]] = {}
    for package, atom, extra in problem.extras:
        if atom in atoms:
            extras.setdefault(package, []).append(extra)
    choices = []
    for number in sorted(nodes):  # by package, and these are in name order
        node = problem.nodes[number]
        name = problem.names[node.package]
        it = universe.packages[name][node.place]
        choices.append(
            Choice(
                name=name,
                version=it.version,
                purl=it.purl,
                place=node.place,
                contributions=tuple(universe.contributions.get(it.purl, ())),
                extras=tuple(extras.get(node.package, ())),
            )
        )
    return Stack(tuple(choices), sum(it.place for it in choices))
