"""The noise that the jobs of a search tell to the confirmation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from adviser.bisect.posterior import MeasuredRate, noise_of
from adviser.bisect.search import MAX_PRIOR_FREEDOM, compare_pair, noise_prior
from adviser.scoring.variances import NO_PRIOR


def _jobs(
    blocks: int, rate: Callable[[int, int], float], releases: tuple[int, int] = (0, 9)
) -> list[MeasuredRate]:
    return [
        MeasuredRate(release, str(block), rate(release, block))
        for block in range(blocks)
        for release in releases
    ]


def test_neither_blocks_nor_the_step_count_as_noise() -> None:
    jobs = _jobs(6, lambda release, block: 3 * block + 0.2 * (release >= 5))
    noise = noise_of(jobs, 5)
    assert noise.freedom == 12 - 6 - 2
    assert noise.value == pytest.approx(0, abs=1e-12)


def test_the_variance_of_a_job_is_estimated() -> None:
    draw = random.Random(1)
    jobs = _jobs(4000, lambda release, block: draw.gauss(0.1 * (release >= 5), 0.02))
    assert math.sqrt(noise_of(jobs, 5).value) == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize("usable", [0, 1, 2])
def test_few_jobs_tell_nothing(usable: int) -> None:
    jobs = _jobs(1, lambda release, _: 0.0 if release < 9 * usable else math.nan)
    assert noise_of(jobs, 5).freedom == 0
    assert noise_prior(jobs, 5) == NO_PRIOR


def test_earlier_jobs_add_at_most_some_degrees_of_freedom() -> None:
    draw = random.Random(2)
    before = _jobs(30, lambda release, _: draw.gauss(0, 0.02))
    fresh = _jobs(6, lambda release, _: draw.gauss(0.1 * (release >= 5), 0.02), (4, 5))
    alone = compare_pair((4, 5), fresh, 0.05)
    helped = compare_pair((4, 5), fresh, 0.05, noise_prior(before, 5))
    assert alone.degrees_of_freedom == 5
    assert helped.degrees_of_freedom == pytest.approx(5 + MAX_PRIOR_FREEDOM)


def test_a_pair_that_varies_more_than_the_others_keeps_its_own_noise() -> None:
    draw = random.Random(3)
    before = _jobs(30, lambda release, _: draw.gauss(0, 0.01))
    fresh = _jobs(6, lambda release, _: draw.gauss(0, 0.1), (4, 5))
    helped = compare_pair((4, 5), fresh, 0.05, noise_prior(before, 5))
    assert helped.standard_error == compare_pair((4, 5), fresh, 0.05).standard_error
