"""What is published of the best, and what is counted on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adviser.scoring.effects import (
    Effects,
    lower_bounds,
    moments,
    shrinkage_factors,
    shrunk_effects,
    true_variance,
    welch_effects,
)
from adviser.scoring.verdicts import judge


def effects(d: list[float], error: float | list[float], freedom: float = 18.0) -> Effects:
    values = np.array(d)
    return Effects(values, np.broadcast_to(error, values.shape).astype(float),
                   np.full(values.shape, freedom))  # fmt: skip


def test_noise_alone_leaves_nothing() -> None:
    assert true_variance(effects([0.01, -0.01, 0.005], 0.02)) == 0
    assert shrinkage_factors(np.array([0.02]), 0.0).tolist() == [0.0]


def test_without_any_error_all_is_left() -> None:
    exact = effects([0.1, -0.2], 0.0)
    assert shrinkage_factors(exact.standard_error, true_variance(exact)).tolist() == [1, 1]
    assert shrinkage_factors(np.zeros(1), 0.0).tolist() == [1]


def test_what_is_not_known_counts_for_nothing() -> None:
    some = effects([0.1, math.nan, 0.3], [0.01, math.inf, math.inf])
    assert true_variance(some) == pytest.approx(0.01 - 0.0001)
    assert true_variance(effects([math.nan], math.inf)) == 0
    assert shrinkage_factors(some.standard_error, 0.01)[1:].tolist() == [0, 0]
    assert lower_bounds(some, some.d)[1:].tolist() == [-math.inf, -math.inf]


def test_shrinking_undoes_the_winners_curse() -> None:
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


def test_of_equal_promises_the_better_known_ranks_higher() -> None:
    some = effects([0.1, 0.1], [0.01, 0.02])
    bounds = lower_bounds(some, some.d)
    assert 0.1 > bounds[0] > bounds[1]
    # t of 18 degrees of freedom, one-sided 95 %, from any table
    assert bounds[0] == pytest.approx(0.1 - 1.7341 * 0.01, abs=1e-6)


def test_a_clear_gain_among_noisy_neighbours_is_reported_nearly_as_it_is() -> None:
    """5 % with an error of 0.3 % beside twenty that are noise with an error of 4 %."""
    draw = np.random.default_rng(7)
    for _ in range(100):
        some = effects([0.05, *draw.normal(0, 0.04, 20)], [0.003, *[0.04] * 20])
        assert shrunk_effects(some, true_variance(some))[0] > 0.04


def test_one_far_out_hardly_changes_what_is_reported_of_the_others() -> None:
    draw = np.random.default_rng(8)
    for _ in range(50):
        noise = list(draw.normal(0, 0.03, 30))
        calm, wild = effects(noise, 0.03), effects([-1.0, *noise], 0.03)
        without, beside = (shrunk_effects(it, true_variance(it)) for it in (calm, wild))
        assert np.abs(beside[1:] - without).max() < 0.025
        assert beside[0] < -0.94, "and it is itself told as what it is"


def test_what_is_settled_is_never_reported_as_nothing() -> None:
    """Whoever beats the margin at 95 % is told as more than the margin, whatever τ² is."""
    some = effects([0.02 + 1.7 * 0.05], 0.05)
    assert shrunk_effects(some, 0.0)[0] > 0.02


def test_the_bound_of_the_best_of_twenty_holds() -> None:
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


def test_the_true_variance_solves_its_equation() -> None:
    some = effects([0.1, -0.2, 0.05, 0.15], [0.05, 0.02, 0.1, 0.03])
    tau_squared = true_variance(some)
    assert np.sum(some.d**2 / (tau_squared + some.standard_error**2)) == pytest.approx(4)


def test_the_order_of_effects_does_not_change_the_last_bit_of_the_variance() -> None:
    draw = np.random.default_rng(3)
    many = Effects(draw.normal(0, 0.1, 23), draw.uniform(0.01, 0.05, 23), np.full(23, 8.0))
    orders = [draw.permutation(23) for _ in range(50)]
    assert {
        true_variance(Effects(many.d[it], many.standard_error[it], many.degrees_of_freedom[it]))
        for it in orders
    } == {true_variance(many)}
