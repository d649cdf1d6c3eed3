"""Dips: those that are found, and those that an answer says it would have seen."""

from __future__ import annotations

import math
import random

import pytest

from adviser.bisect.dips import DipGoal, DipPower
from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchState, StepSearch, StopReason, find_step
from tests.factories.planted_steps import PlantedMeasurer, dip_steps, step_levels

RELEASES = 40
GOAL = DipGoal(3, 0.08)


def _jobs(places: list[int], *, sd: float = 0.02, levels: dict[int, float] | None = None) -> (
    list[MeasuredRate]
):  # fmt: skip
    draw = random.Random(1)
    return [
        MeasuredRate(place, str(number // 2), (levels or {}).get(place, 0.0) + draw.gauss(0, sd))
        for number, place in enumerate(places)
    ]


def test_a_dip_without_a_measured_release_is_not_visible() -> None:
    power = DipPower(_jobs([0, 39] * 6 + [10, 20, 30]), range(RELEASES), 0.05)
    assert math.isinf(power.visible_effect(9))
    assert power.visible_effect(10) < 0.2
    assert all(goal.width >= 10 for goal in power.visible(0.05))


def test_wider_dips_need_less_effect_and_more_jobs_show_smaller_dips() -> None:
    few = DipPower(_jobs([0, 39] * 6 + [10, 20, 30]), range(RELEASES), 0.05)
    many = DipPower(_jobs([0, 39] * 6 + [10, 20, 30] * 4), range(RELEASES), 0.05)
    assert few.visible_effect(20) < few.visible_effect(10)
    assert many.visible_effect(10) < few.visible_effect(10)
    sizes = [goal.size for goal in few.visible(0.05)]
    widths = [goal.width for goal in few.visible(0.05)]
    assert sizes == sorted(sizes)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("places", [[], [0, 1], [0, 1] * 4, [0, 2, 1]])
def test_few_jobs_or_releases_show_no_dip(places: list[int]) -> None:
    power = DipPower(_jobs(places), range(3 if 2 in places else 2), 0.05)
    assert power.visible(0.05) == []
    assert power.noticed() is None


def test_a_release_that_cannot_be_measured_does_not_make_a_dip_wider() -> None:
    jobs = _jobs([0, 39] * 6 + [10, 20, 30])
    assert math.isinf(DipPower(jobs, range(RELEASES), 0.05).visible_effect(1))
    assert DipPower(jobs, [0, 10, 20, 30, 39], 0.05).visible_effect(1) < 0.2


def test_a_stretch_that_differs_is_noticed_with_its_ends() -> None:
    places = [0, 39] * 6 + [5, 10, 15, 20, 25, 30, 35] * 2
    levels = {15: -0.1, 20: -0.1}
    dip = DipPower(_jobs(places, levels=levels), range(RELEASES), 0.05).noticed()
    assert (dip.first, dip.last, dip.sure) == (15, 20, True)
    assert DipPower(_jobs(places), range(RELEASES), 0.05).noticed() is None


def test_the_missing_jobs_are_at_releases_that_every_dip_of_the_width_contains() -> None:
    power = DipPower(_jobs([0, 39] * 6 + [10, 20, 30]), range(RELEASES), 0.05)
    missing = power.missing(GOAL)
    measured = {10, 20, 30, *missing}
    for first in range(1, RELEASES - GOAL.width):
        assert measured & set(range(first, first + GOAL.width))
    places = [0, 39] * 6 + [10, 20, 30]
    for _ in range(3):  # more releases need a stricter threshold, and so a few more jobs
        places += DipPower(_jobs(places), range(RELEASES), 0.05).missing(GOAL)
    power = DipPower(_jobs(places), range(RELEASES), 0.05)
    assert power.missing(GOAL) == []
    assert power.visible_effect(GOAL.width) <= GOAL.effect


def test_a_narrow_dip_is_found_if_the_search_looks_for_it() -> None:
    for seed in range(4):
        levels = step_levels(RELEASES, dip_steps(7 + 5 * seed, 4, -0.1))
        search = find_step(PlantedMeasurer(levels, seed), RELEASES, dips=GOAL)
        assert search.state is SearchState.STEP
        assert search.pair in {(6 + 5 * seed, 7 + 5 * seed), (10 + 5 * seed, 11 + 5 * seed)}


def test_an_answer_never_says_that_it_would_have_seen_a_dip_between_its_jobs() -> None:
    levels = step_levels(RELEASES, dip_steps(6, 4, -0.1))  # jobs run at releases 5 and 10
    search = find_step(PlantedMeasurer(levels, 1), RELEASES)
    assert search.state is SearchState.NONE
    assert all(goal.width > 4 for goal in search.dips.visible)
    assert search.dips.missing > 0


def test_the_jobs_for_dips_are_announced_and_make_the_goal_visible() -> None:
    states: list[StepSearch] = []
    search = find_step(
        PlantedMeasurer(step_levels(RELEASES, {}), 1), RELEASES, dips=GOAL, progress=states.append
    )
    assert search.state is SearchState.NONE
    assert search.dips.missing == 0
    assert search.dips.example.width <= GOAL.width
    announced = [(it.jobs, it.dips.missing) for it in states if it.dips]
    before, missing = announced[0]
    assert search.jobs - before == pytest.approx(missing, rel=0.5)
    assert [it for _, it in announced] == sorted((it for _, it in announced), reverse=True)


def test_dips_that_need_more_jobs_than_the_limit_allows_are_not_begun() -> None:
    whole = find_step(PlantedMeasurer(step_levels(RELEASES, {}), 1), RELEASES)
    search = find_step(
        PlantedMeasurer(step_levels(RELEASES, {}), 1), RELEASES, dips=GOAL, max_jobs=whole.jobs + 4
    )
    assert search.state is SearchState.STOPPED
    assert search.stopped.reason is StopReason.JOBS
    assert "more jobs, beyond the limit" in search.stopped.message
    assert search.jobs == whole.jobs


def test_looking_for_dips_continues_a_search_that_found_none() -> None:
    measurers = [PlantedMeasurer(step_levels(RELEASES, {}), 2) for _ in range(2)]
    find_step(measurers[0], RELEASES)
    find_step(measurers[1], RELEASES, dips=GOAL)
    assert measurers[1].calls[: len(measurers[0].calls)] == measurers[0].calls
