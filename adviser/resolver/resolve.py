"""Resolve a universe in this process, and build the resolution from a search result."""

from collections.abc import Callable

from adviser.resolver.branch_and_bound import BRANCH_AND_BOUND, search_by_branching
from adviser.resolver.compression import compress
from adviser.resolver.objective import value_of
from adviser.resolver.problem import UNKNOWN_NEED, Nodes, SearchResult, SelectionProblem
from adviser.resolver.resolver_request import Budget, OutOfTime, SearchClock
from adviser.resolver.results import (
    Choice,
    Conflict,
    Resolution,
    ResolutionStatus,
    ResolvedStack,
    SearchLimit,
)
from adviser.resolver.universe import Universe


def answer(
    universe: Universe,
    problem: SelectionProblem,
    result: SearchResult,
    conflict: Conflict | None,
    limit: SearchLimit | None,
    budget: Budget,
    clock: SearchClock,
) -> Resolution:
    """Translate a search result into packages and versions.

    :param limit: the limit that ended the search from outside, if one did
    """
    wall_s = clock.wall_s
    if limit is None and not (result.settled or result.complete):
        # The solver stops by itself at either limit without saying which one.
        early = wall_s < 0.9 * budget.time_s
        limit = (
            SearchLimit.MEMORY if budget.memory_bytes is not None and early else SearchLimit.TIME
        )
    status = status_of(result)
    # A minimal conflict is the same in every run.
    explained = status is ResolutionStatus.INFEASIBLE and conflict is not None and conflict.minimal
    return Resolution(
        status=status,
        stacks=tuple(resolved_stack(universe, problem, nodes) for nodes in result.stacks),
        objective=result.objective,
        bound=result.bound,
        settled=result.settled or explained,
        complete=result.complete,
        conflict=conflict,
        limit=limit,
        sizes=problem.sizes,
        model=problem.digest,
        solver=BRANCH_AND_BOUND if result.branched else _solver(),
        wall_s=wall_s,
    )


def out_of_time(clock: SearchClock) -> Resolution:
    """The resolution to return if the time limit is reached before a search begins."""
    return Resolution(ResolutionStatus.UNKNOWN, limit=SearchLimit.TIME, wall_s=clock.wall_s)


def _solver() -> str:
    from importlib.metadata import version  # slow, and seldom needed

    return f"ortools {version('ortools')}"


def status_of(result: SearchResult) -> ResolutionStatus:
    """The outcome that a search result proves."""
    if result.stacks:
        return (
            ResolutionStatus.OPTIMAL
            if result.objective == result.bound
            else ResolutionStatus.FEASIBLE
        )
    return ResolutionStatus.INFEASIBLE if result.complete else ResolutionStatus.UNKNOWN


def resolved_stack(universe: Universe, problem: SelectionProblem, nodes: Nodes) -> ResolvedStack:
    """The packages and versions of the nodes of a stack."""
    _, atoms = problem.reached(nodes)
    extras: dict[int, list[str]] = {}
    for package, atom, extra in problem.extras:
        if atom in atoms:
            extras.setdefault(package, []).append(extra)
    choices = []
    for number in sorted(nodes):  # by package, and these are in name order
        node = problem.nodes[number]
        if node.place == UNKNOWN_NEED:
            continue
        name = problem.names[node.package]
        candidate = universe.packages[name][node.place]
        choices.append(
            Choice(
                name=name,
                version=candidate.version,
                purl=candidate.purl,
                place=node.place,
                contributions=tuple(universe.contributions.get(candidate.purl, ())),
                extras=tuple(extras.get(node.package, ())),
            )
        )
    return ResolvedStack(
        tuple(choices),
        sum(it.place for it in choices),
        value_of(problem, nodes),
        sum(problem.nodes[it].uninvited for it in nodes),
    )


def best_stacks(
    universe: Universe,
    count: int,
    steps: int,
    clock: SearchClock,
    solve: Callable[[SelectionProblem], SearchResult],
) -> tuple[Universe, SelectionProblem, SearchResult]:
    """Search by branch and bound, and by ``solve`` if that takes too many steps.

    If there is no stack, the search is repeated with unread versions that may invite others
    (:attr:`~adviser.resolver.universe.Universe.unread_invite`).

    :param steps: of branch and bound
    :returns: the result, with the universe and the problem that it belongs to
    :raises OutOfTime: if the time limit is reached before a search begins
    """
    problem = compress(universe, count, clock)
    result = search_by_branching(problem, count, steps)
    if result is None:
        result = solve(problem)
    wider = universe.inviting() if status_of(result) is ResolutionStatus.INFEASIBLE else None
    if wider is None:
        return universe, problem, result
    return best_stacks(wider, count, steps, clock, solve)


def resolve(universe: Universe, budget: Budget | None = None, *, count: int = 1) -> Resolution:
    """Find the ``count`` best stacks of a universe, or why there is none.

    Only :class:`adviser.resolver.worker.ResolverWorker` enforces a memory limit.
    """
    spend = budget or Budget()
    clock = SearchClock(spend)

    def solve(problem: SelectionProblem) -> SearchResult:
        # Loading the solver takes longer than most searches.
        from adviser.resolver.cp_sat_search import search

        return search(problem, clock.left, count)

    try:
        universe, problem, result = best_stacks(universe, count, spend.steps, clock, solve)
    except OutOfTime:
        return out_of_time(clock)
    conflict = None
    if status_of(result) is ResolutionStatus.INFEASIBLE:
        from adviser.resolver.conflicts import conflict_of

        conflict = conflict_of(universe, clock.left)
    return answer(universe, problem, result, conflict, None, spend, clock)
