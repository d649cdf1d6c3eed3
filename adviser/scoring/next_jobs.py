"""Where further jobs tell most: which open comparison to measure next.

:func:`further_jobs` is what ``thoth stacks`` tells, :func:`next_claims` what reports do: there
every comparison is asked equally often, and every job costs the same. :class:`Open` has both,
for whoever plans inspections.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from adviser.scoring.assessments import Claim
from adviser.scoring.effects import Effect, Effects, FloatArray, effects_of, intervals
from adviser.scoring.judging import ALPHA, Verdict
from adviser.scoring.verdicts import Comparison

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Open:
    """A comparison that could be measured further.

    :param jobs: pairs or runs of the candidate so far; the baseline is taken to keep pace
    :param asked: how often answers depend on it, in any unit
    :param cost_s: of one further job of each arm, s, above zero
    """

    comparison: Comparison
    jobs: int
    asked: float
    cost_s: float


@dataclass(frozen=True, slots=True)
class Further:
    """An open comparison, and the jobs that it lacks.

    :param candidate: label
    :param baseline: label
    :param jobs: of the candidate, further ones
    :param baseline_jobs: of the baseline
    :param chance: that they settle it as faster or slower; 0 where too little is known to tell
    """

    candidate: str
    baseline: str
    jobs: int
    baseline_jobs: int
    chance: float


def further_jobs(comparisons: Sequence[Comparison], delta: float) -> tuple[Further, ...]:
    """Open comparisons, the one first of which further jobs tell most.

    Who cannot be the best any more is left out, and so is what no number of jobs tells. What is
    worth equally much, as where errors are not known yet, is in the order of the jobs that it
    lacks.

    :param comparisons: all that were tested together, each with one and the same baseline
    :param delta: δ, a share of the baseline's rate
    """
    margin = math.log1p(delta)
    tested = max(1, sum(it.tested for it in comparisons))
    found = []
    for it, racing in zip(comparisons, still_in_the_race(comparisons), strict=True):
        more = max(it.jobs_missing, it.baseline_jobs_missing)
        if racing and more:
            so_far = min(it.runs, it.baseline_runs) if it.tested else 0
            chance = settling_chance(it, so_far, more, margin, tested)
            told = Further(
                it.candidate, it.baseline, it.jobs_missing, it.baseline_jobs_missing, chance
            )
            found.append((-worth(Open(it, so_far, 1.0, 1.0), more, margin, tested), more, told))
    return tuple(told for *_, told in sorted(found, key=lambda it: (*it[:2], it[2].candidate)))


def next_claims(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Open claims about one version, measured here, of which further jobs tell most first.

    Versions that by some measurement cannot be the best of their package are left out of it.
    """
    best: dict[tuple[str | None, str, str], float] = defaultdict(lambda: -math.inf)
    here = [it for it in claims if it.purl is not None and it.here]
    for it in here:
        best[_race(it)] = max(best[_race(it)], it.interval_low_pct)
    racing = (it for it in here if max(it.jobs_missing, it.baseline_jobs_missing))
    return tuple(
        sorted((it for it in racing if it.interval_high_pct >= best[_race(it)]), key=_last)
    )


def _race(it: Claim) -> tuple[str | None, str, str]:
    return it.package, it.comparison_key, it.baseline_stack


def _last(it: Claim) -> tuple[float, int, str, str]:
    more = max(it.jobs_missing, it.baseline_jobs_missing)
    size = abs(math.log1p(it.observed_pct / 100)) if it.chance else 0.0
    return -it.chance * size / more, more, it.purl or "", it.comparison_key


def settling_chance(
    it: Comparison | Effect, jobs: int, more: int, log_margin: float, tested: int = 1
) -> float:
    """Chance that so many further jobs an arm make an undetermined comparison a claim.

    By the normal approximation, if the true difference is distributed about the one that
    was seen with its standard error (Spiegelhalter, Freedman & Blackburn 1986, "Monitoring
    clinical trials: conditional or predictive power?", Control. Clin. Trials 7:8-17).

    :param jobs: so far: pairs, or runs where jobs are not paired
    :param more: of the same, one or more
    :param tested: how many comparisons share α
    """
    error = it.standard_error
    if not math.isfinite(error) or not math.isfinite(it.d) or jobs < 1:
        return 0.0
    later = error * math.sqrt(jobs / (jobs + more))
    # What the estimate will still move: all of its error now, less what is left then.
    moves = math.sqrt(max(error**2 - later**2, 0.0))
    limit = log_margin + _NORMAL.inv_cdf(1 - ALPHA / tested) * later
    if moves == 0.0:
        return float(abs(it.d) > limit)
    return _NORMAL.cdf((it.d - limit) / moves) + _NORMAL.cdf((-it.d - limit) / moves)


def worth(it: Open, more: int, log_margin: float, tested: int = 1) -> float:
    """Chance of a claim × how often it is asked × size of the difference ÷ cost."""
    if it.comparison.verdict is not Verdict.UNDETERMINED:
        return 0.0
    chance = settling_chance(it.comparison, it.jobs, more, log_margin, tested)
    size = abs(it.comparison.d) if math.isfinite(it.comparison.d) else 0.0
    return chance * it.asked * size / (more * it.cost_s)


def still_in_the_race(comparisons: Sequence[Comparison]) -> list[bool]:
    """Whether each candidate may yet be the best: its upper bound reaches the best lower one.

    Where an error is not known, everything is possible still.
    """
    if not comparisons:
        return []
    low, high = _bounds(comparisons)
    return [bool(it) for it in high >= np.max(low)]


def _bounds(comparisons: Sequence[Comparison]) -> tuple[FloatArray, FloatArray]:
    effects = effects_of([_effect(it) for it in comparisons])
    known = np.isfinite(effects.d) & np.isfinite(effects.standard_error)
    low, high = intervals(
        Effects(np.where(known, effects.d, 0.0), effects.standard_error, effects.degrees_of_freedom)
    )
    return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _effect(it: Comparison) -> Effect:
    return Effect(it.d, it.standard_error, it.degrees_of_freedom)
