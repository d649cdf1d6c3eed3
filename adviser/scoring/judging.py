"""The rule that tells claims from noise, for any number of effects at once.

Everything is an array with one entry a comparison, so that a million of them take seconds; the
comparison of a few stacks goes through the very same functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import (
    Arms,
    Effects,
    FloatArray,
    Moments,
    chance_at_most,
    intervals,
    mirrored,
    paired_effects,
    welch_effects,
)
from adviser.scoring.planning import MIN_JOBS

ALPHA = 0.05


class Verdict(StrEnum):
    """What may be said about a candidate next to the baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    UNDETERMINED = "undetermined"


#: In the order of the numbers in :attr:`Judgements.verdicts`.
VERDICTS = (Verdict.UNDETERMINED, Verdict.EQUIVALENT, Verdict.SLOWER, Verdict.FASTER)


@dataclass(frozen=True, slots=True)
class Judgements:
    """What may be said of many comparisons that were looked at together.

    :param verdicts: places in :data:`VERDICTS`
    :param p_value: Holm-adjusted, one-sided, of the claim that the sign of ``d`` suggests; 1 if
        it was not tested
    :param low: lower end of the two-sided 95 % interval, natural log
    :param high: its upper end
    """

    verdicts: NDArray[np.int64]
    p_value: FloatArray
    low: FloatArray
    high: FloatArray

    def verdict(self, i: int) -> Verdict:
        """The verdict at index ``i``."""
        return VERDICTS[self.verdicts[i]]


def holm_adjusted(p_values: FloatArray) -> FloatArray:
    """p-values that may each be held against α though all were looked at.

    Step-down, valid under any dependence: here every candidate shares the baseline
    (Holm 1979, "A simple sequentially rejective multiple test procedure",
    Scand. J. Statist. 6:65–70).

    >>> holm_adjusted(np.array([0.04, 0.01, 0.03])).tolist()
    [0.06, 0.03, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    steps = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def judge(
    effects: Effects,
    tested: NDArray[np.bool_],
    log_margin: FloatArray | float,
    alpha: float = ALPHA,
) -> Judgements:
    """Judge comparisons, all of which were looked at together.

    :param tested: whether there are jobs enough; what is not tested does not count for Holm
    :param log_margin: ``ln(1 + δ)``, one for all or one each
    :param alpha: chance of even one false ``faster``, and likewise of one false ``slower``
    """
    margin = np.broadcast_to(np.asarray(log_margin, dtype=np.float64), effects.d.shape)
    p_faster = _claims(effects, margin, tested)
    p_slower = _claims(mirrored(effects), margin, tested)
    above = chance_at_most(effects, -margin) < alpha
    below = chance_at_most(mirrored(effects), -margin) < alpha
    low, high = intervals(effects)
    return Judgements(
        np.select([p_faster < alpha, p_slower < alpha, tested & above & below], [3, 2, 1], 0),
        np.where(effects.d < 0, p_slower, p_faster),
        low,
        high,
    )


def _claims(effects: Effects, margin: FloatArray, tested: NDArray[np.bool_]) -> FloatArray:
    """Adjusted p-values of "no faster than the margin"; 1 where nothing was tested."""
    p = np.ones_like(effects.d)
    p[tested] = holm_adjusted(chance_at_most(effects, margin)[tested])
    return p


def judge_pairs(
    arms: Arms,
    candidates: NDArray[np.int64],
    baselines: NDArray[np.int64],
    log_margin: FloatArray | float,
    alpha: float = ALPHA,
) -> tuple[Effects, Judgements]:
    """Judge pairs of arms whose jobs have nothing to do with each other.

    Linear in the jobs of all arms and in the pairs, but for two sorts.

    :param candidates: of each pair, the index of its candidate's arm
    :param baselines: and that of its baseline's
    """
    seen = arms.moments()
    ours, theirs = seen.taken(candidates), seen.taken(baselines)
    effects = welch_effects(ours, theirs)
    return effects, judge(effects, _enough(ours) & _enough(theirs), log_margin, alpha)


def judge_differences(
    differences: Arms, log_margin: FloatArray | float, alpha: float = ALPHA
) -> tuple[Effects, Judgements]:
    """Judge comparisons by the differences of jobs that ran in turns, an arm of them each."""
    seen = differences.moments()
    effects = paired_effects(seen)
    return effects, judge(effects, _enough(seen), log_margin, alpha)


def _enough(seen: Moments) -> NDArray[np.bool_]:
    return seen.jobs >= MIN_JOBS
