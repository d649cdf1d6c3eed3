"""Effects against hand-worked numbers and scipy: errors, clocks, spreads, shrinkage."""

import math
from statistics import NormalDist, StatisticsError, variance

import numpy as np
import pytest
from scipy import stats

from adviser.scoring.effects import (
    Effect,
    Effects,
    SpreadRatio,
    Variance,
    lower_bounds,
    moments,
    shrinkage_factors,
    shrunk_effects,
    true_variance,
    variance_ratio,
    welch_effects,
)
from adviser.scoring.estimates import clock_variance, with_clock
from adviser.scoring.samples import job_log_rate
from adviser.scoring.verdicts import judge
from model.measurements.job_stability import MAD_TO_SD, robust_variation
from tests.factories.effects import interval_per_cent, paired_effect, welch_effect

FAST = [1.0, 3.0, 5.0, 7.0]  # mean 4, variance 20/3
SLOW = [0.0, 1.0, 2.0]  # mean 1, variance 1


def test_welch_effect_equals_the_example_computed_by_hand() -> None:
    effect = welch_effect(FAST, SLOW)
    # SE² = 20/12 + 1/3 = 2; df = 2² / ((5/3)²/3 + (1/3)²/2) = 4 / (25/27 + 1/18) = 216/53
    assert effect.d == pytest.approx(3.0)
    assert effect.standard_error == pytest.approx(math.sqrt(2))
    assert effect.degrees_of_freedom == pytest.approx(216 / 53)


def test_welch_effect_agrees_with_scipy() -> None:
    rng = np.random.default_rng(7)
    ours, theirs = rng.normal(1.0, 0.03, 9), rng.normal(0.9, 0.08, 6)
    effect = welch_effect(ours.tolist(), theirs.tolist())
    reference = stats.ttest_ind(ours, theirs, equal_var=False)
    low, high = reference.confidence_interval(0.95)
    assert effect.degrees_of_freedom == pytest.approx(reference.df)
    assert effect.d / effect.standard_error == pytest.approx(reference.statistic)
    expected = (100 * math.expm1(low), 100 * math.expm1(high))
    assert interval_per_cent(effect) == pytest.approx(expected)


def test_vectorised_welch_effects_equal_individual_computations() -> None:
    arms = [FAST, SLOW, [], [2.0]]
    together = welch_effects(moments(arms), moments([SLOW]))
    for i, arm in enumerate(arms):
        alone = welch_effect(arm, SLOW)
        one = (together.d[i], together.standard_error[i], together.degrees_of_freedom[i])
        assert one == pytest.approx(
            (alone.d, alone.standard_error, alone.degrees_of_freedom), nan_ok=True
        )


def test_paired_effect_equals_the_example_computed_by_hand() -> None:
    # Differences 1, 2, 3: mean 2, standard deviation 1, SE 1/√3.
    effect = paired_effect([11.0, 22.0, 33.0], [10.0, 20.0, 30.0])
    assert effect.d == 2.0
    assert effect.standard_error == pytest.approx(1 / math.sqrt(3))
    assert effect.degrees_of_freedom == 2.0


def test_pairing_removes_drift_that_both_stacks_share() -> None:
    drift = [0.0, 1.0, 2.0, 3.0]
    ours = [0.1 + x for x in drift]
    assert paired_effect(ours, drift).standard_error < 1e-9
    assert welch_effect(ours, drift).standard_error > 0.5


@pytest.mark.parametrize("ours", [[0.1] * 5, [0.1, 0.1]])
def test_constant_values_have_a_standard_error_of_zero(ours: list[float]) -> None:
    effect = welch_effect(ours, [0.3] * 5)
    assert effect.d == pytest.approx(-0.2)
    assert effect.standard_error == 0.0
    assert effect.degrees_of_freedom == len(ours) + 3
    assert interval_per_cent(effect) == pytest.approx((100 * math.expm1(-0.2),) * 2)


@pytest.mark.parametrize(("ours", "theirs"), [([1.0], SLOW), (FAST, [1.0]), ([1.0], [1.0])])
def test_standard_error_of_a_single_job_is_infinite(ours: list[float], theirs: list[float]) -> None:
    effect = welch_effect(ours, theirs)
    assert math.isfinite(effect.d)
    assert effect.standard_error == math.inf
    assert interval_per_cent(effect) == (-100.0, math.inf)


def test_effect_without_values_is_undefined() -> None:
    for effect in (welch_effect([], SLOW), welch_effect([], [])):
        assert math.isnan(effect.d)
        assert effect.standard_error == math.inf


