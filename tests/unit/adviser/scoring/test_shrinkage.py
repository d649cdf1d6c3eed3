"""What is published of the best, and what is counted on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adviser.scoring.effects import Effects
from adviser.scoring.shrinkage import pessimistic, shrinkage_factors, true_variance


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
    assert pessimistic(some, some.d)[1:].tolist() == [-math.inf, -math.inf]


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
    bounds = pessimistic(some, some.d)
    assert 0.1 > bounds[0] > bounds[1]
    # t of 18 degrees of freedom, one-sided 95 %, from any table
    assert bounds[0] == pytest.approx(0.1 - 1.7341 * 0.01, abs=1e-6)
