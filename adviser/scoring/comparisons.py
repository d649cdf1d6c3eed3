"""Compare stacks: one verdict for each candidate against its baseline.

All comparisons of one answer form one family and share one error rate. :func:`self_check` tests
the rules on stacks that are known to be identical.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import Effects, FloatArray, effects_of, per_cent
from adviser.scoring.estimates import UNKNOWN_SERIES, Estimate, Method, SeriesSpread, estimates_of
from adviser.scoring.sample_needs import (
    JudgedFamily,
    Need,
    SampleNeed,
)
from adviser.scoring.samples import Sample
from adviser.scoring.verdicts import (
    ALPHA,
    Judgements,
    Verdict,
    judge,
)
from common.errors import IncomparableSamples


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One comparison of an answer.

    :param log_margin: ``ln(1 + δ)``
    :param series: number of its series; comparisons of one series inform each other
    :param elsewhere_sd: what its effect may differ by here, natural log; 0 if measured here
    :param weight: share of α, in any unit, above zero
    :param planned: whether further jobs are planned for it where it has no verdict
    """

    estimate: Estimate
    log_margin: float
    series: int = 0
    elsewhere_sd: float = 0.0
    weight: float = 1.0
    planned: bool = True


@dataclass(frozen=True, slots=True)
class ComparisonFamily:
    """All comparisons of one answer, judged.

    :param effects: of each, widened where it was measured elsewhere
    :param tested: whether each had jobs enough, so that it counts
    :param alpha: the part of α that each has; 0 for those that are not tested
    :param lacks: what each lacks for a verdict
    """

    judgements: Judgements
    effects: Effects
    tested: NDArray[np.bool_]
    alpha: FloatArray
    lacks: tuple[SampleNeed, ...]

    @property
    def size(self) -> int:
        """How many comparisons share α."""
        return int(self.tested.sum())


def judge_family(members: Sequence[FamilyMember], alpha: float = ALPHA) -> ComparisonFamily:
    """Judge the comparisons of one answer together, in the order given.

    :param alpha: chance of even one false claim among them
    """
    estimates = [it.estimate for it in members]
    observed = effects_of([it.effect for it in estimates])
    away = np.array([it.elsewhere_sd for it in members])
    effects = Effects(
        observed.d, np.hypot(observed.standard_error, away), observed.degrees_of_freedom
    )
    tested = np.array([it.tested for it in estimates], dtype=np.bool_)
    margins = np.array([it.log_margin for it in members])
    weights = np.array([it.weight for it in members])
    own_freedom = np.array([it.own_freedom for it in estimates])
    judged = judge(effects, tested, margins, own_freedom, weights, alpha)
    total = float(weights[tested].sum()) or 1.0
    shares = np.where(tested, alpha * weights / total, 0.0)
    family = JudgedFamily(
        estimates=estimates,
        effects=effects,
        planned=(judged.verdicts == 0) & np.array([it.planned for it in members], dtype=np.bool_),
        elsewhere=away > 0,
        log_margin=margins,
        alpha=shares,
        series=[it.series for it in members],
    )
    return ComparisonFamily(judged, effects, tested, shares, tuple(family.lacks()))


#: The smallest difference worth a verdict, a share of the baseline's rate.
MIN_DELTA = 0.02


