"""What jobs of one run share, and what error follows from it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.estimates import Estimate, SeriesSpread, estimates_of
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.variances import MIN_FREEDOM, UNKNOWN_SPREAD, RunSpread, run_spread
from adviser.scoring.verdicts import Verdict
from tests.factories.effects import welch_effect

KNOWN = RunSpread(variance=0.0009, freedom=MIN_FREEDOM, within=0.0, per_run=0.1)


def sample(*runs: list[float], host: str | None = "h1") -> Sample:
    places = [JobPlace(host, None, f"run {n}") for n, run in enumerate(runs) for _ in run]
    return Sample("c", tuple(rate for run in runs for rate in run), "key", tuple(places))


def steady(level: float, jobs: int) -> list[float]:
    """Jobs that vary far less than runs, measured with a fine clock."""
    return [level + 1e-9 * number for number in range(jobs)]


def estimate(ours: Sample, theirs: Sample, spread: RunSpread = UNKNOWN_SPREAD) -> Estimate:
    (found,) = estimates_of(theirs, [ours], SeriesSpread(spread))
    return found


def spread_of(arms: list[list[list[float]]]) -> RunSpread:
    rates = [rate for runs in arms for run in runs for rate in run]
    numbers = [run for runs in arms for run in runs]
    number = [n for n, run in enumerate(numbers) for _ in run]
    return run_spread(rates, number, [n for n, runs in enumerate(arms) for _ in runs])


def test_the_variance_between_runs_by_hand() -> None:
    # Means 1 and 3 of the one, 0 of the other twice: squares 2 and 0, freedom 1 and 1.
    found = spread_of([[[0.0, 2.0], [3.0]], [[0.0], [0.0]], [[7.0, 9.0]]])
    assert found.variance == pytest.approx(1.0)
    assert found.freedom == 2
    assert found.within == pytest.approx(2.0)
    assert found.per_run == pytest.approx((0.5 + 1 + 1 + 1) / 4)


@pytest.mark.parametrize("arms", [[], [[[1.0, 2.0]]], [[[1.0]], [[2.0]]]])
def test_what_ran_once_says_nothing_of_runs(arms: list[list[list[float]]]) -> None:
    assert spread_of(arms).freedom == 0
    assert not spread_of(arms).known


def test_a_run_counts_once_however_many_jobs_it_has() -> None:
    levels, noise = [0.0, 0.1, -0.1, 0.05, -0.05], [-0.01, 0.01] * 4
    ours = sample(*[[0.2 + level + it for it in noise] for level in levels])
    theirs = sample(*[[level + it for it in noise[:2]] for level in levels])
    found = estimate(ours, theirs)
    assert (found.jobs, found.baseline_jobs, found.runs, found.baseline_runs) == (40, 10, 5, 5)
    expected = welch_effect([0.2 + it for it in levels], levels)
    assert found.effect.d == pytest.approx(expected.d)
    assert found.effect.standard_error == pytest.approx(expected.standard_error)
    assert found.effect.degrees_of_freedom == pytest.approx(expected.degrees_of_freedom)
    assert found.tested


def test_of_one_run_each_nothing_is_known_but_the_difference() -> None:
    found = estimate(sample(steady(0.3, 20)), sample(steady(0.0, 20)))
    assert found.effect.d == pytest.approx(0.3)
    assert (found.effect.standard_error, found.effect.degrees_of_freedom) == (math.inf, 0)
    assert not found.tested


def test_one_run_each_by_what_other_runs_show() -> None:
    found = estimate(sample(steady(0.3, 10)), sample(steady(0.0, 10)), KNOWN)
    assert found.effect.standard_error == pytest.approx(math.sqrt(2 * 0.0009))
    assert found.effect.degrees_of_freedom == MIN_FREEDOM
    assert found.tested
    (verdict,) = compare_candidates(
        sample(steady(0.0, 10)), [sample(steady(0.3, 10))], spread=SeriesSpread(KNOWN)
    )
    assert verdict.verdict is Verdict.FASTER


def test_too_few_other_runs_show_nothing() -> None:
    few = RunSpread(variance=0.0009, freedom=MIN_FREEDOM - 1, within=0.0, per_run=0.1)
    assert not estimate(sample(steady(0.3, 10)), sample(steady(0.0, 10)), few).tested


def test_a_stack_that_varies_more_within_its_run_than_runs_do_has_its_own_error() -> None:
    wild = [(-1) ** n * 1.0 for n in range(10)]
    found = estimate(sample(wild), sample(steady(0.0, 10)), KNOWN)
    own = np.var(wild, ddof=1) / 10
    assert found.effect.standard_error == pytest.approx(math.sqrt(own + 0.0009))
    assert found.effect.degrees_of_freedom == 9


def test_a_run_of_fewer_jobs_than_those_of_the_past_is_noisier() -> None:
    spread = RunSpread(variance=0.0009, freedom=20, within=0.0016, per_run=0.1)
    found = estimate(sample(steady(0.3, 5)), sample(steady(0.0, 10)), spread)
    assert found.effect.standard_error == pytest.approx(
        math.sqrt(0.0009 + 0.0016 * (0.2 - 0.1) + 0.0009)
    )


def test_jobs_of_several_hosts_are_never_one_arm() -> None:
    """Four jobs on one host and three on another: neither is enough, and both together are not."""
    hosts = [*["h1"] * 4, *["h2"] * 3]
    places = tuple(JobPlace(host, None, str(n)) for n, host in enumerate(hosts))
    ours, theirs = (
        Sample("c", tuple(level + (host == "h2") for host in hosts), "key", places)
        for level in (1.0, 0.0)
    )
    found = estimate(ours, theirs)
    assert (found.jobs, found.baseline_jobs, found.hosts) == (4, 4, 1)
    assert not found.tested
    assert found.used == (0, 1, 2, 3)


def test_intervals_of_identical_stacks_hold_in_one_night_of_each() -> None:
    """95 % of intervals hold zero, though S² is itself only known from twelve other runs."""
    draw, held = np.random.default_rng(51), 0
    for _ in range(600):
        night = draw.normal(0, 0.03, 14)
        rates = [list(level + draw.normal(0, 0.01, 8)) for level in night]
        spread = SeriesSpread(spread_of([rates[2:]]))
        (found,) = compare_candidates(sample(rates[0]), [sample(rates[1])], spread=spread)
        held += found.interval_low_pct <= 0 <= found.interval_high_pct
    assert 0.93 <= held / 600 <= 0.97
