"""The packages of a compiled problem, with their versions grouped into interchangeable classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from adviser.resolver.compression import compress
from adviser.resolver.problem import Atom, SelectionProblem
from adviser.resolver.resolver_request import SearchClock
from adviser.resolver.universe import Universe

#: More versions than any package has, so that compression keeps them all.
_ALL = 1 << 30


@dataclass(frozen=True, slots=True)
class Demands:
    """Requirements on one package.

    :param admitted: classes that satisfy all of them, as bits
    :param flags: atoms among them that matter beyond ``admitted``, as bits: extras that bring
        requirements, and atoms that permit a pre-release or a yanked version
    """

    package: int
    admitted: int
    flags: int


@dataclass(frozen=True, slots=True)
class VersionClass:
    """Versions of a package with the same requirements that satisfy the same requirements.

    :param nodes: node numbers in the problem, newest first
    :param requires: requirements that always hold, one entry for each package
    :param by_extra: flag of an extra, and the requirements that it adds
    :param permits: for each condition of a pre-release or yanked version, the flags of which one
        must be set
    :param flags: all flags that this class reads
    """

    nodes: tuple[int, ...]
    requires: tuple[Demands, ...]
    by_extra: tuple[tuple[int, tuple[Demands, ...]], ...]
    permits: tuple[int, ...]
    flags: int


@dataclass(frozen=True, slots=True)
class ClassedPackage:
    """A package with its classes.

    :param reaches: packages that it can require, directly or through others, and itself, as bits
    """

    name: str
    classes: tuple[VersionClass, ...]
    reaches: int

    @property
    def version_count(self) -> int:
        """Number of versions in all classes."""
        return sum(len(it.nodes) for it in self.classes)


@dataclass(frozen=True, slots=True)
class ClassedProblem:
    """A problem in classes. Nothing is lost: a stack is a choice of classes, and of a version each.

    :param roots: requirements of the request, one entry for each package; ``None`` if one of them
        admits no version
    """

    problem: SelectionProblem
    packages: tuple[ClassedPackage, ...]
    roots: tuple[Demands, ...] | None


def closed_universe(universe: Universe) -> Universe:
    """The universe without unread versions and without versions that require unlisted packages.

    A stack may contain only versions whose metadata was read, so these versions cannot occur.
    """
    packages = {
        name: tuple(it for it in candidates if it.read)
        for name, candidates in universe.packages.items()
    }
    return replace(universe, packages=packages, unlisted=frozenset(), unread_invite=False)


def held_at(universe: Universe, versions: Mapping[str, str], varied: Iterable[str]) -> Universe:
    """The universe in which packages keep their version.

    :param versions: version by name to keep; packages without one remain free
    :param varied: packages that remain free although ``versions`` names them
    """
    free = set(varied)
    packages = {
        name: candidates
        if name in free or name not in versions
        else tuple(it for it in candidates if it.version == versions[name])
        for name, candidates in universe.packages.items()
    }
    return replace(universe, packages=packages)


def group_versions(universe: Universe, clock: SearchClock | None = None) -> ClassedProblem:
    """Group the versions of a closed universe.

    :raises OutOfTime: if the time limit is reached
    """
    return _Classes(compress(universe, _ALL, clock)).problem()


class _Classes:
    def __init__(self, problem: SelectionProblem) -> None:
        self._problem = problem
        self._package_of: dict[Atom, int] = {
            package_atom[1]: package_atom[0] for package_atom in problem.extras
        }
        self._satisfied: list[set[Atom]] = [set() for _ in problem.nodes]
        for atom, members in enumerate(problem.members):
            for node in members or ():
                self._satisfied[node].add(atom)
                self._package_of[atom] = problem.nodes[node].package
        self._permits: dict[int, list[tuple[Atom, ...]]] = {}
        for permit in problem.permits:
            self._permits.setdefault(permit.node, []).append(permit.atoms)
        self._flags = self._flagged()
        self._grouped = [self._groups(nodes) for nodes in problem.by_package()]
        #: Classes that satisfy an atom, as bits.
        self._masks: dict[Atom, int] = {}
        for groups in self._grouped:
            for place, nodes in enumerate(groups):
                for atom in self._satisfied[nodes[0]]:
                    self._masks[atom] = self._masks.get(atom, 0) | 1 << place

    def _flagged(self) -> dict[Atom, int]:
        """The bit of each atom that classes read."""
        read = {extra for node in self._problem.nodes for extra, _ in node.by_extra}
        read |= {atom for many in self._permits.values() for atoms in many for atom in atoms}
        counts: dict[int, int] = {}
        flags = {}
        # An atom without versions has no package, and never holds.
        for atom in sorted(read & self._package_of.keys()):
            package = self._package_of[atom]
            flags[atom] = 1 << counts.get(package, 0)
            counts[package] = counts.get(package, 0) + 1
        return flags

    def _groups(self, nodes: list[int]) -> list[list[int]]:
        groups: dict[tuple[object, ...], list[int]] = {}
        for number in nodes:
            node = self._problem.nodes[number]
            key = (
                node.requires, node.by_extra, frozenset(self._satisfied[number]),
                tuple(self._permits.get(number, ())),
            )  # fmt: skip
            groups.setdefault(key, []).append(number)
        return list(groups.values())

    def problem(self) -> ClassedProblem:
        made = [tuple(map(self._class, groups)) for groups in self._grouped]
        reaches = _reaches([
            {it.package for one in classes for it in _every_demand(one)} for classes in made
        ])  # fmt: skip
        packages = tuple(
            ClassedPackage(name, classes, reach)
            for name, classes, reach in zip(self._problem.names, made, reaches, strict=True)
        )
        return ClassedProblem(self._problem, packages, self._demands(self._problem.roots))

    def _class(self, nodes: list[int]) -> VersionClass:
        node = self._problem.nodes[nodes[0]]
        # Compression keeps no version with a requirement that no version satisfies.
        requires = self._demands(node.requires) or ()
        by_extra = tuple(
            (self._flags[extra], self._demands(atoms, unsatisfiable=True) or ())
            for extra, atoms in node.by_extra
        )
        permits = tuple(
            sum(self._flags.get(it, 0) for it in set(atoms))
            for atoms in self._permits.get(nodes[0], ())
        )
        flags = 0
        for bits in (*(flag for flag, _ in by_extra), *permits):
            flags |= bits
        return VersionClass(tuple(nodes), requires, by_extra, permits, flags)

    def _demands(
        self, atoms: Iterable[Atom], unsatisfiable: bool = False
    ) -> tuple[Demands, ...] | None:
        """Group atoms by package; ``None`` if one of them admits no version.

        :param unsatisfiable: return such a demand instead of ``None``
        """
        admitted: dict[int, int] = {}
        flags: dict[int, int] = {}
        for atom in atoms:
            package = self._package_of.get(atom)
            if package is None:
                return (Demands(0, 0, 0),) if unsatisfiable else None
            mask = admitted.setdefault(package, (1 << len(self._grouped[package])) - 1)
            if self._problem.members[atom] is not None:
                admitted[package] = mask & self._masks[atom]
            flags[package] = flags.get(package, 0) | self._flags.get(atom, 0)
        return tuple(Demands(it, admitted[it], flags[it]) for it in sorted(admitted))


def _every_demand(version_class: VersionClass) -> Iterable[Demands]:
    yield from version_class.requires
    for _, demands in version_class.by_extra:
        yield from demands


def _reaches(requires: list[set[int]]) -> list[int]:
    """For each package the packages that it reaches, and itself, as bits."""
    reaches = [1 << number | sum(1 << it for it in targets - {number})
               for number, targets in enumerate(requires)]  # fmt: skip
    changed = True
    while changed:
        changed = False
        for number, targets in enumerate(requires):
            before = reaches[number]
            for target in targets:
                reaches[number] |= reaches[target]
            changed = changed or reaches[number] != before
    return reaches
