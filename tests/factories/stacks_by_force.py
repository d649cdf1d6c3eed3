"""All stacks of a small universe, by trying every one: what the resolver is compared with.

It knows the rules in the words of the standards and nothing of the resolver's code.
"""

from dataclasses import replace
from functools import cache
from itertools import product

from packaging.specifiers import SpecifierSet

from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency

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
    asked = _asked(universe, chosen)
    if asked is None or {it.name for it in asked} != set(chosen):
        return False
    requirements = [
        replace(it, specifier=universe.overrides.get(it.name, it.specifier)) for it in asked
    ]
    return all(_admits(it, chosen[it.name]) for it in requirements) and all(
        _invited(universe, it, [a for a in requirements if a.name == it.name])
        for it in chosen.values()
    )


def _admits(requirement: Dependency, candidate: Candidate) -> bool:
    """Whether a version is within a specifier; extras that it lacks do not matter."""
    if requirement.url is not None:
        return False
    return _specifiers(requirement).contains(candidate.version, prereleases=True)


@cache
def _specifiers(requirement: Dependency) -> SpecifierSet:
    return SpecifierSet(requirement.specifier)


def _asked(universe: Universe, chosen: dict[str, Candidate]) -> set[Dependency] | None:
    """Requirements that the roots reach, without overrides; ``None`` if one is not chosen."""
    seen: set[Dependency] = set()
    extras: set[tuple[str, str]] = set()
    pending = [*universe.roots]
    while pending:
        if any(it.name not in chosen for it in pending):
            return None
        seen.update(pending)
        extras.update((it.name, extra) for it in pending for extra in it.extras)
        pending = [
            it
            for name in {it.name for it in seen}
            for it in chosen[name].requires
            if it not in seen and (it.extra is None or (name, it.extra) in extras)
        ]
    return seen


def _invited(universe: Universe, candidate: Candidate, requirements: list[Dependency]) -> bool:
    sets = [_specifiers(one) for one in requirements]
    if candidate.yanked and candidate.purl not in universe.pinned:
        exact = [s for many in sets for s in many if s.operator == "==" and "*" not in s.version]
        if not exact:
            return False
    if candidate.prerelease and candidate.name not in universe.prereleases:
        finals = [
            other
            for other in universe.packages[candidate.name]
            if not (other.prerelease or other.yanked)
            and all(_admits(one, other) for one in requirements)
        ]
        return not finals or any(many.prereleases for many in sets)
    return True
