"""What measurements say of versions next to the baseline: claims, and what of them counts.

All comparisons of a request that may be scored are judged together, so that the chance of even
one false claim among them is bounded, however many packages, versions and indicators were looked
at; what is only told is another family of tests, with a bound of its own.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from adviser.scoring.assessments import Claim
from adviser.scoring.circumstances import Circumstances
from adviser.scoring.contrasts import Contrast, Stacks, package_contrasts, stack_contrasts
from adviser.scoring.effects import Effects, FloatArray, effects_of, per_cent
from adviser.scoring.estimates import Estimate, estimates_of
from adviser.scoring.histories import History, histories_of, jobs_left_out
from adviser.scoring.judging import ALPHA, Judgements, Verdict, judge
from adviser.scoring.lacking import Lack, Lacking, Need
from adviser.scoring.next_jobs import settling_chance
from adviser.scoring.samples import within_runs
from adviser.scoring.shrinkage import expected, pessimistic, true_variance
from adviser.scoring.spread import MIN_JOBS_TO_TELL, SpreadRatio, variance_ratio
from common.packages import Purl
from graph.evidence import Evidence, Series

#: Standard deviation, natural log, by which an effect is taken to differ between hardware
#: classes, or between versions of Python: a gain on one processor is often none on another,
#: and nothing that was measured on the one tells how far it carries to the other.
ELSEWHERE_SD = 0.1


@dataclass(frozen=True, slots=True)
class _Looked:
    """One comparison that was looked at."""

    contrast: Contrast
    history: History
    estimate: Estimate

    @property
    def log_margin(self) -> float:
        return self.history.log_margin

    @property
    def used(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The two stacks, and which of their jobs took part."""
        return (
            (self.contrast.baseline, self.estimate.baseline_used),
            (self.contrast.candidate, self.estimate.used),
        )


def performance_claims(
    evidence: Evidence,
    stacks: Stacks,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    asked: Circumstances,
) -> list[Claim]:
    """Everything that was measured of the wanted versions next to the baseline's.

    A version that was measured in the same circumstances is judged by that alone. Where it was
    not, measurements from elsewhere are told, with a wider interval, each by itself.

    :param stacks: of the evidence
    :param versions: those that may be chosen, by name
    :returns: by package, version, indicator and hardware; of stacks that differ in several
        packages, last, those only about which something is settled
    """
    histories = histories_of(evidence, _wanted(evidence, stacks, baseline))
    contrasts = _nearest(
        package_contrasts(stacks, histories, baseline, versions), evidence.series, asked
    )
    here = {
        number: it
        for number, it in histories.items()
        if asked.distance(evidence.series[number]) == 0
    }
    contrasts += stack_contrasts(stacks, here, baseline, versions)
    looked = _looked(contrasts, histories)
    # What is only told must not cost what is scored any power: two families of tests.
    scored = [it for it in looked if it.contrast.purl is not None]
    told = [it for it in looked if it.contrast.purl is None]
    claims = _claims(scored, asked, evidence) + _claims(told, asked, evidence, settled=True)
    return sorted(claims, key=_order)


def stack_claims(
    evidence: Evidence, stacks: Stacks, baseline: str, candidate: str, asked: Circumstances
) -> list[Claim]:
    """What two measured stacks show next to each other, in the very circumstances asked about.

    However many packages differ: it is the stacks themselves that are asked about, and nothing
    else is tested with them. Nothing of it is scored.

    :param baseline: digest of the one stack, and ``candidate`` of the other
    """
    here = {it.series for it in evidence.readings if it.stack == baseline}
    here = {number for number in here if asked.distance(evidence.series[number]) == 0}
    histories = histories_of(evidence, here)
    differs = stacks.differing(baseline, candidate)
    contrasts = [
        Contrast(number, baseline, candidate, differs)
        for number, it in histories.items()
        if baseline in it.jobs and candidate in it.jobs
    ]
    return sorted(_claims(_looked(contrasts, histories), asked, evidence), key=_order)


