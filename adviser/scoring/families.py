"""One family for each answer: its comparisons are judged together, and share one error rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import Effects, FloatArray, effects_of
from adviser.scoring.estimates import Estimate
from adviser.scoring.judging import ALPHA, Judgements, judge
from adviser.scoring.lacking import JudgedFamily, Lack


@dataclass(frozen=True, slots=True)
class Member:
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
class Family:
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
    lacks: tuple[Lack, ...]

    @property
    def size(self) -> int:
        """How many comparisons share α."""
        return int(self.tested.sum())


def judge_family(members: Sequence[Member], alpha: float = ALPHA) -> Family:
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
    return Family(judged, effects, tested, shares, tuple(family.lacks()))
