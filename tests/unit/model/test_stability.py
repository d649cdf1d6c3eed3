"""A job is left out by rule only, and by the same rule everywhere."""

from __future__ import annotations

import pytest

from model.measurements.job_stability import (
    JobConditions,
    instability,
    noise_warnings,
    within_job_spread,
)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (JobConditions(), None),
        (JobConditions(throttled=True), "throttled"),
        (JobConditions(swapped=True), "swapped"),
        (JobConditions(steal_share=0.011), "steal"),
        (JobConditions(steal_share=0.01), None),
        (JobConditions(throttled=True, swapped=True), "throttled"),
    ],
)
def test_the_machine_can_make_a_job_unstable(conditions: JobConditions, reason: str | None) -> None:
    assert instability([1.0, 1.0], conditions) == reason


def test_spread_within_a_job_makes_it_unstable_above_a_tenth() -> None:
    assert instability([90.0, 100.0, 110.0]) is None  # MAD 10, median 100
    assert instability([89.0, 100.0, 111.0]) == "spread"


def test_one_wild_repetition_does_not_make_a_job_unstable() -> None:
    assert instability([1.0, 1.0, 1.01, 1.02, 50.0]) is None


def test_a_single_repetition_has_no_spread() -> None:
    assert within_job_spread([3.0]) == 0.0
    assert instability([]) is None


@pytest.mark.parametrize(
    ("left_out", "variation", "count"),
    [({}, None, 0), ({}, 0.25, 0), ({"spread": 5}, 0.1, 0), ({"spread": 6}, 0.26, 2)],
)
def test_much_noise_is_a_warning(
    left_out: dict[str, int], variation: float | None, count: int
) -> None:
    assert len(list(noise_warnings("numpy", 10, left_out, variation))) == count
