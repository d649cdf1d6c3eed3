"""Claims about the performance of versions.

All comparisons of one answer are judged as one family. This bounds the chance of even one false
claim in the answer, for any number of packages, versions and indicators. Claims do not decide which
version is chosen; :mod:`adviser.scoring.version_choice` does.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from adviser.scoring.assessment_types import Claim
from adviser.scoring.comparisons import ComparisonFamily, FamilyMember, judge_family
from adviser.scoring.effects import (
    MIN_JOBS_TO_TELL,
    Effects,
    SpreadRatio,
    lower_bounds,
    per_cent,
    shrunk_effects,
    true_variance,
    variance_ratio,
)
from adviser.scoring.estimates import Estimate, pair_estimates
from adviser.scoring.histories import History, histories_of, jobs_left_out
from adviser.scoring.lazy_numpy import FloatArray, np
from adviser.scoring.measured_stacks import MeasuredStacks
from adviser.scoring.samples import within_runs
from adviser.scoring.stack_pairs import (
    ForcedChanges,
    MeasuredStackIndex,
    Role,
    StackPair,
    package_pairs,
    several_package_pairs,
)
from adviser.scoring.target import OwnBenchmarks, Target
from adviser.scoring.verdicts import ALPHA
from adviser.scoring.version_choice import ELSEWHERE_SD
from model.measurements.evidence import Evidence, Series
from model.packages.identity import Purl

#: Shares of α by the purpose of a comparison; most of it for claims that change the advice.
_SHARES = {Role.BASELINE: 6.0, Role.NEWEST: 3.0, Role.STACKS: 1.0}


@dataclass(frozen=True, slots=True)
class _Compared:
    """A pair of stacks with its estimated effect."""

    pair: StackPair
    history: History
    estimate: Estimate

    @property
    def used(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The two stacks, each with the indexes of the jobs that were used."""
        return (
            (self.pair.baseline, self.estimate.baseline_used),
            (self.pair.candidate, self.estimate.used),
        )


@dataclass(frozen=True, slots=True)
class Performance:
    """Measured performance of the versions of a request.

    :param claims: comparisons with the baseline's versions, and settled ones between others
    :param comparisons: number of comparisons that share the error rate
    :param shares: share of α of each claim, 0 if it was not tested
    """

    claims: tuple[Claim, ...]
    comparisons: int
    shares: tuple[float, ...] = ()


def performance_of(
    evidence: Evidence,
    measured: MeasuredStacks,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
) -> Performance:
    """Measured performance of the versions of a request.

    If a version was measured on the target, only these measurements count. Otherwise measurements
    from other targets are reported separately, with wider intervals.

    :param measured: the measured stacks of the evidence
    :param versions: versions that may be chosen, by name
    :returns: claims by package, version, indicator and hardware, then the settled claims about
        stacks that differ in several packages
    """
    own = OwnBenchmarks(evidence, target)
    known = _series_of_interest(evidence, measured.index, baseline, versions)
    interesting = {it for it in known if not own.ignores(evidence.series[it])}
    histories = {number: measured.histories[number] for number in sorted(interesting)}
    pairs = package_pairs(measured.index, histories, measured.forced, baseline, versions)
    pairs = _nearest(pairs, evidence.series, target)
    here = {
        number: it
        for number, it in histories.items()
        if target.distance(evidence.series[number]) == 0
    }
    pairs += several_package_pairs(measured.index, here, measured.forced, baseline, versions)
    return _judged(_estimated(pairs, histories), target, evidence)


