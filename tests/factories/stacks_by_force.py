"""All stacks of a small universe, by trying every one: what the resolver is compared with.

It knows the rules in the words of the standards and nothing of the resolver's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from packaging.specifiers import SpecifierSet

from adviser.resolver.universe import Universe
from graph.candidates import Candidate, Dependency

#: Costs by level of the score, versions that only other packages admit, versions passed over, and
#: the place in each package, -1 where it is not there.
Key = tuple[tuple[int, ...], int, int, tuple[int, ...]]


def stacks_by_force(universe: Universe) -> list[tuple[Key, dict[str, str]]]:
    """Every stack, in the stated order."""
    names = sorted(universe.packages)
    stacks = []
    for choice in product(*(range(-1, len(universe.packages[name])) for name in names)):
        chosen = {
            n: universe.packages[n][at] for n, at in zip(names, choice, strict=True) if at >= 0
        }
        if _is_stack(universe, chosen):
            key = (
                _costs(universe, chosen),
                sum(_is_uninvited(universe, it) for it in chosen.values()),
                sum(at for at in choice if at > 0),
                choice,
            )
            stacks.append((key, {name: it.version for name, it in chosen.items()}))
    return sorted(stacks, key=lambda it: it[0])


def _costs(universe: Universe, chosen: dict[str, Candidate]) -> tuple[int, ...]:
    """Before newness; newness of each direct requirement, at each distance, and of the others."""
    before, newness = 0, dict.fromkeys(chosen, 0)
    for name, candidate in chosen.items():
        for place, contribution in enumerate(universe.contributions.get(candidate.purl, ())):
            if place in universe.newness:
                newness[name] -= contribution
            else:
                before -= contribution
    direct = [newness.get(name, 0) for name in universe.direct]
    near = [{*names} - {*universe.direct} for names in universe.nearness.packages]
    named = {*universe.direct}.union(*near)
    others = [cost for name, cost in newness.items() if name not in named]
    return (
        before,
        *direct,
        *(sum(newness.get(name, 0) for name in names) for names in near),
        sum(others),
    )


def _is_uninvited(universe: Universe, candidate: Candidate) -> bool:
    by_request = candidate.name in universe.prereleases
    return (candidate.yanked and candidate.purl not in universe.pinned) or (
        candidate.prerelease and not by_request
    )


def _is_stack(universe: Universe, chosen: dict[str, Candidate]) -> bool:
    requirements = list(_asked(universe, chosen))
    return (
        {it.name for it in requirements} == set(chosen)
        and all(_admits(universe, it, chosen[it.name]) for it in requirements)
        and all(
            _invited(universe, it, [a for a in requirements if a.name == it.name])
            for it in chosen.values()
        )
    )


def _admits(universe: Universe, requirement: Dependency, candidate: Candidate) -> bool:
    """Whether a version is within a specifier and offers what a release within it offers."""
    if requirement.url is not None:
        return False
    inside = [
        other
        for other in universe.packages[candidate.name]
        if SpecifierSet(requirement.specifier).contains(other.version, prereleases=True)
    ]
    releases = [other for other in inside if not other.prerelease and not other.yanked]
    return candidate in inside and all(
        extra in candidate.extras or not any(extra in other.extras for other in releases)
        for extra in requirement.extras
    )


def _asked(universe: Universe, chosen: dict[str, Candidate]) -> Iterator[Dependency]:
    """What is asked by the roots and by what they reach, overrides applied; each once."""
    seen: dict[tuple[Dependency, bool], None] = {}
    extras: set[tuple[str, str]] = set()
    pending = [(it, False) for it in universe.roots]
    while pending:
        for dependency, own in pending:
            seen[dependency, own] = None
            extras.update((dependency.name, extra) for extra in dependency.extras)
        reached = {it.name for it, _ in seen}
        pending = [
            (it, it.name == name)
            for name in reached & chosen.keys()
            for it in chosen[name].requires
            if (it, it.name == name) not in seen
            and (it.extra is None or (name, it.extra) in extras)
        ]
    for dependency, own in seen:
        text = universe.overrides.get(dependency.name, dependency.specifier)
        # What a package requires of itself says nothing of its other versions.
        yield Dependency(
            dependency.name,
            text,
            () if own else dependency.extras,
            dependency.extra,
            dependency.url,
        )


def _invited(universe: Universe, candidate: Candidate, requirements: list[Dependency]) -> bool:
    sets = [SpecifierSet(one.specifier) for one in requirements]
    if candidate.yanked and candidate.purl not in universe.pinned:
        exact = [s for many in sets for s in many if s.operator == "==" and "*" not in s.version]
        if not exact:
            return False
    if candidate.prerelease and candidate.name not in universe.prereleases:
        finals = [
            other
            for other in universe.packages[candidate.name]
            if not (other.prerelease or other.yanked)
            and all(_admits(universe, one, other) for one in requirements)
        ]
        return not finals or any(many.prereleases for many in sets)
    return True
