"""The search for a step: what it finds, what it says of dips, its noise, paths between locks."""

import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from adviser.bisect.posterior import DipPower, MeasuredRate, noise_of
from adviser.bisect.search import (
    MAX_PRIOR_FREEDOM,
    SearchState,
    StackUnavailable,
    StopReason,
    compare_pair,
    find_step,
    noise_prior,
)
from adviser.bisect.series import path_between
from adviser.scoring.variances import NO_PRIOR
from adviser.scoring.verdicts import Verdict
from tests.effort import slow
from tests.factories.planted_steps import PlantedMeasurer, dip_steps, heavy_noise, step_levels

RELEASES = 64
#: A third of a classic bisect with ten jobs for each of six releases and two ends.
THIRD_OF_CLASSIC = 80 / 3
SEEDS = range(6)


@pytest.mark.parametrize("share", [0.05, *slow([-0.1])])
def test_bisect_finds_and_confirms_a_step_with_few_jobs(share: float) -> None:
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


def test_bisect_reports_that_there_is_no_step() -> None:
    for seed in SEEDS:
        search = find_step(PlantedMeasurer(step_levels(RELEASES, {}), seed), RELEASES)
        assert search.state is SearchState.NONE
        assert search.pair is None
        assert search.flat_remainder


@pytest.mark.slow
def test_bisect_finds_a_reverted_change_between_equal_ends() -> None:
    levels = step_levels(RELEASES, {20: 0.2, 44: 1 / 1.2 - 1})
    for seed in range(3):
        search = find_step(PlantedMeasurer(levels, seed), RELEASES)
        assert search.state is SearchState.STEP
        assert search.pair in {(19, 20), (43, 44)}
        assert not search.flat_remainder


def test_bisect_reports_the_larger_of_two_steps() -> None:
    levels = step_levels(RELEASES, {16: 0.1, 40: 0.4})
    for seed in range(3):
        search = find_step(PlantedMeasurer(levels, seed), RELEASES)
        assert search.pair == (39, 40)


def test_bisect_skips_and_reports_uninstallable_releases() -> None:
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


def test_bisect_stops_at_its_job_limit_and_reports_it() -> None:
    levels = step_levels(RELEASES, {30: 0.05})
    search = find_step(PlantedMeasurer(levels, 1), RELEASES, max_jobs=10)
    assert search.state is SearchState.STOPPED
    assert search.stopped.reason is StopReason.JOBS
    assert search.jobs <= 10


def test_bisect_ends_early_if_measurements_are_too_noisy() -> None:
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


def test_bisect_skips_a_stack_that_fails_or_is_unstable_among_stable_ones() -> None:
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    one = find_step(_Unusable(frozenset({3}), False, planted), 4)
    assert (one.unavailable.keys(), one.pair) == ({3}, (1, 2))
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    both = find_step(_Unusable(frozenset({0, 3}), True, planted), 4)
    assert (both.unavailable.keys(), both.pair) == ({0, 3}, (1, 2))
    planted = PlantedMeasurer(step_levels(4, {2: 0.2}), 1)
    noisy = find_step(_Unusable(frozenset({0, 3}), False, planted), 4, max_jobs=40)
    assert (noisy.unavailable, noisy.state) == ({}, SearchState.STOPPED)


def test_bisect_is_deterministic_for_equal_results() -> None:
    levels = step_levels(RELEASES, {30: 0.05})
    measurers = [PlantedMeasurer(levels, 3) for _ in range(2)]
    for measurer in measurers:
        find_step(measurer, RELEASES)
    assert measurers[0].calls == measurers[1].calls


def test_found_step_is_confirmed_by_new_jobs_of_its_two_versions() -> None:
    measurer = PlantedMeasurer(step_levels(RELEASES, {30: 0.1}), 2)
    search = find_step(measurer, RELEASES)
    confirming = search.confirming_jobs // 2
    assert confirming >= 5
    assert measurer.calls[-confirming:] == [(29, 30)] * confirming
    assert len(search.comparison.used) == confirming
    assert math.isclose(search.comparison.difference_pct, 10, abs_tol=4)


