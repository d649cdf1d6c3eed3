"""The compressed problem that the searches solve: versions and requirements as integers."""

from dataclasses import dataclass, field

from model.json_documents import digest

#: Number of a specifier or an extra that something may require, or of requirements that are unknown
#: because a version is unread.
Atom = int
#: Place of a node that an unread version may have instead of a package that it may not require.
UNKNOWN_NEED = -1


@dataclass(frozen=True, slots=True)
class VersionNode:
    """A version that compression kept.

    :param package: number of its package
    :param place: position among the usable versions of the package; 0 is the newest. It is
        :data:`UNKNOWN_NEED` for a node that stands for no version
    :param first: contribution by the criteria that come before newness, at most 0
    :param newness: contribution by newness, at most 0
    :param requires: atoms that must hold if it is chosen
    :param by_extra: atom of an extra, and the atoms that must hold if that extra is required
    :param uninvited: whether only the requirement of another package can admit it: a yanked version
        or a pre-release that the request does not admit
    """

    package: int
    place: int
    first: int
    newness: int
    requires: tuple[Atom, ...]
    by_extra: tuple[tuple[Atom, tuple[Atom, ...]], ...] = ()
    uninvited: bool = False


@dataclass(frozen=True, slots=True)
class Permit:
    """A yanked version or pre-release, which may only be chosen if one of ``atoms`` holds."""

    node: int
    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class ProblemSizes:
    """Size of the problem before and after compression.

    :param versions: usable versions of all packages that the request can reach
    :param kept: versions left: of each equivalence class as many as stacks are requested
    """

    packages: int
    versions: int
    kept: int
    specifiers: int
    requirements: int


@dataclass(frozen=True, slots=True)
class SelectionProblem:
    """The optimisation problem: choose at most one version of each package.

    :param names: package names, sorted
    :param members: for each atom the nodes that satisfy it; ``None`` for an extra, and for unknown
        requirements
    :param extras: package, atom and name of each extra that is required
    :param roots: atoms that must hold
    :param permits: versions that may only be chosen if something requires them by name
    :param levels: by package, the level of the score to which its newness belongs
    :param level_count: number of levels of the score; the first is for what comes before newness
    :param costs: by node, the cost at each level, if every criterion is a level of its own; empty
        for the levels of advice
    :param absence: by package, the cost of a stack without it at each level; empty without any
    """

    names: tuple[str, ...]
    nodes: tuple[VersionNode, ...]
    members: tuple[tuple[int, ...] | None, ...]
    extras: tuple[tuple[int, Atom, str], ...]
    roots: tuple[Atom, ...]
    permits: tuple[Permit, ...]
    levels: tuple[int, ...]
    level_count: int
    sizes: ProblemSizes = field(compare=False)
    costs: tuple[tuple[int, ...], ...] = ()
    absence: tuple[tuple[int, ...], ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the problem; equal problems have equal digests."""
        of_criteria = [self.costs, self.absence] if self.costs or self.absence else []
        return digest(
            [
                self.names, self.nodes, self.members, self.extras, self.roots, self.permits,
                self.levels, self.level_count, *of_criteria,
            ]
        )  # fmt: skip

    def by_package(self) -> list[list[int]]:
        """Node numbers for each package, in the order of their places."""
        groups: list[list[int]] = [[] for _ in self.names]
        for number, node in enumerate(self.nodes):
            groups[node.package].append(number)
        return groups

    def reached(self, chosen: frozenset[int]) -> tuple[frozenset[int], frozenset[Atom]]:
        """The nodes of ``chosen`` that the roots reach, and the atoms that hold for these nodes."""
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
        required = list(node.requires)
        for extra, brought in node.by_extra:
            if extra in atoms:
                required.extend(brought)
        return required


#: Node numbers of a stack.
Nodes = frozenset[int]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """State of a search; a running search reports it repeatedly.

    :param stacks: best first
    :param objective: score of the first stack by level; ``None`` before one is found
    :param bound: upper bound of the score by level, to be compared level after level
    :param settled: whether the order of ``stacks`` is proven, ties included
    :param complete: whether no other stacks exist
    :param branched: whether branch and bound found the result without the solver
    """

    stacks: tuple[Nodes, ...] = ()
    objective: tuple[int, ...] | None = None
    bound: tuple[int, ...] | None = None
    settled: bool = False
    complete: bool = False
    branched: bool = False
