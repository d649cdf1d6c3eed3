"""From readings to jobs: what is left out, steps, and what identical stacks have shown."""

import math
from dataclasses import replace
from datetime import timedelta
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.scoring.comparisons import compare_candidates, smallest_difference
from adviser.scoring.drift import PENALTY, _segmented, long_run_sd, steps
from adviser.scoring.histories import History, histories_of
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import Evidence
from tests.effort import examples, slow
from tests.factories.evidence import NOW, Bench, series


def only(evidence: Evidence) -> History:
    (history,) = histories_of(evidence, [0]).values()
    return history


def test_job_with_two_readings_counts_as_one_job() -> None:
    bench = Bench()
    stack = bench.stack("a==1")
    bench.measure(stack, [0.0, 0.1, 0.2], run="1")
    again = [
        replace(it, observation_id=f"{it.observation_id}b", rate=it.rate * 3)
        for it in bench.readings
    ]
    bench.readings += again
    jobs = only(bench.evidence()).jobs[stack]
    assert len(jobs) == 3
    assert jobs[0].log_rate == pytest.approx(math.log(2 * bench.readings[0].rate))
    assert len(jobs[0].observations) == 2


def test_job_with_an_unstable_reading_is_unstable() -> None:
    bench = Bench()
    stack = bench.stack("a==1")
    bench.measure(stack, [0.0, 0.1])
    bench.readings.append(
        replace(bench.readings[0], observation_id="other", unstable_reason="steal")
    )
    assert len(only(bench.evidence()).jobs[stack]) == 1


def test_only_histories_of_requested_series_are_built() -> None:
    bench = Bench()
    for indicator in ("One", "Two"):
        bench.measure(bench.stack("a==1"), [0.0], series(indicator))
    assert list(histories_of(bench.evidence(), [1])) == [1]


def test_interleaved_runs_of_identical_stacks_set_the_margin() -> None:
    bench = Bench()
    stack, blocks = bench.stack("a==1"), [f"r:{n}" for n in range(6)]
    steady = np.zeros(6)
    bench.measure(stack, steady, run="1", blocks=blocks)
    bench.measure(stack, steady + math.log(1.05), run="2", blocks=blocks)
    bench.measure(stack, [9.0] * 4, run="too short", blocks=blocks[:4])
    bench.measure(bench.stack("a==2"), steady + 1, run="1", blocks=blocks)
    history = only(bench.evidence())
    assert [abs(it) for it in history.identical] == pytest.approx([math.log(1.05)])
    assert smallest_difference(history.identical) == pytest.approx(0.05)
    assert history.log_margin == pytest.approx(math.log(1.05))


def test_differences_between_runs_widen_the_error_but_not_the_margin() -> None:
    bench = Bench()
    for night, level in enumerate((0.0, 0.1, -0.1)):
        bench.measure(bench.stack("a==1"), [level - 0.01, level + 0.01], run=str(night))
    bench.measure(bench.stack("a==1"), [5.0], run="there", host="h2")
    bench.measure(bench.stack("a==2"), [7.0, 7.5], run="once")
    history = only(bench.evidence())
    assert history.identical == ()
    # Means 0, 0.1, -0.1 of one stack on one host: variance 0.01 with 2 degrees of freedom.
    assert history.spread.runs.variance == pytest.approx(0.01)
    assert history.spread.runs.freedom == 2
    assert history.spread.runs.within == pytest.approx(0.0002)
    assert history.spread.runs.per_run == 0.5
    assert not history.spread.runs.known


def test_single_run_of_a_stack_is_not_compared_with_itself() -> None:
    bench = Bench()
    bench.measure(bench.stack("a==1"), np.zeros(20))
    assert only(bench.evidence()).identical == ()


def drifting(*, reference: float, other: float = 0.0) -> tuple[Evidence, str, str]:
    """Twelve nights on one host; by how much two stacks changed after six."""
    bench, draw = Bench(), np.random.default_rng(11)
    steady, late = bench.stack("a==1"), bench.stack("a==2")
    for night in range(12):
        begin = NOW + timedelta(days=night)
        ours, theirs = (reference, other) if night >= 6 else (0.0, 0.0)
        bench.measure(steady, draw.normal(ours, 0.005, 3), begin=begin, run=str(night))
        bench.measure(late, draw.normal(theirs, 0.005, 2), begin=begin, run=str(night))
    return bench.evidence(), steady, late


def test_measurements_before_a_machine_change_are_left_out_for_all_stacks() -> None:
    evidence, steady, other = drifting(reference=-0.2)
    history = only(evidence)
    assert history.drifted == {"h1": NOW + timedelta(days=6)}
    assert (len(history.jobs[steady]), len(history.jobs[other])) == (18, 12)
    assert history.excluded(steady) == {"drift": 18}
    since = {it.seen_at for them in history.jobs.values() for it in them}
    assert all(it and it >= NOW + timedelta(days=6) for it in since)


def nightly(draw: np.random.Generator, nights: int) -> tuple[Evidence, str, str]:
    """A stack every night and another in one more: each run has a level of its own, and jobs
    of a run are far more alike than runs are.
    """
    bench = Bench()
    steady, late = bench.stack("a==1"), bench.stack("a==2")
    for night in range(nights + 1):
        rates = draw.normal(draw.normal(0, 0.03), 0.003, 8)
        begin = NOW + timedelta(days=night)
        bench.measure(steady if night < nights else late, rates, begin=begin, run=str(night))
    return bench.evidence(), steady, late


def test_random_differences_between_runs_cause_neither_steps_nor_claims() -> None:
    draw, claims, cut = np.random.default_rng(21), 0, 0
    for _ in range(100):
        evidence, steady, late = nightly(draw, 12)
        history = only(evidence)
        cut += bool(history.drifted)
        ours, theirs = history.sample(late), history.sample(steady)
        (found,) = compare_candidates(theirs, [ours], spread=history.spread)
        claims += found.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert cut <= 8
    assert claims <= 10, "5 % each of faster and slower"


