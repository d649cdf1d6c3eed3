"""Find the smallest change of a lock that removes every removable vulnerability, without I/O.

The exact resolver proves each level of the change (:mod:`adviser.fix_universe`) minimal. For every
remaining vulnerability, it names the requirements that block its removal.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from adviser.advise import UnreadVersions
from adviser.fix_universe import (
    INTRODUCED,
    LEVELS,
    YOUNG,
    FixUniverse,
    LockToFix,
    fix_universe,
    without,
)
from adviser.guard import GuardResult, guard
from adviser.resolver.listed_versions import NeededReads, UniverseResolver
from adviser.resolver.results import (
    Conflict,
    ConflictStep,
    FactKind,
    Resolution,
    ResolutionStatus,
    spans,
)
from adviser.resolver.universe import RequestRule, Universe
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import severity_of
from adviser.scoring.stack_pairs import release_order
from adviser.scoring.verdicts import Verdict
from adviser.vex import VexStatement
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, KnownVulnerability
from model.packages.environments import Environment
from model.packages.identity import Purl, VersionChange, changes_between, same_version
from model.packages.snapshot import Snapshot
from model.text import first_few

#: Maximum number of searches for a fix that is not slower.
_MOST_SLOWER = 16
#: Maximum number of packages whose remaining vulnerabilities are explained.
_MOST_EXPLAINED = 40
#: What a proof rests on if versions were not read: for whether they may be chosen, and what for.
UNINVITED = "versions that were not read ask for no pre-release and no yanked version"
ASSUMPTION = (
    f"{UNINVITED}, and require no locked packages but those that read versions of the same package"
    " require"
)
#: Verdict of a change that was not measured on this hardware.
NOT_MEASURED = "not measured"
#: Verdicts that more measurements would change.
UNSETTLED = frozenset({NOT_MEASURED, Verdict.UNDETERMINED.value})


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why a vulnerability cannot be removed.

    :param reasons: a minimal conflict as sentences, or the vulnerabilities that would be open
        instead
    :param requirers: packages that require an affected version, with the text of the requirement
    :param unblocked_by: changes that would make the removal possible
    :param proven: whether the search proved that no change removes it
    """

    reasons: tuple[str, ...]
    requirers: tuple[str, ...] = ()
    unblocked_by: tuple[str, ...] = ()
    proven: bool = True


