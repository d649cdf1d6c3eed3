"""Lossless compression: reduce a universe to the few versions that a best stack can contain.

There are three steps; each keeps every best stack. Drop versions that no chain of requirements
reaches. Drop versions whose requirements no version satisfies. Among the remaining versions of a
package, those with the same requirements and the same membership in every reachable specifier are
interchangeable. From each such class, keep only the best versions, as many as there are requested
stacks. Requirements are compared by the versions that they admit, not by their text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from heapq import nsmallest
from math import inf
from operator import and_, or_

from adviser.resolver.problem import (
    UNKNOWN_NEED,
    Atom,
    Permit,
    ProblemSizes,
    SelectionProblem,
    VersionNode,
)
from adviser.resolver.resolver_request import Budget, SearchClock
from adviser.resolver.specifiers import members, names_prerelease, pins, places
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency


@dataclass(slots=True, eq=False)
class Demand:
    """A requirement on a package: the versions that its specifier admits, or an extra.

    :param mask: admitted versions, as bits
    :param names: whether it names a pre-release; set only where that matters
    :param pins: whether it pins one version; set only where that matters
    :param number: its atom in the compressed problem
    """

    package: ReachablePackage
    mask: int
    extra: str | None = None
    names: bool = False
    pins: bool = False
    reached: bool = False
    number: int = -1


@dataclass(slots=True, eq=False)
class ReachableVersion:
    place: int
    requires: tuple[Demand, ...]
    by_extra: tuple[tuple[Demand, tuple[Demand, ...]], ...]


@dataclass(slots=True, eq=False)
class ReachablePackage:
    name: str
    candidates: tuple[Candidate, ...]
    versions: tuple[str, ...]
    #: Versions, as bits: pre-releases and yanked ones that must be required by name, and others.
    prereleases: int = 0
    yanked: int = 0
    plain: int = 0
    #: Versions that every root admits and that are not ruled out; only these can be chosen.
    alive: int = 0
    #: Versions without any known requirement.
    silent: int = 0
    #: Versions that a chain of requirements reaches, in this walk and in any walk.
    met: int = 0
    seen: int = 0
    opened: dict[int, ReachableVersion] = field(default_factory=dict)
    specifiers: dict[tuple[int, bool, bool], Demand] = field(default_factory=dict)
    extras: dict[str, Demand] = field(default_factory=dict)

    @property
    def special(self) -> bool:
        return bool(self.prereleases or self.yanked)

    def unasked(self, anything_open: bool) -> int:
        """Versions that must be named by a requirement but are not, as bits.

        :param anything_open: whether requirements are unknown, which might name any version
        """
        if not self.special or anything_open:
            return 0
        atoms = [it for it in self.specifiers.values() if it.reached]
        pinned = reduce(or_, (it.mask for it in atoms if it.pins), 0)
        common = reduce(and_, (it.mask for it in atoms), self.plain)
        kept = any(it.names for it in atoms) or not common
        return self.yanked & ~pinned | (0 if kept else self.prereleases)


class Reachability:
    """Find all versions that the roots can reach, reading each version's requirements once."""

    def __init__(self, universe: Universe, clock: SearchClock) -> None:
        self.universe = universe
        self._clock = clock
        self.packages: dict[str, ReachablePackage] = {}
        #: Demands by content of a dependency; thousands of versions share a few hundred.
        self._atoms: dict[tuple[str, str, tuple[str, ...], str | None], tuple[Demand, ...]] = {}
        #: The same by identity, which needs no hash; the universe keeps its objects alive.
        self._known: dict[int, tuple[Demand, ...]] = {}
        #: What unread versions require, and who needs an unlisted package: anything, maybe. Only
        #: if unread versions invite others.
        self.anything = Demand(ReachablePackage("", (), ()), 0, "")
        self._pending: list[Demand] = []
        self.roots = [atom for root in universe.roots for atom in self._atoms_of(root)]
        for atom in self.roots:
            if atom.extra is None:
                atom.package.alive &= atom.mask

    def reach(self) -> None:
        """Mark every version that a chain of requirements reaches."""
        self._forget()
        self._ask(self.roots)
        while self._pending:
            atom = self._pending.pop()
            package = atom.package
            if atom.extra is None:
                fresh = atom.mask & package.alive & ~package.met
                package.met |= fresh
                package.seen |= fresh
                for place in places(fresh & ~package.silent):
                    self._meet(self.opened(package, place))
            else:
                for place in places(package.met & ~package.silent):
                    self._ask_extra(package.opened[place], atom)

    def prune(self) -> bool:
        """Drop versions with a requirement that no version satisfies.

        :returns: whether any were dropped
        """
        dropped, changed = False, True
        for package in self.packages.values():
            package.alive = package.met & ~package.unasked(self.anything.reached)
            dropped |= package.alive != package.met
        while changed:
            changed = False
            for package in self.packages.values():
                self._clock.check()
                for place in places(package.alive & ~package.silent):
                    if not all(map(_satisfiable, package.opened[place].requires)):
                        package.alive ^= 1 << place
                        dropped = changed = True
        return dropped

    def _forget(self) -> None:
        self.anything.reached = False
        for package in self.packages.values():
            package.met = 0
            for atom in (*package.specifiers.values(), *package.extras.values()):
                atom.reached = False

    def _meet(self, version: ReachableVersion) -> None:
        self._ask(version.requires)
        for extra, atoms in version.by_extra:
            if extra.reached:
                self._ask(atoms)

    def opened(self, package: ReachablePackage, place: int) -> ReachableVersion:
        """A version with its requirements."""
        version = package.opened.get(place)
        if version is None:
            version = package.opened[place] = self._read(package, place)
        return version

    def _read(self, package: ReachablePackage, place: int) -> ReachableVersion:
        self._clock.check()
        always: list[Demand] = []
        by_extra: dict[str, list[Demand]] = {}
        candidate = package.candidates[place]
        if self.universe.unread_invite and not candidate.read:
            always.append(self.anything)
        for dependency in candidate.requires:
            demands = self._known.get(id(dependency))
            if demands is None:
                demands = self._known[id(dependency)] = self._atoms_of(dependency)
            (
                always if dependency.extra is None else by_extra.setdefault(dependency.extra, [])
            ).extend(demands)
        return ReachableVersion(
            place,
            tuple(dict.fromkeys(always)),
            tuple(
                (self._extra(package, extra), tuple(dict.fromkeys(atoms)))
                for extra, atoms in by_extra.items()
            ),
        )

    def _ask(self, atoms: Iterable[Demand]) -> None:
        for atom in atoms:
            if not atom.reached:
                atom.reached = True
                self._pending.append(atom)

    def _ask_extra(self, version: ReachableVersion, extra: Demand) -> None:
        for other, atoms in version.by_extra:
            if other is extra:
                self._ask(atoms)

    def _atoms_of(self, dependency: Dependency) -> tuple[Demand, ...]:
        """The demands of a dependency: a specifier of a package, and its extras."""
        if dependency.name in self.universe.unlisted:
            return (self.anything,) if self.universe.unread_invite else ()
        specifier = self.universe.specifier_of(dependency)
        key = (dependency.name, specifier, dependency.extras, dependency.url)
        demands = self._atoms.get(key)
        if demands is None:
            package = self._package(dependency.name)
            mask = members(specifier, package.versions) if dependency.url is None else 0
            demands = self._atoms[key] = (
                self._specifier(package, specifier, mask),
                *(self._extra(package, extra) for extra in dependency.extras),
            )
        return demands

    def _specifier(self, package: ReachablePackage, text: str, mask: int) -> Demand:
        """One demand for each set of admitted versions; a direct reference admits none."""
        key = (mask, False, False)
        if package.special:
            key = (mask, names_prerelease(text), pins(text))
        demand = package.specifiers.get(key)
        if demand is None:
            demand = package.specifiers[key] = Demand(package, *key[:1], None, *key[1:])
        return demand

    @staticmethod
    def _extra(package: ReachablePackage, extra: str) -> Demand:
        demand = package.extras.get(extra)
        if demand is None:
            demand = package.extras[extra] = Demand(package, 0, extra)
        return demand

    def _package(self, name: str) -> ReachablePackage:
        package = self.packages.get(name)
        if package is None:
            universe = self.universe
            candidates = tuple(universe.packages.get(name, ()))
            every = (1 << len(candidates)) - 1
            package = ReachablePackage(name, candidates, tuple(it.version for it in candidates))
            for place, candidate in enumerate(candidates):
                if candidate.prerelease and name not in universe.prereleases:
                    package.prereleases |= 1 << place
                if candidate.yanked and candidate.purl not in universe.pinned:
                    package.yanked |= 1 << place
                if not candidate.prerelease and not candidate.yanked:
                    package.plain |= 1 << place
                if not candidate.requires and (candidate.read or not universe.unread_invite):
                    package.silent |= 1 << place
            package.alive = every
            self.packages[name] = package
        return package


