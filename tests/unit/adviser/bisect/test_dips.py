"""Dips: those that are found, and those that an answer says it would have seen."""

from __future__ import annotations

import math
import random

import pytest

from adviser.bisect.dips import DipPower
from adviser.bisect.posterior import MeasuredRate
from adviser.bisect.search import SearchState, find_step
from tests.factories.planted_steps import PlantedMeasurer, dip_steps, step_levels

RELEASES = 40


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
    assert all(goal.width >= 10 for goal in power.visible())


def test_wider_dips_need_less_effect_and_more_jobs_show_smaller_dips() -> None:
    few = DipPower(_jobs([0, 39] * 6 + [10, 20, 30]), range(RELEASES), 0.05)
    many = DipPower(_jobs([0, 39] * 6 + [10, 20, 30] * 4), range(RELEASES), 0.05)
    assert few.visible_effect(20) < few.visible_effect(10)
    assert many.visible_effect(10) < few.visible_effect(10)
    sizes = [goal.size for goal in few.visible()]
    widths = [goal.width for goal in few.visible()]
    assert sizes == sorted(sizes)
    assert widths == sorted(widths, reverse=True)


@pytest.mark.parametrize("places", [[], [0, 1], [0, 1] * 4, [0, 2, 1]])
def test_few_jobs_or_releases_show_no_dip(places: list[int]) -> None:
    power = DipPower(_jobs(places), range(3 if 2 in places else 2), 0.05)
    assert power.visible() == []
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


def test_an_answer_never_says_that_it_would_have_seen_a_dip_between_its_jobs() -> None:
    levels = step_levels(RELEASES, dip_steps(6, 4, -0.1))  # jobs run at releases 5 and 10
    search = find_step(PlantedMeasurer(levels, 1), RELEASES)
    assert search.state is SearchState.NONE
    assert all(goal.width > 4 for goal in search.dips)