def upgrade_claims(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
    forced: ForcedChanges,
    whole: tuple[str, str] | None = None,
) -> tuple[Claim, ...]:
    """Claims about an upgrade, settled or not: about each changed version and the whole stack.

    Only measurements on the target's hardware count, with any version of Python. These comparisons
    form a family of their own.

    :param baseline: versions of the old stack by name
    :param versions: by name, the old and the new version of each changed package
    :param forced: what the change of a package changes with it
    :param whole: digests of the old and the new stack if both were measured; they are compared on
        the target only, and never scored
    """
    known = _series_of_interest(evidence, stacks, baseline, versions)
    here = {it for it in known if target.same_hardware(evidence.series[it])}
    histories = histories_of(evidence, here)
    pairs = package_pairs(stacks, histories, forced, baseline, versions)
    pairs = _nearest(pairs, evidence.series, target)
    if whole is not None:
        old, new = whole
        differs = stacks.differing(old, new)
        pairs += [
            StackPair(number, old, new, differs)
            for number, it in histories.items()
            if target.distance(evidence.series[number]) == 0 and old in it.jobs and new in it.jobs
        ]
    return claims_about(pairs, histories, target, evidence)


def claims_about(
    pairs: Sequence[StackPair],
    histories: Mapping[int, History],
    target: Target,
    evidence: Evidence,
) -> tuple[Claim, ...]:
    """Claims about all pairs, settled or not, as one family.

    :param histories: of the series of the pairs, by number
    """
    return _judged(_estimated(pairs, histories), target, evidence, every=True).claims


def _series_of_interest(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
) -> set[int]:
    """Indexes of the series with a measured stack that contains a version of interest."""
    holding = {digest for purl in baseline.values() for digest in stacks.holding(purl)}
    for several in versions.values():
        measured = [it for it in several if stacks.holding(it)]
        if len(measured) > 1:
            holding.update(digest for it in measured for digest in stacks.holding(it))
    return {it.series for it in evidence.readings if it.stack in holding}


def _nearest(
    pairs: Sequence[StackPair], series: Sequence[Series], target: Target
) -> list[StackPair]:
    """For each pair of versions, the stack pairs whose measurements are nearest to the target."""
    nearest: dict[tuple[Purl | None, Purl | None], int] = {}
    for stack_pair in pairs:
        distance, pair = (
            target.distance(series[stack_pair.series]),
            (stack_pair.purl, stack_pair.baseline_purl),
        )
        nearest[pair] = min(distance, nearest.get(pair, distance))
    return [
        it
        for it in pairs
        if target.distance(series[it.series]) == nearest[it.purl, it.baseline_purl]
    ]


def _estimated(pairs: Sequence[StackPair], histories: Mapping[int, History]) -> list[_Compared]:
    """Estimate the effects, all pairs of a series together."""
    by_series: dict[int, list[StackPair]] = defaultdict(list)
    for it in pairs:
        by_series[it.series].append(it)
    compared = []
    for number, several in by_series.items():
        history = histories[number]
        samples = [(history.sample(it.baseline), history.sample(it.candidate)) for it in several]
        estimates = pair_estimates(samples, history.spread)
        compared += [
            _Compared(pair, history, estimate)
            for pair, estimate in zip(several, estimates, strict=True)
        ]
    return compared


def _judged(
    compared: Sequence[_Compared],
    target: Target,
    evidence: Evidence,
    *,
    every: bool = False,
) -> Performance:
    """Judge all comparisons of one answer as one family of tests.

    :param every: whether to return claims from all comparisons, settled or not
    """
    if not compared:
        return Performance((), 0)
    tested = Counter(it.pair.role for it in compared if it.estimate.tested)
    family = judge_family(
        [
            FamilyMember(
                member.estimate,
                member.history.log_margin,
                member.pair.series,
                ELSEWHERE_SD * math.sqrt(target.distance(member.history.series)),
                _SHARES[member.pair.role] / max(1, tested[member.pair.role]),
                every or member.pair.role is Role.BASELINE,
            )
            for member in compared
        ]
    )
    verdicts = family.judgements.verdicts
    shrunk = _expected(compared, family.effects)
    levels = np.where(family.tested, family.alpha, ALPHA)
    sizes = replace(family.effects, d=np.abs(family.effects.d))
    bounds = lower_bounds(sizes, np.abs(shrunk), levels)
    judged = [
        _Judged(it, family, i, float(shrunk[i]), float(bounds[i])) for i, it in enumerate(compared)
    ]
    claims = [
        (_claim(it, target, evidence.hardware), float(family.alpha[it.place]))
        for it in judged
        if every or it.compared.pair.role is Role.BASELINE or verdicts[it.place]
    ]
    claims.sort(key=lambda pair: _order(pair[0]))
    return Performance(
        tuple(claim for claim, _ in claims),
        family.size,
        tuple(share for _, share in claims),
    )