@dataclass(frozen=True, slots=True)
class Comparison:
    """One candidate against the baseline.

    :param candidate: label of the candidate
    :param baseline: label of the baseline
    :param d: candidate − baseline, natural log; ``nan`` if an arm is empty
    :param standard_error: of ``d``; infinite if unknown
    :param degrees_of_freedom: of the standard error; 0 if unknown
    :param interval_low_pct: lower end of the two-sided 95 % interval, per cent
    :param interval_high_pct: its upper end
    :param verdict: what may be claimed
    :param jobs: of the candidate that took part
    :param baseline_jobs: of the baseline
    :param runs: that these were part of, or pairs
    :param baseline_runs: the same of the baseline
    :param tested: whether there was enough for a verdict, so that it counted for Holm
    :param needs: what is missing where it is undetermined
    :param jobs_missing: further jobs of the candidate until a verdict can be expected, an
        estimate; 0 where it is settled, and where jobs do not help
    :param baseline_jobs_missing: the same for the baseline
    :param chance: that these jobs settle it as faster or slower; 0 where too little is known
    :param p_value: see :class:`adviser.scoring.verdicts.Judgements`
    :param method: how ``d`` was estimated
    :param pairs: of jobs that ran in turns, 0 where none were used
    :param hosts: that both stacks ran on; ``None`` if that is not known
    :param used: places of the candidate's jobs that took part, in its sample
    :param baseline_used: the same of the baseline
    :param tau: standard deviation of the true effect between hosts, natural log; ``None``
        unless effects of several hosts were pooled
    """

    candidate: str
    baseline: str
    d: float
    standard_error: float
    degrees_of_freedom: float
    interval_low_pct: float
    interval_high_pct: float
    verdict: Verdict
    jobs: int
    baseline_jobs: int
    runs: int
    baseline_runs: int
    tested: bool
    needs: Need | None
    jobs_missing: int
    baseline_jobs_missing: int
    chance: float
    p_value: float
    method: Method
    pairs: int
    hosts: int | None
    used: tuple[int, ...]
    baseline_used: tuple[int, ...]
    tau: float | None

    @property
    def difference_pct(self) -> float:
        """``exp(d) − 1`` in per cent of the baseline's rate."""
        return float(per_cent(np.array([self.d]))[0])


