"""One job gives one number, and is left out by rule only."""

from __future__ import annotations

import math

import pytest

from adviser.scoring.jobs import JobConditions, instability, job_log_rate
from common.measurements import within_job_spread


def test_a_job_is_the_log_of_its_median() -> None:
    assert job_log_rate([4e9, 1e9, 2e9]) == pytest.approx(math.log(2e9))


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [1.0, math.inf], [math.nan]])
def test_rates_that_are_not_positive_numbers_are_refused(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        job_log_rate(rates)


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
