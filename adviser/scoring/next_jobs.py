"""Where further jobs tell most: which open comparison to measure next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from adviser.scoring.effects import Effect, Effects, FloatArray, effects_of, intervals
from adviser.scoring.judging import ALPHA, Verdict
from adviser.scoring.verdicts import Comparison

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Open:
    """A comparison that could be measured further.

    :param jobs: of the candidate so far; the baseline is taken to keep pace
    :param asked: how often answers depend on it, in any unit
    :param cost_s: of one further job of each arm, s, above zero
    """

    comparison: Comparison
    jobs: int
    asked: float
    cost_s: float


def settling_chance(
    it: Comparison, jobs: int, more: int, log_margin: float, tested: int = 1
) -> float:
    """Chance that so many further jobs an arm make an undetermined comparison a claim.

    By the normal approximation, if the true difference is distributed about the one that
    was seen with its standard error (Spiegelhalter, Freedman & Blackburn 1986, "Monitoring
    clinical trials: conditional or predictive power?", Control. Clin. Trials 7:8-17).

    :param more: jobs, one or more
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
