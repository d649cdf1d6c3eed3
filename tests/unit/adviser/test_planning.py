"""Jobs and repetitions worth their time."""

from __future__ import annotations

import math

import pytest

from adviser.scoring.planning import (
    MIN_JOBS,
    jobs_for_equivalence,
    jobs_needed,
    jobs_to_verdict,
    repetitions_per_job,
)


def test_jobs_needed_by_hand() -> None:
    # 2 (1.644854 + 0.841621)² · 0.03² / (ln 1.05 − ln 1.02)² = 0.0111286 / 0.00084029 = 13.2
    assert jobs_needed(0.03, math.log(1.05), math.log(1.02)) == 14


def test_a_loss_needs_as_many_jobs_as_a_gain() -> None:
    assert jobs_needed(0.1, -0.08, 0.02) == jobs_needed(0.1, 0.08, 0.02)


def test_five_jobs_at_least() -> None:
    assert jobs_needed(0.001, 1.0, 0.02) == MIN_JOBS
    assert jobs_for_equivalence(0.0, 0.0, 0.02) == MIN_JOBS


def test_a_difference_within_the_margin_is_not_found() -> None:
    with pytest.raises(ValueError, match="within the margin"):
        jobs_needed(0.03, 0.02, 0.02)


def test_a_difference_beyond_the_margin_is_not_equivalent() -> None:
    with pytest.raises(ValueError, match="beyond the margin"):
        jobs_for_equivalence(0.03, -0.02, 0.02)


def test_equivalence_by_hand() -> None:
    # 2 (1.644854 + 1.281552)² · 0.03² / 0.02² = 38.5
    assert jobs_for_equivalence(0.03, 0.0, 0.02) == 39


def test_a_stack_on_the_border_does_not_need_jobs_without_end() -> None:
    jobs = [jobs_to_verdict(0.03, d, 0.02, alpha=0.05, candidates=1) for d in (0.02, 0.0200001)]
    assert max(jobs) <= 4 * jobs_for_equivalence(0.03, 0.0, 0.02)


def test_more_candidates_need_more_jobs() -> None:
    one, twenty = (jobs_to_verdict(0.05, 0.06, 0.02, alpha=0.05, candidates=n) for n in (1, 20))
    assert twenty > one


def test_repetitions_per_job_by_hand() -> None:
    assert repetitions_per_job(60.0, 0.5, 0.01, 0.03) == 4  # √(120 / 9) = 3.65
    assert repetitions_per_job(1.0, 100.0, 0.0, 0.03) == 1


@pytest.mark.parametrize(("job", "repetition", "between"), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_budget_without_costs_is_refused(job: float, repetition: float, between: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        repetitions_per_job(job, repetition, 1.0, between)
