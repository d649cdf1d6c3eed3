"""Steps in a series: found where they are, and only there."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.scoring.drift import PENALTY, _segmented, long_run_sd, steps
from tests.effort import examples, slow


def cost(values: list[float], cuts: tuple[int, ...], penalty: float) -> float:
    ends = [0, *cuts, len(values)]
    parts = [values[a:b] for a, b in pairwise(ends)]
    about = sum(sum((x - sum(part) / len(part)) ** 2 for x in part) for part in parts)
    return about + penalty * len(cuts)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(-5, 5).map(float), min_size=4, max_size=11), st.floats(0.1, 20))
def test_no_segmentation_is_cheaper(values: list[float], penalty: float) -> None:
    shortest = 2
    every = [
        cuts
        for count in range(len(values) // shortest)
        for cuts in combinations(range(shortest, len(values) - shortest + 1), count)
        if all(b - a >= shortest for a, b in pairwise(cuts))
    ]
    found = tuple(_segmented(np.array(values), penalty, shortest))
    assert found in every
    least = min(cost(values, cuts, penalty) for cuts in every)
    assert cost(values, found, penalty) == pytest.approx(least)


def test_several_steps_are_found_where_they_are() -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, 60)
    levels = np.repeat([0.0, 0.1, 0.05], 20)
    assert steps(list(noise + levels)) == [20, 40]


def test_noise_alone_hardly_ever_steps() -> None:
    draw = np.random.default_rng(4)
    stepped = sum(bool(steps(list(draw.normal(0, 0.03, 60)))) for _ in range(300))
    assert stepped <= 0.05 * 300, PENALTY


def test_a_step_of_five_noises_is_found_in_nearly_every_case() -> None:
    draw = np.random.default_rng(5)
    found = [steps(list(draw.normal(0, 0.02, 40) + np.repeat([0, 0.1], 20))) for _ in range(100)]
    assert sum(len(it) >= 1 and abs(it[-1] - 20) <= 2 for it in found) >= 90


@pytest.mark.parametrize("quantum", [0.01, *slow([0.005, 0.02, 0.03])])
def test_a_coarse_clock_makes_no_steps(quantum: float) -> None:
    draw = np.random.default_rng(6)
    coarse = np.round(draw.normal(0, 0.01, (200, 40)) / quantum) * quantum
    assert sum(bool(steps(list(it))) for it in coarse) <= 0.05 * 200


@pytest.mark.parametrize(("likeness", "at_most"), [(0.3, 0.08), (0.6, 0.25)])
def test_runs_that_are_like_the_one_before_seldom_look_like_a_step(
    likeness: float, at_most: float
) -> None:
    draw, stepped = np.random.default_rng(7), 0
    for _ in range(200):
        noise = draw.normal(0, 0.01, 110)
        for i in range(1, 110):
            noise[i] += likeness * noise[i - 1]
        stepped += bool(steps(list(noise[50:])))
    assert stepped <= at_most * 200


def test_the_spread_of_values_is_that_of_their_noise_whatever_steps_there_are() -> None:
    noise = np.random.default_rng(8).normal(0, 0.02, 400)
    stepped = noise + np.repeat([0.0, 0.5, -0.3, 0.1], 100)
    assert long_run_sd(list(noise)) == pytest.approx(0.02, rel=0.3)
    assert long_run_sd(list(stepped)) == pytest.approx(long_run_sd(list(noise)), rel=0.1)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 9, [0.1 + 0.2] * 40, [math.log(3e9)] * 30])
def test_what_never_changes_has_no_step(values: list[float]) -> None:
    assert steps(values) == []


def test_without_any_noise_every_lasting_change_is_a_step() -> None:
    assert steps([1.0] * 10 + [1.001] * 10) == [10]


@given(st.lists(st.sampled_from([0.0, 1.0, 1.01]), max_size=40))
def test_a_level_has_as_many_jobs_as_a_verdict_needs(values: list[float]) -> None:
    found = steps(values)
    ends = [0, *found, len(values)]
    assert not found or min(b - a for a, b in pairwise(ends)) >= 5


def runs_of_60(draw: np.random.Generator, count: int, likeness: float) -> np.ndarray[Any, Any]:
    """Series of 60 runs with a standard deviation of 3 %, each like the one before it."""
    noise = draw.normal(0, 0.03, (count, 110))
    for i in range(1, 110):
        noise[:, i] += likeness * noise[:, i - 1]
    return noise[:, 50:] * math.sqrt(1 - likeness**2)


@pytest.mark.parametrize("likeness", [0.3, *slow([0.0])])
def test_few_series_of_60_steady_runs_show_a_step(likeness: float) -> None:
    series = runs_of_60(np.random.default_rng(12), 500, likeness)
    # At 1 %, a count of 500 exceeds 11 in 1 of 100 cases.
    assert sum(bool(steps(list(it))) for it in series) <= 11


@pytest.mark.parametrize("likeness", [0.3, *slow([0.0])])
def test_a_step_of_a_tenth_is_found_within_five_runs(likeness: float) -> None:
    series = runs_of_60(np.random.default_rng(13), 200, likeness)[:, :55]
    series[:, 50:] += math.log(0.9)
    assert sum(bool(steps(list(it))) for it in series) >= 0.8 * 200