def test_bisect_finds_no_step_in_heavy_tailed_noise() -> None:
    for seed in SEEDS:
        levels = step_levels(RELEASES, {})
        search = find_step(PlantedMeasurer(levels, seed, noise=heavy_noise), RELEASES)
        assert search.state is not SearchState.STEP


def test_bisect_finds_a_step_between_only_two_releases() -> None:
    search = find_step(PlantedMeasurer(step_levels(2, {1: 0.2}), 1), 2)
    assert search.pair == (0, 1)
    assert search.state is SearchState.STEP


DIP_RELEASES = 40


def _jobs_at(
    places: list[int], *, sd: float = 0.02, levels: dict[int, float] | None = None
) -> list[MeasuredRate]:
    draw = random.Random(1)
    return [
        MeasuredRate(place, str(number // 2), (levels or {}).get(place, 0.0) + draw.gauss(0, sd))
        for number, place in enumerate(places)
    ]


def test_dip_without_a_measured_release_is_reported_as_not_visible() -> None:
    power = DipPower(_jobs_at([0, 39] * 6 + [10, 20, 30]), range(DIP_RELEASES), 0.05)
    assert math.isinf(power.visible_effect(9))
    assert power.visible_effect(10) < 0.2
    assert all(goal.width >= 10 for goal in power.visible())


def test_wider_dips_and_more_jobs_make_smaller_effects_visible() -> None:
    few = DipPower(_jobs_at([0, 39] * 6 + [10, 20, 30]), range(DIP_RELEASES), 0.05)
    many = DipPower(_jobs_at([0, 39] * 6 + [10, 20, 30] * 4), range(DIP_RELEASES), 0.05)
    assert few.visible_effect(20) < few.visible_effect(10)
    assert many.visible_effect(10) < few.visible_effect(10)
    sizes = [goal.size for goal in few.visible()]
    widths = [goal.width for goal in few.visible()]
    assert sizes == sorted(sizes)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("places", [[], [0, 1], [0, 1] * 4, [0, 2, 1]])
def test_too_few_jobs_or_releases_make_no_statement_about_dips(places: list[int]) -> None:
    power = DipPower(_jobs_at(places), range(3 if 2 in places else 2), 0.05)
    assert power.visible() == []
    assert power.noticed() is None


def test_unmeasurable_release_does_not_widen_a_dip() -> None:
    jobs = _jobs_at([0, 39] * 6 + [10, 20, 30])
    assert math.isinf(DipPower(jobs, range(DIP_RELEASES), 0.05).visible_effect(1))
    assert DipPower(jobs, [0, 10, 20, 30, 39], 0.05).visible_effect(1) < 0.2


def test_dip_is_noticed_with_its_first_and_last_release() -> None:
    places = [0, 39] * 6 + [5, 10, 15, 20, 25, 30, 35] * 2
    levels = {15: -0.1, 20: -0.1}
    dip = DipPower(_jobs_at(places, levels=levels), range(DIP_RELEASES), 0.05).noticed()
    assert (dip.first, dip.last, dip.sure) == (15, 20, True)
    assert DipPower(_jobs_at(places), range(DIP_RELEASES), 0.05).noticed() is None


def test_dip_narrower_than_the_gap_between_measured_releases_is_not_visible() -> None:
    levels = step_levels(DIP_RELEASES, dip_steps(6, 4, -0.1))  # jobs run at releases 5 and 10
    search = find_step(PlantedMeasurer(levels, 1), DIP_RELEASES)
    assert search.state is SearchState.NONE
    assert all(goal.width > 4 for goal in search.dips)


def _jobs(
    blocks: int, rate: Callable[[int, int], float], releases: tuple[int, int] = (0, 9)
) -> list[MeasuredRate]:
    return [
        MeasuredRate(release, str(block), rate(release, block))
        for block in range(blocks)
        for release in releases
    ]


def test_noise_estimate_excludes_block_effects_and_the_step() -> None:
    jobs = _jobs(6, lambda release, block: 3 * block + 0.2 * (release >= 5))
    noise = noise_of(jobs, 5)
    assert noise.freedom == 12 - 6 - 2
    assert noise.value == pytest.approx(0, abs=1e-12)


def test_job_noise_is_estimated_from_all_measurements_of_a_bisect() -> None:
    draw = random.Random(1)
    jobs = _jobs(4000, lambda release, block: draw.gauss(0.1 * (release >= 5), 0.02))
    assert math.sqrt(noise_of(jobs, 5).value) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("usable", [0, 1, 2])
def test_few_jobs_give_no_noise_estimate(usable: int) -> None:
    jobs = _jobs(1, lambda release, _: 0.0 if release < 9 * usable else math.nan)
    assert noise_of(jobs, 5).freedom == 0
    assert noise_prior(jobs, 5) == NO_PRIOR


def test_earlier_jobs_add_limited_degrees_of_freedom() -> None:
    draw = random.Random(2)
    before = _jobs(30, lambda release, _: draw.gauss(0, 0.02))
    fresh = _jobs(6, lambda release, _: draw.gauss(0.1 * (release >= 5), 0.02), (4, 5))
    alone = compare_pair((4, 5), fresh, 0.05)
    helped = compare_pair((4, 5), fresh, 0.05, noise_prior(before, 5))
    assert alone.degrees_of_freedom == 5
    assert helped.degrees_of_freedom == pytest.approx(5 + MAX_PRIOR_FREEDOM)


def test_step_noisier_than_earlier_jobs_keeps_its_own_variance() -> None:
    draw = random.Random(3)
    before = _jobs(30, lambda release, _: draw.gauss(0, 0.01))
    fresh = _jobs(6, lambda release, _: draw.gauss(0, 0.1), (4, 5))
    helped = compare_pair((4, 5), fresh, 0.05, noise_prior(before, 5))
    assert helped.standard_error == compare_pair((4, 5), fresh, 0.05).standard_error


OLD_LOCK = {"a": "1", "b": "1", "c": "1", "gone": "1"}
NEW_LOCK = {"a": "2", "b": "2", "c": "1", "fresh": "1"}


def anything(_pins: Mapping[str, str]) -> bool:
    return True


def test_neighbouring_stacks_between_two_locks_differ_only_in_moved_packages() -> None:
    path = path_between(OLD_LOCK, NEW_LOCK, anything)
    assert (path[0].pins, path[-1].pins) == (OLD_LOCK, NEW_LOCK)
    for before, after in itertools.pairwise(path):
        names = before.pins.keys() | after.pins.keys()
        changed = {it for it in names if before.pins.get(it) != after.pins.get(it)}
        assert changed == set(after.moved)


def test_stacks_between_two_locks_gain_packages_first_and_lose_them_last() -> None:
    assert [it.moved for it in path_between(OLD_LOCK, NEW_LOCK, anything)] == [
        (), ("fresh",), ("a",), ("b",), ("gone",),
    ]  # fmt: skip


def test_packages_that_need_each_other_change_together() -> None:
    def together(pins: Mapping[str, str]) -> bool:
        return pins["a"] == pins["b"]

    path = path_between(OLD_LOCK, NEW_LOCK, together)
    assert ("a", "b") in [it.moved for it in path]
    assert all(together(it.pins) for it in path)


def test_locks_without_a_valid_stack_between_them_are_compared_directly() -> None:
    path = path_between(OLD_LOCK, NEW_LOCK, lambda _pins: False)
    assert [it.pins for it in path] == [OLD_LOCK, NEW_LOCK]


def test_equal_locks_have_a_single_stack_to_measure() -> None:
    assert [it.pins for it in path_between(OLD_LOCK, OLD_LOCK, anything)] == [OLD_LOCK]