def _wanted(evidence: Evidence, stacks: Stacks, baseline: Mapping[str, Purl]) -> set[int]:
    """Series in which a stack was measured that holds some of the baseline."""
    holding = {digest for purl in baseline.values() for digest in stacks.holding(purl)}
    return {it.series for it in evidence.readings if it.stack in holding}


def _nearest(
    contrasts: Sequence[Contrast], series: Sequence[Series], asked: Circumstances
) -> list[Contrast]:
    """Of each version those contrasts that come from as near as any."""
    nearest: dict[Purl | None, int] = {}
    for it in contrasts:
        distance = asked.distance(series[it.series])
        nearest[it.purl] = min(distance, nearest.get(it.purl, distance))
    return [it for it in contrasts if asked.distance(series[it.series]) == nearest[it.purl]]


def _looked(contrasts: Sequence[Contrast], histories: Mapping[int, History]) -> list[_Looked]:
    """Estimates, all candidates of one baseline in one go."""
    together: dict[tuple[int, str], list[Contrast]] = defaultdict(list)
    for it in contrasts:
        together[it.series, it.baseline].append(it)
    found = []
    for (number, base), several in together.items():
        history = histories[number]
        samples = [history.sample(it.candidate) for it in several]
        estimates = estimates_of(history.sample(base), samples, history.spread)
        found += [
            _Looked(contrast, history, estimate)
            for contrast, estimate in zip(several, estimates, strict=True)
        ]
    return found


def _claims(
    looked: Sequence[_Looked], asked: Circumstances, evidence: Evidence, *, settled: bool = False
) -> list[Claim]:
    """The claims of comparisons that are judged together: one family of tests.

    :param settled: whether only those are wanted that have a verdict
    """
    if not looked:
        return []
    effects = effects_of([it.estimate.effect for it in looked])
    away = [ELSEWHERE_SD * math.sqrt(asked.distance(it.history.series)) for it in looked]
    wide = replace(effects, standard_error=np.hypot(effects.standard_error, away))
    tested = np.array([it.estimate.tested for it in looked])
    margins = np.array([it.log_margin for it in looked])
    judged = judge(wide, tested, margins, ALPHA)
    count = max(1, int(tested.sum()))
    shrunk = _expected(looked, wide)
    bounds = pessimistic(wide, shrunk, ALPHA / count)
    low = np.where(np.isfinite(judged.low), per_cent(judged.low), -np.inf)
    told = np.stack([low, per_cent(judged.high), per_cent(shrunk), per_cent(effects.d)])
    per_cents = told.T.tolist()
    return [
        _claim(
            it,
            _Found(
                judged, i, per_cents[i], float(bounds[i]), Lacking(float(margins[i]), ALPHA, count)
            ),
            asked,
            evidence.hardware,
        )
        for i, it in enumerate(looked)
        if not settled or judged.verdicts[i]
    ]


