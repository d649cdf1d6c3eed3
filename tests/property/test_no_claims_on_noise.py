"""The A/A gate: advice over identical stacks claims nothing, and a true gain is found."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from adviser.scoring.assess import assess
from adviser.scoring.assessments import Assessment
from adviser.scoring.criteria import RecommendationType
from adviser.scoring.verdicts import Verdict
from common.packages import package_version
from tests.factories.evidence import HERE, NOW, Bench, simulated
from tests.factories.universes import ENVIRONMENT, Index, snapshot_of

#: Of the baseline's 20 rivals.
CANDIDATES, NOISE = 20, 0.03
KIND = RecommendationType.PERFORMANCE
FIRST = package_version("fast", f"1.{CANDIDATES}").purl


def answers(requests: int, jobs: int, gains: list[float], seed: int) -> list[Assessment]:
    """Requests over stacks that differ in the version of one package."""
    draw = np.random.default_rng(seed)
    found = []
    for _ in range(requests):
        index, evidence = simulated(draw, CANDIDATES + 1, jobs, NOISE, gains)
        snapshot = snapshot_of(index, ["fast"])
        found.append(assess(snapshot, evidence, KIND, None, ENVIRONMENT, HERE))
    return found


def claims(found: Assessment) -> bool:
    return any(it.verdict in (Verdict.FASTER, Verdict.SLOWER) for it in found.claims)


def counts(found: Assessment) -> bool:
    """Whether measurements move any score."""
    place = [it.name for it in found.criteria].index("performance")
    return any(row[place] for row in found.scores.values())


@pytest.mark.parametrize(("requests", "jobs"), [(1000, 10), (300, 5)])
def test_of_requests_over_identical_stacks_hardly_any_carries_a_claim(
    requests: int, jobs: int
) -> None:
    found = answers(requests, jobs, [], seed=31)
    assert all(len(it.claims) == CANDIDATES for it in found)
    assert sum(map(claims, found)) <= 0.01 * requests
    assert sum(map(counts, found)) <= 0.01 * requests


def test_a_true_gain_of_ten_per_cent_is_found_with_ten_jobs_an_arm() -> None:
    found = answers(200, 10, [math.log(1.10)], seed=32)
    won = [
        it for it in found
        if any(c.purl == FIRST and c.verdict is Verdict.FASTER and c.bound > 0 for c in it.claims)
    ]  # fmt: skip
    assert len(won) >= 0.9 * len(found)
    place = [it.name for it in found[0].criteria].index("performance")
    best = [max(it.scores, key=lambda purl, it=it: it.scores[purl][place]) for it in won]  # type: ignore[misc]
    assert set(best) == {FIRST}


def test_a_machine_that_became_slower_makes_no_claims() -> None:
    """Every stack ran on the old machine, every other one on the new, the reference on both."""
    draw, claimed, misled = np.random.default_rng(34), 0, 0
    index: Index = {"fast": {f"1.{n}": {"requires": []} for n in range(11)}}
    snapshot = snapshot_of(index, ["fast"])
    for _ in range(60):
        bench = Bench()
        for number in range(11):
            stack = bench.stack(f"fast==1.{number}")
            for night, level in enumerate((0.0, -0.15)):
                if night == 0 or number % 2 or number == 10:
                    begin = NOW - timedelta(days=9 - night)
                    rates = draw.normal(level, NOISE, 12)
                    bench.measure(stack, rates, begin=begin, run=str(night))
        timed = bench.evidence()
        untimed = replace(timed, readings=tuple(replace(it, seen_at=None) for it in timed.readings))
        found, blind = (
            assess(snapshot, it, KIND, {"fast": "1.10"}, ENVIRONMENT, HERE)
            for it in (timed, untimed)
        )
        claimed += claims(found)
        misled += any(it.observed_pct > 3 for it in blind.claims)
    assert claimed <= 1
    assert misled >= 30, "as it would be without the cut"


def test_what_is_published_of_a_gain_is_not_oversold() -> None:
    """Of those that were found, which are the lucky ones, the mean is still not above the truth."""
    found = answers(200, 10, [math.log(1.06)], seed=33)
    seen = [c for it in found for c in it.claims if c.purl == FIRST and c.scored and c.bound > 0]
    assert len(seen) >= 20
    assert np.mean([c.observed_pct for c in seen]) > 6.5, "as it would be without shrinking"
    assert np.mean([c.effect_pct for c in seen]) <= 6.5
    # A bound is for each comparison; after selection by the same data it still mostly holds.
    assert np.mean([c.bound <= math.log(1.06) for c in seen]) >= 0.9