def _satisfiable(atom: Demand) -> bool:
    return atom.extra is not None or bool(atom.mask & atom.package.alive)


def compress(
    universe: Universe, keep: int = 1, clock: SearchClock | None = None
) -> SelectionProblem:
    """Compress a universe.

    :param keep: number of versions to keep of each class; as many as stacks are requested
    :param clock: ``None`` for no limit
    :raises OutOfTime: if the time limit is reached
    """
    clock = clock or SearchClock(Budget(inf))
    walk = Reachability(universe, clock)
    walk.reach()
    if walk.prune():
        walk.reach()
    return _ProblemBuilder(walk, keep, clock).problem()


class _ProblemBuilder:
    """Number the reachable packages, versions and demands."""

    def __init__(self, walk: Reachability, keep: int, clock: SearchClock) -> None:
        self._walk = walk
        self._clock = clock
        self._keep = keep
        self._universe = walk.universe
        self._nodes: list[VersionNode] = []
        self._permits: list[Permit] = []
        self._costs: list[tuple[int, ...]] = []
        #: By package with unread versions, what these may need; and the atoms of such needs.
        self._likely: dict[str, frozenset[str]] = {}
        self._optional: dict[str, Atom] = {}
        self._members: list[tuple[int, ...] | None] = []
        self._extras: list[tuple[int, Atom, str]] = []

    def problem(self) -> SelectionProblem:
        universe = self._universe
        counted = {it.name: it for it in self._walk.packages.values() if _is_reached(it)}
        for name in universe.dropped:
            # The absence of a package that nothing can require is a cost of every stack.
            counted.setdefault(name, ReachablePackage(name, (), ()))
        reached = [it for _, it in sorted(counted.items())]
        for package in reached:
            self._number(package)
        if universe.dropped:
            self._number_likely_needs(reached)
        if self._walk.anything.reached:
            self._walk.anything.number = len(self._members)
            self._members.append(None)
        for number, package in enumerate(reached):
            self._clock.check()
            self._pack(number, package)
            self._extras.extend(
                (number, it.number, extra)
                for extra, it in sorted(package.extras.items())
                if it.reached
            )
        own = universe.criteria_levels
        return SelectionProblem(
            names=tuple(it.name for it in reached),
            nodes=tuple(self._nodes),
            members=tuple(self._members),
            extras=tuple(self._extras),
            roots=tuple(sorted({it.number for it in self._walk.roots})),
            permits=tuple(self._permits),
            levels=() if own else tuple(universe.level_of(it.name) for it in reached),
            level_count=universe.level_count,
            sizes=self._sizes(reached),
            costs=tuple(self._costs),
            absence=tuple(
                tuple(-it for it in universe.dropped.get(package.name, (0,) * own))
                for package in reached if universe.dropped
            ),
        )  # fmt: skip

    def _number(self, package: ReachablePackage) -> None:
        """Number demands by content, so that the order of discovery does not matter."""
        atoms = [it for it in package.specifiers.values() if it.reached]
        atoms.sort(key=lambda it: (it.mask, it.names, it.pins))
        extras = [it for _, it in sorted(package.extras.items()) if it.reached]
        for atom in (*atoms, *extras):
            atom.number = len(self._members)
            self._members.append(() if atom.extra is None else None)

    def _number_likely_needs(self, reached: list[ReachablePackage]) -> None:
        """Number the needs that unread versions may have."""
        for package in reached:
            if any(not package.candidates[it].read for it in places(package.met)):
                self._likely[package.name] = self._universe.likely_needs(package.name)
        counted = {it.name for it in reached}
        for name in sorted(frozenset().union(*self._likely.values()) & counted):
            self._optional[name] = len(self._members)
            self._members.append(())

    def _pack(self, number: int, package: ReachablePackage) -> None:
        atoms = [it for it in package.specifiers.values() if it.reached]
        kept: dict[ReachableVersion, int] = {}
        own = self._universe.criteria_levels
        values = (lambda _: (0, 0)) if own else self._universe.values
        for version in self._best_of_each_class(package, atoms):
            kept[version] = len(self._nodes)
            candidate, requires = package.candidates[version.place], _numbers(version.requires)
            if not candidate.read:
                likely = self._likely.get(package.name, frozenset())
                requires += tuple(
                    sorted(self._optional[it] for it in likely & self._optional.keys())
                )
            self._nodes.append(
                VersionNode(
                    number,
                    version.place,
                    *values(candidate),
                    requires,
                    _brought(version),
                    bool((package.prereleases | package.yanked) >> version.place & 1),
                )
            )
            if own:
                self._costs.append(self._universe.preference(candidate))
            self._permit(package, version.place, kept[version], atoms)
        if (optional := self._optional.get(package.name)) is not None:
            self._members[optional] = (*kept.values(), len(self._nodes))
            self._nodes.append(VersionNode(number, UNKNOWN_NEED, 0, 0, ()))
            self._costs.append((0,) * own)
        for atom in atoms:
            self._members[atom.number] = tuple(
                node for version, node in kept.items() if atom.mask >> version.place & 1
            )

    def _best_of_each_class(
        self, package: ReachablePackage, atoms: list[Demand]
    ) -> list[ReachableVersion]:
        groups = [package.met]
        unread = 0
        if package.name in self._likely:
            unread = sum(1 << it for it in places(package.met) if not package.candidates[it].read)
        special = package.prereleases, package.yanked, unread
        for mask in (*special, *(it.mask for it in atoms)):
            halves = (half for it in groups for half in (it & mask, it & ~mask))
            groups = [half for half in halves if half]

        def order(place: int) -> tuple[int, ...]:
            return *self._universe.preference(package.candidates[place]), place

        best: list[int] = []
        for group in groups:
            classes: dict[tuple[object, object], list[int]] = {
                (frozenset(), frozenset()): places(group & package.silent)
            }
            for place in places(group & ~package.silent):
                version = package.opened[place]
                extras = frozenset((e, frozenset(b)) for e, b in version.by_extra if e.reached)
                classes.setdefault((frozenset(version.requires), extras), []).append(place)
            for alike in classes.values():
                best += nsmallest(self._keep, alike, key=order)
        return [self._walk.opened(package, place) for place in sorted(best)]

    def _permit(
        self, package: ReachablePackage, place: int, node: int, atoms: list[Demand]
    ) -> None:
        """Add the conditions under which a yanked version or a pre-release may be chosen."""
        anything = [self._walk.anything.number] if self._walk.anything.reached else []
        if package.yanked >> place & 1:
            pins = [it.number for it in atoms if it.pins]
            self._permits.append(Permit(node, tuple(sorted([*pins, *anything]))))
        if package.prereleases >> place & 1:
            # Something names a pre-release, or all demands together exclude every plain version.
            # Plain versions in the same specifiers give the same condition.
            for outside in sorted(
                {
                    tuple(sorted(it.number for it in atoms if not it.mask >> other & 1 or it.names))
                    for other in places(package.plain)
                }
            ):
                self._permits.append(Permit(node, (*outside, *anything)))

    def _sizes(self, reached: list[ReachablePackage]) -> ProblemSizes:
        return ProblemSizes(
            packages=len(reached),
            versions=sum(it.seen.bit_count() for it in reached),
            kept=len(self._nodes),
            specifiers=sum(it is not None for it in self._members),
            requirements=sum(
                len(node.requires) + sum(len(atoms) for _, atoms in node.by_extra)
                for node in self._nodes
            ),
        )


def _is_reached(package: ReachablePackage) -> bool:
    return any(it.reached for it in package.specifiers.values())


def _numbers(atoms: Iterable[Demand]) -> tuple[Atom, ...]:
    return tuple(sorted(it.number for it in atoms))


def _brought(version: ReachableVersion) -> tuple[tuple[Atom, tuple[Atom, ...]], ...]:
    return tuple(
        sorted(
            (extra.number, _numbers(atoms)) for extra, atoms in version.by_extra if extra.reached
        )
    )
