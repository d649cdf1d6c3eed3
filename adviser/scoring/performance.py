"""What measurements say of versions: claims, and the order that the settled ones give.

All comparisons of one answer are judged as one family, so that the chance of even one false claim
in it is bounded, however many packages, versions and indicators it covers. Performance orders two
versions only by what is settled between them; :func:`performance_order` has the rule.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from adviser.scoring.assessments import Claim, PerformanceStanding
from adviser.scoring.comparisons import (
    ComparisonFamily,
    FamilyMember,
    judge_family,
)
from adviser.scoring.effects import (
    MIN_JOBS_TO_TELL,
    Effects,
    FloatArray,
    SpreadRatio,
    lower_bounds,
    per_cent,
    shrunk_effects,
    true_variance,
    variance_ratio,
)
from adviser.scoring.estimates import Estimate, pair_estimates
from adviser.scoring.histories import History, histories_of, jobs_left_out
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

#: Standard deviation, natural log, by which an effect is taken to differ between hardware
#: classes, or between versions of Python: a gain on one processor is often none on another,
#: and nothing that was measured on the one tells how far it carries to the other.
ELSEWHERE_SD = 0.1

#: How α is shared among what an answer compares: most of it goes where a claim changes the advice.
_SHARES = {Role.BASELINE: 6.0, Role.NEWEST: 3.0, Role.OTHERS: 1.0, Role.STACKS: 1.0}


@dataclass(frozen=True, slots=True)
class _Compared:
    """One contrast with its estimate."""

    contrast: StackPair
    history: History
    estimate: Estimate

    @property
    def used(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The two stacks, and which of their jobs took part."""
        return (
            (self.contrast.baseline, self.estimate.baseline_used),
            (self.contrast.candidate, self.estimate.used),
        )


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """What one comparison of two versions of a package settled.

    :param shrunk: how much faster ``ours`` is, as it is expected to last, natural log
    :param bound: natural log: the settled difference, δ at least; below zero where ``theirs`` is
        faster, 0 where nothing is settled
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
    """What measurements say of the versions of a request.

    :param claims: comparisons with the baseline's versions, and settled ones between others
    :param differences: of all comparisons of two versions that had jobs enough
    :param comparisons: how many comparisons share the error rate
    """

    claims: tuple[Claim, ...]
    differences: tuple[VersionDifference, ...]
    comparisons: int


def performance_of(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    asked: Target,
) -> Performance:
    """Everything that was measured of the wanted versions.

    A version that was measured in the same circumstances is judged by that alone. Where it was
    not, measurements from elsewhere are told, with a wider interval, each by itself.

    :param stacks: of the evidence
    :param versions: those that may be chosen, by name
    :returns: claims by package, version, indicator and hardware; of stacks that differ in several
        packages, last, those only about which something is settled
    """
    histories = histories_of(evidence, _wanted(evidence, stacks, baseline, versions))
    contrasts = _nearest(
        package_pairs(stacks, histories, baseline, versions), evidence.series, asked
    )
    here = {
        number: it
        for number, it in histories.items()
        if asked.distance(evidence.series[number]) == 0
    }
    contrasts += several_package_pairs(stacks, here, baseline, versions)
    return _judged(_estimated(contrasts, histories), asked, evidence)


def upgrade_claims(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    asked: Target,
    whole: tuple[str, str] | None = None,
) -> tuple[Claim, ...]:
    """What is known of an upgrade, settled or not: of each changed version, and of all together.

    Nothing else is tested, and all of it is one family.

    :param baseline: the versions of the old stack by name
    :param versions: by name, the old and the new version of each package that changed
    :param whole: digests of the old and the new stack if both were measured as they are; they are
        compared in the very circumstances asked about, and never scored
    """
    histories = histories_of(evidence, _wanted(evidence, stacks, baseline, versions))
    contrasts = _nearest(
        package_pairs(stacks, histories, baseline, versions), evidence.series, asked
    )
    if whole is not None:
        old, new = whole
        differs = stacks.differing(old, new)
        contrasts += [
            StackPair(number, old, new, differs)
            for number, it in histories.items()
            if asked.distance(evidence.series[number]) == 0 and old in it.jobs and new in it.jobs
        ]
    return _judged(_estimated(contrasts, histories), asked, evidence, every=True).claims


def _wanted(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
) -> set[int]:
    """Series in which a stack was measured that holds a version that is asked about."""
    holding = {digest for purl in baseline.values() for digest in stacks.holding(purl)}
    for several in versions.values():
        measured = [it for it in several if stacks.holding(it)]
        if len(measured) > 1:
            holding.update(digest for it in measured for digest in stacks.holding(it))
    return {it.series for it in evidence.readings if it.stack in holding}


def _nearest(
    contrasts: Sequence[StackPair], series: Sequence[Series], asked: Target
) -> list[StackPair]:
    """Of every two versions those contrasts that come from as near as any."""
    nearest: dict[tuple[Purl | None, Purl | None], int] = {}
    for it in contrasts:
        distance, pair = asked.distance(series[it.series]), (it.purl, it.baseline_purl)
        nearest[pair] = min(distance, nearest.get(pair, distance))
    return [
        it
        for it in contrasts
        if asked.distance(series[it.series]) == nearest[it.purl, it.baseline_purl]
    ]


def _estimated(contrasts: Sequence[StackPair], histories: Mapping[int, History]) -> list[_Compared]:
    """Estimates, those of one series in one go."""
    by_series: dict[int, list[StackPair]] = defaultdict(list)
    for it in contrasts:
        by_series[it.series].append(it)
    compared = []
    for number, several in by_series.items():
        history = histories[number]
        pairs = [(history.sample(it.baseline), history.sample(it.candidate)) for it in several]
        estimates = pair_estimates(pairs, history.spread)
        compared += [
            _Compared(contrast, history, estimate)
            for contrast, estimate in zip(several, estimates, strict=True)
        ]
    return compared


def _judged(
    compared: Sequence[_Compared],
    asked: Target,
    evidence: Evidence,
    *,
    every: bool = False,
) -> Performance:
    """All comparisons of one answer: one family of tests.

    :param every: whether claims are wanted of every comparison, settled or not
    """
    if not compared:
        return Performance((), (), 0)
    tested = Counter(it.contrast.role for it in compared if it.estimate.tested)
    family = judge_family(
        [
            FamilyMember(
                it.estimate,
                it.history.log_margin,
                it.contrast.series,
                ELSEWHERE_SD * math.sqrt(asked.distance(it.history.series)),
                _SHARES[it.contrast.role] / max(1, tested[it.contrast.role]),
                every or it.contrast.role is Role.BASELINE,
            )
            for it in compared
        ]
    )
    verdicts = family.judgements.verdicts
    shrunk = _expected(compared, family.effects)
    levels = np.where(family.tested, family.alpha, ALPHA)
    bounds = lower_bounds(_sizes(family.effects), np.abs(shrunk), levels)
    judged = [
        _Judged(it, family, i, float(shrunk[i]), float(bounds[i])) for i, it in enumerate(compared)
    ]
    claims = [
        _claim(it, asked, evidence.hardware)
        for it in judged
        if every or it.compared.contrast.role is Role.BASELINE or verdicts[it.place]
    ]
    return Performance(
        tuple(sorted(claims, key=_order)),
        tuple(_differences(judged)),
        family.size,
    )


def _sizes(effects: Effects) -> Effects:
    return Effects(np.abs(effects.d), effects.standard_error, effects.degrees_of_freedom)


def _expected(compared: Sequence[_Compared], effects: Effects) -> FloatArray:
    """What is expected to last of each effect, by what all comparisons of its series show."""
    shrunk = np.zeros(len(compared))
    by_series: dict[int, list[int]] = defaultdict(list)
    for i, it in enumerate(compared):
        by_series[it.contrast.series].append(i)
    for places in by_series.values():
        some = Effects(
            effects.d[places], effects.standard_error[places], effects.degrees_of_freedom[places]
        )
        shrunk[places] = shrunk_effects(some, true_variance(some))
    return shrunk


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was judged of one comparison.

    :param place: among the members of the family
    :param shrunk: the effect as it is expected to last, natural log
    :param smallest: lower bound of its size, natural log
    """

    compared: _Compared
    family: ComparisonFamily
    place: int
    shrunk: float
    smallest: float

    @property
    def one_package(self) -> bool:
        """Whether the two stacks differ in a single package."""
        return self.compared.contrast.purl is not None

    @property
    def bound(self) -> float:
        """The settled difference; 0 if none is settled. It is δ at least: that was tested."""
        if not (self.one_package and self.family.judgements.verdict(self.place).different):
            return 0.0
        size = max(self.smallest, self.compared.history.log_margin)
        return math.copysign(size, self.compared.estimate.effect.d)


