"""Find the smallest change of a lock that removes every removable vulnerability, without I/O.

The exact resolver proves each level of the change (:mod:`adviser.fix_universe`) minimal. For every
vulnerability that remains, it says which requirements block its removal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from adviser.advise import Resolver, UnreadVersions
from adviser.fix_universe import (
    INTRODUCED,
    YOUNG,
    FixUniverse,
    LockToFix,
    avoiding,
    fix_universe,
    without,
)
from adviser.guard import GuardResult, changes_of, guard
from adviser.resolver.relaxation import NeededReads
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import (
    Conflict,
    ConflictStep,
    Resolution,
    ResolutionStatus,
    VersionChange,
    spans,
)
from adviser.resolver.universe import Universe
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.stack_pairs import release_order
from adviser.scoring.verdicts import Verdict
from adviser.scoring.vulnerability_policy import severity_of
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, KnownVulnerability
from model.packages.environments import Environment
from model.packages.identity import Purl, same_version
from model.packages.snapshot import Snapshot
from model.text import first_few

#: Maximum number of searches for a fix that is not slower.
_MOST_SLOWER = 16
#: Maximum number of packages whose remaining vulnerabilities are explained.
_MOST_EXPLAINED = 40


@dataclass(frozen=True, slots=True)
class OpenVulnerability:
    """A vulnerability of a version of the lock, or of a fix."""

    package: str
    version: str
    id: str
    aliases: tuple[str, ...] = ()
    severity: str | None = None
    summary: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Package and identifier."""
        return self.package, self.id

    @property
    def version_key(self) -> tuple[str, str]:
        """Package and version."""
        return self.package, self.version


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why a vulnerability cannot be removed.

    :param reasons: a minimal conflict as sentences, or the vulnerabilities that would be open
        instead
    :param requirers: what requires an affected version, with the text of the requirement
    :param unblocked_by: what would make the removal possible
    :param proven: whether it is proven that nothing removes it
    """

    reasons: tuple[str, ...]
    requirers: tuple[str, ...] = ()
    unblocked_by: tuple[str, ...] = ()
    proven: bool = True


@dataclass(frozen=True, slots=True)
class Fix:
    """A changed lock.

    :param kind: ``smallest``, ``not_slower`` or ``newest``
    :param versions: by name
    :param changes: packages that differ from the lock; ``advised`` is the new version
    :param fixed: vulnerabilities of the lock that it does not have
    :param remaining: those that it still has
    :param introduced: those that only it has
    :param young: changed packages whose version is younger than the request allows
    :param upgrade: the comparison with the lock
    :param resolution: the search that found it; ``None`` if it is the advised stack
    """

    kind: str
    versions: Mapping[str, str]
    changes: tuple[VersionChange, ...]
    fixed: tuple[OpenVulnerability, ...]
    remaining: tuple[OpenVulnerability, ...]
    introduced: tuple[OpenVulnerability, ...]
    young: tuple[str, ...]
    upgrade: GuardResult
    resolution: Resolution | None = None

    @property
    def is_proven(self) -> bool:
        """Whether no smaller change leaves as few vulnerabilities open."""
        return self.resolution is not None and self.resolution.status is ResolutionStatus.OPTIMAL


@dataclass(frozen=True, slots=True)
class FixResult:
    """The fixes of a lock, best first.

    :param fixes: empty if the lock has no open vulnerability, or if none was found
    :param open: vulnerabilities of the lock that count
    :param blocked: by package and identifier, why the first fix leaves a vulnerability
    :param conflict: why no stack meets the requirements at all
    """

    universe: FixUniverse
    open: tuple[OpenVulnerability, ...]
    fixes: tuple[Fix, ...] = ()
    blocked: Mapping[tuple[str, str], Blocker] = field(default_factory=dict)
    conflict: Conflict | None = None


class FixSearch:
    """Searches the fixes of one lock over one snapshot.

    :param snapshot: has the packages of the lock among its roots; may have unread versions
    :raises UnreadVersions: if a locked version must be read first
    """

    def __init__(
        self,
        lock: LockToFix,
        snapshot: Snapshot,
        evidence: Evidence,
        environment: Environment,
        hardware: str | None,
        resolver: Resolver,
        budget: Budget | None = None,
    ) -> None:
        self._lock, self._snapshot, self._evidence = lock, snapshot, evidence
        self._guarded = partial(
            guard, lock.versions, snapshot=snapshot, evidence=evidence, environment=environment,
            hardware=hardware, vulnerabilities=lock.vulnerabilities,
        )  # fmt: skip
        self._resolver, self._budget = resolver, budget
        self.known = fix_universe(snapshot, lock)
        unread = tuple(it for it in self.known.locked.values() if not it.read)
        unlisted = tuple(sorted(self.known.universe.unlisted.intersection(lock.versions)))
        if unread or unlisted:
            raise UnreadVersions(NeededReads(unread, unlisted, unread))
        #: Vulnerabilities of the lock that count.
        self.open = tuple(
            self._described(candidate, it)
            for candidate in self.known.locked.values()
            for it in lock.counted.to_remove(candidate)
        )

    def result(self, newest: Mapping[str, str] | None = None) -> FixResult:
        """The smallest fix, the same without a settled slow-down, and another stack.

        Fixes that are equal are shown once.

        :param newest: versions of the advised stack by name
        """
        universe = self.known.universe
        if not self.open:
            return FixResult(self.known, ())
        resolution = self._resolved(universe)
        if not resolution.stacks:
            return FixResult(self.known, self.open, conflict=resolution.conflict)
        chosen = {it.purl for it in resolution.stacks[0].choices}
        if any(not it.read for them in universe.packages.values() for it in them
               if it.purl in chosen):  # fmt: skip
            # The resolver knows what to read; until then, nothing else is worth a search.
            raise UnreadVersions(NeededReads())
        smallest = self._fix("smallest", resolution.stacks[0].versions(), resolution)
        fixes = [smallest]
        if smallest.upgrade.slower and (other := self._not_slower(smallest)) is not None:
            fixes.append(other)
        if newest is not None:
            # The advice is not about groups and extras that nobody asked for.
            newest = {**self.known.beside, **newest}
            if all(changes_of(it.versions, newest) for it in fixes):
                fixes.append(self._fix("newest", newest))
        blocked = dict(self._blockers(smallest))
        return FixResult(self.known, self.open, tuple(fixes), blocked)

    def _resolved(self, universe: Universe, count: int = 1) -> Resolution:
        return self._resolver(universe, self._budget, count=count)

    def _fix(
        self, kind: str, versions: Mapping[str, str], resolution: Resolution | None = None
    ) -> Fix:
        snapshot = self._snapshot.with_old_sdists(self._snapshot.old_sdists)
        listed, others = self.known.universe.packages, snapshot.packages
        pools = ((*listed.get(name, ()), *others.get(name, ())) for name in versions)
        chosen = [
            next(it for it in pool if same_version(it.version, versions[it.name])) for pool in pools
        ]
        has = {(it.name, v.id) for it in chosen for v in it.vulnerabilities}
        changes = changes_of(self._lock.versions, versions)
        changed = {it.name for it in changes if it.advised is not None}
        contributions = self.known.universe.contributions
        return Fix(
            kind,
            versions,
            changes,
            fixed=tuple(it for it in self.open if it.key not in has),
            remaining=tuple(it for it in self.open if it.key in has),
            introduced=tuple(self._introduced_in(chosen)),
            young=tuple(
                it.name
                for it in chosen
                if it.name in changed and contributions.get(it.purl, (0,) * 4)[YOUNG]
            ),
            upgrade=self._guarded(new=versions),
            resolution=resolution,
        )

    def _not_slower(self, smallest: Fix) -> Fix | None:
        """The smallest fix of which nothing is settled to be slower; ``None`` if none was found."""
        refused, stacks, fix = dict[Purl, str](), list[Mapping[str, str]](), smallest
        for _ in range(_MOST_SLOWER):
            slower = fix.upgrade.slower
            texts = ClaimTexts((*fix.upgrade.stacks, *fix.upgrade.claims))
            named = {it.package: texts.sentence(it) for it in slower if it.package is not None}
            packages = self.known.universe.packages
            purls = {
                it.purl: named[name]
                for name in named
                for it in packages[name]
                if same_version(it.version, fix.versions.get(name))
            }
            refused.update(purls)
            if not purls:
                stacks.append(fix.versions)
            resolution = self._resolved(without(self.known.universe, refused), 1 + len(stacks))
            left = [it for it in resolution.stacks if it.versions() not in stacks]
            if not left:
                return None
            fix = self._fix("not_slower", left[0].versions(), resolution)
            if not fix.upgrade.slower:
                return fix
        return None

    def _introduced_in(self, versions: Sequence[Candidate]) -> Iterator[OpenVulnerability]:
        for candidate in versions:
            ours = self.known.locked.get(candidate.name)
            known = {it.id for it in ours.vulnerabilities} if ours else set()
            for it in self._lock.counted.introduced(candidate, known):
                yield self._described(candidate, it)

    def _described(
        self, candidate: Candidate, vulnerability: KnownVulnerability
    ) -> OpenVulnerability:
        details = self._evidence.vulnerabilities.get(vulnerability.id)
        aliases = (
            tuple(one for one in details.aliases if one != vulnerability.id) if details else ()
        )
        summary = details.summary if details else None
        severity = severity_of(vulnerability)
        return OpenVulnerability(
            candidate.name, candidate.version, vulnerability.id, aliases,
            severity.value if severity else None, summary,
        )  # fmt: skip

    def _blockers(self, fix: Fix) -> Iterator[tuple[tuple[str, str], Blocker]]:
        """Why each vulnerability remains, as far as there are not too many."""
        reasons: dict[frozenset[Purl], Blocker] = {}
        for vulnerability in fix.remaining:
            affected = frozenset(
                one.purl
                for one in self.known.universe.packages[vulnerability.package]
                if any(v.id == vulnerability.id for v in one.vulnerabilities)
            )
            if affected not in reasons and len(reasons) < _MOST_EXPLAINED:
                reasons[affected] = self._blocker(vulnerability, affected, fix)
            if affected in reasons:
                yield vulnerability.key, reasons[affected]

    def _blocker(
        self, vulnerability: OpenVulnerability, affected: Collection[Purl], fix: Fix
    ) -> Blocker:
        """Why one vulnerability remains: a conflict, or others that would be open instead."""
        resolution = self._resolved(avoiding(self.known.universe, affected))
        if resolution.objective is None:
            return Blocker(("there was no time to find out",), proven=False)
        other = self._fix("other", resolution.stacks[0].versions(), resolution)
        proven = resolution.status is ResolutionStatus.OPTIMAL
        if vulnerability.key in {one.key for one in other.remaining} or len(other.introduced) > len(
            fix.introduced
        ):
            refused = dict.fromkeys(affected, f"{vulnerability.package} without {vulnerability.id}")
            if not fix.introduced:
                refused |= self._introducing()
            universe = without(self.known.universe, refused)
            if (conflict := self._resolved(universe).conflict) is not None:
                return self._of_conflict(vulnerability, universe, conflict)
            names = [f"{one.id} of {one.package} {one.version}" for one in other.introduced]
            return Blocker((f"its removal would introduce {first_few(names, 5)}",), proven=proven)
        before = {one.key for one in fix.remaining}
        gained = [one for one in other.remaining if one.key not in before]
        names = [f"{one.id} of {one.package} {one.version}" for one in gained]
        return Blocker(
            (f"{first_few(names, 5)} would remain instead",), proven=proven and bool(gained)
        )

    def _introducing(self) -> dict[Purl, str]:
        """The versions with a vulnerability that the lock does not have, with a rule for each."""
        universe = self.known.universe
        versions = [
            it
            for them in universe.packages.values()
            for it in them
            if (values := universe.contributions.get(it.purl)) and values[INTRODUCED]
        ]
        first = {it.version_key: it for it in self._introduced_in(versions)}
        return {it.purl: f"{it.name} without {first[it.name, it.version].id}" for it in versions}

    def _of_conflict(
        self, vulnerability: OpenVulnerability, universe: Universe, conflict: Conflict
    ) -> Blocker:
        name, free = vulnerability.package, self._unaffected(vulnerability, universe)
        on_it = [step for step in conflict.steps if step.required == name and step.kind != "rule"]
        sentences = [self._sentence(step) for step in conflict.steps]
        sentences += [
            f"{one.name} {spans(one.versions)}: {one.message}"
            for one in conflict.accounts
            if one.step is None and one.name == name
        ]
        unblocked = []
        for step in conflict.steps:
            if step.kind == "asked" and step.specifier:
                unblocked.append(
                    f"a wider requirement of the project than {step.required}{step.specifier}"
                )
            elif step.kind == "rule" and " without " not in step.specifier:
                unblocked.append(f"a wider bound than {step.specifier}")
            elif step.kind == "rule" and step.name != name:
                unblocked.append(f"a release of {step.specifier}")
            elif free is not None and step.kind == "requires" and step.required == name:
                unblocked.append(f"a release of {step.name} that admits {name} {free}")
        if free is None and not unblocked:
            unblocked.append(
                f"a release of {name} without {vulnerability.id} that can be installed here"
            )
        return Blocker(
            tuple(sentences),
            tuple(self._requirer(step) for step in on_it),
            tuple(dict.fromkeys(unblocked)),
            conflict.minimal,
        )

    def _unaffected(self, vulnerability: OpenVulnerability, universe: Universe) -> str | None:
        """The nearest newer version without a vulnerability, or else the newest older one."""
        ours = release_order(self.known.locked[vulnerability.package].purl)[0]
        free = [
            one for one in universe.packages.get(vulnerability.package, ()) if not one.prerelease
        ]
        newer = [one for one in free if release_order(one.purl)[0] > ours]
        return next((one.version for one in newer[-1:] or free), None)

    def _sentence(self, step: ConflictStep) -> str:
        if step.kind == "rule" and step.specifier.startswith(f"{step.name} without "):
            return f"a fix must have {step.specifier}"
        if step.kind == "asked" and step.required in self.known.assumed:
            return f"the lock has {step.required}, which nothing else in it requires"
        if step.kind == "asked":
            return f"the project requires {step.required}{step.specifier}"
        return step.message

    def _requirer(self, step: ConflictStep) -> str:
        wanted = f"{step.required}{step.specifier}"
        who = "the project" if step.kind == "asked" else f"{step.name} {spans(step.versions)}"
        return f"{who} requires {wanted}"


def settling_command(fix: Fix, name: str) -> str | None:
    """The command whose measurements would settle the speed of a change, if it is not settled."""
    missing = (it.remedy for it in fix.upgrade.missing if it.package == name and it.remedy)
    return next(missing, None)


def verdict_of(fix: Fix, name: str) -> str:
    """``slower``, ``faster``, ``equivalent``, ``undetermined`` or ``not measured``."""
    upgrade = fix.upgrade
    mine = [it.verdict for it in upgrade.claims if it.package == name]
    for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.EQUIVALENT):
        if verdict in mine:
            return verdict.value
    undetermined = any(it.package == name for it in upgrade.undetermined)
    return Verdict.UNDETERMINED.value if undetermined else "not measured"
