"""Explain why no stack meets a request: find a minimal set of contradicting facts.

Each fact (a root, a requirement of some versions, a rule of the request) becomes an assumption. The
solver names assumptions that suffice for a contradiction. Then each of these facts is left out in
turn, deepest first; if the rest still contradicts itself, the fact is dropped. The remaining set is
minimal. One thread and one seed make the result the same in every run.

Most contradictions are near the request. So narrowing the versions of required packages comes first
(:class:`_Narrowing`), and then only the requirements of the nearest packages
count. Leaving out facts adds no contradictions, so a contradiction that is found this way is real.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ortools.sat.python import cp_model

from adviser.resolver.conflict_text import (
    Fact,
    conflict_of_roots,
    described_conflict,
    facts_of_roots,
)
from adviser.resolver.resolver_request import Budget, OutOfTime, SearchClock
from adviser.resolver.results import Conflict, FactKind
from adviser.resolver.specifiers import members, names_prerelease, pins, places
from adviser.resolver.universe import Universe
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import Purl

#: Literal of the request itself, as the source of requirements.
ROOT = 0
#: Key of the literal of requirements that are unknown: of unread versions and unlisted packages.
_ANYTHING = ("anything",)


@dataclass(frozen=True, slots=True)
class Clause:
    """If ``fact`` holds, one of ``literals`` holds; a negative literal is a negation."""

    literals: tuple[int, ...]
    fact: int | None = None


class ConflictModel:
    """The uncompressed universe as clauses, each with the fact that it comes from.

    Versions that rules of the request refuse are included, so that a rule can turn out to be the
    cause of a conflict. Literals are numbers from 1.

    :param most: number of packages, nearest to the request, whose requirements count; the others
        have none, and no version needs an explicit requirement. A contradiction in this part is a
        contradiction of the whole
    :param part: the versions whose requirements count, by package; no requirement of other packages
        counts, and no version needs an explicit requirement
    :raises OutOfTime: if the time limit is reached
    """

    def __init__(
        self,
        universe: Universe,
        clock: SearchClock,
        most: int | None = None,
        part: Mapping[str, frozenset[Purl]] | None = None,
    ) -> None:
        self._universe = universe
        self._clock = clock
        self.facts: list[Fact] = []
        self.clauses: list[Clause] = []
        self.packages: list[list[int]] = []
        self.count = 0
        self._numbers: dict[tuple[str, ...], int] = {}
        self._fact_numbers: dict[Fact, int] = {}
        self._versions: dict[str, tuple[tuple[Candidate, ...], tuple[int, ...]]] = {}
        #: By literal: the literals that require this specifier or extra, the versions that this
        #: specifier admits, and the two literals that this literal of a pair implies.
        self._askers: dict[int, list[int]] = {}
        self._members: dict[int, frozenset[int]] = {}
        self._pairs: dict[int, frozenset[int]] = {}
        self._asked_of: frozenset[int] = frozenset()
        self._pending: list[str] = []
        self._add_roots()
        expanded = 0
        while self._pending and (most is None or expanded < most):
            name = self._pending.pop(0)
            if part is None:
                self._expand(name)
            elif name in part:
                self._expand_part(name, part[name])
            expanded += 1
        #: Whether the requirements of all packages are included.
        self.whole = not self._pending and part is None
        #: Whether only the requirements of given versions are included.
        self.partial = part is not None
        if self.whole:
            self._require_asking()

    def _add_roots(self) -> None:
        roots = sorted(self._universe.roots, key=lambda it: it.order)
        for root, described in zip(roots, facts_of_roots(self._universe), strict=True):
            fact = self._fact(described)
            for literal in self._literals_of(root):
                self.clauses.append(Clause((literal,), fact))
                self._askers.setdefault(literal, []).append(ROOT)

    def _literals_of(self, dependency: Dependency) -> list[int]:
        """Literals of a dependency: its specifier, and each extra."""
        if dependency.name in self._universe.unlisted:
            return [self._number(*_ANYTHING)] if self._universe.unread_invite else []
        specifier = self._universe.specifier_of(dependency)
        self._package(dependency.name)
        literals = (
            [self._number("address", dependency.name, dependency.url)] if dependency.url else []
        )
        if dependency.url and literals[0] not in self._askers:
            self.clauses.append(Clause((-literals[0],)))
        if not dependency.url:
            literals.append(self._specifier(dependency.name, specifier))
        return [
            *literals,
            *(self._number("extra", dependency.name, extra) for extra in dependency.extras),
        ]

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
        for version, literal in zip(refused, literals[len(usable) :], strict=True):
            fact = self._fact(Fact(FactKind.RULE, version.reason.value, name, version.rule))
            self.clauses.append(Clause((-literal,), fact))
        self._pending.append(name)

    def _expand(self, name: str) -> None:
        for candidate, literal in zip(*self._versions[name], strict=True):
            self._clock.check()
            if self._universe.unread_invite and not candidate.read:
                self._askers.setdefault(self._number(*_ANYTHING), []).append(literal)
            for dependency in sorted(candidate.requires, key=lambda it: it.order):
                self._require(candidate, literal, dependency)

    def _expand_part(self, name: str, part: frozenset[Purl]) -> None:
        """Expand some versions, and the same requirements of all other versions."""
        versions = list(zip(*self._versions[name], strict=True))
        shared: set[Fact] = set()
        # The versions of the part come first, because they decide which requirements count.
        for candidate, literal in sorted(versions, key=lambda it: it[0].purl not in part):
            self._clock.check()
            for dependency in sorted(candidate.requires, key=lambda it: it.order):
                if candidate.purl in part:
                    shared.add(self._required_fact(name, dependency))
                if self._required_fact(name, dependency) in shared:
                    self._require(candidate, literal, dependency)

    def _require(self, candidate: Candidate, literal: int, dependency: Dependency) -> None:
        name, condition = candidate.name, [-literal]
        if dependency.extra is not None:
            condition.append(-self._number("extra", name, dependency.extra))
        fact = self._fact(self._required_fact(name, dependency))
        for demand in self._literals_of(dependency):
            self.clauses.append(Clause((demand, *condition), fact))
            self._askers.setdefault(demand, []).append(self._all_of(condition))

    def _required_fact(self, name: str, dependency: Dependency) -> Fact:
        return Fact(
            FactKind.REQUIRES,
            name,
            dependency.name,
            self._universe.specifier_of(dependency),
            dependency.extras,
            dependency.extra,
            dependency.url,
        )

    def _require_asking(self) -> None:
        """Add the conditions for pre-releases and yanked versions, after all requirements."""
        special: set[int] = set()
        anything = [self._numbers[_ANYTHING]] if _ANYTHING in self._numbers else []
        for name in sorted(self._versions):
            texts = [
                (key[2], n) for key, n in self._numbers.items() if key[:2] == ("specifier", name)
            ]
            usable = self._universe.packages.get(name, ())
            literal_of = dict(zip((it.purl for it in self._versions[name][0]),
                                  self._versions[name][1], strict=True))  # fmt: skip
            plain = [literal_of[it.purl] for it in usable if not it.prerelease and not it.yanked]
            for candidate, literal in zip(*self._versions[name], strict=True):
                if candidate.yanked and candidate.purl not in self._universe.pinned:
                    asking = [number for text, number in texts if pins(text)] + anything
                    special.update(asking)
                    fact = self._fact(Fact(FactKind.YANKED, name, name, candidate.version))
                    self.clauses.append(Clause((-literal, *asking), fact))
                if candidate.prerelease and name not in self._universe.prereleases:
                    fact = self._fact(Fact(FactKind.PRERELEASE, name, name, candidate.version))
                    for other in plain:
                        asking = [
                            number
                            for text, number in texts
                            if names_prerelease(text) or other not in self._members[number]
                        ] + anything
                        special.update(asking)
                        self.clauses.append(Clause((-literal, *asking), fact))
        # Something must require these specifiers, and the extras that add them.
        extras = {number for key, number in self._numbers.items() if key[0] == "extra"}
        self._asked_of = frozenset(special | extras if special else ())
        for number in sorted(self._asked_of):
            askers = self._askers.get(number, [])
            if ROOT not in askers:
                self.clauses.append(Clause((-number, *sorted(set(askers)))))

    def _all_of(self, condition: list[int]) -> int:
        """A literal that implies the negation of each literal of ``condition``."""
        if len(condition) == 1:
            return -condition[0]
        known = self._number("both", *map(str, condition))
        self._pairs[known] = frozenset(-it for it in condition)
        self.clauses.extend(Clause((-known, -it)) for it in condition)
        return known

    def forbid_circles(self, true: frozenset[int]) -> bool:
        """Add a clause against literals that only require each other; false if there are none.

        The clause is the loop formula of :meth:`adviser.resolver.cp_sat_search.CpSatModel.unfound`.
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
        """The true literals that a chain of requirements connects with the request."""
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


