"""An answer that says which dips it would have seen is right with the stated chance."""

import math
from collections import Counter

import numpy as np
import pytest

from adviser.bisect.posterior import SEEN_CHANCE, DipPower, MeasuredRate
from adviser.bisect.search import find_step
from tests.factories.planted_steps import PlantedMeasurer, dip_outcome, dip_steps, step_levels

RELEASES, DRAWS = 33, 300
#: As a search measures by default, and as one does that looks for dips.
DESIGNS = {
    "few": [0, 32] * 7 + [4, 20, 8, 24, 12, 28, 16],
    "many": [0, 32] * 7 + [4, 20, 8, 24, 12, 28, 16] * 3,
}


def _noticed_or_not_stated(places: list[int], width: int, effect: float, block_sd: float) -> float:
    """Share of draws that notice a dip, or do not claim that they would."""
    draw = np.random.default_rng(7)
    right = 0
    for number in range(DRAWS):
        first = 1 + number % (RELEASES - width - 1)
        rates = draw.normal(0, 0.02, len(places))
        rates += np.repeat(draw.normal(0, block_sd, len(places)), 2)[: len(places)]
        jobs = [
            MeasuredRate(place, str(at // 2), rate + effect * (first <= place < first + width))
            for at, (place, rate) in enumerate(zip(places, rates.tolist(), strict=True))
        ]
        power = DipPower(jobs, range(RELEASES), 0.05)
        stated = power.visible_effect(width) <= abs(effect)
        right += not stated or power.noticed() is not None
    return right / DRAWS


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("width", [4, 9])
@pytest.mark.parametrize("block_sd", [0.0, 0.04])
def test_dip_of_the_promised_size_is_noticed(design: str, width: int, block_sd: float) -> None:
    tolerance = 3 * math.sqrt(SEEN_CHANCE * (1 - SEEN_CHANCE) / DRAWS)
    for size in (0.05, 0.08, 0.125):
        effect = -math.log1p(size)
        share = _noticed_or_not_stated(DESIGNS[design], width, effect, block_sd)
        assert share >= SEEN_CHANCE - tolerance


@pytest.mark.slow
@pytest.mark.parametrize(("width", "size"), [(5, 0.125), (16, 0.065)])
def test_statements_about_visible_dips_are_true(width: int, size: float) -> None:
    searches = 60
    outcomes = Counter(
        dip_outcome(
            find_step(
                PlantedMeasurer(
                    step_levels(RELEASES, dip_steps(1 + seed % (31 - width), width, size)), seed
                ),
                RELEASES,
            ),
            width,
            size,
        )
        for seed in range(searches)
    )
    tolerance = 3 * math.sqrt(SEEN_CHANCE * (1 - SEEN_CHANCE) / searches)
    assert outcomes["wrong"] <= searches * (1 - SEEN_CHANCE + tolerance)
    assert outcomes["seen"] > searches / 2
