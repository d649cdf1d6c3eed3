"""The strategy ``informative`` on versions with known differences."""

from __future__ import annotations

from statistics import fmean

import pytest

from tests.effort import slow
from tests.factories.planted_versions import PlantedVersions, searched

NOTHING = PlantedVersions((0.0,) * 19)


@pytest.mark.parametrize("gains", [(0.1, 0.1, 0.1), *slow([(0.08, 0.1, 0.12)])])
def test_informative_settles_all_differences_with_at_most_half_of_the_jobs_of_random(
    gains: tuple[float, ...],
) -> None:
    truth = PlantedVersions(gains + (0.0,) * 16)
    valued = searched(truth, 30, 1, informative=True)
    drawn = searched(truth, 30, 1, informative=False)
    # Of a difference measured in a few nights, these may happen to disagree.
    assert sum(it.settled for it in valued) >= 88
    assert fmean(it.jobs for it in valued) <= 0.5 * fmean(it.jobs for it in drawn)
    assert all(it.stopped and not it.false for it in valued)


def test_without_a_difference_nothing_is_claimed_and_the_search_stops() -> None:
    outcomes = searched(NOTHING, 12, 1, informative=True)
    assert all(it.stopped and not it.false for it in outcomes)
