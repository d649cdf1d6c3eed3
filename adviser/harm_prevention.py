"""Keep advice from harm: no stack is advised in which ``thoth guard`` would find harm.

Stacks are compared with the project's lock. A version with a vulnerability that the lock does not
have, a yanked version, and a version or stack that is settled to be slower are not chosen. If no
other stack is left, the lock's versions are kept. Without a lock, speed is compared with the stack
that was measured most often, and with the fastest stack by evidence about whole stacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adviser.advice_request import StackRequest
from adviser.guard import GuardResult, guard
from adviser.resolver.results import Resolution, ResolutionStatus, ResolvedStack
from adviser.resolver.universe import Universe
from adviser.scoring.assessment_types import Assessment, Claim, Premises
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.criteria import AllowList
from adviser.scoring.stack_pairs import name_of, release_order, version_of_purl
from adviser.scoring.target import OwnBenchmarks, Target
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, Dependency
from model.packages.identity import Purl, same_version
from model.packages.snapshot import Snapshot

#: Maximum number of slower stacks that are passed over before the project's versions are kept.
MOST_SLOWER_STACKS = 16
#: Maximum number of contexts that are tried; effects that agree between contexts need two.
_MOST_CONTEXTS = 4


def pins_of(versions: Mapping[str, str]) -> tuple[Dependency, ...]:
    """Constraints that keep these versions, given by name."""
    return tuple(Dependency(name, f"=={version}") for name, version in versions.items())


def harmful_versions(
    snapshot: Snapshot,
    evidence: Evidence,
    locked: Mapping[str, str] | None,
    premises: Premises,
    allowed: Collection[str],
) -> dict[Purl, str]:
    """Candidates that would do harm in place of the project's version, with the reason.

    They are yanked, have a vulnerability that the project's version does not have, or are settled
    to be slower.

    :param locked: the project's versions by name
    :param allowed: identifiers of vulnerabilities that the request accepts
    """
    harmful = {} if premises.speed_accepted else dict(premises.slower)
    if locked is None or premises.harm_accepted:
        return harmful
    accepted = AllowList(allowed, evidence.vulnerabilities)
    for name, candidates in snapshot.packages.items():
        ours = locked.get(name)
        own = next((it for it in candidates if same_version(it.version, ours)), None)
        known = {it.id for it in own.vulnerabilities} if own else set()
        unlike = f", unlike the project's {name} {ours}" if own else ""
        for candidate in candidates:
            if candidate is not own and (reason := _harm(candidate, known, accepted)):
                harmful[candidate.purl] = f"{reason}{unlike}"
    return harmful


def _harm(candidate: Candidate, known: Collection[str], allowed: AllowList) -> str | None:
    if candidate.yanked:
        return "its publisher yanked it"
    new = [it for it in candidate.vulnerabilities if it.id not in known and not allowed.accepts(it)]
    if not new:
        return None
    first = new[0]
    more = f" and {len(new) - 1} more" if new[1:] else ""
    return f"it has {first.id} ({first.severity or 'unrated'}){more}"


class PremiseSearch:
    """Searches, from one resolution to the next, for the premises of the advice.

    :ivar premises: the premises of the next resolution
    """

    def __init__(self, request: StackRequest, premises: Premises) -> None:
        self._request = request
        self.premises = premises
        self._contexts: list[tuple[Purl, ...]] = []

    @property
    def count(self) -> int:
        """The number of stacks to resolve."""
        return self._request.options.count + len(self.premises.slower_stacks)

    def harmless(self, resolution: Resolution) -> Resolution:
        """The resolution without the stacks that are known to be slower than the project's."""
        slower = () if self.premises.speed_accepted else self.premises.slower_stacks
        if not slower or not resolution.stacks:
            return resolution
        left = tuple(it for it in resolution.stacks if it.versions() not in slower)
        left = left[: self._request.options.count]
        if not left:
            infeasible = ResolutionStatus.INFEASIBLE
            return replace(resolution, status=infeasible, stacks=(), objective=None, bound=None)
        optimal = resolution.status is ResolutionStatus.OPTIMAL
        levels = left[0].levels
        bound = levels if optimal else resolution.bound
        return replace(resolution, stacks=left, objective=levels, bound=bound)

    def continues(self, snapshot: Snapshot, evidence: Evidence, result: FoundStacks) -> bool:
        """Whether another resolution is needed, with changed premises."""
        premises, stacks = self.premises, result.resolution.stacks
        if not stacks:
            infeasible = result.resolution.status is ResolutionStatus.INFEASIBLE
            return infeasible and self._accepts_more(result.assessment)
        context = tuple(sorted(it.purl for it in stacks[0].choices))
        several = any(it.contexts for it in result.assessment.choices.values())
        if several and context not in self._contexts and len(self._contexts) < _MOST_CONTEXTS:
            self._contexts.append(context)
            self.premises = replace(premises, context=context)
            return True
        if premises.speed_accepted or premises.kept or not evidence.readings:
            return False
        measures = self._measures(snapshot, evidence, result)
        for number, stack in enumerate(stacks):
            harm = self._harm_in(stack.versions(), result.universe, evidence)
            for versions, harm_accepted in measures:
                if not harm_accepted <= harm:
                    continue  # speed never buys a vulnerability
                guarded, slower = self._guarded(versions, stack.versions(), snapshot, evidence)
                if slower:
                    texts = ClaimTexts((*guarded.stacks, *guarded.claims))
                    first = number == 0
                    return self._leaves_out(stack, slower, texts, result.assessment, first=first)
        return False

    def _guarded(
        self, old: Mapping[str, str], new: Mapping[str, str], snapshot: Snapshot, evidence: Evidence
    ) -> tuple[GuardResult, list[Claim]]:
        """The result of ``guard``, and its claims of slowness that count."""
        environment, hardware = self._request.environment, self._request.hardware
        guarded = guard(old, new, snapshot, evidence, environment, hardware)
        return guarded, _slower(guarded, OwnBenchmarks(evidence, self._request.target))

    def _measures(
        self, snapshot: Snapshot, evidence: Evidence, result: FoundStacks
    ) -> list[tuple[Mapping[str, str], frozenset[str]]]:
        """The stacks that no advice may be slower than, each with its harm.

        This is the project's lock. Without one, it is the stack that was measured most often, and
        the fastest stack by a settled claim that no single package explains.
        """
        if self._request.locked is not None:
            return [(self._request.locked, frozenset())]
        stacks: list[dict[str, str]] = []
        if (often := _reference(evidence, result.universe, self._request.target)) is not None:
            stacks.append(often)
        fastest = _fastest(evidence, result)
        if fastest is not None and not (
            often and self._guarded(often, fastest, snapshot, evidence)[1]
        ):
            stacks.append(fastest)
        return [(it, self._harm_in(it, result.universe, evidence)) for it in stacks]

    def _harm_in(
        self, versions: Mapping[str, str], universe: Universe, evidence: Evidence
    ) -> frozenset[str]:
        """The vulnerabilities of a stack that the request does not accept, and yanked versions."""
        allowed = AllowList(self._request.options.allowed_vulnerabilities, evidence.vulnerabilities)
        chosen = [
            candidate
            for name, version in versions.items()
            for candidate in universe.packages.get(name, ())
            if same_version(candidate.version, version)
        ]
        yanked = {it.purl for it in chosen if it.yanked}
        vulnerabilities = (known for it in chosen for known in it.vulnerabilities)
        return frozenset(yanked | {it.id for it in vulnerabilities if not allowed.accepts(it)})

    def _leaves_out(
        self,
        stack: ResolvedStack,
        claims: Sequence[Claim],
        texts: ClaimTexts,
        assessment: Assessment,
        *,
        first: bool,
    ) -> bool:
        """Leave out a stack that is slower, or its slower versions if it is the best stack."""
        premises, versions = self.premises, {it.name: it.purl for it in stack.choices}
        slower = {
            versions[it.package]: texts.sentence(it) for it in claims if it.package is not None
        }
        if first and slower:
            self.premises = replace(premises, slower={**premises.slower, **slower})
            return True
        if len(premises.slower_stacks) < MOST_SLOWER_STACKS:
            stacks = (*premises.slower_stacks, stack.versions())
            self.premises = replace(premises, slower_stacks=stacks)
            return True
        return first and self._accepts_more(assessment)

    def _accepts_more(self, assessment: Assessment) -> bool:
        """Keep the project's versions; if these do not meet the request, accept less speed, and
        then other harm.
        """
        premises = self.premises
        slower = bool(premises.slower or premises.slower_stacks)
        if self._request.locked is not None and slower and not premises.kept:
            self.premises = replace(premises, kept=True)
        elif slower and not premises.speed_accepted:
            self.premises = replace(premises, kept=False, speed_accepted=True)
        elif self._request.locked is not None and assessment.refused and not premises.harm_accepted:
            self.premises = replace(premises, kept=False, harm_accepted=True)
        else:
            return False
        return True