def smallest_difference(aa_history: Sequence[float] = ()) -> float:
    """δ: the difference that is of interest, a share of the baseline's rate.

    2 %, or the 95th percentile of ``|d|`` between stacks known to be identical where that
    is more: what a key shows by itself is not news.

    :param aa_history: past effects of identical pairs that ran in turns with this key, natural
        logs; how much runs differ is part of the error instead

    >>> smallest_difference()
    0.02
    """
    if not aa_history:
        return MIN_DELTA
    return max(MIN_DELTA, math.expm1(float(np.percentile(np.abs(aa_history), 95))))


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Stacks of one series and the baseline that they are compared with.

    :param aa_history: see :func:`smallest_difference`
    :param spread: what all stacks of the series show of its noise
    """

    baseline: Sample
    candidates: Sequence[Sample]
    aa_history: Sequence[float] = ()
    spread: SeriesSpread = UNKNOWN_SERIES


def compare_candidates(
    baseline: Sample,
    candidates: Sequence[Sample],
    *,
    aa_history: Sequence[float] = (),
    spread: SeriesSpread = UNKNOWN_SERIES,
    alpha: float = ALPHA,
) -> list[Comparison]:
    """Compare every candidate with the baseline: :func:`compare_all` of one contest."""
    return compare_all([ComparisonGroup(baseline, candidates, aa_history, spread)], alpha)[0]


def compare_all(
    contests: Sequence[ComparisonGroup], alpha: float = ALPHA
) -> list[list[Comparison]]:
    """Compare the candidates of every contest with its baseline, as one family of claims.

    :func:`adviser.scoring.verdicts.judge` says what is claimed. Candidates below five jobs or five
    pairs are not tested and so do not count for Holm; that depends on the number of jobs alone,
    never on what they showed. :func:`adviser.scoring.estimates.estimates_of` says which jobs take
    part. There is no verdict where the jobs of an arm are of fewer than five runs, unless the
    spread of the series tells what a run does.

    :param contests: all that one answer shows; splitting them defeats Holm
    :param alpha: chance of even one false claim among all of them
    :returns: the comparisons of each contest, in the order given
    :raises IncomparableSamples: if a comparison key differs from the baseline's
    """
    members: list[FamilyMember] = []
    for number, it in enumerate(contests):
        _refuse_other_keys(it.baseline, it.candidates)
        margin = math.log1p(smallest_difference(it.aa_history))
        members += [
            FamilyMember(estimate, margin, number)
            for estimate in estimates_of(it.baseline, it.candidates, it.spread)
        ]
    if not members:
        return [[] for _ in contests]
    family = judge_family(members, alpha)
    places = iter(range(len(members)))
    return [
        [
            _comparison((candidate.label, it.baseline.label), members[i].estimate, family, i)
            for candidate, i in zip(it.candidates, places, strict=False)
        ]
        for it in contests
    ]


def _comparison(
    labels: tuple[str, str], estimate: Estimate, family: ComparisonFamily, i: int
) -> Comparison:
    lack, judged = family.lacks[i], family.judgements
    low, high = per_cent(np.array([judged.low[i], judged.high[i]]))
    return Comparison(
        candidate=labels[0],
        baseline=labels[1],
        d=estimate.effect.d,
        standard_error=estimate.effect.standard_error,
        degrees_of_freedom=estimate.effect.degrees_of_freedom,
        interval_low_pct=float(low),
        interval_high_pct=float(high),
        verdict=judged.verdict(i),
        jobs=estimate.jobs,
        baseline_jobs=estimate.baseline_jobs,
        runs=estimate.runs,
        baseline_runs=estimate.baseline_runs,
        tested=estimate.tested,
        needs=lack.need,
        jobs_missing=lack.jobs,
        baseline_jobs_missing=lack.baseline_jobs,
        chance=lack.chance,
        p_value=float(judged.p_value[i]),
        method=estimate.method,
        pairs=estimate.pairs,
        hosts=estimate.hosts,
        used=estimate.used,
        baseline_used=estimate.baseline_used,
        tau=estimate.tau,
    )


def _refuse_other_keys(baseline: Sample, candidates: Sequence[Sample]) -> None:
    for sample in candidates:
        if sample.comparison_key != baseline.comparison_key:
            raise IncomparableSamples(
                f"{sample.label} ({sample.comparison_key}) was not measured like "
                f"{baseline.label} ({baseline.comparison_key})"
            )


#: Share of 95 % intervals of identical stacks that should hold "no difference".
COVERAGE = (0.93, 0.97)

#: Chance of an alarm where all is well, for each of the three checks.
_ALARM = 0.01


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """What comparisons of identical stacks have shown; every claim among them is false.

    :param settled: comparisons with an interval
    :param held: of these, those whose interval holds "no difference"
    :param problems: for a person; empty if the promises are kept as far as can be told
    """

    comparisons: int
    faster: int
    slower: int
    settled: int
    held: int
    problems: tuple[str, ...]

    @property
    def coverage(self) -> float | None:
        """Share of intervals that held; ``None`` without any."""
        return self.held / self.settled if self.settled else None


def self_check(identical: Sequence[Comparison]) -> SelfCheck:
    """Check comparisons of stacks with themselves, each made by itself.

    A problem is what chance hardly does (1 in 100): more claims than 2 α, as faster and
    slower have an α each; far more claims of one sign; intervals that hold too seldom or
    too often.
    """
    faster = sum(it.verdict is Verdict.FASTER for it in identical)
    slower = sum(it.verdict is Verdict.SLOWER for it in identical)
    known = [it for it in identical if it.degrees_of_freedom > 0]
    held = sum(it.interval_low_pct <= 0 <= it.interval_high_pct for it in known)
    problems = [
        *_too_many(faster + slower, len(identical)),
        *_lopsided(faster, slower),
        *_off(held, len(known)),
    ]
    return SelfCheck(len(identical), faster, slower, len(known), held, tuple(problems))


def _too_many(claims: int, comparisons: int) -> list[str]:
    from scipy.stats import binom  # slow, and needed only for a self-check

    if claims <= binom.ppf(1 - _ALARM, comparisons, 2 * ALPHA):
        return []
    return [f"{claims} false claims in {comparisons} comparisons of identical stacks"]


def _lopsided(faster: int, slower: int) -> list[str]:
    from scipy.stats import binomtest  # slow, and needed only for a self-check

    if not faster + slower or binomtest(faster, faster + slower).pvalue >= _ALARM:
        return []
    return [f"identical stacks were called faster {faster} times and slower {slower} times"]


def _off(held: int, known: int) -> list[str]:
    from scipy.stats import binom  # slow, and needed only for a self-check

    low, high = COVERAGE
    if not known or binom.ppf(_ALARM / 2, known, low) <= held <= binom.isf(_ALARM / 2, known, high):
        return []
    return [f"{held} of {known} intervals of 95 % hold what they should"]
