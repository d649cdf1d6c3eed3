"""Give advice: from a request, a snapshot and evidence to the best stacks.

This module does no I/O. The same request, snapshot and evidence always give the same advice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from adviser.resolver.admission import choosable, universe_of
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution, ResolutionStatus, ResolvedStack
from adviser.resolver.universe import Universe
from adviser.scoring.assess import assess
from adviser.scoring.assessments import Assessment
from adviser.scoring.criteria import newness_of, penalties_of
from adviser.scoring.target import Target
from adviser.stack_request import StackRequest
from graph.evidence import Evidence
from graph.snapshot import Snapshot


class Resolver(Protocol):
    """Solves a universe, in this process or in a :class:`adviser.resolver.worker.Worker`."""

    def __call__(
        self, universe: Universe, budget: Budget | None = None, *, count: int = 1
    ) -> Resolution: ...


def in_this_process(
    universe: Universe, budget: Budget | None = None, *, count: int = 1
) -> Resolution:
    """:func:`adviser.resolver.resolve.resolve`; the first call loads the solver."""
    from adviser.resolver.resolve import resolve

    return resolve(universe, budget, count=count)


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer to a request, with its inputs.

    :param baseline: version by name of the stack that claims compare with; ``None`` for the
        newest version of each package
    :param baseline_settled: whether every search finds this baseline; ``False`` if the search
        reached its limit
    """

    request: StackRequest
    snapshot: Snapshot
    evidence: Evidence
    baseline: Mapping[str, str] | None
    assessment: Assessment
    universe: Universe
    resolution: Resolution
    baseline_settled: bool = True

    @property
    def baseline_reason(self) -> str:
        """Description of the baseline."""
        if self.request.locked is not None:
            return f"the versions in {self.request.project.lock_source or 'the lock'}"
        if self.baseline is not None:
            return "the newest stack that meets the request"
        return "the newest version of each package"

    @property
    def best(self) -> ResolvedStack | None:
        """The advised stack, if there is one."""
        return self.resolution.stacks[0] if self.resolution.stacks else None


def advise(
    request: StackRequest,
    snapshot: Snapshot,
    evidence: Evidence,
    *,
    resolver: Resolver = in_this_process,
    threads: int = 1,
) -> Advice:
    """Find the best stacks for a request, or why there is none.

    A project without a lock is compared with the newest feasible stack.

    :param snapshot: the closure of ``request.roots`` in its environment; it may have more roots
    :param threads: threads of the solver; the answer does not depend on them
    """
    resolve = partial(resolver, budget=request.options.budget(threads))
    baseline, settled = baseline_of(request, snapshot, evidence, resolve)
    assessment = assessed(request, snapshot, evidence, baseline)
    universe = universe_for(request, snapshot, assessment)
    resolution = resolve(universe, count=request.options.count)
    return Advice(request, snapshot, evidence, baseline, assessment, universe, resolution, settled)


def universe_for(request: StackRequest, snapshot: Snapshot, assessment: Assessment) -> Universe:
    """The versions that the request may choose from, with their scores."""
    rules = request.resolver_request(assessment.refused)
    criteria = assessment.criteria
    return universe_of(
        snapshot, rules, assessment.scores, penalties_of(criteria), newness_of(criteria)
    )


def assessed(
    request: StackRequest,
    snapshot: Snapshot,
    evidence: Evidence,
    baseline: Mapping[str, str] | None,
) -> Assessment:
    """The assessment of all versions that the request may choose from."""
    return assess(
        snapshot,
        evidence,
        request.kind,
        baseline,
        Target(request.hardware or None, request.environment.python_version),
        allowed=request.options.allowed_vulnerabilities,
        choosable=choosable(snapshot, request.resolver_request({})),
    )


def baseline_of(
    request: StackRequest, snapshot: Snapshot, evidence: Evidence, resolver: Resolver
) -> tuple[Mapping[str, str] | None, bool]:
    """The stack to compare with: the project's lock, or the newest stack that meets the request.

    :returns: its versions, and whether every search finds the same stack
    """
    if request.locked is not None:
        return request.locked, True
    if not evidence.readings:
        return None, True  # without measurements there is nothing to compare
    # Newness alone: the first version of each package is worth most.
    places = {
        it.purl: (-place,)
        for candidates in snapshot.packages.values()
        for place, it in enumerate(candidates)
    }
    newest = resolver(universe_of(snapshot, request.resolver_request({}), places, newness={0}))
    return newest.stacks[0].versions() if newest.stacks else None, is_settled(newest)


def is_settled(resolution: Resolution) -> bool:
    """Whether every search gives the same result: these stacks in this order, or this conflict."""
    if resolution.status is ResolutionStatus.INFEASIBLE:
        return resolution.conflict is None or resolution.conflict.minimal
    return resolution.settled
