"""Backtracking as installers do it (resolvelib) over a universe, to compare with."""

from collections.abc import Iterator
from typing import Any

import resolvelib
from packaging.specifiers import SpecifierSet

from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency


class Provider(resolvelib.AbstractProvider[Dependency, Any, Any]):
    """A universe in which nothing is a pre-release or yanked; extras are packages of their own."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe

    def identify(self, requirement_or_candidate: Any) -> tuple[str, str | None]:
        """Package and extra."""
        if isinstance(requirement_or_candidate, tuple):
            candidate, extra = requirement_or_candidate
            return candidate.name, extra
        return requirement_or_candidate.name, requirement_or_candidate.extra

    def get_preference(self, identifier: Any, *_: Any, **__: Any) -> tuple[str, str]:
        """By name; installers do it better."""
        return identifier[0], identifier[1] or ""

    def find_matches(self, identifier: Any, requirements: Any, incompatibilities: Any) -> Any:
        """Newest first."""
        name, extra = identifier
        bad = {candidate.version for candidate, _ in incompatibilities[identifier]}
        specifiers = [SpecifierSet(one.specifier) for one in requirements[identifier]]
        return [
            (it, extra)
            for it in self._universe.packages.get(name, ())
            if it.version not in bad and all(one.contains(it.version) for one in specifiers)
        ]

    def is_satisfied_by(self, requirement: Any, candidate: Any) -> bool:
        """Whether a version is within what is asked."""
        return SpecifierSet(requirement.specifier).contains(candidate[0].version)

    def get_dependencies(self, candidate: tuple[Candidate, str | None]) -> Iterator[Dependency]:
        """A package with an extra is the package, and what the extra brings."""
        version, extra = candidate
        if extra is not None:
            yield Dependency(version.name, f"=={version.version}")
        for dependency in version.requires:
            if dependency.extra == extra:
                yield from advice_request_of(self._universe, dependency)


def advice_request_of(universe: Universe, dependency: Dependency) -> Iterator[Dependency]:
    """What a dependency is to resolvelib: the package, and the package with each extra."""
    text = universe.specifier_of(dependency)
    yield Dependency(dependency.name, text)
    for extra in dependency.extras:
        yield Dependency(dependency.name, text, extra=extra)


def resolved(universe: Universe, max_rounds: int = 20_000) -> dict[str, str] | None:
    """The versions that backtracking finds, ``None`` if there are none."""
    roots = [one for root in universe.roots for one in advice_request_of(universe, root)]
    resolver = resolvelib.Resolver(Provider(universe), resolvelib.BaseReporter())
    try:
        result = resolver.resolve(roots, max_rounds=max_rounds)
    except resolvelib.ResolutionImpossible:
        return None
    return {name: it.version for (name, _), (it, _) in result.mapping.items()}
