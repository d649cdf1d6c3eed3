"""Assess a request: derive scores, claims, refusals and coverage from snapshot and evidence.

Coverage is how much of a stack was measured, and which measured stack is most like it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from adviser.scoring.assessment_types import (
    Assessment,
    Coverage,
    KnowledgeSource,
    NearestStack,
    PackageDifference,
)
from adviser.scoring.criteria import (
    AllowList,
    CriterionName,
    RecommendationType,
    criteria_of,
    refusal_reason,
    release_values,
    security_value,
)
from adviser.scoring.justifications import (
    justifications_of_request,
    justifications_of_shown,
    justifications_of_stacks,
)
from adviser.scoring.performance import performance_of
from adviser.scoring.stack_pairs import MeasuredStackIndex, MeasuredStacks, name_of
from adviser.scoring.target import OwnBenchmarks, Target
from adviser.scoring.version_choice import PackageChoice, VersionChoices
from common.versioned_cache import VersionedCache
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.identity import (
    DEFAULT_INDEX,
    Purl,
    changes_between,
    package_version_of,
    same_version,
)
from model.packages.snapshot import Snapshot

#: Scores of the versions of a package by criterion.
PackageScores = dict[Purl, tuple[int, ...]]


def assess(  # noqa: PLR0913 - inputs of one result
    snapshot: Snapshot,
    evidence: Evidence,
    kind: RecommendationType,
    baseline: Mapping[str, str] | None,
    target: Target,
    *,
    allowed: Collection[str] = (),
    choosable: Callable[[], Mapping[str, Collection[Purl]]] | None = None,
    measured: MeasuredStacks | None = None,
    context: Collection[Purl] | None = None,
    harmful: Mapping[Purl, str] | None = None,
    reused: VersionedCache[str, PackageScores] | None = None,
) -> Assessment:
    """Assess every candidate of ``snapshot``.

    The result depends neither on the clock nor on the order of the input.

    :param baseline: version by name of the stack to compare with, the user's own or the
        newest feasible one; ``None`` for the newest version of each package
    :param target: hardware class and Python version that the stack is for
    :param allowed: identifiers of accepted vulnerabilities, under any alias
    :param choosable: returns by name the versions that the request can choose; only these make
        others lose by performance; all candidates by default
    :param measured: the measured stacks of this snapshot and evidence, if known
    :param context: the stack beside which effects are estimated; ``None`` for all contexts alike
    :param harmful: further versions to refuse, with the reason
    :param reused: scores of an earlier assessment of the same kind
    """
    known = measured or MeasuredStacks(snapshot, evidence)
    base, unavailable = _baseline_of(snapshot, baseline)
    claims = performance_of(evidence, known, base, known.versions, target)
    allow_list = AllowList(allowed, evidence.vulnerabilities)
    vulnerable = {
        candidate.purl: reason
        for candidates in snapshot.packages.values()
        for candidate in candidates
        if candidate.vulnerabilities
        and (reason := refusal_reason(allow_list.unaccepted(candidate)))
    }
    refused = {**(vulnerable if kind.refuses_vulnerable else {}), **(harmful or {})}
    choices: dict[str, PackageChoice] = {}
    usable: Mapping[str, Collection[Purl]] = {}
    if evidence.readings:
        possible = known.versions if choosable is None else choosable()
        usable = {
            name: frozenset(it for it in them if it not in refused)
            for name, them in possible.items()
        }
        if kind.weighs_speed:
            choices = _choices(known, target, usable, context)
    unmeasured = dict(_unmeasured(known, choices, usable))
    interacting = {
        (choice.pack and choice.pack.digest, it)
        for choice in choices.values()
        for it in choice.interacting
    }
    covered = {name for name, choice in choices.items() if choice.benchmarks}
    own = OwnBenchmarks(evidence, target)
    scored = tuple(
        replace(claim, scored=False)
        if {(claim.origin and claim.origin.pack, it) for it in (claim.purl, claim.baseline_purl)}
        & interacting
        or (claim.package in covered and own.name_of(claim) is None)
        else claim
        for claim in claims.claims
    )
    criteria = criteria_of(kind, statuses=bool(snapshot.statuses))
    losses = _losses(choices, unmeasured)

    def scores_of(candidates: Sequence[Candidate]) -> PackageScores:
        prereleases = kind.admits_prereleases
        scores = {}
        for candidate, values in release_values(
            candidates, evidence.as_of, prereleases=prereleases, harmful=vulnerable
        ):
            values[CriterionName.SECURITY] = security_value(allow_list.unaccepted(candidate))
            lost = losses.get(candidate.purl, {})
            values[CriterionName.PERFORMANCE] = lost.get(CriterionName.PERFORMANCE, 0.0)
            values[CriterionName.UNMEASURED] = lost.get(CriterionName.UNMEASURED, 0.0)
            statuses = snapshot.statuses.get(candidate.name, ())
            values[CriterionName.STATUS] = -float(candidate.index in statuses)
            # Most values are 0, and contribute nothing.
            scores[candidate.purl] = tuple(
                [it.contribution(value) if (value := values[it.name]) else 0 for it in criteria]
            )
        return scores

    known_scores = VersionedCache[str, PackageScores]() if reused is None else reused
    common = evidence.as_of, evidence.vulnerabilities, losses, len(criteria)
    scores: PackageScores = {}
    for name, candidates in snapshot.packages.items():
        inputs = candidates, snapshot.statuses.get(name), *common
        scores.update(known_scores.get(name, inputs, partial(scores_of, candidates)))
    messages = {name: it.message for name, it in snapshot.absences.items()}
    missing = {
        name: messages.get(name, "the store has no version of it") for name in snapshot.missing
    }
    ours, *_ = known.parts(target)[0]
    coverages = Coverages(snapshot, ours.evidence, ours.index, target)
    coverage = coverages.of(frozenset(base.values()))
    return Assessment(
        scores=scores,
        criteria=criteria,
        claims=scored,
        comparisons=claims.comparisons,
        shares=claims.shares,
        shown=claims.shown,
        choices=choices,
        unmeasured=unmeasured,
        refused=refused,
        baseline=base,
        coverage=coverage,
        justifications=(
            *justifications_of_request(missing, coverage.unsolvable, unavailable, scored),
            *justifications_of_shown(claims.shown),
        ),
        coverage_of=coverages.of,
        justifications_of=justifications_of_stacks(
            snapshot, scored, evidence.vulnerabilities, allow_list, evidence.as_of
        ),
    )


def _choices(
    measured: MeasuredStacks,
    target: Target,
    usable: Mapping[str, Collection[Purl]],
    context: Collection[Purl] | None,
) -> dict[str, PackageChoice]:
    """The choices by package: by own jobs if they measured it, else by packs."""
    from pis.catalogue import summaries  # slow, and needed only with measurements

    bundled = summaries()
    (own, _), *packs = [
        (VersionChoices(stacks, target, bundled), pack)
        for stacks, pack, decides in measured.parts(target)
        if decides
    ]
    choices = {}
    for name, versions in measured.versions.items():
        possible = usable.get(name, ())
        choice = own.of_package(versions, possible, context)
        if choice is None or not choice.known:
            others = [
                replace(other, pack=pack, own=False)
                for several, pack in packs
                if (other := several.of_package(versions, possible, context)) is not None
                and (other.known or choice is None)
            ]
            # Packs that prefer different versions decide nothing.
            others = [it for it in others if it.known] or others
            if len({it.preferred for it in others}) == 1:
                choice = others[0]
        if choice is not None:
            choices[name] = choice
    return choices


def _unmeasured(
    measured: MeasuredStacks,
    choices: Mapping[str, PackageChoice],
    choosable: Mapping[str, Collection[Purl]],
) -> Iterator[tuple[str, tuple[Purl, ...]]]:
    """Unmeasured versions by package, if measured versions of the package are settled to differ.

    Such a version never displaces a measured one, so packages without a measured version that the
    request permits are left out.
    """
    for name, choice in sorted(choices.items()):
        if choice.settled and any(it in choosable.get(name, ()) for it in choice.measured):
            known = {*choice.measured, *choice.interacting}
            yield name, tuple(it for it in measured.versions[name] if it not in known)


def _losses(
    choices: Mapping[str, PackageChoice], unmeasured: Mapping[str, Sequence[Purl]]
) -> dict[Purl, dict[CriterionName, float]]:
    """Values of the criteria about measurements by version, where they are not 0."""
    losses = {
        purl: {CriterionName.PERFORMANCE: -it.loss}
        for choice in choices.values()
        for purl, it in choice.lost.items()
    }
    for versions in unmeasured.values():
        losses |= {it: {CriterionName.UNMEASURED: -1.0} for it in versions}
    return losses


def _baseline_of(
    snapshot: Snapshot, versions: Mapping[str, str] | None
) -> tuple[dict[str, Purl], dict[str, str]]:
    """The baseline's candidates by name, and why other requirements have no candidate.

    If no baseline is given, the baseline has the newest version of each package. Yanked versions,
    pre-releases and versions whose wheels are all for other environments are left out.
    """
    baseline: dict[str, Purl] = {}
    unavailable = {}
    for name, candidates in snapshot.packages.items():
        if versions is None:
            plain = (
                it
                for it in candidates
                if not it.yanked and not it.prerelease and it.wheel_mismatch is None
            )
            newest = next(plain, candidates[0] if candidates else None)
            if newest is not None:
                baseline[name] = newest.purl
        elif name in versions:
            same = next((it for it in candidates if same_version(it.version, versions[name])), None)
            if same is None:
                text = f"{name}=={versions[name]}"
                unavailable[text] = _why_no_candidate(snapshot, name, versions[name])
            else:
                baseline[name] = same.purl
    return baseline, unavailable


def _why_no_candidate(snapshot: Snapshot, name: str, version: str) -> str:
    for excluded in snapshot.excluded.get(name, ()):
        if same_version(excluded.version, version):
            if excluded.reason in (ExclusionReason.UNREAD, ExclusionReason.UNAVAILABLE):
                return excluded.message
            return f"it cannot be installed here: {excluded.message}"
    return "no such version is known"


class Coverages:
    """Computes the coverage of stacks; the parts common to all stacks are computed once."""

    def __init__(
        self, snapshot: Snapshot, evidence: Evidence, stacks: MeasuredStackIndex, target: Target
    ):
        self._stacks = stacks
        self._labels = evidence.hardware
        every = range(len(evidence.series))
        here = {n for n in every if target.same_hardware(evidence.series[n])}
        elsewhere = len(here) < len(every)
        self._jobs_here = _jobs(evidence, here)
        self._jobs = _jobs(evidence, every) if elsewhere else self._jobs_here
        self._hardware = _hardware(evidence, here)
        if elsewhere:
            self._hardware = _hardware(evidence, every) | self._hardware
        self._sources = tuple(KnowledgeSource(*it) for it in sorted(evidence.sources.items()))
        self._missing = snapshot.missing
        self._unsolvable = unsolvable_of(snapshot)

    def of(self, stack: Collection[Purl]) -> Coverage:
        """The coverage of the stack that consists of these versions."""
        here = {it for digest in self._jobs_here for it in self._stacks.members[digest]}
        anywhere = {it for digest in self._jobs for it in self._stacks.members[digest]}
        return Coverage(
            packages=len(stack),
            measured=len(here.intersection(stack)),
            measured_elsewhere=len((anywhere - here).intersection(stack)),
            nearest=self._nearest(stack),
            sources=self._sources,
            missing=self._missing,
            unsolvable=self._unsolvable,
        )

    def _nearest(self, stack: Collection[Purl]) -> NearestStack | None:
        """The measured stack with the fewest differences; on ties, on this hardware, with most
        jobs.
        """
        if not stack:
            return None
        wanted = frozenset(stack)
        near = min(
            (digest for digest in self._jobs if self._stacks.shared(digest, stack)),
            key=lambda it: (
                len({name_of(one) for one in self._stacks.members[it] ^ wanted}),
                it not in self._jobs_here,
                -self._jobs[it],
                it,
            ),
            default=None,
        )
        if near is None:
            return None
        same = near in self._jobs_here
        label = self._labels.get(self._hardware[near], self._hardware[near])
        ours = {name_of(it): _version(it) for it in stack}
        theirs = {name_of(it): _version(it) for it in self._stacks.members[near]}
        return NearestStack(
            near,
            tuple(
                PackageDifference(it.name, it.old, it.new) for it in changes_between(ours, theirs)
            ),
            self._jobs_here[near] if same else self._jobs[near],
            label,
            same,
        )


def _version(purl: Purl) -> str:
    """The version in a Package URL, with its index unless it is the default index.

    >>> _version(Purl("pkg:pypi/numpy@1.0%2Bcpu?index=builds"))
    '1.0+cpu (builds)'
    """
    known = package_version_of(purl)
    version, index = known.version, known.index
    return version if index == DEFAULT_INDEX else f"{version} ({index})"


def _jobs(evidence: Evidence, series: Collection[int]) -> Counter[str]:
    """Number of stable jobs of each measured stack."""
    seen = {
        (it.stack, it.job_id)
        for it in evidence.readings
        if it.series in series and it.unstable_reason is None and it.stack in evidence.stacks
    }
    return Counter(stack for stack, _ in seen)


def _hardware(evidence: Evidence, series: Collection[int]) -> dict[str, str]:
    """The hardware class on which each stack was measured most often in these series."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for reading in evidence.readings:
        if reading.series in series:
            seen[reading.stack][evidence.series[reading.series].hardware_digest] += 1
    return {stack: min(them, key=lambda it: (-them[it], it)) for stack, them in seen.items()}


def unsolvable_of(snapshot: Snapshot) -> tuple[str, ...]:
    """Packages that have no usable version but some version with unknown requirements."""
    return tuple(
        name
        for name, excluded in snapshot.excluded.items()
        if not snapshot.packages.get(name)
        and any(it.reason is ExclusionReason.UNSOLVABLE for it in excluded)
    )
