"""How near each package is to the project: the newness of near packages is weighed first.

The nearness of a package is its distance from the project along requirements. Only the requirements
of newest versions count: of the project's direct requirements, and of the packages that they
require. So the levels of the score depend only on the request and the indexes, not on the chosen
stack.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from model.packages.candidates import Candidate, Dependency

#: Number of distances that have a level of their own.
DISTANCES = 2


@dataclass(frozen=True, slots=True)
class Nearness:
    """The packages at each distance from the project.

    :param packages: names at distance 1, 2, … up to :data:`DISTANCES`; direct requirements are at
        distance 0 and left out
    :param unread: newest versions on the way that were not read, so that distances are unknown
    :param unlisted: packages on the way about which nothing is known
    """

    packages: tuple[frozenset[str], ...] = (frozenset(),) * DISTANCES
    unread: tuple[Candidate, ...] = ()
    unlisted: frozenset[str] = frozenset()

    def level_of(self, name: str) -> int:
        """0 for packages at distance 1; :data:`DISTANCES` for all that are farther away."""
        distances = (at for at, names in enumerate(self.packages) if name in names)
        return next(distances, DISTANCES)


def nearness_of(
    roots: Iterable[Dependency],
    newest: Callable[[str], Candidate | None],
    unlisted: Collection[str],
) -> Nearness:
    """The distances of packages, as far as the newest versions on the way were read.

    :param roots: requirements of the request
    :param newest: returns the newest version of a package that the request may choose
    :param unlisted: packages about which nothing is known
    """
    pending = _extras(roots)
    seen: dict[str, set[str]] = {}
    layers = []
    unread: list[Candidate] = []
    unknown: set[str] = set()
    for _ in range(DISTANCES):
        required: list[Dependency] = []
        for name, wanted in sorted(pending.items()):
            seen.setdefault(name, set()).update(wanted)
            candidate = newest(name)
            if candidate is None:
                unknown |= {name}.intersection(unlisted)
            elif candidate.read:
                required += candidate.requirements(seen[name])
            else:
                unread.append(candidate)
        # A package that was seen is followed again if further extras of it are required.
        pending = {
            name: wanted
            for name, wanted in _extras(required).items()
            if name not in seen or not wanted <= seen[name]
        }
        layers.append(frozenset(pending.keys() - seen.keys()))
    return Nearness(tuple(layers), tuple(unread), frozenset(unknown))


def _extras(dependencies: Iterable[Dependency]) -> dict[str, set[str]]:
    """The extras of each required package; requirements that name a URL are left out."""
    extras: dict[str, set[str]] = {}
    for dependency in dependencies:
        if dependency.url is None:
            extras.setdefault(dependency.name, set()).update(dependency.extras)
    return extras
