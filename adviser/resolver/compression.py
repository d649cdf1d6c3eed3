"""Compression without loss: from a universe to the few versions that an answer can consist of.

Three steps, each of which leaves every best stack in. What nothing asks for by any path is left
out. What requires something that no version satisfies is left out. Of the rest, versions
of a package with the same requirements and the same membership in every specifier that anyone
asks are interchangeable, and of each such class only the best are kept, as many as stacks are
wanted. Requirements are compared by the versions they admit, not by their texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from adviser.resolver.problems import Atom, Node, Permit, Problem, Sizes
from adviser.resolver.requests import Budget, Clock
from adviser.resolver.specifiers import places
from adviser.resolver.universe import Universe
from adviser.resolver.walks import Asked, Opened, Reached, Walk


def compressed(universe: Universe, keep: int = 1, clock: Clock | None = None) -> Problem:
    """The problem that is left of a universe.

    :param keep: how many versions of each class; as many as stacks are wanted
    :param clock: ``None`` for no limit
    :raises OutOfTime: if that takes longer
    """
    clock = clock or Clock(Budget(inf))
    walk = Walk(universe, clock)
    walk.reach()
    if walk.prune():
        walk.reach()
    return _Packing(walk, keep, clock).problem()


class _Packing:
    """What is left of a walk, numbered."""

    def __init__(self, walk: Walk, keep: int, clock: Clock) -> None:
        self._walk = walk
        self._clock = clock
        self._keep = keep
        self._universe = walk.universe
        self._nodes: list[Node] = []
        self._permits: list[Permit] = []
        self._members: list[tuple[int, ...] | None] = []
        self._extras: list[tuple[int, Atom, str]] = []

    def problem(self) -> Problem:
        reached = [it for _, it in sorted(self._walk.packages.items()) if _is_reached(it)]
        for package in reached:
            self._number(package)
        for number, package in enumerate(reached):
            self._clock.check()
            self._pack(number, package)
            self._extras.extend(
                (number, it.number, extra)
                for extra, it in sorted(package.extras.items())
                if it.reached
            )
        return Problem(
            names=tuple(it.name for it in reached),
            nodes=tuple(self._nodes),
            members=tuple(self._members),
            extras=tuple(self._extras),
            roots=tuple(sorted({it.number for it in self._walk.roots})),
            permits=tuple(self._permits),
            sizes=self._sizes(reached),
        )

    def _number(self, package: Reached) -> None:
        """In an order that depends on what atoms say, never on who asked first."""
        atoms = [it for it in package.specifiers.values() if it.reached]
        atoms.sort(key=lambda it: (it.mask, it.names, it.pins))
        extras = [it for _, it in sorted(package.extras.items()) if it.reached]
        for atom in (*atoms, *extras):
            atom.number = len(self._members)
            self._members.append(() if atom.extra is None else None)

    def _pack(self, number: int, package: Reached) -> None:
        atoms = [it for it in package.specifiers.values() if it.reached]
        kept: dict[Opened, int] = {}
        for version in self._best_of_each_class(package, atoms):
            kept[version] = len(self._nodes)
            self._nodes.append(
                Node(
                    number,
                    version.place,
                    self._universe.score(package.candidates[version.place]),
                    _numbers(version.requires),
                    _brought(version),
                )
            )
            self._permit(package, version.place, kept[version], atoms)
        for atom in atoms:
            self._members[atom.number] = tuple(
                node for version, node in kept.items() if atom.mask >> version.place & 1
            )

    def _best_of_each_class(self, package: Reached, atoms: list[Asked]) -> list[Opened]:
        classes: dict[tuple[object, ...], list[Opened]] = {}
        for place in places(package.met):
            version = package.opened[place]
            key = (
                frozenset(version.requires),
                frozenset((e, frozenset(b)) for e, b in version.by_extra if e.reached),
                tuple(it.mask >> place & 1 for it in atoms),
                package.prereleases >> place & 1,
                package.yanked >> place & 1,
            )
            classes.setdefault(key, []).append(version)
        score = self._universe.score
        best = (
            sorted(them, key=lambda it: (-score(package.candidates[it.place]), it.place))
            for them in classes.values()
        )
        return sorted(
            (version for them in best for version in them[: self._keep]), key=lambda it: it.place
        )

    def _permit(self, package: Reached, place: int, node: int, atoms: list[Asked]) -> None:
        """What has to be asked of the package before this version may be chosen."""
        if package.yanked >> place & 1:
            self._permits.append(Permit(node, tuple(sorted(it.number for it in atoms if it.pins))))
        if package.prereleases >> place & 1:
            # Something names a pre-release, or all together leaves none of the others; those
            # with the same memberships are left out by the same.
            for outside in sorted(
                {
                    tuple(sorted(it.number for it in atoms if not it.mask >> other & 1 or it.names))
                    for other in places(package.plain)
                }
            ):
                self._permits.append(Permit(node, outside))

    def _sizes(self, reached: list[Reached]) -> Sizes:
        return Sizes(
            packages=len(reached),
            versions=sum(len(it.opened) for it in reached),
            kept=len(self._nodes),
            specifiers=sum(it is not None for it in self._members),
            requirements=sum(
                len(node.requires) + sum(len(atoms) for _, atoms in node.by_extra)
                for node in self._nodes
            ),
        )


def _is_reached(package: Reached) -> bool:
    return any(it.reached for it in package.specifiers.values())


def _numbers(atoms: Iterable[Asked]) -> tuple[Atom, ...]:
    return tuple(sorted(it.number for it in atoms))


def _brought(version: Opened) -> tuple[tuple[Atom, tuple[Atom, ...]], ...]:
    return tuple(
        sorted(
            (extra.number, _numbers(atoms)) for extra, atoms in version.by_extra if extra.reached
        )
    )
