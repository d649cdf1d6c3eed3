"""Jobs that are not independent (nights, neighbours, coarse clocks) make no false claims."""

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from adviser.scoring.comparisons import Comparison, compare_candidates, self_check
from adviser.scoring.histories import History
from adviser.scoring.sample_needs import Need
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.turn_noise import noise_test
from adviser.scoring.verdicts import Verdict
from benchmarks.false_claims import Design, shipped
from tests.effort import slow
from tests.factories.evidence import series

NIGHTS = Design("nights", 5, 10, 0.02, nights=5, between=0.03)
NEIGHBOURS = Design("neighbours", 5, 12, 0.05, correlation=0.5)


def answers(design: Design, count: int, seed: int) -> Iterator[list[Comparison]]:
    draw = np.random.default_rng(seed)
    for _ in range(count):
        yield shipped(design.histories(draw))


def claims(comparisons: list[Comparison]) -> bool:
    return any(it.verdict.different for it in comparisons)


@pytest.mark.parametrize(
    "design", [NIGHTS, replace(NIGHTS, sd=0.05), *slow([replace(NIGHTS, candidates=20)])]
)
def test_identical_stacks_on_separate_nights_make_no_claims(design: Design) -> None:
    results = list(answers(design, 100, 91))
    # 1 % is promised; 4 or more of a hundred are seen in 2 % of all cases.
    assert sum(map(claims, results)) <= 3
    intervals = [it for comparisons in results for it in comparisons]
    held = sum(it.interval_low_pct <= 0 <= it.interval_high_pct for it in intervals)
    assert 0.9 <= held / len(intervals) <= 0.97
    assert {it.batches for it in intervals} == {5}


@pytest.mark.parametrize("correlation", [0.5, 0.8])
def test_correlated_identical_stacks_make_few_claims(correlation: float) -> None:
    design = replace(NEIGHBOURS, correlation=correlation)
    assert sum(map(claims, answers(design, 150, 92))) <= 0.05 * 150


def test_true_gain_is_found_although_rates_differ_between_nights() -> None:
    design = replace(NIGHTS, gain=0.10)
    gained = [comparisons[0].verdict for comparisons in answers(design, 60, 93)]
    assert gained.count(Verdict.FASTER) >= 0.7 * 60
    assert Verdict.SLOWER not in gained


@pytest.mark.parametrize(("tick", "sd"), [(0.2, 0.0), (0.2, 0.03), (0.05, 0.003)])
def test_coarse_clock_makes_no_claims_about_nearly_identical_stacks(tick: float, sd: float) -> None:
    design = Design("clock", 5, 10, sd, tick=tick, step=0.003)
    assert sum(map(claims, answers(design, 60, 94))) <= 0.05 * 60


@pytest.mark.parametrize("places", [(), tuple(JobPlace("h", f"r:{n}", "r") for n in range(10))])
@pytest.mark.parametrize("tick", [0.0, 0.2])
def test_difference_of_one_clock_tick_makes_no_claim(
    places: tuple[JobPlace, ...], tick: float
) -> None:
    """Times of 4.98 and 5.02 ticks are read as 4 and 5."""
    slow_, fast = (
        Sample(str(time), (-float(np.log(time)),) * 10, "key", places, tick=tick) for time in (5, 4)
    )
    (found,) = compare_candidates(slow_, [fast])
    assert (found.verdict, found.needs) == (Verdict.UNDETERMINED, Need.CLOCK)
    assert found.interval_low_pct < 0 < found.interval_high_pct or not found.tested


def shuffled(history: History, seed: int) -> History:
    draw = random.Random(seed)
    stacks = draw.sample(sorted(history.jobs), len(history.jobs))
    jobs = {it: tuple(draw.sample(history.jobs[it], len(history.jobs[it]))) for it in stacks}
    return History(series(), {it: jobs[it] for it in sorted(jobs)}, {}, {})


@pytest.mark.parametrize("design", [NIGHTS, NEIGHBOURS, replace(NIGHTS, candidates=1)])
def test_verdicts_are_bitwise_independent_of_job_order(design: Design) -> None:
    (history,) = design.histories(np.random.default_rng(95))
    expected = shipped([history])
    for seed in range(5):
        found = shipped([shuffled(history, seed)])
        for one, other in zip(found, expected, strict=True):
            assert replace(one, used=(), baseline_used=()) == replace(
                other, used=(), baseline_used=()
            )


@pytest.mark.parametrize(
    ("design", "problem"),
    [
        (NIGHTS, "more between batches"),
        (replace(NIGHTS, candidates=1, between=0.05), "more between batches"),
        (replace(NEIGHBOURS, jobs=20), "neighbouring jobs are alike"),
        (replace(NIGHTS, between=0.0), None),
    ],
)
def test_self_check_finds_planted_drift(design: Design, problem: str | None) -> None:
    draw = np.random.default_rng(96)
    for _ in range(20):
        (history,) = design.histories(draw)
        problems = self_check([], noise_test(history.residuals.values())).problems
        if problem is None:
            # 1 % each is promised; this seed has none.
            assert not problems
        else:
            assert any(problem in it for it in problems)
