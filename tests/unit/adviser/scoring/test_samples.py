"""One job gives one number."""

from __future__ import annotations

import math

import pytest

from adviser.scoring.samples import job_log_rate


def test_a_job_is_the_log_of_its_median() -> None:
    assert job_log_rate([4e9, 1e9, 2e9]) == pytest.approx(math.log(2e9))


@pytest.mark.parametrize("rates", [[], [0.0], [-1.0], [1.0, math.inf], [math.nan]])
def test_rates_that_are_not_positive_numbers_are_refused(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        job_log_rate(rates)
