"""Spread of one stack, and of two."""

from __future__ import annotations

import math
from statistics import NormalDist, StatisticsError, variance

import pytest

from adviser.scoring.effects import SpreadRatio, Variance, variance_ratio
from model.measurements.job_stability import MAD_TO_SD, robust_variation


def test_the_factor_fits_normal_noise() -> None:
    assert pytest.approx(1 / NormalDist().inv_cdf(0.75), rel=1e-4) == MAD_TO_SD


def test_robust_variation_by_hand() -> None:
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
def test_how_little_is_known_about_a_ratio(jobs: int, factor: float) -> None:
    values = [float(i) for i in range(jobs)]
    found = ratio_of(values, values)
    assert found.ratio == 1.0
    assert found.high == pytest.approx(factor, abs=0.02)
    assert found.low == pytest.approx(1 / found.high)


@pytest.mark.parametrize("ours", [[], [1.0], [1.0, 1.0, 1.0]])
def test_a_ratio_without_spread_is_unknown(ours: list[float]) -> None:
    for found in (ratio_of(ours, [1.0, 2.0]), ratio_of([1.0, 2.0], ours)):
        assert math.isnan(found.ratio)
        assert (found.low, found.high) == (0.0, math.inf)