#: Numbers of nearest packages to try before all packages.
NEAREST = (32, 256)


def conflict_of(universe: Universe, budget: Budget) -> Conflict:
    """Explain why a universe has no stack.

    :param budget: limits the search for a minimal set; the result says if it is not minimal
    """
    clock = SearchClock(budget)
    try:
        near = _Narrowing(universe, clock).conflict()
        smallest = None if near is None else _smallest_near(universe, near, clock)
        if smallest is not None:
            return described_conflict(universe, *smallest)
        for most in (*NEAREST, None):
            world = ConflictModel(universe, clock, most)
            smallest = _Smallest(world, clock).facts()
            if smallest is not None:
                return described_conflict(universe, *smallest)
            if world.whole:
                break
    except OutOfTime:
        pass
    return conflict_of_roots(universe)


def _smallest_near(
    universe: Universe, near: NearConflict, clock: SearchClock
) -> tuple[list[Fact], bool] | None:
    """The facts of a conflict in the part of the universe that narrowing found."""
    world = ConflictModel(replace(universe, roots=near.roots), clock, part=near.versions)
    return _Smallest(world, clock).facts()


class _Smallest:
    """Shrink a contradictory set by deletion until every fact is necessary."""

    def __init__(self, world: ConflictModel, clock: SearchClock) -> None:
        self._world = world
        self._clock = clock

    def facts(self) -> tuple[list[Fact], bool] | None:
        """The contradicting facts, nearest to the request first, and whether their set is minimal.

        :returns: ``None`` if no contradiction was found in time
        """
        core = self._contradictory(range(len(self._world.facts)))
        if core is None:
            return None
        minimal, needed = True, sorted(core)
        for fact in reversed(needed):
            if not self._clock.left.time_s:
                minimal = False
                break
            if fact not in needed:
                continue
            smaller = self._contradictory(it for it in needed if it != fact)
            if smaller is not None:
                needed = sorted(smaller)
        # Facts that could not be tested in time were kept, so the set may not be minimal.
        minimal = minimal and bool(self._clock.left.time_s)
        return [self._world.facts[it] for it in needed], minimal

    def _contradictory(self, facts: Iterable[int]) -> set[int] | None:
        """A subset of ``facts`` that is contradictory; ``None`` if there is none."""
        kept = sorted(set(facts))
        while True:
            model = cp_model.CpModel()
            literals = [model.new_bool_var("") for _ in range(self._world.count + 1)]
            guards = {fact: model.new_bool_var("") for fact in kept}
            self._add_clauses(model, literals, guards)
            model.add_assumptions(list(guards.values()))
            solver = self._solver()
            status = solver.solve(model)
            if status == cp_model.INFEASIBLE:
                by_index = {it.index: fact for fact, it in guards.items()}
                named = solver.sufficient_assumptions_for_infeasibility()
                return {by_index[it] for it in named}
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                return None
            true = (number for number, it in enumerate(literals) if number and solver.value(it))
            if not self._world.forbid_circles(frozenset(true)):
                return None

    def _add_clauses(
        self,
        model: cp_model.CpModel,
        literals: list[cp_model.IntVar],
        guards: Mapping[int, cp_model.IntVar],
    ) -> None:
        for clause in self._world.clauses:
            terms = [literals[it] if it > 0 else ~literals[-it] for it in clause.literals]
            if clause.fact is None:
                model.add_bool_or(terms)
            elif clause.fact in guards:
                model.add_bool_or(*terms, ~guards[clause.fact])
        for versions in self._world.packages:
            if len(versions) > 1:
                model.add_at_most_one(literals[it] for it in versions)

    def _solver(self) -> cp_model.CpSolver:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.linearization_level = 0
        solver.parameters.cp_model_probing_level = 0
        solver.parameters.symmetry_level = 0
        # Most time of a part goes into presolve, without a gain.
        solver.parameters.cp_model_presolve = not self._world.partial
        solver.parameters.max_time_in_seconds = self._clock.left.time_s
        return solver


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


class _Narrowing:
    """Narrows the versions that each required package can have.

    The requirements of the request narrow the versions of the packages that they name. A
    requirement that all versions left of a required package have in common narrows the next
    package. The package with the fewest versions left goes first, so a pinned package is the first
    to count. If a package has no version left, the requirements that narrowed its versions
    contradict each other. Not every conflict is found, but most have such a cause, and narrowing
    takes milliseconds.
    """

    def __init__(self, universe: Universe, clock: SearchClock) -> None:
        self._universe = universe
        self._roots = sorted(universe.roots, key=lambda it: it.order)
        self._clock = clock
        self._domains: dict[str, _Domain] = {}
        self._considered: dict[str, frozenset[Purl]] = {}
        self._members: dict[tuple[str, str], frozenset[int]] = {}

    def conflict(self) -> NearConflict | None:
        """The first conflict that narrowing finds.

        :raises OutOfTime: if the time limit is reached
        """
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
        """Narrow common requirements of a package's versions; returns a domain that got empty."""
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
