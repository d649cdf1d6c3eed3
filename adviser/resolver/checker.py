"""Independent check of a resolution against its universe.

This shares no code with compression and search: it evaluates specifiers with ``packaging``, one
version at a time, and follows the requirements of a stack from the roots.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from adviser.resolver.results import Choice, Resolution, ResolutionStatus, ResolvedStack
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency


def check_resolution(universe: Universe, resolution: Resolution) -> list[str]:
    """Problems of a resolution as text; empty if it is valid.

    It checks the feasibility and score of each stack, the order and uniqueness of the stacks, and
    the bound against the objective. It does not prove that no better stack exists.
    """
    problems = [
        f"stack {number}: {problem}"
        for number, stack in enumerate(resolution.stacks, 1)
        for problem in check_stack(universe, stack)
    ]
    problems.extend(_order(universe, resolution))
    if resolution.stacks and resolution.objective != resolution.stacks[0].levels:
        problems.append("the objective is not the first stack's score")
    if resolution.objective is not None and resolution.bound is not None:
        if resolution.bound < resolution.objective:
            problems.append("the bound is below the objective")
        if (resolution.bound == resolution.objective) != (
            resolution.status is ResolutionStatus.OPTIMAL
        ):
            problems.append(
                "the status must be optimal if, and only if, the objective reaches the bound"
            )
    if bool(resolution.stacks) != (
        resolution.status in (ResolutionStatus.OPTIMAL, ResolutionStatus.FEASIBLE)
    ):
        problems.append(
            f"the status is {resolution.status}, but there are {len(resolution.stacks)} stacks"
        )
    return problems


def check_stack(universe: Universe, stack: ResolvedStack) -> list[str]:
    """Problems of one stack as text."""
    chosen: dict[str, Candidate] = {}
    problems: list[str] = []
    for choice in stack.choices:
        matches = [it for it in universe.packages.get(choice.name, ()) if it.purl == choice.purl]
        if not matches or matches[0].version != choice.version:
            problems.append(f"{choice.name} {choice.version} may not be chosen")
        elif choice.name in chosen:
            problems.append(f"{choice.name} is chosen twice")
        else:
            chosen[choice.name] = matches[0]
            problems.extend(_values(universe, choice, matches[0]))
    requirements, extras = _required(universe, chosen)
    problems.extend(_unmet(universe, chosen, requirements))
    problems.extend(
        f"nothing requires {name}" for name in sorted(chosen.keys() - requirements.keys())
    )
    problems.extend(
        f"{it.name} {it.version}: extras are {sorted(extras.get(it.name, ()))}"
        for it in stack.choices
        if set(it.extras) != extras.get(it.name, set())
    )
    for name, candidate in chosen.items():
        if not candidate.read:
            problems.append(f"{name} {candidate.version} is chosen and was never read")
        if not candidate.read and (candidate.requires or candidate.extras):
            problems.append(f"{name} {candidate.version} is unread and has requirements")
        problems.extend(_uninvited(universe, candidate, requirements.get(name, [])))
    if stack.passed_over != sum(it.place for it in stack.choices):
        problems.append("the number of versions passed over is not the sum over its packages")
    if (levels := _levels(universe, chosen)) != stack.levels:
        problems.append(f"its score by level is {levels}")
    if stack.uninvited != sum(_is_uninvited(universe, it) for it in chosen.values()):
        problems.append("it does not count its yanked versions and pre-releases")
    return problems


def _levels(universe: Universe, chosen: Mapping[str, Candidate]) -> tuple[int, ...]:
    """The score by level: before newness; newness of each direct requirement, of the packages at
    each distance from the request, and of all others. Or one level for each criterion."""
    if universe.criteria_levels:
        absent = [it for name, it in universe.dropped.items() if name not in chosen]
        rows = [universe.contributions.get(it.purl, ()) for it in chosen.values()]
        return tuple(
            sum(it[level] for it in (*rows, *absent) if it)
            for level in range(universe.criteria_levels)
        )
    groups = [*({name} for name in universe.direct), *universe.nearness.packages]
    levels = [0] * (1 + len(groups) + 1)
    for name, candidate in chosen.items():
        of_newness = next((at for at, it in enumerate(groups, 1) if name in it), len(groups) + 1)
        for place, contribution in enumerate(universe.contributions.get(candidate.purl, ())):
            levels[of_newness if place in universe.newness else 0] += contribution
    return tuple(levels)


def _is_uninvited(universe: Universe, candidate: Candidate) -> bool:
    if candidate.yanked and candidate.purl not in universe.pinned:
        return True
    return candidate.prerelease and candidate.name not in universe.prereleases


def _values(universe: Universe, choice: Choice, candidate: Candidate) -> Iterator[str]:
    contributions = universe.contributions.get(candidate.purl, ())
    if tuple(choice.contributions) != tuple(contributions):
        yield f"{candidate.name} {candidate.version}: the contributions are {contributions}"
    newer = [
        other
        for other in universe.packages[candidate.name]
        if Version(other.version) > Version(candidate.version)
    ]
    if choice.place != len(newer):
        yield f"{candidate.name} {candidate.version}: {len(newer)} versions are newer"


def _required(
    universe: Universe, chosen: Mapping[str, Candidate]
) -> tuple[dict[str, list[Dependency]], dict[str, set[str]]]:
    """Requirements and required extras by package, followed from the roots."""
    requirements: dict[str, list[Dependency]] = {}
    extras: dict[str, set[str]] = {}
    pending, done = list(universe.roots), set[tuple[str, int]]()
    while pending:
        dependency = pending.pop()
        requirements.setdefault(dependency.name, []).append(dependency)
        extras.setdefault(dependency.name, set()).update(dependency.extras)
        candidate = chosen.get(dependency.name)
        if candidate is None:
            continue
        for place, required in enumerate(candidate.requires):
            holds = required.extra is None or required.extra in extras[dependency.name]
            if holds and (dependency.name, place) not in done:
                done.add((dependency.name, place))
                pending.append(required)
    return requirements, extras


def _unmet(
    universe: Universe,
    chosen: Mapping[str, Candidate],
    requirements: Mapping[str, Sequence[Dependency]],
) -> Iterator[str]:
    for name, dependencies in sorted(requirements.items()):
        for dependency in dependencies:
            text = _text(universe, dependency)
            if name in universe.unlisted:
                yield f"{name} is required, and its index page was never read"
            elif dependency.url is not None:
                yield f"{name} is required by a URL"
            elif name not in chosen:
                yield f"{name}{text} is required and missing"
            elif not SpecifierSet(text).contains(chosen[name].version, prereleases=True):
                yield f"{name} {chosen[name].version} is not within {text}"


def _uninvited(
    universe: Universe, candidate: Candidate, dependencies: Sequence[Dependency]
) -> Iterator[str]:
    texts = [SpecifierSet(_text(universe, dependency)) for dependency in dependencies]
    if candidate.yanked and candidate.purl not in universe.pinned:
        exact = [s for text in texts for s in text if s.operator in ("==", "===")]
        if all(s.version.endswith(".*") for s in exact):
            yield f"{candidate.name} {candidate.version} is yanked and nothing pins it"
    if candidate.prerelease and candidate.name not in universe.prereleases:
        left = [
            other.version
            for other in universe.packages[candidate.name]
            if not other.prerelease
            and not other.yanked
            and all(text.contains(other.version, prereleases=True) for text in texts)
        ]
        if left and not any(text.prereleases for text in texts):
            yield f"{candidate.name} {candidate.version} is a pre-release, and {left[0]} would do"


def _text(universe: Universe, it: Dependency) -> str:
    return universe.overrides.get(it.name, it.specifier)


def _order(universe: Universe, resolution: Resolution) -> Iterator[str]:
    names = sorted(universe.packages)

    def key(stack: ResolvedStack) -> tuple[list[int], int, int, list[int]]:
        places = {it.name: it.place for it in stack.choices}
        by_name = [places.get(name, -1) for name in names]
        return [-it for it in stack.levels], stack.uninvited, stack.passed_over, by_name

    keys = [key(stack) for stack in resolution.stacks]
    for before, after in itertools.pairwise(keys):
        if before == after:
            yield "two stacks are the same"
        elif before > after:
            yield "the stacks are out of order"