def _expected(compared: Sequence[_Compared], effects: Effects) -> FloatArray:
    """Shrink each effect, based on all comparisons of its series."""
    shrunk = np.zeros(len(compared))
    by_series: dict[int, list[int]] = defaultdict(list)
    for i, it in enumerate(compared):
        by_series[it.pair.series].append(i)
    for places in by_series.values():
        alike = effects.taken(places)
        shrunk[places] = shrunk_effects(alike, true_variance(alike))
    return shrunk


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on one comparison.

    :param place: index among the members of the family
    :param shrunk: shrunk effect, natural log
    :param smallest: lower bound of its absolute value, natural log
    """

    compared: _Compared
    family: ComparisonFamily
    place: int
    shrunk: float
    smallest: float

    @property
    def one_package(self) -> bool:
        """Whether one package forces all differences between the two stacks."""
        return self.compared.pair.purl is not None

    @property
    def bound(self) -> float:
        """The settled difference, which is at least δ; 0 if nothing is settled."""
        if not (self.one_package and self.family.judgements.verdict(self.place).different):
            return 0.0
        size = max(self.smallest, self.compared.history.log_margin)
        return math.copysign(size, self.compared.estimate.effect.d)


def _claim(judged: _Judged, target: Target, labels: Mapping[str, str]) -> Claim:
    compared = judged.compared
    pair, series, estimate = compared.pair, compared.history.series, compared.estimate
    place, judgements = judged.place, judged.family.judgements
    low, high, effect, observed = per_cent(
        np.array([judgements.low[place], judgements.high[place], judged.shrunk, estimate.effect.d])
    ).tolist()
    return Claim(
        **judged.family.result_fields(place, estimate, compared.history.job_s),
        package=pair.differs[0] if pair.purl else None,
        purl=pair.purl,
        baseline_purl=pair.baseline_purl,
        stack=pair.candidate,
        baseline_stack=pair.baseline,
        differs=pair.differs,
        beside_baseline=pair.role is Role.BASELINE,
        indicator=series.indicator,
        parameters=series.parameters,
        device=series.device,
        unit=series.unit,
        comparison_key=series.comparison_key,
        hardware_digest=series.hardware_digest,
        hardware_label=labels.get(series.hardware_digest, series.hardware_digest),
        same_hardware=target.same_hardware(series),
        python_version=series.python_version,
        same_python=target.same_python(series),
        effect_pct=effect,
        observed_pct=observed,
        interval_low_pct=low if math.isfinite(judgements.low[place]) else -math.inf,
        interval_high_pct=high,
        delta_pct=100 * math.expm1(compared.history.log_margin),
        bound=judged.bound,
        scored=judged.one_package and judgements.verdict(place).settled,
        left_out=jobs_left_out(compared.history, compared.used),
        spread_ratio=_spread_ratio(compared),
        evidence=tuple(
            sorted(
                one
                for stack, used in compared.used
                for one in compared.history.observed(stack, used)
            )
        ),
        as_of=max(
            (at for one in compared.used if (at := compared.history.as_of(*one))), default=None
        ),
    )


def _spread_ratio(compared: _Compared) -> SpreadRatio | None:
    """Ratio of the spreads of both stacks; ``None`` below 20 jobs."""
    if min(compared.estimate.jobs, compared.estimate.baseline_jobs) < MIN_JOBS_TO_TELL:
        return None
    theirs, ours = (
        within_runs(compared.history.sample(stack), used) for stack, used in compared.used
    )
    return variance_ratio(ours, theirs)


def _order(claim: Claim) -> tuple[object, ...]:
    return (
        claim.purl is None, claim.package or "", claim.purl or "", claim.indicator,
        claim.hardware_label, claim.comparison_key, claim.python_version or "", claim.stack,
        claim.baseline_stack,
    )  # fmt: skip
