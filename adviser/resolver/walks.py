"""What of a universe the roots may reach: versions opened one by one, requirements shared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import and_, or_

from adviser.resolver.requests import Clock
from adviser.resolver.specifiers import members, names_prerelease, pins, places
from adviser.resolver.universe import Universe
from graph.candidates import Candidate, Dependency


@dataclass(slots=True, eq=False)
class Asked:
    """A specifier's members within a package, or an extra of it."""

    package: Reached
    mask: int
    extra: str | None = None
    #: Whether it names a pre-release, and whether it pins; only where that can matter.
    names: bool = False
    pins: bool = False
    reached: bool = False
    number: int = -1


@dataclass(slots=True, eq=False)
class Opened:
    place: int
    requires: tuple[Asked, ...]
    by_extra: tuple[tuple[Asked, tuple[Asked, ...]], ...]


@dataclass(slots=True, eq=False)
class Reached:
    name: str
    candidates: tuple[Candidate, ...]
    versions: tuple[str, ...]
    #: Places of pre-releases and yanked versions that something has to ask for.
    prereleases: int = 0
    yanked: int = 0
    plain: int = 0
    #: What every root admits and nothing has ruled out; nothing else is ever chosen.
    alive: int = 0
    #: What something that may be chosen leads to.
    met: int = 0
    opened: dict[int, Opened] = field(default_factory=dict)
    specifiers: dict[tuple[int, bool, bool], Asked] = field(default_factory=dict)
    extras: dict[str, Asked] = field(default_factory=dict)

    @property
    def special(self) -> bool:
        return bool(self.prereleases or self.yanked)

    def unasked(self) -> int:
        """Places of versions that nothing ever asks for by name where that is needed."""
        if not self.special:
            return 0
        atoms = [it for it in self.specifiers.values() if it.reached]
        pinned = reduce(or_, (it.mask for it in atoms if it.pins), 0)
        common = reduce(and_, (it.mask for it in atoms), self.plain)
        kept = any(it.names for it in atoms) or not common
        return self.yanked & ~pinned | (0 if kept else self.prereleases)


class Walk:
    """Everything that the roots may reach, opened version by version."""

    def __init__(self, universe: Universe, clock: Clock) -> None:
        self.universe = universe
        self._clock = clock
        self.packages: dict[str, Reached] = {}
        #: Atoms of a dependency, by what it asks; thousands of versions share a few hundred.
        self._atoms: dict[tuple[str, str, tuple[str, ...], str | None], tuple[Asked, ...]] = {}
        #: The same by identity, which costs no hash; the universe keeps its objects alive.
        self._known: dict[int, tuple[Asked, ...]] = {}
        self._pending: list[Asked] = []
        self.roots = [atom for root in universe.roots for atom in self._atoms_of(root)]
        for atom in self.roots:
            if atom.extra is None:
                atom.package.alive &= atom.mask

    def reach(self) -> None:
        """Meet every version that a chain of requirements leads to."""
        self._forget()
        self._ask(self.roots)
        while self._pending:
            atom = self._pending.pop()
            package = atom.package
            if atom.extra is None:
                found = atom.mask & package.alive & ~package.met
                package.met |= found
                for place in places(found):
                    self._meet(self._opened(package, place))
            else:
                for place in places(package.met):
                    self._ask_extra(package.opened[place], atom)

    def prune(self) -> bool:
        """Drop versions that require what nothing satisfies; whether there were any."""
        dropped, changed = False, True
        for package in self.packages.values():
            package.alive = package.met & ~package.unasked()
            dropped |= package.alive != package.met
        while changed:
            changed = False
            for package in self.packages.values():
                self._clock.check()
                for place in places(package.alive):
                    if not all(map(_satisfiable, package.opened[place].requires)):
                        package.alive ^= 1 << place
                        dropped = changed = True
        return dropped

    def _forget(self) -> None:
        for package in self.packages.values():
            package.met = 0
            for atom in (*package.specifiers.values(), *package.extras.values()):
                atom.reached = False

    def _meet(self, version: Opened) -> None:
        self._ask(version.requires)
        for extra, atoms in version.by_extra:
            if extra.reached:
                self._ask(atoms)

    def _opened(self, package: Reached, place: int) -> Opened:
        version = package.opened.get(place)
        if version is None:
            version = package.opened[place] = self._read(package, place)
        return version

    def _read(self, package: Reached, place: int) -> Opened:
        self._clock.check()
        always: list[Asked] = []
        by_extra: dict[str, list[Asked]] = {}
        for it in package.candidates[place].requires:
            found = self._known.get(id(it))
            if found is None:
                found = self._known[id(it)] = self._atoms_of(it)
            (always if it.extra is None else by_extra.setdefault(it.extra, [])).extend(found)
        return Opened(
            place,
            tuple(dict.fromkeys(always)),
            tuple(
                (self._extra(package, extra), tuple(dict.fromkeys(atoms)))
                for extra, atoms in by_extra.items()
            ),
        )

    def _ask(self, atoms: Iterable[Asked]) -> None:
        for atom in atoms:
            if not atom.reached:
                atom.reached = True
                self._pending.append(atom)

    def _ask_extra(self, version: Opened, extra: Asked) -> None:
        for other, atoms in version.by_extra:
            if other is extra:
                self._ask(atoms)

    def _atoms_of(self, it: Dependency) -> tuple[Asked, ...]:
        """What a dependency asks: a specifier of a package, and extras of it."""
        specifier = self.universe.asked(it)
        key = (it.name, specifier, it.extras, it.url)
        found = self._atoms.get(key)
        if found is None:
            package = self._package(it.name)
            found = self._atoms[key] = (
                self._specifier(package, specifier, it.url is None),
                *(self._extra(package, extra) for extra in it.extras),
            )
        return found

    def _specifier(self, package: Reached, text: str, known: bool) -> Asked:
        """An atom for each set of members; an address that nobody read has none."""
        mask = members(text, package.versions) if known else 0
        key = (mask, False, False)
        if package.special:
            key = (mask, names_prerelease(text), pins(text))
        found = package.specifiers.get(key)
        if found is None:
            found = package.specifiers[key] = Asked(package, *key[:1], None, *key[1:])
        return found

    @staticmethod
    def _extra(package: Reached, extra: str) -> Asked:
        found = package.extras.get(extra)
        if found is None:
            found = package.extras[extra] = Asked(package, 0, extra)
        return found

    def _package(self, name: str) -> Reached:
        package = self.packages.get(name)
        if package is None:
            universe = self.universe
            candidates = tuple(universe.packages.get(name, ()))
            every = (1 << len(candidates)) - 1
            package = Reached(name, candidates, tuple(it.version for it in candidates))
            for place, it in enumerate(candidates):
                if it.prerelease and name not in universe.prereleases:
                    package.prereleases |= 1 << place
                if it.yanked and it.purl not in universe.pinned:
                    package.yanked |= 1 << place
                if not it.prerelease and not it.yanked:
                    package.plain |= 1 << place
            package.alive = every
            self.packages[name] = package
        return package


def _satisfiable(atom: Asked) -> bool:
    return atom.extra is not None or bool(atom.mask & atom.package.alive)
