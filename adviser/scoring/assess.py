"""Assess a request: derive scores, claims, refusals and coverage from snapshot and evidence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from packageurl import PackageURL

from adviser.scoring.assessment_types import (
    Assessment,
    Coverage,
    KnowledgeSource,
    NearestStack,
    PackageDifference,
)
from adviser.scoring.criteria import STATUS, RecommendationType, criteria_of, release_values
from adviser.scoring.justifications import (
    justifications_of_stack,
    notes_about_shown,
    request_notes,
)
from adviser.scoring.measured_stacks import MeasuredStacks
from adviser.scoring.performance import performance_of
from adviser.scoring.stack_pairs import MeasuredStackIndex, name_of
from adviser.scoring.target import OwnBenchmarks, Target
from adviser.scoring.version_choice import PackageChoice, VersionChoices
from adviser.scoring.vulnerability_policy import AllowList, refusal_reason, security_value
from common.versioned_cache import VersionedCache
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, ExclusionReason
from model.packages.identity import Purl, same_version
from model.packages.snapshot import Snapshot

#: Scores of the versions of a package by criterion.
PackageScores = dict[Purl, tuple[int, ...]]


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
        return NearestStack(
            near,
            tuple(
                PackageDifference(name, _version(ours), _version(theirs))
                for name, (ours, theirs) in sorted(self._differences(near, stack).items())
            ),
            self._jobs_here[near] if same else self._jobs[near],
            label,
            same,
        )

    def _differences(
        self, digest: str, stack: Collection[Purl]
    ) -> Mapping[str, tuple[Purl | None, Purl | None]]:
        ours = {name_of(it): it for it in stack}
        theirs = {name_of(it): it for it in self._stacks.members[digest]}
        return {
            name: (ours.get(name), theirs.get(name))
            for name in ours.keys() | theirs.keys()
            if ours.get(name) != theirs.get(name)
        }


def _version(purl: Purl | None) -> str | None:
    """The version in a Package URL, with its index unless it is the default index.

    >>> _version(Purl("pkg:pypi/numpy@1.0%2Bcpu?index=builds"))
    '1.0+cpu (builds)'
    """
    if purl is None:
        return None
    parsed = PackageURL.from_string(purl)
    index = dict(parsed.qualifiers or {}).get("index")
    return f"{parsed.version} ({index})" if index else parsed.version


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
    :param measured: of this snapshot and evidence, if there is one already
    :param context: the stack beside which effects are wanted; ``None`` for all contexts alike
    :param harmful: further versions to refuse, with the reason
    :param reused: scores of an assessment of the same kind before
    """
    known = measured or MeasuredStacks(snapshot, evidence)
    base, unavailable = _baseline_of(snapshot, baseline)
    claims = performance_of(evidence, known, base, known.versions, target)
    allow_list = AllowList(allowed, evidence.vulnerabilities)
    vulnerable = dict(_refused(snapshot, allow_list))
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
    scoring = _Scoring(
        snapshot, evidence, kind, allow_list, vulnerable, _losses(choices, unmeasured)
    )
    ours, *_ = known.parts(target)[0]
    coverages = Coverages(snapshot, ours.evidence, ours.index, target)
    coverage = coverages.of(frozenset(base.values()))
    return Assessment(
        scores=scoring.scores(VersionedCache() if reused is None else reused),
        criteria=criteria_of(kind, statuses=bool(snapshot.statuses)),
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
            *request_notes(_missing(snapshot), coverage.unsolvable, unavailable, scored),
            *notes_about_shown(claims.shown),
        ),
        coverage_of=coverages.of,
        notes=justifications_of_stack(
            snapshot, scored, evidence.vulnerabilities, allow_list, evidence.as_of
        ),
    )


def _choices(
    measured: MeasuredStacks,
    target: Target,
    usable: Mapping[str, Collection[Purl]],
    context: Collection[Purl] | None,
) -> dict[str, PackageChoice]:
    """The choices by package: those of own jobs if these know anything, else those of packs."""
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
            others = (
                replace(other, pack=pack, own=False)
                for several, pack in packs
                if (other := several.of_package(versions, possible, context)) is not None
                and (other.known or choice is None)
            )
            choice = _agreed([*others]) or choice
        if choice is not None:
            choices[name] = choice
    return choices


