"""Verdicts: whether a difference between stacks may be claimed at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from adviser.scoring.effects import effects_of, per_cent
from adviser.scoring.estimates import Estimate, Method, Sample, estimates_of
from adviser.scoring.judging import ALPHA, Judgements, Verdict, holm_adjusted, judge
from adviser.scoring.lacking import Lacking, Need
from adviser.scoring.runs import UNKNOWN_SPREAD, RunSpread
from common.errors import IncomparableSamples

#: The smallest difference worth a verdict, a share of the baseline's rate.
MIN_DELTA = 0.02

__all__ = [
    "ALPHA",
    "Comparison",
    "Verdict",
    "compare_candidates",
    "holm_adjusted",
    "smallest_difference",
]


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
    :param p_value: Holm-adjusted, one-sided, of the claim that the sign of ``d`` suggests
        (faster or slower than the margin); 1 if it was not tested
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


def compare_candidates(
    baseline: Sample,
    candidates: Sequence[Sample],
    *,
    aa_history: Sequence[float] = (),
    spread: RunSpread = UNKNOWN_SPREAD,
    alpha: float = ALPHA,
) -> list[Comparison]:
    """Compare every candidate with the baseline, in the order given.

    ``faster``: the one-sided lower bound of ``d`` lies above ``ln(1+δ)``, Holm-adjusted over
    the candidates tested, so that among any number of stacks that are no faster the chance
    of even one such claim is at most α; ``slower`` is the mirror image, with its own α.
    ``equivalent``: both one-sided bounds lie within ``±ln(1+δ)`` (TOST; Schuirmann 1987,
    doi:10.1007/BF01068419). Anything else, and any arm below five jobs, is ``undetermined``.
    Candidates below five jobs are not tested and so do not count for Holm; that depends
    on the number of jobs alone, never on what they showed.

    How each effect was estimated is :func:`adviser.scoring.estimates.estimates_of`'s matter;
    jobs are those that took part, so that below five pairs, or without five jobs an arm on
    hosts that both stacks ran on, there is no verdict; nor is there one where the jobs of an
    arm are of fewer than five runs, unless ``spread`` tells what a run does.

    :param candidates: all that are looked at together; splitting them defeats Holm
    :param aa_history: see :func:`smallest_difference`
    :param spread: what runs of one stack have shown of this key
    :raises IncomparableSamples: if a comparison key differs from the baseline's
    """
    _refuse_other_keys(baseline, candidates)
    if not candidates:
        return []
    estimates = estimates_of(baseline, candidates, spread)
    effects = effects_of([estimate.effect for estimate in estimates])
    tested = np.array([it.tested for it in estimates])
    log_margin = math.log1p(smallest_difference(aa_history))
    judged = judge(effects, tested, log_margin, alpha)
    lacking = Lacking(log_margin, alpha, int(tested.sum()))
    return [
        _comparison((sample.label, baseline.label), estimate, judged, i, lacking)
        for i, (sample, estimate) in enumerate(zip(candidates, estimates, strict=True))
    ]


def _comparison(
    labels: tuple[str, str], estimate: Estimate, judged: Judgements, i: int, lacking: Lacking
) -> Comparison:
    verdict = judged.verdict(i)
    lack = lacking.of(estimate, verdict)
    low, high = per_cent(np.array([judged.low[i], judged.high[i]]))
    return Comparison(
        candidate=labels[0],
        baseline=labels[1],
        d=estimate.effect.d,
        standard_error=estimate.effect.standard_error,
        degrees_of_freedom=estimate.effect.degrees_of_freedom,
        interval_low_pct=float(low),
        interval_high_pct=float(high),
        verdict=verdict,
        jobs=estimate.jobs,
        baseline_jobs=estimate.baseline_jobs,
        runs=estimate.runs,
        baseline_runs=estimate.baseline_runs,
        tested=estimate.tested,
        needs=lack.need,
        jobs_missing=lack.jobs,
        baseline_jobs_missing=lack.baseline_jobs,
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
