"""Effects and their intervals against hand-worked numbers and scipy's own test."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from adviser.scoring.effects import Effect, moments, per_cent, welch_effects
from tests.factories.effects import interval_per_cent, paired_effect, welch_effect

FAST = [1.0, 3.0, 5.0, 7.0]  # mean 4, variance 20/3
SLOW = [0.0, 1.0, 2.0]  # mean 1, variance 1


def test_welch_by_hand() -> None:
    effect = welch_effect(FAST, SLOW)
    # SE² = 20/12 + 1/3 = 2; df = 2² / ((5/3)²/3 + (1/3)²/2) = 4 / (25/27 + 1/18) = 216/53
    assert effect.d == pytest.approx(3.0)
    assert effect.standard_error == pytest.approx(math.sqrt(2))
    assert effect.degrees_of_freedom == pytest.approx(216 / 53)


def test_welch_agrees_with_scipy() -> None:
    rng = np.random.default_rng(7)
    ours, theirs = rng.normal(1.0, 0.03, 9), rng.normal(0.9, 0.08, 6)
    effect = welch_effect(ours.tolist(), theirs.tolist())
    reference = stats.ttest_ind(ours, theirs, equal_var=False)
    low, high = reference.confidence_interval(0.95)
    assert effect.degrees_of_freedom == pytest.approx(reference.df)
    assert effect.d / effect.standard_error == pytest.approx(reference.statistic)
    expected = (100 * math.expm1(low), 100 * math.expm1(high))
    assert interval_per_cent(effect) == pytest.approx(expected)


def test_many_arms_give_what_each_gives_alone() -> None:
    arms = [FAST, SLOW, [], [2.0]]
    together = welch_effects(moments(arms), moments([SLOW]))
    for i, arm in enumerate(arms):
        alone = welch_effect(arm, SLOW)
        one = (together.d[i], together.standard_error[i], together.degrees_of_freedom[i])
        assert one == pytest.approx(
            (alone.d, alone.standard_error, alone.degrees_of_freedom), nan_ok=True
        )


def test_paired_jobs_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, SE 1/√3.
    effect = paired_effect([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    assert effect.d == 2.0
    assert effect.standard_error == pytest.approx(1 / math.sqrt(3))
    assert effect.degrees_of_freedom == 2.0


def test_pairing_removes_what_both_arms_share() -> None:
    drift = [0.0, 1.0, 2.0, 3.0]
    ours = [0.1 + x for x in drift]
    assert paired_effect(ours, drift).standard_error < 1e-9
    assert welch_effect(ours, drift).standard_error > 0.5


def test_arms_of_different_length_are_not_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_effect([1.0, 2.0], [1.0])


@pytest.mark.parametrize("ours", [[0.1] * 5, [0.1, 0.1]])
def test_equal_values_have_no_error(ours: list[float]) -> None:
    effect = welch_effect(ours, [0.3] * 5)
    assert effect.d == pytest.approx(-0.2)
    assert effect.standard_error == 0.0
    assert effect.degrees_of_freedom == len(ours) + 3
    assert interval_per_cent(effect) == pytest.approx((100 * math.expm1(-0.2),) * 2)


@pytest.mark.parametrize(("ours", "theirs"), [([1.0], SLOW), (FAST, [1.0]), ([1.0], [1.0])])
def test_one_job_says_nothing_about_its_error(ours: list[float], theirs: list[float]) -> None:
    effect = welch_effect(ours, theirs)
    assert math.isfinite(effect.d)
    assert effect.standard_error == math.inf
    assert interval_per_cent(effect) == (-100.0, math.inf)


def test_an_empty_arm_has_no_difference() -> None:
    for effect in (welch_effect([], SLOW), welch_effect([], [])):
        assert math.isnan(effect.d)
        assert effect.standard_error == math.inf


def test_tiny_and_huge_spreads_do_not_underflow_or_warn() -> None:
    effect = welch_effect([0.0, 1e-120], [0.0, 1e-120, 2e-120])
    assert 1 <= effect.degrees_of_freedom <= 3
    assert interval_per_cent(Effect(0.0, 1e6, 1.0)) == (-100.0, math.inf)


def test_per_cent_is_of_the_baseline() -> None:
    assert per_cent(np.log([2.0, 0.5])).tolist() == pytest.approx([100.0, -50.0])