def _agreed(choices: Sequence[PackageChoice]) -> PackageChoice | None:
    """The first choice that knows anything; ``None`` if several prefer different versions."""
    known = [it for it in choices if it.known] or choices
    return known[0] if len({it.preferred for it in known}) == 1 else None


def _unmeasured(
    measured: MeasuredStacks,
    choices: Mapping[str, PackageChoice],
    choosable: Mapping[str, Collection[Purl]],
) -> Iterator[tuple[str, tuple[Purl, ...]]]:
    """By name of a package whose versions are settled to differ, those that were not measured.

    Such a version never displaces a measured one, so packages without a measured version that the
    request can have are left out.
    """
    for name, choice in sorted(choices.items()):
        if choice.settled and any(it in choosable.get(name, ()) for it in choice.measured):
            known = {*choice.measured, *choice.interacting}
            yield name, tuple(it for it in measured.versions[name] if it not in known)


def _losses(
    choices: Mapping[str, PackageChoice], unmeasured: Mapping[str, Sequence[Purl]]
) -> dict[Purl, dict[str, float]]:
    """By version, its values of the criteria about measurements, where these are not 0."""
    losses = {
        purl: {"performance": -it.loss}
        for choice in choices.values()
        for purl, it in choice.lost.items()
    }
    return losses | {it: {"unmeasured": -1.0} for them in unmeasured.values() for it in them}


def _missing(snapshot: Snapshot) -> dict[str, str]:
    """Why nothing is known about a required package, by name."""
    messages = {name: it.message for name, it in snapshot.absences.items()}
    return {name: messages.get(name, "the store has no version of it") for name in snapshot.missing}


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
            if (newest := _newest(candidates)) is not None:
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


def _newest(candidates: Sequence[Candidate]) -> Candidate | None:
    plain = (
        it for it in candidates if not it.yanked and not it.prerelease and it.wheel_mismatch is None
    )
    return next(plain, candidates[0] if candidates else None)


class _Scoring:
    """Scores the versions of one package at a time."""

    def __init__(
        self,
        snapshot: Snapshot,
        evidence: Evidence,
        kind: RecommendationType,
        allow_list: AllowList,
        harmful: Collection[Purl],
        losses: Mapping[Purl, Mapping[str, float]],
    ) -> None:
        self._snapshot = snapshot
        self._evidence, self._kind = evidence, kind
        self._allow_list, self._harmful, self._losses = allow_list, harmful, losses
        self._criteria = criteria_of(kind, statuses=bool(snapshot.statuses))

    def scores(self, reused: VersionedCache[str, PackageScores]) -> PackageScores:
        """The scores of all candidates."""
        evidence, statuses = self._evidence, self._snapshot.statuses
        common = evidence.as_of, evidence.vulnerabilities, self._losses, len(self._criteria)
        scores: PackageScores = {}
        for name, candidates in self._snapshot.packages.items():
            inputs = candidates, statuses.get(name), *common
            scores.update(reused.get(name, inputs, partial(self._of_package, candidates)))
        return scores

    def _of_package(self, candidates: Sequence[Candidate]) -> PackageScores:
        prereleases = self._kind.admits_prereleases
        scores = {}
        for candidate, values in release_values(
            candidates, self._evidence.as_of, prereleases=prereleases, harmful=self._harmful
        ):
            values["security"] = security_value(self._allow_list.held_against(candidate))
            lost = self._losses.get(candidate.purl, {})
            values["performance"] = lost.get("performance", 0.0)
            values["unmeasured"] = lost.get("unmeasured", 0.0)
            statuses = self._snapshot.statuses.get(candidate.name, ())
            values[STATUS] = -float(candidate.index in statuses)
            # Most values are 0, and contribute nothing.
            scores[candidate.purl] = tuple(
                [
                    line.contribution(value) if (value := values[line.name]) else 0
                    for line in self._criteria
                ]
            )
        return scores


def _refused(snapshot: Snapshot, allow_list: AllowList) -> Iterator[tuple[Purl, str]]:
    for candidates in snapshot.packages.values():
        for candidate in candidates:
            if candidate.vulnerabilities and (
                reason := refusal_reason(allow_list.held_against(candidate))
            ):
                yield candidate.purl, reason
