"""Summaries of jobs, outliers, and variances within and between jobs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adviser.quality.job_statistics import (
    jobs_needed,
    outliers,
    repetition_advice,
    summary_of,
    variance_components,
)


def test_a_summary_worked_by_hand() -> None:
    summary = summary_of([4.0, 1.0, 3.0, 2.0, 10.0])
    assert (summary.n, summary.median, summary.mean) == (5, 3.0, 4.0)
    assert (summary.lower_quartile, summary.upper_quartile) == (2.0, 4.0)
    assert (summary.mad, summary.minimum, summary.maximum) == (1.0, 1.0, 10.0)
    assert summary.sd == pytest.approx(math.sqrt(50 / 4))
    assert summary.cv == pytest.approx(math.sqrt(50 / 4) / 4)


def test_one_job_has_no_standard_deviation() -> None:
    summary = summary_of([7.0])
    assert (summary.n, summary.median, summary.sd, summary.cv) == (1, 7.0, None, None)


def test_jobs_that_are_all_equal_have_no_outlier() -> None:
    assert outliers([1.0] * 9 + [5.0]) == []
    assert outliers([1.0, 9.0]) == []


def test_the_example_of_the_statistics_gives_four_repetitions() -> None:
    # A start of 60 s, repetitions of 0.5 s, 1 % within and 3 % between jobs.
    advice = repetition_advice(0.01**2, 0.03**2, 60.0, 0.5)
    assert advice.repetitions == 4
    assert advice.jobs == jobs_needed(0.03**2 + 0.01**2 / 4)


def test_jobs_that_do_not_differ_need_more_repetitions() -> None:
    assert repetition_advice(0.01**2, 0.0, 60.0, 0.5).repetitions is None


def test_planted_variances_are_found() -> None:
    random = np.random.default_rng(5)
    jobs = [
        np.exp(level + random.normal(0, 0.02, 40)).tolist() for level in random.normal(0, 0.05, 400)
    ]
    components = variance_components(jobs)
    assert math.sqrt(components.within) == pytest.approx(0.02, rel=0.02)
    assert math.sqrt(components.between) == pytest.approx(0.05, rel=0.1)
    assert components.within_share == pytest.approx(0.02**2 / 40 / 0.05**2, rel=0.3)


@pytest.mark.parametrize("jobs", [[], [[1.0, 2.0]], [[1.0], [2.0], [3.0]]])
def test_too_few_repetitions_have_no_variances(jobs: list[list[float]]) -> None:
    assert variance_components(jobs) is None