def test_difference_between_two_nights_is_not_a_machine_change() -> None:
    bench = Bench()
    for night, level in enumerate((0.0, -0.3)):
        begin = NOW + timedelta(days=night)
        bench.measure(bench.stack("a==1"), [level] * 20, begin=begin, run=str(night))
    assert only(bench.evidence()).drifted == {}


def test_change_of_only_one_stack_is_not_a_machine_change() -> None:
    history = only(drifting(reference=0.0, other=0.3)[0])
    assert history.drifted == {}
    assert {len(them) for them in history.jobs.values()} == {36, 24}


def test_machine_change_on_one_host_keeps_the_measurements_of_others() -> None:
    bench, draw = Bench(), np.random.default_rng(12)
    stack = bench.stack("a==1")
    for host, change in (("h1", 0.2), ("h2", 0.0)):
        for night in range(12):
            level = change if night >= 6 else 0.0
            bench.measure(
                stack, draw.normal(level, 0.005, 2), host=host, run=f"{night}",
                begin=NOW + timedelta(days=night),
            )  # fmt: skip
    history = only(bench.evidence())
    assert list(history.drifted) == ["h1"]
    assert len(history.jobs[stack]) == 36


def test_job_of_unknown_time_is_left_out_after_a_machine_change() -> None:
    evidence, steady, _ = drifting(reference=-0.2)
    unknown = replace(evidence.readings[0], observation_id="x", job_id="x", seen_at=None)
    history = only(replace(evidence, readings=(*evidence.readings, unknown)))
    assert "x" not in {it.job_id for it in history.jobs[steady]}


def cost(values: list[float], cuts: tuple[int, ...], penalty: float) -> float:
    ends = [0, *cuts, len(values)]
    parts = [values[a:b] for a, b in pairwise(ends)]
    about = sum(sum((x - sum(part) / len(part)) ** 2 for x in part) for part in parts)
    return about + penalty * len(cuts)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(-5, 5).map(float), min_size=4, max_size=11), st.floats(0.1, 20))
def test_step_detection_finds_the_optimal_segmentation(values: list[float], penalty: float) -> None:
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


def test_several_planted_steps_are_found_where_they_are() -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, 60)
    levels = np.repeat([0.0, 0.1, 0.05], 20)
    assert steps(list(noise + levels)) == [20, 40]


def test_pure_noise_rarely_shows_a_step() -> None:
    draw = np.random.default_rng(4)
    stepped = sum(bool(steps(list(draw.normal(0, 0.03, 60)))) for _ in range(300))
    assert stepped <= 0.05 * 300, PENALTY


def test_step_of_five_standard_deviations_is_reliably_found() -> None:
    draw = np.random.default_rng(5)
    found = [steps(list(draw.normal(0, 0.02, 40) + np.repeat([0, 0.1], 20))) for _ in range(100)]
    assert sum(len(it) >= 1 and abs(it[-1] - 20) <= 2 for it in found) >= 90


@pytest.mark.parametrize("quantum", [0.01, *slow([0.005, 0.02, 0.03])])
def test_coarse_clock_shows_no_steps(quantum: float) -> None:
    draw = np.random.default_rng(6)
    coarse = np.round(draw.normal(0, 0.01, (200, 40)) / quantum) * quantum
    assert sum(bool(steps(list(it))) for it in coarse) <= 0.05 * 200


@pytest.mark.parametrize(("likeness", "at_most"), [(0.3, 0.08), (0.6, 0.25)])
def test_autocorrelated_runs_seldom_show_a_step(likeness: float, at_most: float) -> None:
    draw, stepped = np.random.default_rng(7), 0
    for _ in range(200):
        noise = draw.normal(0, 0.01, 110)
        for i in range(1, 110):
            noise[i] += likeness * noise[i - 1]
        stepped += bool(steps(list(noise[50:])))
    assert stepped <= at_most * 200


def test_noise_estimate_ignores_steps() -> None:
    noise = np.random.default_rng(8).normal(0, 0.02, 400)
    stepped = noise + np.repeat([0.0, 0.5, -0.3, 0.1], 100)
    assert long_run_sd(list(noise)) == pytest.approx(0.02, rel=0.3)
    assert long_run_sd(list(stepped)) == pytest.approx(long_run_sd(list(noise)), rel=0.1)


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 9, [0.1 + 0.2] * 40, [math.log(3e9)] * 30])
def test_constant_series_has_no_step(values: list[float]) -> None:
    assert steps(values) == []


def test_series_without_noise_has_a_step_at_every_lasting_change() -> None:
    assert steps([1.0] * 10 + [1.001] * 10) == [10]


@given(st.lists(st.sampled_from([0.0, 1.0, 1.01]), max_size=40))
def test_each_detected_level_has_at_least_five_jobs(values: list[float]) -> None:
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
def test_series_of_60_steady_runs_rarely_show_a_step(likeness: float) -> None:
    series = runs_of_60(np.random.default_rng(12), 500, likeness)
    # At 1 %, a count of 500 exceeds 11 in 1 of 100 cases.
    assert sum(bool(steps(list(it))) for it in series) <= 11


@pytest.mark.parametrize("likeness", [0.3, *slow([0.0])])
def test_step_of_ten_per_cent_is_found_within_five_runs(likeness: float) -> None:
    series = runs_of_60(np.random.default_rng(13), 200, likeness)[:, :55]
    series[:, 50:] += math.log(0.9)
    assert sum(bool(steps(list(it))) for it in series) >= 0.8 * 200
