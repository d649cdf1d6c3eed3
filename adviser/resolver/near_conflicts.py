"""Find a conflict near the request by narrowing the versions that each required package can have.

The requirements of the request narrow the versions of the packages that they name. A requirement
that all versions left of a required package have in common narrows the next package. The package
with the fewest versions left goes first, so a pinned package is the first to count. If a package
has no version left, the requirements that narrowed its versions contradict each other.

This does not find every conflict. But most conflicts have such a cause, and narrowing takes
milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from adviser.resolver.resolver_request import SearchClock
from adviser.resolver.specifiers import members, places
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import Purl

#: Packages whose requirements count, at most.
_MOST = 200


@dataclass(frozen=True, slots=True)
class NearConflict:
    """A part of a universe that already has no stack.

    :param roots: the requirements of the request that take part
    :param versions: by package, the versions whose requirements take part
    """

    roots: tuple[Dependency, ...]
    versions: Mapping[str, frozenset[Purl]]


@dataclass(slots=True)
class _Domain:
    """The versions that a required package can still have.

    :param left: places of these versions among the usable versions
    :param roots: positions of the requirements of the request that narrowed them, in their order
    :param requirers: packages whose requirements narrowed them
    :param extras: the extras that the request asks for
    :param expanded: number of versions when their requirements were last considered
    """

    left: set[int]
    roots: set[int] = field(default_factory=set)
    requirers: set[str] = field(default_factory=set)
    extras: set[str] = field(default_factory=set)
    expanded: int | None = None


def near_conflict(universe: Universe, clock: SearchClock) -> NearConflict | None:
    """The first conflict that narrowing finds; ``None`` if it finds none.

    :raises OutOfTime: if the time limit is reached
    """
    return _Narrowing(universe, clock).conflict()


class _Narrowing:
    def __init__(self, universe: Universe, clock: SearchClock) -> None:
        self._universe = universe
        self._roots = sorted(universe.roots, key=lambda it: it.order)
        self._clock = clock
        self._domains: dict[str, _Domain] = {}
        self._considered: dict[str, frozenset[Purl]] = {}
        self._members: dict[tuple[str, str], frozenset[int]] = {}

    def conflict(self) -> NearConflict | None:
        for position, root in enumerate(self._roots):
            if not self._can_narrow(root):
                continue
            domain = self._domain(root.name)
            domain.roots.add(position)
            domain.extras.update(root.extras)
            domain.left &= self._admitted(root)
            if not domain.left:
                return self._part(domain)
        for _ in range(_MOST):
            self._clock.check()
            open_domains = [
                (len(it.left), name)
                for name, it in self._domains.items()
                if it.expanded != len(it.left)
            ]
            if not open_domains:
                return None
            empty = self._expand(min(open_domains)[1])
            if empty is not None:
                return self._part(empty)
        return None

    def _expand(self, name: str) -> _Domain | None:
        """Narrow what all versions left of a package require; returns a domain that got empty."""
        source = self._domains[name]
        source.expanded = len(source.left)
        candidates = [self._universe.packages[name][at] for at in sorted(source.left)]
        if not all(it.read for it in candidates):
            return None
        self._considered.setdefault(name, frozenset(it.purl for it in candidates))
        admitted = self._admitted_by(candidates[0], source.extras)
        for candidate in candidates[1:]:
            if not admitted:
                break
            other = self._admitted_by(candidate, source.extras)
            admitted = {it: admitted[it] | other[it] for it in admitted if it in other}
        for required, allowed in sorted(admitted.items()):
            domain = self._domain(required)
            if not domain.requirers or not domain.left <= allowed:
                domain.roots |= source.roots
                domain.requirers |= {name, *source.requirers}
            domain.left &= allowed
            if not domain.left:
                return domain
        return None

    def _admitted_by(self, candidate: Candidate, extras: set[str]) -> dict[str, frozenset[int]]:
        """The places that the requirements of a version admit, by required package."""
        admitted: dict[str, frozenset[int]] = {}
        for dependency in candidate.requires:
            name = dependency.name
            if name == candidate.name or not self._can_narrow(dependency):
                continue
            if dependency.extra is None or dependency.extra in extras:
                inside = self._admitted(dependency)
                admitted[name] = admitted.get(name, inside) & inside
        return admitted

    def _can_narrow(self, dependency: Dependency) -> bool:
        return not dependency.url and dependency.name not in self._universe.unlisted

    def _admitted(self, dependency: Dependency) -> frozenset[int]:
        specifier = self._universe.specifier_of(dependency)
        key = dependency.name, specifier
        if key not in self._members:
            candidates = self._universe.packages.get(dependency.name, ())
            inside = members(specifier, tuple(it.version for it in candidates))
            self._members[key] = frozenset(places(inside))
        return self._members[key]

    def _domain(self, name: str) -> _Domain:
        if name not in self._domains:
            count = len(self._universe.packages.get(name, ()))
            self._domains[name] = _Domain(set(range(count)))
        return self._domains[name]

    def _part(self, domain: _Domain) -> NearConflict:
        roots = tuple(self._roots[it] for it in sorted(domain.roots))
        versions = {it: self._considered[it] for it in sorted(domain.requirers)}
        return NearConflict(roots, versions)
