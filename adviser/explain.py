"""Why this and why not that: the same request answered again, with one thing forced."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from adviser.advise import Advice, Resolver, in_this_process, universe_for
from adviser.reports.version_rationale import Rationale, VersionRationales
from adviser.resolver.results import Conflict, Resolution, Stack, Status
from adviser.resolver.universe import Refused, Rule, Universe
from adviser.scoring.criteria import SCALE
from graph.candidates import Dependency


class ForcedOutcome(StrEnum):
    """What forcing something comes to; the value is printed, never renamed."""

    #: The advised stack has it already.
    ADVISED = "advised"
    #: Another stack has it, and is no better.
    POSSIBLE = "possible"
    #: No stack can have it.
    CONFLICT = "conflict"
    #: The budget was spent before it was known.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A package that differs between two stacks; ``None`` where one has none of it."""

    name: str
    advised: str | None
    forced: str | None


@dataclass(frozen=True, slots=True)
class CriterionLoss:
    """What forcing costs by one criterion, in points; below zero where it gains."""

    criterion: str
    points: float


@dataclass(frozen=True, slots=True)
class ForcedStack:
    """The best stack with something forced, next to the advised one.

    :param what: in words, such as ``numpy==1.26.4``
    :param points: the loss of all criteria; ``None`` without a stack
    :param changes: by name
    :param conflict: why there is no such stack
    :param problem: why there cannot be one, where that is no conflict
    """

    what: str
    outcome: ForcedOutcome
    points: float | None = None
    losses: tuple[CriterionLoss, ...] = ()
    changes: tuple[VersionChange, ...] = ()
    conflict: Conflict | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class PackagePresence:
    """Why a package is in a stack, in this version.

    :param version: ``None`` if it is not in the stack
    :param path: who brings it, in words, from the request to the package itself
    :param askers: all that ask for it, in words
    :param placing: why it is no newer one
    :param without: the best stack that has none of it
    :param otherwise: the best stack that has another version of it
    :param no_stack: whether there is no stack at all
    :param conflict: why there is none, if that is known
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


def why_not(
    advice: Advice, wanted: Dependency, *, resolver: Resolver = in_this_process, threads: int = 1
) -> ForcedStack:
    """What it would take to have ``wanted`` as well.

    :param advice: on a snapshot that has ``wanted`` among its roots
    """
    extras = f"[{','.join(wanted.extras)}]" if wanted.extras else ""
    what = f"{wanted.name}{extras}{wanted.specifier}"
    if problem := _extra_problem(advice, wanted):
        return ForcedStack(what, ForcedOutcome.CONFLICT, problem=problem)
    universe = _offering(advice.universe, wanted)
    forced = replace(universe, roots=(*universe.roots, wanted))
    return _forced(advice, what, forced, resolver, threads)


def _extra_problem(advice: Advice, wanted: Dependency) -> str | None:
    """An extra of ``wanted`` that nothing has, in words."""
    known = advice.snapshot.packages.get(wanted.name, ())
    for extra in wanted.extras:
        if known and not any(extra in it.extras for it in known):
            return f"no known version of {wanted.name} has an extra {extra!r}"
    return None


def _offering(universe: Universe, wanted: Dependency) -> Universe:
    """The same without versions that lack an extra of ``wanted``: who asks for it means it."""
    name, extras = wanted.name, set(wanted.extras)
    usable = universe.packages.get(name, ())
    lacking = [it for it in usable if not extras.issubset(it.extras)]
    if not lacking:
        return universe
    rule = f"versions of {name} without {', '.join(wanted.extras)}"
    refused = [
        Refused(it.version, Rule.EXCLUSION, "does not have the extra", it, rule) for it in lacking
    ]
    left = [it for it in usable if extras.issubset(it.extras)]
    return replace(
        universe,
        packages={**universe.packages, name: left},
        refused={**universe.refused, name: [*universe.refused.get(name, ()), *refused]},
    )


def why(
    advice: Advice, name: str, *, resolver: Resolver = in_this_process, threads: int = 1
) -> PackagePresence:
    """Why the advised stack has a package, and what the next best thing would be."""
    stack = advice.best
    choice = next((it for it in stack.choices if it.name == name), None) if stack else None
    if stack is None:
        return PackagePresence(name, None, no_stack=True, conflict=advice.resolution.conflict)
    if choice is None:
        return PackagePresence(name, None)
    rationales = VersionRationales(advice.universe, stack, advice.assessment)
    ask = partial(_without, advice, resolver=resolver, threads=threads)
    return PackagePresence(
        name=name,
        version=choice.version,
        path=tuple(_path(rationales, name)),
        askers=tuple(rationales.requirement_text(*it) for it in rationales.requirers(name)),
        placing=rationales.rationale(choice),
        without=ask(Dependency(name), f"no {name}"),
        otherwise=ask(
            Dependency(name, f"=={choice.version}"), f"{name} other than {choice.version}"
        ),
    )


def changes_between(advised: Stack, forced: Stack) -> tuple[VersionChange, ...]:
    """The packages that differ, by name."""
    ours, theirs = advised.versions(), forced.versions()
    return tuple(
        VersionChange(name, ours.get(name), theirs.get(name))
        for name in sorted(ours.keys() | theirs.keys())
        if ours.get(name) != theirs.get(name)
    )


def _without(
    advice: Advice, excluded: Dependency, what: str, *, resolver: Resolver, threads: int
) -> ForcedStack:
    options = advice.asked.options
    narrower = replace(options, exclusions=(*options.exclusions, excluded))
    asked = replace(advice.asked, options=narrower)
    universe = universe_for(asked, advice.snapshot, advice.assessment)
    return _forced(advice, what, universe, resolver, threads)


def _forced(
    advice: Advice, what: str, universe: Universe, resolver: Resolver, threads: int
) -> ForcedStack:
    found = resolver(universe, advice.asked.options.budget(threads))
    if not found.stacks:
        infeasible = found.status is Status.INFEASIBLE
        outcome = ForcedOutcome.CONFLICT if infeasible else ForcedOutcome.UNKNOWN
        return ForcedStack(what, outcome, conflict=found.conflict)
    return _compared(advice, what, found)


def _compared(advice: Advice, what: str, found: Resolution) -> ForcedStack:
    forced, advised = found.stacks[0], advice.best
    if advised is None:
        return ForcedStack(what, ForcedOutcome.POSSIBLE)
    changes = changes_between(advised, forced)
    losses = (
        CriterionLoss(criterion.name, (_total(advised, place) - _total(forced, place)) / SCALE)
        for place, criterion in enumerate(advice.assessment.criteria)
    )
    return ForcedStack(
        what,
        ForcedOutcome.POSSIBLE if changes else ForcedOutcome.ADVISED,
        (advised.score - forced.score) / SCALE,
        tuple(it for it in losses if it.points),
        changes,
    )


def _total(stack: Stack, place: int) -> int:
    return sum(it.contributions[place] for it in stack.choices)


def _path(rationales: VersionRationales, name: str) -> list[str]:
    """The shortest chain from the request to a package, in words."""
    # For each package that was met, the next one towards ``name`` and what it asks of that.
    towards: dict[str, tuple[str, Dependency] | None] = {name: None}
    pending = deque([name])
    while pending:
        wanted = pending.popleft()
        for asker, dependency in rationales.requirers(wanted):
            if not asker:
                return [
                    rationales.requirement_text("", dependency),
                    *_steps(rationales, towards, wanted),
                ]
            if asker not in towards:
                towards[asker] = (wanted, dependency)
                pending.append(asker)
    return []


def _steps(
    rationales: VersionRationales, towards: dict[str, tuple[str, Dependency] | None], first: str
) -> Iterator[str]:
    at = first
    while (step := towards[at]) is not None:
        yield rationales.requirement_text(at, step[1])
        at = step[0]