@dataclass(frozen=True, slots=True)
class OpenVulnerability:
    """A vulnerability of a version of the lock, or of a fix.

    :param vex: VEX statement on it
    :param blocked_by: why the smallest fix leaves it; ``None`` if the fix removes it, or if too
        many remain
    """

    package: str
    version: str
    id: str
    aliases: tuple[str, ...] = ()
    severity: str | None = None
    summary: str | None = None
    vex: VexStatement | None = None
    blocked_by: Blocker | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Package and identifier."""
        return self.package, self.id

    @property
    def text(self) -> str:
        """``CVE-2024-1 (high) of jinja2 3.1.2``."""
        return f"{self.id} ({self.severity or 'unrated'}) of {self.package} {self.version}"


@dataclass(frozen=True, slots=True)
class ChangedPackage(VersionChange):
    """A package that a fix changes, adds or drops.

    :param verdict: on its speed against the locked version here: ``slower``, ``faster``,
        ``equivalent``, ``undetermined`` or ``not measured``; ``None`` if it is added or dropped
    :param settled_by: the command whose measurements would settle the verdict
    """

    verdict: str | None
    settled_by: str | None = None


@dataclass(frozen=True, slots=True)
class FixProof:
    """The proof of a fix.

    :param status: ``optimal`` if no fix has smaller numbers
    :param numbers: of the fix, by name, in their order
    :param at_least: lower bounds of the numbers, compared in order; equal to them if proven
    :param assumption: assumption of the proof; ``None`` if it holds for all listed versions
    """

    status: ResolutionStatus
    numbers: Mapping[str, int]
    at_least: Mapping[str, int]
    solver: str
    assumption: str | None


@dataclass(frozen=True, slots=True)
class Fix:
    """A changed lock.

    :param kind: ``smallest``, ``not_slower`` or ``newest``
    :param fixed: vulnerabilities that the original lock has and the changed one does not
    :param remaining: vulnerabilities that both locks have
    :param introduced: vulnerabilities that the changed lock has and the original does not
    :param younger_than_allowed: changed packages whose version is younger than the request allows
    :param slower: packages that are settled to be slower; ``None`` stands for the whole lock
    :param verdict: on the speed of the whole lock, as for a package
    :param versions: by name
    :param proof: ``None`` for the advised stack, which is no smallest change
    """

    kind: str
    changed: tuple[ChangedPackage, ...]
    fixed: tuple[OpenVulnerability, ...]
    remaining: tuple[OpenVulnerability, ...]
    introduced: tuple[OpenVulnerability, ...]
    younger_than_allowed: tuple[str, ...]
    slower: tuple[str | None, ...]
    verdict: str
    versions: Mapping[str, str]
    proof: FixProof | None = None

    @property
    def is_proven(self) -> bool:
        """Whether no smaller change leaves as few vulnerabilities open."""
        return self.proof is not None and self.proof.status is ResolutionStatus.OPTIMAL


@dataclass(frozen=True, slots=True)
class FixResult:
    """The fixes of a lock, best first.

    :param open: vulnerabilities of the lock that count
    :param fixes: empty if the lock has no open vulnerability, or if none was found
    :param resolution: the search that found the first fix
    :param proven_in: the universe in which the first fix is proven
    :param conflict: why no stack meets the requirements at all
    :param unread: what was not read of the lock and the conflict; if there is any, nothing is
        proven
    :param closed: vulnerabilities of the lock that documents close: they are accepted, for example
    :param not_counted: how many of its vulnerabilities the options leave out
    """

    universe: FixUniverse
    open: tuple[OpenVulnerability, ...]
    fixes: tuple[Fix, ...] = ()
    resolution: Resolution | None = None
    proven_in: Universe | None = None
    conflict: Conflict | None = None
    unread: tuple[str, ...] = ()
    closed: tuple[OpenVulnerability, ...] = ()
    not_counted: int = 0


class FixSearch:
    """Searches the fixes of one lock over one snapshot.

    :param snapshot: has the packages of the lock among its roots; may have unread versions
    :param resolver: may note versions that must be read before its answers are proven
    :param alone: solves without notes, to find out whether the numbers stay the smallest if unread
        versions may require any package; ``None`` to assume so
    :raises UnreadVersions: if a locked version must be read first
    """

    def __init__(
        self,
        lock: LockToFix,
        snapshot: Snapshot,
        evidence: Evidence,
        environment: Environment,
        hardware: str | None,
        resolver: UniverseResolver,
        alone: UniverseResolver | None = None,
    ) -> None:
        self._lock, self.snapshot, self.evidence = lock, snapshot, evidence
        self._guarded = partial(
            guard, lock.versions, snapshot=snapshot, evidence=evidence, environment=environment,
            hardware=hardware, vulnerabilities=lock.vulnerabilities,
        )  # fmt: skip
        self._resolved, self._alone = resolver, alone
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
        closing = lock.counted.vex.closing
        self._closed = tuple(
            self._described(candidate, it)
            for candidate in self.known.locked.values()
            for it in candidate.vulnerabilities
            if closing(candidate.name, candidate.version, it.id) is not None
        )
        every = sum(len(it.vulnerabilities) for it in self.known.locked.values())
        self._unfixed = FixResult(
            self.known, self.open, unread=self._not_read(), closed=self._closed,
            not_counted=every - len(self.open) - len(self._closed),
        )  # fmt: skip

    def result(self) -> FixResult:
        """The smallest fix and, if it differs, the smallest without a settled slow-down."""
        universe = self.known.universe
        if not self.open:
            return self._unfixed
        resolution = self._resolved(universe)
        if not resolution.stacks:
            conflict = resolution.conflict
            return replace(self._unfixed, conflict=conflict, unread=self._not_read(conflict))
        chosen = {it.purl for it in resolution.stacks[0].choices}
        if any(not it.read for them in universe.packages.values() for it in them
               if it.purl in chosen):  # fmt: skip
            # The resolver knows what to read; until then, nothing else is worth a search.
            raise UnreadVersions(NeededReads())
        # The widest universe in which the best stack of this universe is proven the best.
        wider = replace(universe, unread_keep_all=True)
        least = self._alone(wider).bound if self._alone and _unread(universe) else None
        is_wide = least is not None and least == resolution.objective
        proven_in = wider if is_wide else universe
        smallest = self._fix("smallest", resolution.stacks[0].versions(), resolution, proven_in)
        blockers = dict(self._blockers(smallest))
        remaining = (replace(it, blocked_by=blockers.get(it.key)) for it in smallest.remaining)
        fixes = [replace(smallest, remaining=tuple(remaining))]
        if smallest.slower and (other := self._not_slower(smallest)) is not None:
            fixes.append(other)
        return replace(
            self._unfixed, fixes=tuple(fixes), resolution=resolution, proven_in=proven_in
        )

    def _not_read(self, conflict: Conflict | None = None) -> tuple[str, ...]:
        """What was not read of the lock and of a conflict, so that nothing is proven."""
        return self.snapshot.unread_texts(
            {*self._lock.versions, *(conflict.names if conflict else ())}
        )

    def with_newest(self, result: FixResult, newest: Mapping[str, str]) -> FixResult:
        """A result for the same lock, with the advised stack as a further fix if it differs.

        :param newest: versions of the advised stack by name
        """
        # The advice is not about groups and extras that nobody asked for.
        newest = {**self.known.beside, **newest}
        if not all(changes_between(it.versions, newest) for it in result.fixes):
            return result
        return replace(result, fixes=(*result.fixes, self._fix("newest", newest)))

    def _fix(
        self,
        kind: str,
        versions: Mapping[str, str],
        resolution: Resolution | None = None,
        proven_in: Universe | None = None,
    ) -> Fix:
        """
        :param resolution: has the stack of these versions
        """
        listed = self.known.universe.packages
        others = self.snapshot.with_old_sdists(self.snapshot.old_sdists).packages
        pools = ((*listed.get(name, ()), *others.get(name, ())) for name in versions)
        chosen = [
            next(it for it in pool if same_version(it.version, versions[it.name])) for pool in pools
        ]
        has = {(it.name, one) for it in chosen for one in self._lock.counted.known(it)}
        changes = changes_between(self._lock.versions, versions)
        upgrade = self._guarded(new=versions)
        verdicts = {it.name: _verdict(upgrade, it.name) for it in changes if it.new and it.old}
        commands = {
            it.package: it.remedy
            for it in upgrade.missing
            if it.remedy and verdicts.get(it.package or "") in UNSETTLED
        }
        whole = changes[0].name if len(changes) == 1 else None
        costs = self.known.universe.contributions
        return Fix(
            kind,
            changed=tuple(
                ChangedPackage(
                    it.name, it.old, it.new, verdicts.get(it.name), commands.get(it.name)
                )
                for it in changes
            ),
            fixed=tuple(it for it in self.open if it.key not in has),
            remaining=tuple(it for it in self.open if it.key in has),
            introduced=tuple(self._introduced_in(chosen)),
            younger_than_allowed=tuple(
                it.name for it in chosen if it.purl in costs and costs[it.purl][YOUNG]
            ),
            slower=tuple(it.package for it in upgrade.slower),
            verdict=_verdict(upgrade, whole) if changes else Verdict.EQUIVALENT.value,
            versions=dict(sorted(versions.items())),
            proof=self._proof(versions, resolution, proven_in) if resolution else None,
        )

    def _proof(
        self, versions: Mapping[str, str], resolution: Resolution, proven_in: Universe | None
    ) -> FixProof:
        """The proof of a search about its stack with these versions."""
        universe = proven_in or self.known.universe
        stack = next(it for it in resolution.stacks if it.versions() == versions)
        status, least = resolution.status, resolution.bound or stack.levels
        if self._unfixed.unread:
            status, least = ResolutionStatus.FEASIBLE, (0,) * len(LEVELS)
        elif status is ResolutionStatus.OPTIMAL:
            least = stack.levels
        numbers, at_least = (
            dict(zip(LEVELS, (-it for it in them), strict=True)) for them in (stack.levels, least)
        )
        assumed = UNINVITED if universe.unread_keep_all else ASSUMPTION
        assumption = assumed if _unread(universe) else None
        return FixProof(status, numbers, at_least, resolution.solver, assumption)

    def _not_slower(self, fix: Fix) -> Fix | None:
        """The smallest fix without settled slow-downs; ``None`` if none was found."""
        packages, refused, whole = self.known.universe.packages, dict[Purl, str](), []
        for _ in range(_MOST_SLOWER):
            upgrade = self._guarded(new=fix.versions)
            texts = ClaimTexts((*upgrade.stacks, *upgrade.claims))
            slower = {it.package: texts.sentence(it) for it in upgrade.slower}
            named = {
                it.purl: sentence
                for name, sentence in slower.items()
                for it in packages.get(name or "", ())
                if same_version(it.version, fix.versions.get(it.name))
            }
            refused.update(named)
            whole += [] if named else [fix.versions]
            resolution = self._resolved(without(self.known.universe, refused), count=1 + len(whole))
            left = [it.versions() for it in resolution.stacks if it.versions() not in whole]
            if not left:
                return None
            fix = self._fix("not_slower", left[0], resolution)
            if not fix.slower:
                return fix
        return None

    def _introduced_in(self, versions: Sequence[Candidate]) -> Iterator[OpenVulnerability]:
        for candidate in versions:
            ours = self.known.locked.get(candidate.name)
            known = self._lock.counted.known(ours) if ours else ()
            for it in self._lock.counted.introduced(candidate, known):
                yield self._described(candidate, it)

    def _described(
        self, candidate: Candidate, vulnerability: KnownVulnerability
    ) -> OpenVulnerability:
        details = self.evidence.vulnerabilities.get(vulnerability.id)
        aliases = (
            tuple(one for one in details.aliases if one != vulnerability.id) if details else ()
        )
        summary = details.summary if details else None
        severity = severity_of(vulnerability)
        return OpenVulnerability(
            candidate.name, candidate.version, vulnerability.id, aliases,
            severity.value if severity else None, summary,
            self._lock.counted.vex.on(candidate.name, candidate.version, vulnerability.id),
        )  # fmt: skip

    def _blockers(self, fix: Fix) -> Iterator[tuple[tuple[str, str], Blocker]]:
        """Why each vulnerability remains, unless there are too many."""
        reasons: dict[frozenset[Purl], Blocker] = {}
        for vulnerability in fix.remaining:
            affected = frozenset(
                one.purl
                for one in self.known.universe.packages[vulnerability.package]
                if vulnerability.id in self._lock.counted.known(one)
            )
            if affected not in reasons and len(reasons) < _MOST_EXPLAINED:
                reasons[affected] = self._blocker(vulnerability, affected, fix)
            if affected in reasons:
                yield vulnerability.key, reasons[affected]

    def _blocker(
        self, vulnerability: OpenVulnerability, affected: Collection[Purl], fix: Fix
    ) -> Blocker:
        """Why one vulnerability remains: a conflict, or vulnerabilities that would replace it."""
        refused = dict.fromkeys(affected, f"{vulnerability.package} without {vulnerability.id}")
        if not fix.introduced:
            refused |= self._introducing()
        universe = without(self.known.universe, refused)
        resolution = self._resolved(universe)
        if resolution.conflict is not None:
            return self._of_conflict(vulnerability, universe, resolution.conflict)
        if not resolution.stacks:
            return Blocker(("there was no time to find out",), proven=False)
        other = self._fix("other", resolution.stacks[0].versions(), resolution)
        before = {one.key for one in (*fix.remaining, *fix.introduced)}
        gained = [it.text for it in (*other.introduced, *other.remaining) if it.key not in before]
        proven = resolution.status is ResolutionStatus.OPTIMAL and not self._unfixed.unread
        instead = f"{first_few(gained, 5)} would be open instead"
        return Blocker((instead,), proven=proven and bool(gained))

    def _introducing(self) -> dict[Purl, str]:
        """The versions with a vulnerability that the lock does not have, with a rule for each."""
        universe = self.known.universe
        versions = [
            it
            for them in universe.packages.values()
            for it in them
            if (values := universe.contributions.get(it.purl)) and values[INTRODUCED]
        ]
        first = {(it.package, it.version): it for it in self._introduced_in(versions)}
        return {it.purl: f"{it.name} without {first[it.name, it.version].id}" for it in versions}

    def _of_conflict(
        self, vulnerability: OpenVulnerability, universe: Universe, conflict: Conflict
    ) -> Blocker:
        name, free = vulnerability.package, self._unaffected(vulnerability, universe)
        on_it = [
            it for it in conflict.steps if it.required == name and it.kind is not FactKind.RULE
        ]
        sentences = [self._sentence(step) for step in conflict.steps]
        # If nothing limits the package, nothing else says what is the matter with its versions.
        limited = any(
            it.specifier and not it.specifier.startswith(f"{name} without ")
            for it in conflict.steps
            if name in (it.name, it.required)
        )
        sentences += [
            f"{one.name} {spans(one.versions)}: {one.message}"
            for one in conflict.accounts
            if free is None and not limited and one.step is None and one.name == name
        ]
        unblocked = []
        for step in conflict.steps:
            if step.kind is FactKind.RULE and step.specifier == RequestRule.POLICY:
                continue
            if step.kind is FactKind.ASKED and step.specifier:
                unblocked.append(
                    f"a wider requirement of the project than {step.required}{step.specifier}"
                )
            elif step.kind is FactKind.RULE and " without " not in step.specifier:
                whose = self._lock.bounds.get(step.specifier)
                bound = f"requirement of {whose}" if whose else "bound"
                unblocked.append(f"a wider {bound} than {step.specifier}")
            elif step.kind is FactKind.RULE and step.name != name:
                unblocked.append(f"a release of {step.specifier}")
            elif free is not None and step.kind is FactKind.REQUIRES and step.required == name:
                unblocked.append(f"a release of {step.name} that admits {name} {free}")
        if name in self.known.unknown and len(self.known.universe.packages[name]) == 1:
            unblocked.append(
                f"another version of {name}: none is known here, and --fetch reads more"
            )
        elif free is None and not unblocked:
            unblocked.append(
                f"a release of {name} without {vulnerability.id} that can be installed here"
            )
        return Blocker(
            tuple(sentences),
            tuple(self._requirer(step) for step in on_it),
            tuple(dict.fromkeys(unblocked)),
            conflict.minimal and not self._not_read(conflict),
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
        if step.kind is FactKind.RULE and step.specifier.startswith(f"{step.name} without "):
            return f"a fix must have {step.specifier}"
        if step.kind is FactKind.RULE and step.specifier == RequestRule.POLICY:
            return f"no fix has a yanked version of {step.name}"
        if step.kind is FactKind.RULE and (whose := self._lock.bounds.get(step.specifier)):
            return f"{whose} requires {step.specifier}"
        if step.kind is FactKind.ASKED and step.required in self.known.assumed:
            return f"the lock has {step.required}, which nothing else in it requires"
        if step.kind is FactKind.ASKED:
            return f"the project requires {step.required}{step.specifier}"
        return step.message

    def _requirer(self, step: ConflictStep) -> str:
        by_project = step.kind is FactKind.ASKED
        who = "the project" if by_project else f"{step.name} {spans(step.versions)}"
        return f"{who} requires {step.required}{step.specifier}"


def _unread(universe: Universe) -> bool:
    return any(not it.read for them in universe.packages.values() for it in them)


def _verdict(upgrade: GuardResult, name: str | None) -> str:
    """The verdict on a package, or on the whole lock if it is ``None``."""
    claims = [it for it in (*upgrade.stacks, *upgrade.claims) if it.package == name]
    verdicts = {it.verdict for it in claims}
    for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.EQUIVALENT):
        if verdict in verdicts:
            return verdict.value
    undetermined = any(it.package == name for it in upgrade.undetermined)
    return Verdict.UNDETERMINED.value if undetermined else NOT_MEASURED
