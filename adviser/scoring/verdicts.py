"""Verdicts: whether a difference between stacks may be claimed at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adviser.scoring.effects import per_cent
from adviser.scoring.estimates import UNKNOWN_SERIES, Estimate, Method, SeriesSpread, estimates_of
from adviser.scoring.families import Family, Member, judge_family
from adviser.scoring.judging import ALPHA, Verdict
from adviser.scoring.lacking import Need
from adviser.scoring.samples import Sample
from common.errors import IncomparableSamples

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
    :param p_value: see :class:`adviser.scoring.judging.Judgements`
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
class Contest:
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
    return compare_all([Contest(baseline, candidates, aa_history, spread)], alpha)[0]


def compare_all(contests: Sequence[Contest], alpha: float = ALPHA) -> list[list[Comparison]]:
    """Compare the candidates of every contest with its baseline, as one family of claims.

    :func:`adviser.scoring.judging.judge` says what is claimed. Candidates below five jobs or five
    pairs are not tested and so do not count for Holm; that depends on the number of jobs alone,
    never on what they showed. :func:`adviser.scoring.estimates.estimates_of` says which jobs take
    part. There is no verdict where the jobs of an arm are of fewer than five runs, unless the
    spread of the series tells what a run does.

    :param contests: all that one answer shows; splitting them defeats Holm
    :param alpha: chance of even one false claim among all of them
    :returns: the comparisons of each contest, in the order given
    :raises IncomparableSamples: if a comparison key differs from the baseline's
    """
    members: list[Member] = []
    for number, it in enumerate(contests):
        _refuse_other_keys(it.baseline, it.candidates)
        margin = math.log1p(smallest_difference(it.aa_history))
        members += [
            Member(estimate, margin, number)
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


def _comparison(labels: tuple[str, str], estimate: Estimate, family: Family, i: int) -> Comparison:
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