def _expected(looked: Sequence[_Looked], effects: Effects) -> FloatArray:
    """What is expected to last of each effect, by what all comparisons of its series show."""
    found = np.zeros(len(looked))
    by_series: dict[int, list[int]] = defaultdict(list)
    for i, it in enumerate(looked):
        by_series[it.contrast.series].append(i)
    for places in by_series.values():
        some = Effects(
            effects.d[places], effects.standard_error[places], effects.degrees_of_freedom[places]
        )
        found[places] = expected(some, true_variance(some))
    return found


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of one comparison.

    :param judgements: of all of them
    :param place: of this one among them
    :param per_cents: ends of the interval, the effect as it is published, and as it was observed
    :param bound: the pessimistic one, natural log
    """

    judgements: Judgements
    place: int
    per_cents: Sequence[float]
    bound: float
    lacking: Lacking

    @property
    def verdict(self) -> Verdict:
        return self.judgements.verdict(self.place)

    @property
    def p_value(self) -> float:
        return float(self.judgements.p_value[self.place])

    def chance(self, it: _Looked, lack: Lack) -> float:
        """That what it lacks settles it as faster or slower."""
        estimate, more = it.estimate, max(lack.jobs, lack.baseline_jobs)
        if not more or not estimate.tested or lack.need not in _COUNTED:
            return 0.0
        so_far, told = min(estimate.runs, estimate.baseline_runs), self.lacking
        return settling_chance(estimate.effect, so_far, more, told.log_margin, told.tested)


#: What is lacking is counted in pairs or runs, of which further ones make the error smaller.
_COUNTED = frozenset({Need.JOBS, Need.RUNS})


def _claim(it: _Looked, found: _Found, asked: Circumstances, labels: Mapping[str, str]) -> Claim:
    contrast, series, estimate = it.contrast, it.history.series, it.estimate
    verdict = found.verdict
    lack = found.lacking.of(estimate, verdict, elsewhere=asked.distance(series) > 0)
    scored = contrast.purl is not None and verdict is not Verdict.UNDETERMINED
    low, high, effect, observed = found.per_cents
    return Claim(
        package=contrast.differs[0] if contrast.purl else None,
        purl=contrast.purl,
        baseline_purl=contrast.baseline_purl,
        stack=contrast.candidate,
        baseline_stack=contrast.baseline,
        differs=contrast.differs,
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
        interval_low_pct=low,
        interval_high_pct=high,
        delta_pct=100 * math.expm1(found.lacking.log_margin),
        p_value=found.p_value,
        jobs=estimate.jobs,
        baseline_jobs=estimate.baseline_jobs,
        runs=estimate.runs,
        baseline_runs=estimate.baseline_runs,
        needs=lack.need,
        jobs_missing=lack.jobs,
        baseline_jobs_missing=lack.baseline_jobs,
        chance=found.chance(it, lack),
        method=estimate.method,
        pairs=estimate.pairs,
        hosts=estimate.hosts,
        tau=estimate.tau,
        bound=_counted(verdict, found.bound) if scored else 0.0,
        scored=scored,
        left_out=jobs_left_out(it.history, it.used),
        spread_ratio=_spread_ratio(it),
        evidence=tuple(
            sorted(one for stack, used in it.used for one in it.history.observed(stack, used))
        ),
        as_of=max((at for one in it.used if (at := it.history.as_of(*one))), default=None),
    )


def _spread_ratio(it: _Looked) -> SpreadRatio | None:
    """How much more the jobs of one stack vary than those of the other, from 20 jobs on."""
    if min(it.estimate.jobs, it.estimate.baseline_jobs) < MIN_JOBS_TO_TELL:
        return None
    theirs, ours = (within_runs(it.history.sample(stack), used) for stack, used in it.used)
    return variance_ratio(ours, theirs)


def _counted(verdict: Verdict, bound: float) -> float:
    """What scores count: a gain never below none, a loss never above, no difference as none."""
    if verdict is Verdict.FASTER:
        return max(0.0, bound)
    return min(0.0, bound) if verdict is Verdict.SLOWER else 0.0


def performance_values(claims: Sequence[Claim]) -> dict[Purl, float]:
    """The value of each version by the criterion: mean over indicators of the mean over what
    each was measured with. A comparison that nothing settled is in both means, as zero.
    """
    bounds: dict[Purl, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for it in claims:
        if it.purl is not None:
            bounds[it.purl][it.indicator].append(it.bound)
    return {purl: fmean(map(fmean, several.values())) for purl, several in bounds.items()}


def _order(it: Claim) -> tuple[object, ...]:
    return (
        it.purl is None, it.package or "", it.purl or "", it.indicator, it.hardware_label,
        it.comparison_key, it.python_version or "", it.stack, it.baseline_stack,
    )  # fmt: skip