def _slower(guarded: GuardResult, own: OwnBenchmarks) -> list[Claim]:
    """The claims that count, without claims of indicators that own benchmarks replace."""
    compared = (*guarded.claims, *guarded.stacks, *guarded.undetermined)
    covered = {name for it in compared if own.name_of(it) is not None for name in it.differs}
    counted = [it for it in guarded.slower if not own.ignores(it)]
    return [it for it in counted if own.name_of(it) is not None or covered.isdisjoint(it.differs)]


@dataclass(frozen=True, slots=True)
class FoundStacks:
    """A resolution with its inputs."""

    assessment: Assessment
    universe: Universe
    resolution: Resolution


def _reference(evidence: Evidence, universe: Universe, target: Target) -> dict[str, str] | None:
    """Versions of the most often measured stack that the request permits; ``None`` without one.

    For a project without a lock, no stack is advised that is settled to be slower than this one.
    """
    here = {
        n for n, it in enumerate(evidence.series) if it.origin is None and target.same_hardware(it)
    }
    jobs = Counter(it.stack for it in evidence.readings if it.series in here)
    possible = [
        digest
        for digest, purls in evidence.stacks.items()
        if jobs[digest] and _is_possible(purls, universe)
    ]
    if not possible:
        return None

    def order(digest: str) -> tuple[Any, ...]:
        """Most jobs first, then newer versions."""
        return jobs[digest], sorted(release_order(it)[0] for it in evidence.stacks[digest])

    best, *others = sorted(possible, key=order, reverse=True)
    if others and order(others[0]) == order(best):
        return None  # only names tell them apart
    return _versions(evidence.stacks[best])


def _fastest(evidence: Evidence, result: FoundStacks) -> dict[str, str] | None:
    """The stack with the largest settled gain that no single package explains.

    These are stacks that differ in several packages, or in a version whose speed depends on the
    other packages. Other gains decide by package.
    """
    gains = [
        claim
        for claim in result.assessment.claims
        if claim.verdict is Verdict.FASTER and not claim.scored and claim.origin is None
        if claim.same_hardware and claim.same_python
        if _is_possible(evidence.stacks[claim.stack], result.universe)
    ]
    best = max(gains, key=lambda it: (it.observed_pct, it.stack), default=None)
    return _versions(evidence.stacks[best.stack]) if best is not None else None


def _is_possible(purls: Collection[Purl], universe: Universe) -> bool:
    """Whether a measured stack consists of usable versions, with everything that is required."""
    names = {name_of(it) for it in purls}
    usable = {it.purl for name in names for it in universe.packages.get(name, ())}
    return usable.issuperset(purls) and names.issuperset(universe.direct)


def _versions(purls: Iterable[Purl]) -> dict[str, str]:
    return {name_of(it): version_of_purl(it) for it in purls}
