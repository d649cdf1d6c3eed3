"""A universe as clauses with facts, to find out which of its facts contradict each other.

Nothing is compressed here, and what the rules of the request refuse is in it too, so that a
rule can turn out to be what stands in the way.
"""

from __future__ import annotations

from dataclasses import dataclass

from adviser.resolver.requests import Clock
from adviser.resolver.specifiers import members, names_prerelease, pins, places
from adviser.resolver.universe import Universe
from adviser.resolver.wording import Fact, Kind, facts_of_roots
from graph.candidates import Candidate, Dependency

#: Among what asks for something: the request itself.
ROOT = 0


@dataclass(frozen=True, slots=True)
class Clause:
    """One of ``literals`` holds wherever all of ``facts`` do; a negative one is a negation."""

    literals: tuple[int, ...]
    fact: int | None = None


class World:
    """The universe without compression, with what rules refuse in it, as clauses with facts.

    Literals are numbers from 1, for the solver is told of them in one place only.

    :param most: so many packages, the nearest to the request, have requirements; the others have
        none, and no version has to be asked for. What contradicts itself so, does so as a whole
    :raises OutOfTime: if it takes longer to write down
    """

    def __init__(self, universe: Universe, clock: Clock, most: int | None = None) -> None:
        self._universe = universe
        self._clock = clock
        self.facts: list[Fact] = []
        self.clauses: list[Clause] = []
        self.packages: list[list[int]] = []
        self.count = 0
        self._numbers: dict[tuple[str, ...], int] = {}
        self._fact_numbers: dict[Fact, int] = {}
        self._versions: dict[str, tuple[tuple[Candidate, ...], tuple[int, ...]]] = {}
        #: What asks for a specifier or an extra, which versions a specifier admits, and the
        #: two literals that are both true where the literal of a pair is.
        self._askers: dict[int, list[int]] = {}
        self._members: dict[int, frozenset[int]] = {}
        self._pairs: dict[int, frozenset[int]] = {}
        self._asked_of: frozenset[int] = frozenset()
        self._pending: list[str] = []
        self._add_roots()
        expanded = 0
        while self._pending and (most is None or expanded < most):
            self._expand(self._pending.pop(0))
            expanded += 1
        #: Whether nothing is left out.
        self.whole = not self._pending
        if self.whole:
            self._require_asking()

    def _add_roots(self) -> None:
        roots = sorted(self._universe.roots, key=lambda it: it.order)
        for root, told in zip(roots, facts_of_roots(self._universe), strict=True):
            fact = self._fact(told)
            for literal in self._asked(root):
                self.clauses.append(Clause((literal,), fact))
                self._askers.setdefault(literal, []).append(ROOT)

    def _asked(self, it: Dependency) -> list[int]:
        """Literals of what a dependency asks: the specifier, and each extra."""
        specifier = self._universe.asked(it)
        self._package(it.name)
        found = [self._number("address", it.name, it.url)] if it.url else []
        if it.url and found[0] not in self._askers:
            self.clauses.append(Clause((-found[0],)))
        if not it.url:
            found.append(self._specifier(it.name, specifier))
        return [*found, *(self._number("extra", it.name, extra) for extra in it.extras)]

    def _specifier(self, name: str, specifier: str) -> int:
        key = ("specifier", name, specifier)
        known = self._numbers.get(key)
        if known is None:
            known = self._number(*key)
            candidates, literals = self._versions[name]
            inside = members(specifier, tuple(it.version for it in candidates))
            self._members[known] = frozenset(literals[at] for at in places(inside))
            self.clauses.append(Clause((-known, *sorted(self._members[known]))))
        return known

    def _package(self, name: str) -> None:
        if name in self._versions:
            return
        usable = tuple(self._universe.packages.get(name, ()))
        refused = [it for it in self._universe.refused.get(name, ()) if it.candidate is not None]
        candidates = (*usable, *(it.candidate for it in refused if it.candidate))
        literals = tuple(self._number("version", it.purl) for it in candidates)
        self._versions[name] = candidates, literals
        self.packages.append(list(literals))
        for it, literal in zip(refused, literals[len(usable) :], strict=True):
            fact = self._fact(Fact(Kind.RULE, it.reason.value, name, it.rule))
            self.clauses.append(Clause((-literal,), fact))
        self._pending.append(name)

    def _expand(self, name: str) -> None:
        for candidate, literal in zip(*self._versions[name], strict=True):
            self._clock.check()
            for it in sorted(candidate.requires, key=lambda it: it.order):
                condition = [-literal]
                if it.extra is not None:
                    condition.append(-self._number("extra", name, it.extra))
                specifier = self._universe.asked(it)
                fact = self._fact(
                    Fact(Kind.REQUIRES, name, it.name, specifier, it.extras, it.extra, it.url)
                )
                for asked in self._asked(it):
                    self.clauses.append(Clause((asked, *condition), fact))
                    self._askers.setdefault(asked, []).append(self._all_of(condition))

    def _require_asking(self) -> None:
        """Pre-releases and yanked versions, once everything that asks is known."""
        special: set[int] = set()
        for name in sorted(self._versions):
            texts = [
                (key[2], n) for key, n in self._numbers.items() if key[:2] == ("specifier", name)
            ]
            usable = self._universe.packages.get(name, ())
            plain = [it for it in usable if not it.prerelease and not it.yanked]
            for it, literal in zip(*self._versions[name], strict=True):
                if it.yanked and it.purl not in self._universe.pinned:
                    asking = [number for text, number in texts if pins(text)]
                    special.update(asking)
                    fact = self._fact(Fact(Kind.YANKED, name, name, it.version))
                    self.clauses.append(Clause((-literal, *asking), fact))
                if it.prerelease and name not in self._universe.prereleases:
                    fact = self._fact(Fact(Kind.PRERELEASE, name, name, it.version))
                    for other in plain:
                        asking = [
                            number
                            for text, number in texts
                            if names_prerelease(text) or not members(text, (other.version,))
                        ]
                        special.update(asking)
                        self.clauses.append(Clause((-literal, *asking), fact))
        # What counts as asked is asked by something, and so is the extra that brings it.
        extras = {number for key, number in self._numbers.items() if key[0] == "extra"}
        self._asked_of = frozenset(special | extras if special else ())
        for number in sorted(self._asked_of):
            askers = self._askers.get(number, [])
            if ROOT not in askers:
                self.clauses.append(Clause((-number, *sorted(set(askers)))))

    def _all_of(self, condition: list[int]) -> int:
        """A literal that implies the opposite of each of these."""
        if len(condition) == 1:
            return -condition[0]
        known = self._number("both", *map(str, condition))
        self._pairs[known] = frozenset(-it for it in condition)
        self.clauses.extend(Clause((-known, -it)) for it in condition)
        return known

    def forbid_circles(self, true: frozenset[int]) -> bool:
        """Add a clause against what asks for itself alone in an assignment; whether it does.

        The same loop formula as :meth:`adviser.resolver.model.Model.unfound` adds.
        """
        loose = true - self._reached(true)
        circle = sorted(loose & self._asked_of)
        if not circle:
            return False
        support = {it for number in loose for it in self._askers.get(number, ()) if it not in loose}
        support |= {
            number
            for number, versions in self._members.items()
            if number not in true and not versions.isdisjoint(loose)
        }
        support.discard(ROOT)
        self.clauses.extend(Clause((-number, *sorted(support))) for number in circle)
        return True

    def _reached(self, true: frozenset[int]) -> set[int]:
        """The true literals for which there is a chain of others from the request."""
        reached, size = {ROOT}, 0
        while len(reached) > size:
            size = len(reached)
            for number in true - reached:
                if not reached.isdisjoint(self._askers.get(number, ())):
                    reached.add(number)
                    reached |= self._members.get(number, frozenset()) & true
                elif number in self._pairs and self._pairs[number] <= reached:
                    reached.add(number)
        return reached

    def _number(self, *key: str) -> int:
        known = self._numbers.get(key)
        if known is None:
            self.count += 1
            known = self._numbers[key] = self.count
        return known

    def _fact(self, fact: Fact) -> int:
        known = self._fact_numbers.get(fact)
        if known is None:
            known = self._fact_numbers[fact] = len(self.facts)
            self.facts.append(fact)
        return known
