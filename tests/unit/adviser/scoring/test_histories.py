"""From readings to jobs: what is left out, and what identical stacks have shown."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adviser.scoring.comparisons import compare_candidates, smallest_difference
from adviser.scoring.histories import History, histories_of
from adviser.scoring.verdicts import Verdict
from model.measurements.evidence import Evidence
from tests.factories.evidence import NOW, Bench, series


def only(evidence: Evidence) -> History:
    (history,) = histories_of(evidence, [0]).values()
    return history


def test_a_job_that_measured_twice_counts_once() -> None:
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


def test_what_identical_stacks_show_in_turns_sets_the_margin() -> None:
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


def test_how_runs_differ_is_in_the_error_and_not_in_the_margin() -> None:
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


def test_one_run_of_a_stack_says_nothing_of_identical_ones() -> None:
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


def test_what_was_measured_before_the_machine_changed_is_left_out_for_every_stack() -> None:
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


def test_runs_that_simply_differ_are_neither_a_step_nor_a_reason_to_claim() -> None:
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


def test_a_step_between_two_nights_is_none_as_nights_may_differ_so() -> None:
    bench = Bench()
    for night, level in enumerate((0.0, -0.3)):
        begin = NOW + timedelta(days=night)
        bench.measure(bench.stack("a==1"), [level] * 20, begin=begin, run=str(night))
    assert only(bench.evidence()).drifted == {}


def test_a_change_of_another_stack_leaves_nothing_out() -> None:
    history = only(drifting(reference=0.0, other=0.3)[0])
    assert history.drifted == {}
    assert {len(them) for them in history.jobs.values()} == {36, 24}


def test_another_host_is_not_touched() -> None:
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


def test_after_a_step_a_job_of_unknown_time_is_left_out() -> None:
    evidence, steady, _ = drifting(reference=-0.2)
    unknown = replace(evidence.readings[0], observation_id="x", job_id="x", seen_at=None)
    history = only(replace(evidence, readings=(*evidence.readings, unknown)))
    assert "x" not in {it.job_id for it in history.jobs[steady]}
