"""Branch and bound: proves the best stacks of most problems in milliseconds and few branches.

Sets of versions are stored as integer bit masks, and requirements are propagated over these masks.
The search branches on undecided packages, best version first. It prunes a branch if the best
versions in it cost more than the stacks already found. Real closures take a few dozen branches.
Problems that take too many branches go to the solver (CP-SAT).

Only packages that the roots are proven to require are decided, so no stack contains a superfluous
package.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

from adviser.resolver.objective import combined_absence, combined_costs, levels_of, value_of
from adviser.resolver.problem import Atom, SearchResult, SelectionProblem

#: Name in certificates; the number grows when the search changes how it proves a result.
BRANCH_AND_BOUND = "branch and bound 2"


def search_by_branching(problem: SelectionProblem, count: int, steps: int) -> SearchResult | None:
    """Find and prove the ``count`` best stacks; ``None`` if that takes more than ``steps``.

    A step is one visit of a specifier or a requirement, about a microsecond.

    :param steps: 0 skips the search
    :returns: no stack with ``complete`` if none exists
    """
    if steps == 0:
        return None
    tree = _Tree(problem, count, steps)
    if not tree.grow():
        return None
    stacks = tuple(nodes for _, _, nodes in tree.best)
    objective = value_of(problem, stacks[0]) if stacks else None
    return SearchResult(
        stacks=tuple(map(frozenset, stacks)),
        objective=objective,
        bound=objective,
        settled=bool(stacks),
        complete=len(stacks) < count,
        branched=True,
    )


@dataclass(frozen=True, slots=True)
class _Ask:
    """Versions of a package that require an atom, always or with an extra."""

    package: int
    asking: int
    atom: Atom
    extra: Atom | None


@dataclass(slots=True)
class _Branch:
    """Branch state as bits: remaining versions by package, atoms that hold, required packages."""

    alive: list[int]
    held: int = 0
    needed: int = 0

    def without(self, package: int, versions: int) -> _Branch:
        alive = self.alive.copy()
        alive[package] &= ~versions
        return _Branch(alive, self.held, self.needed)


class _Tree:
    def __init__(self, problem: SelectionProblem, count: int, steps: int) -> None:
        self._problem = problem
        self._steps = steps
        self._count = count
        #: Cost, order among equals, and nodes of the stacks found, best first.
        self.best: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
        self._numbers = problem.by_package()
        self._bits = [0] * len(problem.nodes)
        for numbers in self._numbers:
            for place, number in enumerate(numbers):
                self._bits[number] = 1 << place
        self._read_atoms()
        self._read_asks()
        levels = levels_of(problem)
        costs = combined_costs(levels)
        #: By package, the cost of a stack without it.
        self._absence = combined_absence(levels) or [0] * len(problem.names)
        #: By package: cost and bit of every version, cheapest first.
        self._costs = [
            sorted((costs[it], self._bits[it]) for it in numbers) for numbers in self._numbers
        ]
        # Measured: packages with the most requirements decide most, so they go first.
        self._order = sorted(
            range(len(problem.names)),
            key=lambda it: (-len({ask.atom for ask in self._asks[it]}), it),
        )

    def _read_atoms(self) -> None:
        problem = self._problem
        #: By atom: its package, if any version satisfies it, and those versions.
        self._package: list[int | None] = [None] * len(problem.members)
        self._members = [0] * len(problem.members)
        #: Specifiers by package.
        self._specifiers: list[list[Atom]] = [[] for _ in problem.names]
        for atom, members in enumerate(problem.members):
            if members:
                package = problem.nodes[members[0]].package
                self._package[atom] = package
                self._members[atom] = sum(self._bits[it] for it in members)
                self._specifiers[package].append(atom)
        for package, atom, _ in problem.extras:
            self._package[atom] = package

    def _read_asks(self) -> None:
        asking_bits: dict[tuple[int, Atom, Atom | None], int] = {}
        for node, bit in zip(self._problem.nodes, self._bits, strict=True):
            asks: list[tuple[Atom, Atom | None]] = [(atom, None) for atom in node.requires]
            asks += [(atom, extra) for extra, brought in node.by_extra for atom in brought]
            for atom, extra in asks:
                key = node.package, atom, extra
                asking_bits[key] = asking_bits.get(key, 0) | bit
        self._asks: list[list[_Ask]] = [[] for _ in self._problem.names]
        #: Requirements by required atom, and by the extra that adds them.
        self._askers: list[list[_Ask]] = [[] for _ in self._problem.members]
        self._brought: list[list[_Ask]] = [[] for _ in self._problem.members]
        for (package, atom, extra), asking in asking_bits.items():
            ask = _Ask(package, asking, atom, extra)
            self._asks[package].append(ask)
            self._askers[atom].append(ask)
            if extra is not None:
                self._brought[extra].append(ask)

    def grow(self) -> bool:
        """Search all branches that can contain a best stack; false if the steps run out."""
        root = _Branch([(1 << len(numbers)) - 1 for numbers in self._numbers])
        pending = [root] if self._plant(root) else []
        while pending:
            if self._steps < 0:
                return False
            branch = pending.pop()
            if not self._bounded(branch):
                continue
            package = next((it for it in self._order if self._open(branch, it)), None)
            if package is None:
                self._stack(branch)
                continue
            cheapest = self._cheapest(branch, package)[1]
            rest = branch.alive[package] & ~cheapest
            for child in (branch.without(package, cheapest), branch.without(package, rest)):
                if self._propagated(child, [package]):
                    pending.append(child)
        return True

    def _plant(self, root: _Branch) -> bool:
        changed = list(range(len(root.alive)))
        for atom, members in enumerate(self._problem.members):
            if members == () and not self._drop(root, atom, changed):
                return False
        return all(self._hold(root, it, changed) for it in self._problem.roots) and (
            self._propagated(root, changed)
        )

    def _open(self, branch: _Branch, package: int) -> bool:
        alive = branch.alive[package]
        return bool(branch.needed >> package & 1 and alive & (alive - 1))

    def _cheapest(self, branch: _Branch, package: int) -> tuple[int, int]:
        alive = branch.alive[package]
        for entry in self._costs[package]:
            if entry[1] & alive:
                return entry
        raise AssertionError("a required package without versions")

    def _bounded(self, branch: _Branch) -> bool:
        """Drop versions that cost more than the worst kept stack allows; false if none is left."""
        if len(self.best) < self._count:
            return True
        most = self.best[-1][0]
        while True:
            # Most of the time is spent here, so that nothing is called.
            cheapest: dict[int, int] = {}
            spare = most
            for package in self._order:
                if branch.needed >> package & 1:
                    alive = branch.alive[package]
                    for cost, bit in self._costs[package]:
                        if bit & alive:
                            cheapest[package] = cost
                            spare -= cost
                            break
                elif least := self._absence[package]:
                    alive = branch.alive[package]
                    present = (cost for cost, bit in self._costs[package] if bit & alive)
                    spare -= min(least, next(present, least))
            if spare < 0:
                return False
            changed = [it for it in cheapest if self._trim(branch, it, cheapest[it] + spare)]
            if not changed:
                return True
            if not self._propagated(branch, changed):
                return False

    def _trim(self, branch: _Branch, package: int, most: int) -> bool:
        before = branch.alive[package]
        for cost, bit in reversed(self._costs[package]):
            if cost <= most:
                break
            branch.alive[package] &= ~bit
        return branch.alive[package] != before

    def _propagated(self, branch: _Branch, changed: list[int]) -> bool:
        """Propagate changes; false if a required package has no version left.

        If no version satisfies an atom any more, the versions that require it are dropped. If all
        remaining versions of a required package require an atom, the atom holds.
        """
        while changed:
            package = changed.pop()
            alive = branch.alive[package]
            self._steps -= len(self._specifiers[package]) + len(self._asks[package])
            for atom in self._specifiers[package]:
                if not alive & self._members[atom] and not self._drop(branch, atom, changed):
                    return False
            if branch.needed >> package & 1:
                for ask in self._asks[package]:
                    if (
                        not alive & ~ask.asking
                        and not branch.held >> ask.atom & 1
                        and (ask.extra is None or branch.held >> ask.extra & 1)
                        and not self._hold(branch, ask.atom, changed)
                    ):
                        return False
        return True

    def _hold(self, branch: _Branch, atom: Atom, changed: list[int]) -> bool:
        """Set an atom: require its package, or enable an extra with its requirements."""
        branch.held |= 1 << atom
        package = self._package[atom]
        if self._problem.members[atom] is not None:
            if package is None:
                return False
            branch.needed |= 1 << package
            return self._remove(branch, package, ~self._members[atom], changed, force=True)
        if package is not None:
            changed.append(package)
        return self._remove_all(
            branch, (it for it in self._brought[atom] if self._gone(branch, it.atom)), changed
        )

    def _gone(self, branch: _Branch, atom: Atom) -> bool:
        if self._problem.members[atom] is None:
            return False
        package = self._package[atom]
        return package is None or not branch.alive[package] & self._members[atom]

    def _drop(self, branch: _Branch, atom: Atom, changed: list[int]) -> bool:
        """Drop the versions that require an atom that no version satisfies."""
        active = (
            it for it in self._askers[atom] if it.extra is None or branch.held >> it.extra & 1
        )
        return self._remove_all(branch, active, changed)

    def _remove_all(self, branch: _Branch, asks: Iterable[_Ask], changed: list[int]) -> bool:
        return all(self._remove(branch, it.package, it.asking, changed) for it in asks)

    @staticmethod
    def _remove(
        branch: _Branch, package: int, versions: int, changed: list[int], *, force: bool = False
    ) -> bool:
        before = branch.alive[package]
        after = branch.alive[package] = before & ~versions
        if force or after != before:
            changed.append(package)
        return bool(after or not branch.needed >> package & 1)

    def _stack(self, branch: _Branch) -> None:
        """Keep the stack of a fully decided branch if it is one of the best."""
        if not all(self._permitted(branch, it.node, it.atoms) for it in self._problem.permits):
            return
        cost, order, nodes = 0, [0] * len(self._numbers), []
        for package, numbers in enumerate(self._numbers):
            if branch.needed >> package & 1:
                package_cost, bit = self._cheapest(branch, package)
                cost += package_cost
                order[package] = bit.bit_length()
                nodes.append(numbers[bit.bit_length() - 1])
            else:
                cost += self._absence[package]
        insort(self.best, (cost, tuple(order), tuple(nodes)))
        del self.best[self._count :]

    def _permitted(self, branch: _Branch, node: int, atoms: tuple[Atom, ...]) -> bool:
        package = self._problem.nodes[node].package
        chosen = branch.needed >> package & 1 and branch.alive[package] & self._bits[node]
        return not chosen or any(branch.held >> it & 1 for it in atoms)
