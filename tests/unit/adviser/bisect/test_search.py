"""Searches on planted truths; the seeds are fixed, so each result is reproducible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchState, StackUnavailable, StopReason, find_step
from adviser.scoring.verdicts import Verdict
from tests.effort import slow
from tests.factories.planted_steps import PlantedMeasurer, heavy_noise, step_levels

RELEASES = 64
#: A third of a classic bisect with ten jobs for each of six releases and two ends.
THIRD_OF_CLASSIC = 80 / 3
SEEDS = range(6)


@pytest.mark.parametrize("share", [0.05, *slow([-0.1])])
def test_a_step_is_found_and_confirmed_with_few_jobs(share: float) -> None:
    searches = []
    for seed in SEEDS:
        step = 3 + seed * 10
        levels = step_levels(RELEASES, {step: share})
        search = find_step(PlantedMeasurer(levels, seed), RELEASES)
        searches.append(search)
        assert search.state is SearchState.STEP
        assert search.pair == (step - 1, step)
        assert search.comparison.verdict is (Verdict.FASTER if share > 0 else Verdict.SLOWER)
    assert sum(it.search_jobs for it in searches) / len(searches) <= THIRD_OF_CLASSIC


def test_no_step_is_an_answer() -> None:
    for seed in SEEDS:
        search = find_step(PlantedMeasurer(step_levels(RELEASES, {}), seed), RELEASES)
        assert search.state is SearchState.NONE
        assert search.pair is None
        assert search.flat_remainder


def test_a_change_that_was_reverted_is_found_although_both_ends_are_equal() -> None:
    levels = step_levels(RELEASES, {20: 0.2, 44: 1 / 1.2 - 1})
    for seed in range(3):
        search = find_step(PlantedMeasurer(levels, seed), RELEASES)
        assert search.state is SearchState.STEP
        assert search.pair in {(19, 20), (43, 44)}
        assert not search.flat_remainder


def test_the_larger_of_two_steps_is_reported() -> None:
    levels = step_levels(RELEASES, {16: 0.1, 40: 0.4})
    for seed in range(3):
        search = find_step(PlantedMeasurer(levels, seed), RELEASES)
        assert search.pair == (39, 40)


def test_releases_that_cannot_be_installed_are_skipped_and_reported() -> None:
    missing = frozenset({0, 29, 30, 63})
    measurer = PlantedMeasurer(step_levels(RELEASES, {30: 0.1}), 1, missing=missing)
    search = find_step(measurer, RELEASES)
    assert search.pair == (28, 31)
    assert {29, 30} <= search.unavailable.keys() <= missing
    assert set(search.unavailable.values()) == {"no wheel"}


def test_fewer_than_two_installable_releases_cannot_be_compared() -> None:
    measurer = PlantedMeasurer((0.0, 0.0), 1, missing=frozenset({1}))
    with pytest.raises(StackUnavailable, match="no wheel"):
        find_step(measurer, 2)


def test_a_limit_of_jobs_is_kept_and_the_search_says_so() -> None:
    levels = step_levels(RELEASES, {30: 0.05})
    search = find_step(PlantedMeasurer(levels, 1), RELEASES, max_jobs=10)
    assert search.state is SearchState.STOPPED
    assert search.stopped.reason is StopReason.JOBS
    assert search.jobs <= 10


def test_jobs_that_vary_too_much_for_an_answer_end_the_search_early() -> None:
    search = find_step(PlantedMeasurer(step_levels(4, {}), 1, sd=0.4), 4)
    assert search.state is SearchState.STOPPED
    assert search.stopped.reason is StopReason.NOISE
    assert "vary by" in search.stopped.message
    assert search.jobs < 50


@dataclass
class _Unusable:
    """Gives no usable job of some stacks."""

    stacks: frozenset[int]
    failed: bool
    measurer: PlantedMeasurer

    def measure(self, stacks: Sequence[int], blocks: int) -> Sequence[MeasuredRate]:
        return [
            MeasuredRate(it.release, it.block, math.nan, self.failed)
            if it.release in self.stacks
            else it
            for it in self.measurer.measure(stacks, blocks)
        ]


def test_a_stack_is_skipped_only_if_it_fails_or_the_others_are_stable() -> None:
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    one = find_step(_Unusable(frozenset({3}), False, planted), 4)
    assert (one.unavailable.keys(), one.pair) == ({3}, (1, 2))
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    both = find_step(_Unusable(frozenset({0, 3}), True, planted), 4)
    assert (both.unavailable.keys(), both.pair) == ({0, 3}, (1, 2))
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    noisy = find_step(_Unusable(frozenset({0, 3}), False, planted), 4, max_jobs=40)
    assert (noisy.unavailable, noisy.state) == ({}, SearchState.STOPPED)


def test_the_same_results_lead_to_the_same_measurements() -> None:
    levels = step_levels(RELEASES, {30: 0.05})
    measurers = [PlantedMeasurer(levels, 3) for _ in range(2)]
    for measurer in measurers:
        find_step(measurer, RELEASES)
    assert measurers[0].calls == measurers[1].calls


def test_confirming_jobs_are_fresh_blocks_of_the_pair_only() -> None:
    measurer = PlantedMeasurer(step_levels(RELEASES, {30: 0.1}), 2)
    search = find_step(measurer, RELEASES)
    confirming = search.confirming_jobs // 2
    assert confirming >= 5
    assert measurer.calls[-confirming:] == [(29, 30)] * confirming
    assert len(search.comparison.used) == confirming
    assert math.isclose(search.comparison.difference_pct, 10, abs_tol=4)


def test_heavy_tails_do_not_make_a_step() -> None:
    for seed in SEEDS:
        levels = step_levels(RELEASES, {})
        search = find_step(PlantedMeasurer(levels, seed, noise=heavy_noise), RELEASES)
        assert search.state is not SearchState.STEP


def test_two_releases_are_enough() -> None:
    search = find_step(PlantedMeasurer(step_levels(2, {1: 0.2}), 1), 2)
    assert search.pair == (0, 1)
    assert search.state is SearchState.STEP
