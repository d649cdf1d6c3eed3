"""From readings to jobs: what is left out, and what identical stacks have shown."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adviser.scoring.histories import History, histories_of
from adviser.scoring.verdicts import Verdict, compare_candidates, smallest_difference
from graph.evidence import Evidence
from tests.factories.evidence import NOW, Bench, series


def only(evidence: Evidence) -> History:
    (history,) = histories_of(evidence, [0]).values()
    return history


def test_a_job_that_measured_twice_counts_once() -> None:
    bench = Bench()
    stack = bench.stack("a==1")
    bench.measure(stack, [0.0, 0.1, 0.2])
    again = [
        replace(it, observation_id=f"{it.observation_id}b", rate=it.rate * 3)
        for it in bench.readings
    ]
    bench.readings += again
    jobs = only(bench.evidence()).jobs[stack]
    assert len(jobs) == 3
    assert jobs[0].effect.log_rate == pytest.approx(math.log(2 * bench.readings[0].rate))
    assert len(jobs[0].observations) == 2


def test_a_job_is_unstable_if_any_of_its_readings_is() -> None:
    bench = Bench()
    stack = bench.stack("a==1")
    bench.measure(stack, [0.0, 0.1])
    bench.readings.append(
        replace(bench.readings[0], observation_id="other", unstable_reason="steal")
    )
    assert len(only(bench.evidence()).jobs[stack]) == 1


def test_only_wanted_series_are_read() -> None:
    bench = Bench()
    for indicator in ("One", "Two"):
        bench.measure(bench.stack("a==1"), [0.0], series(indicator))
    assert list(histories_of(bench.evidence(), [1])) == [1]


def test_what_identical_stacks_show_sets_the_margin() -> None:
    bench = Bench()
    stack = bench.stack("a==1")
    steady = np.zeros(6)
    bench.measure(stack, steady, run="1")
    bench.measure(stack, steady + math.log(1.05), run="2")
    bench.measure(stack, [9.0] * 4, run="too short")
    bench.measure(bench.stack("a==2"), steady + 1)
    history = only(bench.evidence())
    assert history.identical == pytest.approx((math.log(1.05),)) or history.identical == (
        pytest.approx((-math.log(1.05),))
    )
    assert smallest_difference(history.identical) == pytest.approx(0.05)


def test_one_run_of_a_stack_says_nothing_of_identical_ones() -> None:
    bench = Bench()
    bench.measure(bench.stack("a==1"), np.zeros(20))
    assert only(bench.evidence()).identical == ()


def drifting(*, reference: float, other: float = 0.0) -> tuple[Evidence, str, str]:
    """Two nights on one host; by how much the reference, and another stack, changed."""
    bench, draw = Bench(), np.random.default_rng(11)
    steady, late = bench.stack("a==1"), bench.stack("a==2")
    for night, (ours, theirs) in enumerate([(0.0, 0.0), (reference, other)]):
        begin = NOW + timedelta(days=night)
        bench.measure(steady, draw.normal(ours, 0.005, 12), begin=begin, run=str(night))
        bench.measure(late, draw.normal(theirs, 0.005, 8), begin=begin, run=str(night))
    return bench.evidence(), steady, late


def test_what_was_measured_before_the_machine_changed_is_left_out_for_every_stack() -> None:
    evidence, steady, other = drifting(reference=-0.2)
    history = only(evidence)
    assert history.drifted == {"h1": NOW + timedelta(days=1)}
    assert (len(history.jobs[steady]), len(history.jobs[other])) == (12, 8)
    since = {it.seen_at for them in history.jobs.values() for it in them}
    assert all(it and it >= NOW + timedelta(days=1) for it in since)


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


def test_runs_that_simply_differ_are_no_reason_to_claim_though_each_looks_like_a_step() -> None:
    draw, claims, cut = np.random.default_rng(21), 0, 0
    for _ in range(60):
        evidence, steady, late = nightly(draw, 12)
        history = only(evidence)
        cut += len(history.jobs[steady]) <= 16
        ours, theirs = history.sample(late), history.sample(steady)
        (found,) = compare_candidates(theirs, [ours], aa_history=history.identical)
        claims += found.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert cut >= 50, "each run looks like a step"
    assert claims <= 8


def test_after_a_step_identical_stacks_are_those_after_it_once_there_are_enough() -> None:
    bench, draw = Bench(), np.random.default_rng(22)
    stack = bench.stack("a==1")
    spread = []
    for night in range(10):
        rates = draw.normal(0.0 if night < 5 else 0.3, 0.01, 8)
        bench.measure(stack, rates, begin=NOW + timedelta(days=night), run=str(night))
        spread.append(max(map(abs, only(bench.evidence()).identical), default=0.0))
    assert all(it < 0.05 for it in spread[:5])
    assert all(it > 0.25 for it in spread[5:9])
    assert spread[9] < 0.05


def test_a_change_of_another_stack_leaves_nothing_out() -> None:
    history = only(drifting(reference=0.0, other=0.3)[0])
    assert history.drifted == {}
    assert {len(them) for them in history.jobs.values()} == {24, 16}


def test_another_host_is_not_touched() -> None:
    bench, draw = Bench(), np.random.default_rng(12)
    stack = bench.stack("a==1")
    for host, change in (("h1", 0.2), ("h2", 0.0)):
        for night in range(2):
            bench.measure(
                stack, draw.normal(change * night, 0.005, 10), host=host, run=f"{night}",
                begin=NOW + timedelta(days=night),
            )  # fmt: skip
    history = only(bench.evidence())
    assert list(history.drifted) == ["h1"]
    assert len(history.jobs[stack]) == 30


def test_after_a_step_a_job_of_unknown_time_is_left_out() -> None:
    evidence, steady, _ = drifting(reference=-0.2)
    unknown = replace(evidence.readings[0], observation_id="x", job_id="x", seen_at=None)
    history = only(replace(evidence, readings=(*evidence.readings, unknown)))
    assert "x" not in {it.effect.job_id for it in history.jobs[steady]}
