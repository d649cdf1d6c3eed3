"""Explain advice: answer the same request again with one package forced in or out.

This is the part of ``thoth why`` and ``thoth why-not`` that does no I/O.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Self

from adviser.advice_request import StackRequest
from adviser.advise import (
    Advice,
    RelaxedResolution,
    Resolver,
    SnapshotAndEvidence,
    UniverseAndCandidates,
    assess_candidates,
    in_this_process,
    resolved,
    result_without_reads,
    universe_for,
)
from adviser.reports.version_rationale import (
    Rationale,
    VersionRationales,
    candidates_of,
    lacking_text,
    measured_differences,
)
from adviser.resolver.inferred_bounds import bounds_in, compiled_ranks
from adviser.resolver.results import Conflict, Resolution, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.scoring.criteria import SCALE, level_names
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import changes_between
from model.packages.native_libraries import bundled_steps, context_lines


class ForcedOutcome(StrEnum):
    """The result of forcing a version. The values are printed; never rename them."""

    #: The advised stack already has the version.
    ADVISED = "advised"
    #: Another stack has the version and does not score better.
    POSSIBLE = "possible"
    #: No stack can have the version.
    CONFLICT = "conflict"
    #: The search reached its limit before it had an answer, or something was not read.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CriterionLoss:
    """The points that a stack loses in one criterion by forcing a version; negative for a gain."""

    criterion: str
    points: float


@dataclass(frozen=True, slots=True)
class ForcedVersion:
    """A package that differs in a forced stack; ``None`` where it is absent. Documents have it."""

    name: str
    advised: str | None
    forced: str | None


@dataclass(frozen=True, slots=True)
class ForcedStack:
    """The best stack with a forced condition, compared with the advised stack.

    :param what: the condition, such as ``numpy==1.26.4``
    :param points: total loss over all criteria, negative for a gain; ``None`` without a stack
    :param level: the first level of the score in which the stacks differ; ``None`` if none does
    :param changes: by name
    :param conflict: why there is no such stack
    :param problem: why there is no such stack, if the reason is not a conflict; or the faults of
        the stack: broken inferred bounds, old source distributions, missing extras
    :param measured: measured differences between the versions that differ
    :param unread: what was not read; if there is any, a conflict proves nothing
    """

    what: str
    outcome: ForcedOutcome
    points: float | None = None
    losses: tuple[CriterionLoss, ...] = ()
    changes: tuple[ForcedVersion, ...] = ()
    conflict: Conflict | None = None
    problem: str | None = None
    level: str | None = None
    measured: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    def with_unread(self, texts: Iterable[str]) -> Self:
        """With more that was not read, so that a conflict proves nothing."""
        unread, outcome = (*self.unread, *texts), self.outcome
        if unread and self.conflict is not None:
            outcome = ForcedOutcome.UNKNOWN
        return replace(self, unread=unread, outcome=outcome)


@dataclass(frozen=True, slots=True)
class PackagePresence:
    """Why a stack has this version of a package. Field names are keys of ``thoth why --json``.

    :param version: ``None`` if the package is not in the stack
    :param path: the shortest chain of requirements from the request to the package
    :param askers: all requirements on the package
    :param placing: why no newer version was chosen
    :param without: the best stack without the package
    :param otherwise: the best stack with another version of it
    :param no_stack: whether there is no stack at all
    :param conflict: why there is no stack, if known
    :param unread: as :attr:`adviser.advise.Advice.unread`
    """

    name: str
    version: str | None
    path: tuple[str, ...] = ()
    askers: tuple[str, ...] = ()
    placing: Rationale | None = None
    without: ForcedStack | None = None
    otherwise: ForcedStack | None = None
    no_stack: bool = False
    conflict: Conflict | None = None
    unread: tuple[str, ...] = ()

    def with_unread(self, texts: Iterable[str]) -> Self:
        """With more that was not read."""
        return replace(self, unread=(*self.unread, *texts))


def why_not(
    advice: Advice, wanted: Dependency, *, resolver: Resolver = in_this_process, threads: int = 1
) -> ForcedStack:
    """Find the best stack that also meets the requirement ``wanted``.

    :param advice: advice on a snapshot that has ``wanted`` among its roots
    :raises UnreadVersions: if versions must be read before the answer is proven
    """
    extras = f"[{','.join(wanted.extras)}]" if wanted.extras else ""
    what = f"{wanted.name}{extras}{wanted.specifier}"
    return _forced(advice, what, advice.request, resolver, threads, wanted)


def why(
    advice: Advice, name: str, *, resolver: Resolver = in_this_process, threads: int = 1
) -> PackagePresence:
    """Explain why the advised stack has a package, and find the best alternatives."""
    stack = advice.best
    choice = next((it for it in stack.choices if it.name == name), None) if stack else None
    if stack is None or choice is None:
        conflict = advice.resolution.conflict
        return PackagePresence(
            name, None, no_stack=stack is None, conflict=conflict, unread=advice.unread
        )
    rationales = VersionRationales(advice.universe, stack, advice.assessment)
    ask = partial(_without, advice, resolver=resolver, threads=threads)
    requested = any(it.name == name for it in advice.universe.roots)
    return PackagePresence(
        name=name,
        version=choice.version,
        path=tuple(_path(rationales, name)),
        askers=tuple(rationales.requirement_text(*it) for it in rationales.requirers(name)),
        placing=rationales.rationale(choice),
        without=ForcedStack(f"no {name}", ForcedOutcome.CONFLICT, problem="you ask for it")
        if requested
        else ask(Dependency(name), f"no {name}"),
        otherwise=ask(
            Dependency(name, f"=={choice.version}"), f"{name} other than {choice.version}"
        ),
        unread=advice.unread,
    )


def _without(
    advice: Advice, excluded: Dependency, what: str, *, resolver: Resolver, threads: int
) -> ForcedStack:
    options = advice.request.options
    narrower = replace(options, exclusions=(*options.exclusions, excluded))
    request = replace(advice.request, options=narrower)
    return _forced(advice, what, request, resolver, threads)


def _forced(
    advice: Advice,
    what: str,
    request: StackRequest,
    resolver: Resolver,
    threads: int,
    wanted: Dependency | None = None,
) -> ForcedStack:
    """The best stack of a changed request, with the same last resorts as advice."""

    def universe_with(
        unbounded: frozenset[str], known: SnapshotAndEvidence
    ) -> UniverseAndCandidates:
        assessment = advice.assessment
        if known[0] is not advice.snapshot:
            assessment = assess_candidates(advice.request, *known, advice.premises)
        universe = universe_for(request, known[0], assessment, unbounded, premises=advice.premises)
        # Not a direct requirement: its newness has no level of its own.
        roots = universe.roots if wanted is None else (*universe.roots, wanted)
        return replace(universe, roots=roots), known[0].packages

    resolve = partial(resolver, budget=request.options.budget(threads))
    known = advice.snapshot, advice.evidence
    result = result_without_reads(resolved(known, universe_with, resolve))
    resolution = result.resolution
    unread = replace(advice, resolution=resolution).unread
    if not resolution.stacks:
        outcome = ForcedOutcome.CONFLICT if result.is_infeasible else ForcedOutcome.UNKNOWN
        return ForcedStack(what, outcome, conflict=resolution.conflict).with_unread(unread)
    candidates = candidates_of(result.universe, resolution.stacks[0])
    problems = [
        f"{name} {candidates[name].version} must be built, and is older than this Python"
        for name in sorted(result.chosen_old_sdists)
    ]
    problems += _broken_bounds(result, candidates)
    if wanted is not None:
        lacking = (lacking_text(candidates[wanted.name], it) for it in wanted.extras)
        problems += filter(None, lacking)
    compared = _compared(advice, what, resolution)
    return replace(compared, problem="; ".join(problems) or None, unread=unread)


def _broken_bounds(result: RelaxedResolution, chosen: Mapping[str, Candidate]) -> Iterator[str]:
    """The inferred bounds that a stack breaks, with their evidence."""
    snapshot = result.known[0].with_old_sdists(result.old_sdists)
    compiled = compiled_ranks(snapshot.environment)
    for name in sorted(result.needed_bounds & chosen.keys()):
        version = chosen[name]
        for bound in bounds_in(snapshot.packages[name], compiled).get(version.purl, ()):
            other = chosen.get(bound.name)
            if other is not None and not admits(bound.specifier, other.version):
                yield (
                    f"{name} {version.version} does not declare {bound.name}{bound.specifier}, "
                    f"which is inferred and does not count here: {bound.reason}"
                )


def _compared(advice: Advice, what: str, resolution: Resolution) -> ForcedStack:
    forced, advised = resolution.stacks[0], advice.best
    if advised is None:
        return ForcedStack(what, ForcedOutcome.POSSIBLE)
    changes = changes_between(advised.versions(), forced.versions())
    losses = []
    for place, criterion in enumerate(advice.assessment.criteria):
        ours, theirs = (
            sum(it.contributions[place] for it in stack.choices) for stack in (advised, forced)
        )
        losses.append(CriterionLoss(criterion.name, (ours - theirs) / SCALE))
    names = level_names(advice.universe.direct)
    levels = zip(names, advised.levels, forced.levels, strict=True)
    return ForcedStack(
        what,
        ForcedOutcome.POSSIBLE if changes else ForcedOutcome.ADVISED,
        (advised.score - forced.score) / SCALE,
        tuple(it for it in losses if it.points),
        tuple(ForcedVersion(it.name, it.old, it.new) for it in changes),
        level=next((name for name, ours, theirs in levels if ours != theirs), None),
        measured=tuple(_measured(advice, forced, advised)),
    )


def _measured(advice: Advice, forced: ResolvedStack, advised: ResolvedStack) -> Iterator[str]:
    versions = {it.name: it.purl for it in advised.choices}
    ours, others = forced.versions(), advised.versions()
    steps = bundled_steps(
        advice.evidence.bundled, ((name, ours[name], others.get(name)) for name in ours)
    )
    for choice in forced.choices:
        theirs = versions.get(choice.name)
        if theirs is not None and theirs != choice.purl:
            yield from measured_differences(advice.assessment, choice.purl, theirs)
            settled = advice.assessment.settled_between(choice.purl, theirs)
            names = {name for it in settled for name in it.differs}
            yield from context_lines(steps, names)


def _path(rationales: VersionRationales, name: str) -> list[str]:
    """The shortest chain of requirements from the request to a package."""
    # For each package visited, the next package towards ``name`` and the requirement on it.
    towards: dict[str, tuple[str, Dependency] | None] = {name: None}
    pending = deque([name])
    while pending:
        wanted = pending.popleft()
        for requirer, dependency in rationales.requirers(wanted):
            if not requirer:
                chain, at = [rationales.requirement_text("", dependency)], wanted
                while (step := towards[at]) is not None:
                    chain.append(rationales.requirement_text(at, step[1]))
                    at = step[0]
                return chain
            if requirer not in towards:
                towards[requirer] = (wanted, dependency)
                pending.append(requirer)
    return []