def test_tiny_and_huge_spreads_do_not_underflow_or_warn() -> None:
    effect = welch_effect([0.0, 1e-120], [0.0, 1e-120, 2e-120])
    assert 1 <= effect.degrees_of_freedom <= 3
    assert interval_per_cent(Effect(0.0, 1e6, 1.0)) == (-100.0, math.inf)


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [1.0, math.inf], [math.nan]])
def test_rates_must_be_positive_finite_numbers(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        job_log_rate(rates)


def test_robust_variation_is_scaled_to_normal_noise() -> None:
    assert pytest.approx(1 / NormalDist().inv_cdf(0.75), rel=1e-4) == MAD_TO_SD


def test_robust_variation_equals_the_example_computed_by_hand() -> None:
    # Median 100, deviations 2, 1, 0, 1, 900: MAD 1.
    assert robust_variation([98, 99, 100, 101, 1000]) == pytest.approx(0.014826)
    assert robust_variation([5.0]) == 0.0
    with pytest.raises(StatisticsError):
        robust_variation([])


def ratio_of(ours: list[float], theirs: list[float]) -> SpreadRatio:
    def spread(values: list[float]) -> Variance:
        known = len(values) > 1
        return Variance(variance(values) if known else math.nan, max(0, len(values) - 1))

    return variance_ratio(spread(ours), spread(theirs))


@pytest.mark.parametrize(("jobs", "factor"), [(5, 3.1), (20, 1.6)])
def test_spread_ratio_has_a_wide_interval_for_few_jobs(jobs: int, factor: float) -> None:
    values = [float(i) for i in range(jobs)]
    found = ratio_of(values, values)
    assert found.ratio == 1.0
    assert found.high == pytest.approx(factor, abs=0.02)
    assert found.low == pytest.approx(1 / found.high)


@pytest.mark.parametrize("ours", [[], [1.0], [1.0, 1.0, 1.0]])
def test_spread_ratio_is_unknown_for_constant_values(ours: list[float]) -> None:
    for found in (ratio_of(ours, [1.0, 2.0]), ratio_of([1.0, 2.0], ours)):
        assert math.isnan(found.ratio)
        assert (found.low, found.high) == (0.0, math.inf)


def test_constant_reading_has_the_rounding_error_of_the_clock() -> None:
    assert clock_variance([0.3] * 9, 0.1) == pytest.approx(0.1**2 / 12)
    assert clock_variance([0.3] * 9, 0.1, 2) == pytest.approx(2 * 0.1**2 / 12)
    assert clock_variance([0.3] * 9, 0.0) == math.inf


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
def test_clock_error_covers_the_rounding_error_of_means(share: float) -> None:
    """Means of many rounded values, whose noise is this share of a tick."""
    draw = np.random.default_rng(7)
    errors, expected = [], []
    for true in draw.uniform(0, 1, 300):
        read = np.round(true + share * draw.normal(0, 1, 2000))
        errors.append(read.mean() - true)
        expected.append(clock_variance(read.tolist(), 1.0) + read.var() / 2000)
    assert np.mean(np.square(errors)) <= 1.1 * np.mean(expected)


def test_exact_clock_does_not_change_the_standard_error() -> None:
    effect = Effect(0.1, 0.02, 9.0)
    assert with_clock(effect, 0.0, 4.0) == (effect, 4.0)


def test_clock_error_has_few_degrees_of_freedom() -> None:
    wide, own = with_clock(Effect(0.1, 0.0, 9.0), 1e-4, 4.0)
    assert (wide.standard_error, wide.degrees_of_freedom, own) == (pytest.approx(0.01), 2.0, 2.0)
    both, _ = with_clock(Effect(0.1, 0.01, 9.0), 1e-4, 4.0)
    assert both.standard_error == pytest.approx(0.01 * math.sqrt(2))
    assert both.degrees_of_freedom == pytest.approx(1 / (0.25 / 9 + 0.25 / 2))


@pytest.mark.parametrize("variance", [0.0, math.inf])
def test_effect_with_zero_error_and_unknown_clock_has_infinite_error(variance: float) -> None:
    unknown, own = with_clock(Effect(0.1, 0.0, 9.0), variance, 4.0)
    assert (unknown.standard_error, unknown.degrees_of_freedom, own) == (math.inf, 0.0, 0.0)


def effects(d: list[float], error: float | list[float], freedom: float = 18.0) -> Effects:
    values = np.array(d)
    return Effects(values, np.broadcast_to(error, values.shape).astype(float),
                   np.full(values.shape, freedom))  # fmt: skip


def test_effects_within_noise_shrink_to_zero() -> None:
    assert true_variance(effects([0.01, -0.01, 0.005], 0.02)) == 0
    assert shrinkage_factors(np.array([0.02]), 0.0).tolist() == [0.0]


def test_effects_with_zero_error_are_not_shrunk() -> None:
    exact = effects([0.1, -0.2], 0.0)
    assert shrinkage_factors(exact.standard_error, true_variance(exact)).tolist() == [1, 1]
    assert shrinkage_factors(np.zeros(1), 0.0).tolist() == [1]


def test_effects_with_infinite_error_do_not_change_shrinkage() -> None:
    some = effects([0.1, math.nan, 0.3], [0.01, math.inf, math.inf])
    assert true_variance(some) == pytest.approx(0.01 - 0.0001)
    assert true_variance(effects([math.nan], math.inf)) == 0
    assert shrinkage_factors(some.standard_error, 0.01)[1:].tolist() == [0, 0]
    assert lower_bounds(some, some.d)[1:].tolist() == [-math.inf, -math.inf]


def test_shrinkage_removes_the_overestimate_of_the_best_version() -> None:
    """The best of 20, whose true gains vary by 5 % and are seen with an error of 5 %."""
    draw = np.random.default_rng(6)
    told, shrunk = [], []
    for _ in range(400):
        true = draw.normal(0, 0.05, 20)
        seen = effects(list(true + draw.normal(0, 0.05, 20)), 0.05)
        best = int(np.argmax(seen.d))
        factor = shrinkage_factors(seen.standard_error, true_variance(seen))[best]
        told.append(seen.d[best] - true[best])
        shrunk.append(factor * seen.d[best] - true[best])
    assert np.mean(told) > 0.04
    assert abs(np.mean(shrunk)) < 0.01


def test_more_precise_of_two_equal_effects_has_the_higher_bound() -> None:
    some = effects([0.1, 0.1], [0.01, 0.02])
    bounds = lower_bounds(some, some.d)
    assert 0.1 > bounds[0] > bounds[1]
    # t of 18 degrees of freedom, one-sided 95 %, from any table
    assert bounds[0] == pytest.approx(0.1 - 1.7341 * 0.01, abs=1e-6)


def test_precise_gain_among_noisy_effects_is_hardly_shrunk() -> None:
    """5 % with an error of 0.3 % beside twenty that are noise with an error of 4 %."""
    draw = np.random.default_rng(7)
    for _ in range(100):
        some = effects([0.05, *draw.normal(0, 0.04, 20)], [0.003, *[0.04] * 20])
        assert shrunk_effects(some, true_variance(some))[0] > 0.04


def test_outlier_hardly_changes_the_shrinkage_of_other_effects() -> None:
    draw = np.random.default_rng(8)
    for _ in range(50):
        noise = list(draw.normal(0, 0.03, 30))
        calm, wild = effects(noise, 0.03), effects([-1.0, *noise], 0.03)
        without, beside = (shrunk_effects(it, true_variance(it)) for it in (calm, wild))
        assert np.abs(beside[1:] - without).max() < 0.025
        assert beside[0] < -0.94, "and it is itself told as what it is"


def test_gain_settled_beyond_the_margin_is_reported_above_the_margin() -> None:
    """Whoever beats the margin at 95 % is told as more than the margin, whatever τ² is."""
    some = effects([0.02 + 1.7 * 0.05], 0.05)
    assert shrunk_effects(some, 0.0)[0] > 0.02


def test_lower_bound_of_the_best_of_twenty_stacks_holds() -> None:
    """All are 3 % faster than one baseline, whose error all of them share."""
    draw, held, seen = np.random.default_rng(9), 0, 0
    for _ in range(400):
        arms = draw.normal(0, 0.03, (21, 10))
        arms[1:] += 0.03
        some = welch_effects(moments(list(arms[1:])), moments([arms[0]]))
        found = judge(some, np.ones(20, bool), math.log(1.02))
        bounds = lower_bounds(some, shrunk_effects(some, true_variance(some)), 0.05 / 20)
        winners = np.flatnonzero(found.verdicts == 3)
        if len(winners):
            seen += 1
            held += bounds[winners].max() <= 0.03
    assert seen >= 20
    assert seen - held <= 0.05 * 400, "of all requests"
    assert held >= 0.8 * seen, "even of those in which chance helped somebody to win"


def test_between_stack_variance_solves_its_defining_equation() -> None:
    some = effects([0.1, -0.2, 0.05, 0.15], [0.05, 0.02, 0.1, 0.03])
    tau_squared = true_variance(some)
    assert np.sum(some.d**2 / (tau_squared + some.standard_error**2)) == pytest.approx(4)


def test_between_stack_variance_is_bitwise_independent_of_the_order() -> None:
    draw = np.random.default_rng(3)
    many = Effects(draw.normal(0, 0.1, 23), draw.uniform(0.01, 0.05, 23), np.full(23, 8.0))
    orders = [draw.permutation(23) for _ in range(50)]
    assert {
        true_variance(Effects(many.d[it], many.standard_error[it], many.degrees_of_freedom[it]))
        for it in orders
    } == {true_variance(many)}
