"""A universe as integers: what is left of it once all that cannot matter is gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from common.formats.json_documents import digest

#: A requirement that must hold: one of a table of asked specifiers or of asked extras.
Atom = int


@dataclass(frozen=True, slots=True)
class VersionNode:
    """A version that was kept.

    :param package: its number
    :param place: among the usable versions of the package, 0 the newest
    :param score: what choosing it adds to that of a stack, never above 0
    :param requires: atoms that hold if it is chosen
    :param by_extra: an extra's atom, and what holds if it is asked of this version
    """

    package: int
    place: int
    score: int
    requires: tuple[Atom, ...]
    by_extra: tuple[tuple[Atom, tuple[Atom, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Permit:
    """A version that must be asked for: one of ``atoms`` has to hold if it is chosen."""

    node: int
    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class ProblemSizes:
    """What compression did.

    :param versions: usable ones of all packages that the request may reach
    :param kept: of these, one (or as many as stacks are wanted) of each class
    """

    packages: int
    versions: int
    kept: int
    specifiers: int
    requirements: int


@dataclass(frozen=True, slots=True)
class SelectionProblem:
    """The resolver's question.

    An atom is a number: its nodes are those that make it true. An extra has no nodes.

    :param names: of the packages, sorted
    :param members: of each atom the nodes that satisfy it; ``None`` for an extra
    :param extras: package, atom and name of each extra that is asked
    :param roots: atoms that hold
    :param permits: what has to be asked for
    """

    names: tuple[str, ...]
    nodes: tuple[VersionNode, ...]
    members: tuple[tuple[int, ...] | None, ...]
    extras: tuple[tuple[int, Atom, str], ...]
    roots: tuple[Atom, ...]
    permits: tuple[Permit, ...]
    sizes: ProblemSizes = field(compare=False)

    @property
    def digest(self) -> str:
        """Names the model: equal problems have equal digests."""
        return digest([self.names, self.nodes, self.members, self.extras, self.roots, self.permits])

    def by_package(self) -> list[list[int]]:
        """The nodes of each package, in order of place."""
        found: list[list[int]] = [[] for _ in self.names]
        for number, node in enumerate(self.nodes):
            found[node.package].append(number)
        return found

    def reached(self, chosen: frozenset[int]) -> tuple[frozenset[int], frozenset[Atom]]:
        """The nodes of ``chosen`` that the roots need, and the atoms that hold for them."""
        atoms, nodes = set[int](), set[int]()
        pending = list(self.roots)
        while pending:
            for atom in pending:
                atoms.add(atom)
                nodes.update(chosen.intersection(self.members[atom] or ()))
            pending = [
                atom
                for number in nodes
                for atom in self._asks(self.nodes[number], atoms)
                if atom not in atoms
            ]
        return frozenset(nodes), frozenset(atoms)

    @staticmethod
    def _asks(node: VersionNode, atoms: set[Atom]) -> list[Atom]:
        found = list(node.requires)
        for extra, brought in node.by_extra:
            if extra in atoms:
                found.extend(brought)
        return found


def weight_of(problem: SelectionProblem) -> int:
    """By how much one of the score outweighs all the versions that a stack may pass over."""
    nodes = problem.nodes
    return 1 + sum(nodes[numbers[-1]].place for numbers in problem.by_package() if numbers)


#: Nodes of a stack.
Nodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a search knows, at any time of it.

    :param stacks: best first
    :param objective: score of the first, ``None`` before there is one
    :param bound: no stack has a higher score
    :param settled: whether every tie up to the last of ``stacks`` is settled
    :param complete: whether there are no others
    :param branched: whether branch and bound found all of it, and no solver was asked
    """

    stacks: tuple[Nodes, ...] = ()
    objective: int | None = None
    bound: int | None = None
    settled: bool = False
    complete: bool = False
    branched: bool = False