def _differences(judged: Iterable[_Judged]) -> Iterator[VersionDifference]:
    for it in judged:
        contrast, series = it.compared.contrast, it.compared.history.series
        ours, theirs = contrast.purl, contrast.baseline_purl
        if ours is not None and theirs is not None and it.compared.estimate.tested:
            yield VersionDifference(
                contrast.differs[0],
                ours,
                theirs,
                series.indicator,
                series.comparison_key,
                it.shrunk,
                it.bound,
            )


def _claim(judged: _Judged, asked: Target, labels: Mapping[str, str]) -> Claim:
    it = judged.compared
    contrast, series, estimate = it.contrast, it.history.series, it.estimate
    place, judgements = judged.place, judged.family.judgements
    verdict, lack = judgements.verdict(place), judged.family.lacks[place]
    low, high, effect, observed = per_cent(
        np.array([judgements.low[place], judgements.high[place], judged.shrunk, estimate.effect.d])
    ).tolist()
    return Claim(
        package=contrast.differs[0] if contrast.purl else None,
        purl=contrast.purl,
        baseline_purl=contrast.baseline_purl,
        stack=contrast.candidate,
        baseline_stack=contrast.baseline,
        differs=contrast.differs,
        beside_baseline=contrast.role is Role.BASELINE,
        indicator=series.indicator,
        parameters=series.parameters,
        device=series.device,
        unit=series.unit,
        comparison_key=series.comparison_key,
        hardware_digest=series.hardware_digest,
        hardware_label=labels.get(series.hardware_digest, series.hardware_digest),
        same_hardware=asked.same_hardware(series),
        python_version=series.python_version,
        same_python=asked.same_python(series),
        verdict=verdict,
        effect_pct=effect,
        observed_pct=observed,
        interval_low_pct=low if math.isfinite(judgements.low[place]) else -math.inf,
        interval_high_pct=high,
        delta_pct=100 * math.expm1(it.history.log_margin),
        p_value=float(judgements.p_value[place]),
        jobs=estimate.jobs,
        baseline_jobs=estimate.baseline_jobs,
        runs=estimate.runs,
        baseline_runs=estimate.baseline_runs,
        tested=estimate.tested,
        needs=lack.need,
        jobs_missing=lack.jobs,
        baseline_jobs_missing=lack.baseline_jobs,
        chance=lack.chance,
        method=estimate.method,
        pairs=estimate.pairs,
        hosts=estimate.hosts,
        tau=estimate.tau,
        bound=judged.bound,
        scored=judged.one_package and verdict.settled,
        left_out=jobs_left_out(it.history, it.used),
        spread_ratio=_spread_ratio(it),
        evidence=tuple(
            sorted(one for stack, used in it.used for one in it.history.observed(stack, used))
        ),
        as_of=max((at for one in it.used if (at := it.history.as_of(*one))), default=None),
    )


