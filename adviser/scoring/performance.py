"""Claims about the performance of versions, and the order of versions by settled claims.

All comparisons of one answer are judged as one family. This bounds the chance of even one false
claim in the answer, for any number of packages, versions and indicators. Performance orders two
versions only by settled differences; :func:`performance_order` has the rule.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from adviser.scoring.assessment_types import Claim, PerformanceStanding
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
from adviser.scoring.samples import within_runs
from adviser.scoring.stack_pairs import (
    MeasuredStackIndex,
    Role,
    StackPair,
    package_pairs,
    several_package_pairs,
    version_of_purl,
)
from adviser.scoring.target import Target
from adviser.scoring.verdicts import ALPHA
from common.packages import Purl
from graph.evidence import Evidence, Series

#: Assumed standard deviation, natural log, of an effect between hardware classes or versions of
#: Python: a gain on one processor is often no gain on another, and measurements on one processor
#: do not show how well they transfer.
ELSEWHERE_SD = 0.1

#: Shares of α by the purpose of a comparison; most of it for claims that change the advice.
_SHARES = {Role.BASELINE: 6.0, Role.NEWEST: 3.0, Role.OTHERS: 1.0, Role.STACKS: 1.0}


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
class VersionDifference:
    """The settled difference between two versions of a package.

    :param shrunk: shrunk effect of ``ours`` against ``theirs``, natural log
    :param bound: the settled difference, natural log, at least δ; negative if ``theirs`` is
        faster, 0 if nothing is settled
    """

    package: str
    ours: Purl
    theirs: Purl
    indicator: str
    comparison_key: str
    shrunk: float
    bound: float


@dataclass(frozen=True, slots=True)
class Performance:
    """Measured performance of the versions of a request.

    :param claims: comparisons with the baseline's versions, and settled ones between others
    :param differences: differences from all comparisons of two versions with enough jobs
    :param comparisons: number of comparisons that share the error rate
    """

    claims: tuple[Claim, ...]
    differences: tuple[VersionDifference, ...]
    comparisons: int


def performance_of(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
) -> Performance:
    """Measured performance of the versions of a request.

    If a version was measured on the target, only these measurements count. Otherwise measurements
    from other targets are reported separately, with wider intervals.

    :param stacks: index of the measured stacks of the evidence
    :param versions: versions that may be chosen, by name
    :returns: claims by package, version, indicator and hardware, then the settled claims about
        stacks that differ in several packages
    """
    histories = histories_of(evidence, _series_of_interest(evidence, stacks, baseline, versions))
    pairs = _nearest(package_pairs(stacks, histories, baseline, versions), evidence.series, target)
    here = {
        number: it
        for number, it in histories.items()
        if target.distance(evidence.series[number]) == 0
    }
    pairs += several_package_pairs(stacks, here, baseline, versions)
    return _judged(_estimated(pairs, histories), target, evidence)


def upgrade_claims(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
    whole: tuple[str, str] | None = None,
) -> tuple[Claim, ...]:
    """Claims about an upgrade, settled or not: about each changed version and the whole stack.

    Only measurements on the target's hardware count, with any version of Python. These comparisons
    form a family of their own.

    :param baseline: versions of the old stack by name
    :param versions: by name, the old and the new version of each changed package
    :param whole: digests of the old and the new stack if both were measured; they are compared on
        the target only, and never scored
    """
    known = _series_of_interest(evidence, stacks, baseline, versions)
    here = {it for it in known if target.same_hardware(evidence.series[it])}
    histories = histories_of(evidence, here)
    pairs = _nearest(package_pairs(stacks, histories, baseline, versions), evidence.series, target)
    if whole is not None:
        old, new = whole
        differs = stacks.differing(old, new)
        pairs += [
            StackPair(number, old, new, differs)
            for number, it in histories.items()
            if target.distance(evidence.series[number]) == 0 and old in it.jobs and new in it.jobs
        ]
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
        return Performance((), (), 0)
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
        _claim(it, target, evidence.hardware)
        for it in judged
        if every or it.compared.pair.role is Role.BASELINE or verdicts[it.place]
    ]
    return Performance(
        tuple(sorted(claims, key=_order)),
        tuple(_differences(judged)),
        family.size,
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
        """Whether the two stacks differ in one package only."""
        return self.compared.pair.purl is not None

    @property
    def bound(self) -> float:
        """The settled difference, which is at least δ; 0 if nothing is settled."""
        if not (self.one_package and self.family.judgements.verdict(self.place).different):
            return 0.0
        size = max(self.smallest, self.compared.history.log_margin)
        return math.copysign(size, self.compared.estimate.effect.d)


def _differences(judged: Iterable[_Judged]) -> Iterator[VersionDifference]:
    for member in judged:
        pair, series = member.compared.pair, member.compared.history.series
        ours, theirs = pair.purl, pair.baseline_purl
        if ours is not None and theirs is not None and member.compared.estimate.tested:
            yield VersionDifference(
                pair.differs[0],
                ours,
                theirs,
                series.indicator,
                series.comparison_key,
                member.shrunk,
                member.bound,
            )


def _claim(judged: _Judged, target: Target, labels: Mapping[str, str]) -> Claim:
    compared = judged.compared
    pair, series, estimate = compared.pair, compared.history.series, compared.estimate
    place, judgements = judged.place, judged.family.judgements
    low, high, effect, observed = per_cent(
        np.array([judgements.low[place], judgements.high[place], judged.shrunk, estimate.effect.d])
    ).tolist()
    return Claim(
        **judged.family.result_fields(place, estimate),
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


def performance_order(
    differences: Sequence[VersionDifference],
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Sequence[Purl]],
    choosable: Mapping[str, Collection[Purl]],
) -> dict[Purl, PerformanceStanding]:
    """The loss of every version compared with the versions that could be chosen instead.

    A version loses to another version if a settled comparison shows that the other is faster. If
    two versions were not compared with each other, a version with a settled gain over the baseline
    wins, and a version with a settled loss loses. Otherwise neither version loses, however much
    their effects differ, and other criteria decide. The differences of an indicator are averaged
    over its parameters, and then over the indicators. Unsettled comparisons count as zero in both
    means.

    :param versions: all candidates, by name
    :param choosable: versions that a request can choose
    """
    table = _Table(differences)
    standings: dict[Purl, PerformanceStanding] = {}
    for name, theirs in versions.items():
        if name not in table.packages:
            continue
        rivals = table.rivals(choosable.get(name, theirs))
        for version in theirs:
            losses = [table.standing(version, it, baseline.get(name)) for it in rivals]
            worst = max(losses, key=lambda it: it.loss, default=PerformanceStanding())
            if worst.loss > 0:
                standings[version] = worst
    return standings


class _Table:
    """Differences by pair of versions."""

    def __init__(self, differences: Sequence[VersionDifference]) -> None:
        by_pair: dict[tuple[Purl, Purl], list[VersionDifference]] = defaultdict(list)
        for it in differences:
            by_pair[it.ours, it.theirs].append(it)
        self._gains = {pair: _mean_bound(several) for pair, several in by_pair.items()}
        self._differences = by_pair
        self.measured = {purl for pair in by_pair for purl in pair}
        self.packages = {it.package for several in by_pair.values() for it in several}

    def rivals(self, versions: Collection[Purl]) -> list[Purl]:
        """The measured versions, and one of the versions that were never measured."""
        measured = sorted(it for it in versions if it in self.measured)
        return measured + sorted(it for it in versions if it not in self.measured)[:1]

    def gain(self, ours: Purl, theirs: Purl) -> float | None:
        """Settled gain of ``ours`` over ``theirs``, natural log; ``None`` if not compared."""
        if (gain := self._gains.get((ours, theirs))) is not None:
            return gain
        gain = self._gains.get((theirs, ours))
        return None if gain is None else -gain

    def standing(self, version: Purl, rival: Purl, baseline: Purl | None) -> PerformanceStanding:
        """The loss of a version to another version."""
        if version == rival:
            return PerformanceStanding()
        gain = self.gain(rival, version)
        if gain is not None:
            return (
                PerformanceStanding(gain, self._largest(rival, version))
                if gain > 0
                else PerformanceStanding()
            )
        if baseline is None or baseline in (version, rival):
            return PerformanceStanding()
        ours, theirs = self.gain(rival, baseline), self.gain(version, baseline)
        if theirs is None and ours is not None and ours > 0:
            alone = f"{version_of_purl(version)} was not compared with them"
            return PerformanceStanding(ours, f"{self._largest(rival, baseline)}; {alone}")
        if ours is None and theirs is not None and theirs < 0:
            return PerformanceStanding(-theirs, self._largest(baseline, version))
        return PerformanceStanding()

    def _largest(self, faster: Purl, slower: Purl) -> str:
        """A message about the largest settled difference between two versions."""
        several = [*self._differences[faster, slower], *self._differences[slower, faster]]
        most = max(
            several,
            key=lambda it: (
                it.bound if it.ours == faster else -it.bound, it.indicator, it.comparison_key
            ),
        )  # fmt: skip
        size = float(per_cent(np.array([abs(most.shrunk)]))[0])
        return (
            f"{version_of_purl(faster)} is {size:.0f} % faster than {version_of_purl(slower)}"
            f" in {most.indicator}"
        )


def _mean_bound(differences: Sequence[VersionDifference]) -> float:
    bounds: dict[str, list[float]] = defaultdict(list)
    for it in differences:
        bounds[it.indicator].append(it.bound)
    return fmean(map(fmean, bounds.values()))


def _order(claim: Claim) -> tuple[object, ...]:
    return (
        claim.purl is None, claim.package or "", claim.purl or "", claim.indicator,
        claim.hardware_label, claim.comparison_key, claim.python_version or "", claim.stack,
        claim.baseline_stack,
    )  # fmt: skip
