"""Errors of coarse clocks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adviser.scoring.effects import Effect
from adviser.scoring.estimates import clock_tick, clock_variance, with_clock


def test_readings_that_coincide_tell_the_tick() -> None:
    assert clock_tick([0.1, 0.3, 0.1, 0.7]) == pytest.approx(0.2)
    assert clock_tick([0.1, 0.3, 0.7]) == 0.0


def test_the_error_of_a_constant_reading_is_that_of_rounding() -> None:
    assert clock_variance([0.3] * 9, 0.1) == pytest.approx(0.1**2 / 12)
    assert clock_variance([0.3] * 9, 0.1, 2) == pytest.approx(2 * 0.1**2 / 12)
    assert clock_variance([0.3] * 9, 0.0) == math.inf


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
def test_the_error_covers_what_rounding_does_to_the_mean(share: float) -> None:
    """Means of many rounded values, whose noise is this share of a tick."""
    draw = np.random.default_rng(7)
    errors, expected = [], []
    for true in draw.uniform(0, 1, 300):
        read = np.round(true + share * draw.normal(0, 1, 2000))
        errors.append(read.mean() - true)
        expected.append(clock_variance(read.tolist(), 1.0) + read.var() / 2000)
    assert np.mean(np.square(errors)) <= 1.1 * np.mean(expected)


def test_a_fine_clock_changes_nothing() -> None:
    effect = Effect(0.1, 0.02, 9.0)
    assert with_clock(effect, 0.0, 4.0) == (effect, 4.0)


def test_an_error_of_the_clock_has_few_degrees_of_freedom() -> None:
    wide, own = with_clock(Effect(0.1, 0.0, 9.0), 1e-4, 4.0)
    assert (wide.standard_error, wide.degrees_of_freedom, own) == (pytest.approx(0.01), 2.0, 2.0)
    both, _ = with_clock(Effect(0.1, 0.01, 9.0), 1e-4, 4.0)
    assert both.standard_error == pytest.approx(0.01 * math.sqrt(2))
    assert both.degrees_of_freedom == pytest.approx(1 / (0.25 / 9 + 0.25 / 2))


@pytest.mark.parametrize("variance", [0.0, math.inf])
def test_no_error_at_all_is_an_unknown_error(variance: float) -> None:
    unknown, own = with_clock(Effect(0.1, 0.0, 9.0), variance, 4.0)
    assert (unknown.standard_error, unknown.degrees_of_freedom, own) == (math.inf, 0.0, 0.0)