def _spread_ratio(it: _Compared) -> SpreadRatio | None:
    """How much more the jobs of one stack vary than those of the other, from 20 jobs on."""
    if min(it.estimate.jobs, it.estimate.baseline_jobs) < MIN_JOBS_TO_TELL:
        return None
    theirs, ours = (within_runs(it.history.sample(stack), used) for stack, used in it.used)
    return variance_ratio(ours, theirs)


def performance_order(
    differences: Sequence[VersionDifference],
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Sequence[Purl]],
    choosable: Mapping[str, Collection[Purl]],
) -> dict[Purl, PerformanceStanding]:
    """How every version stands next to those that could be chosen instead of it.

    A version loses to another one that is settled to be faster. Of two versions that were not
    compared, the one with a settled gain over the baseline comes first, and one with a settled loss
    last. Otherwise neither loses, however far each one's effect is from the baseline's: then
    other criteria decide. A difference is the mean over indicators of the mean over what each
    was measured with; a comparison that nothing settled is in both means, as zero.

    :param versions: all candidates, by name
    :param choosable: those that a request can have
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
    """Differences by the two versions that they compare."""

    def __init__(self, differences: Sequence[VersionDifference]) -> None:
        by_pair: dict[tuple[Purl, Purl], list[VersionDifference]] = defaultdict(list)
        for it in differences:
            by_pair[it.ours, it.theirs].append(it)
        self._gains = {pair: _mean_bound(several) for pair, several in by_pair.items()}
        self._differences = by_pair
        self.measured = {purl for pair in by_pair for purl in pair}
        self.packages = {it.package for several in by_pair.values() for it in several}

    def rivals(self, versions: Collection[Purl]) -> list[Purl]:
        """The measured ones of some versions, and one of those that were never measured."""
        measured = sorted(it for it in versions if it in self.measured)
        return measured + sorted(it for it in versions if it not in self.measured)[:1]

    def gain(self, ours: Purl, theirs: Purl) -> float | None:
        """How much faster ``ours`` is settled to be, natural log; ``None`` if not compared."""
        if (gain := self._gains.get((ours, theirs))) is not None:
            return gain
        gain = self._gains.get((theirs, ours))
        return None if gain is None else -gain

    def standing(self, version: Purl, rival: Purl, baseline: Purl | None) -> PerformanceStanding:
        """What a version loses to another one."""
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
            alone = f"{version_of_purl(version)} was not measured beside them"
            return PerformanceStanding(ours, f"{self._largest(rival, baseline)}; {alone}")
        if ours is None and theirs is not None and theirs < 0:
            return PerformanceStanding(-theirs, self._largest(baseline, version))
        return PerformanceStanding()

    def _largest(self, faster: Purl, slower: Purl) -> str:
        """The largest settled difference between two versions, in words."""
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


def _order(it: Claim) -> tuple[object, ...]:
    return (
        it.purl is None, it.package or "", it.purl or "", it.indicator, it.hardware_label,
        it.comparison_key, it.python_version or "", it.stack, it.baseline_stack,
    )  # fmt: skip
