"""Which comparison to measure next."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from adviser.scoring.circumstances import Circumstances
from adviser.scoring.judging import Verdict
from adviser.scoring.next_jobs import (
    Open,
    further_jobs,
    next_claims,
    settling_chance,
    still_in_the_race,
    worth,
)
from adviser.scoring.samples import Sample
from adviser.scoring.verdicts import Comparison, compare_candidates
from tests.factories.evidence import ELSEWHERE, Bench, claims_about, jobs, purl

MARGIN = math.log1p(0.02)


def compared(gain: float, jobs: int = 5, noise: float = 0.03) -> Comparison:
    steps = np.linspace(-1, 1, jobs) * noise
    (found,) = compare_candidates(
        Sample("b", tuple(steps), "k"), [Sample("c", tuple(steps + gain), "k")]
    )
    return found


def test_the_more_jobs_the_likelier_a_claim_about_what_is_really_there() -> None:
    it = compared(0.04)
    assert it.verdict is Verdict.UNDETERMINED
    chances = [settling_chance(it, 5, more, MARGIN) for more in (1, 5, 20, 100)]
    assert chances == sorted(chances)
    assert 0 < chances[0] < chances[-1] < 1


def test_the_chance_is_the_same_on_either_side() -> None:
    up, down = (settling_chance(compared(it), 5, 10, MARGIN) for it in (0.05, -0.05))
    assert up == pytest.approx(down)


def test_the_predicted_chance_is_the_one_that_comes_true() -> None:
    """Known noise, a flat prior: so many of the simulated continuations end in a claim."""
    it, draw, sd = compared(0.04, 20), np.random.default_rng(42), 0.0
    sd = it.standard_error * math.sqrt(20)  # of a difference of one job an arm
    true = it.d + draw.normal(0, it.standard_error, 20_000)
    later = (20 * it.d + 30 * (true + draw.normal(0, sd / math.sqrt(30), 20_000))) / 50
    error = sd / math.sqrt(50)
    claimed = float(np.mean(np.abs(later) > MARGIN + 1.644854 * error))
    assert settling_chance(it, 20, 30, MARGIN) == pytest.approx(claimed, abs=0.015)


def test_what_is_settled_or_unknown_is_not_worth_a_job() -> None:
    assert worth(Open(compared(0.5), 5, 1.0, 60.0), 5, MARGIN) == 0
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (), "k")])
    assert worth(Open(unknown, 0, 1.0, 60.0), 5, MARGIN) == 0
    assert settling_chance(compared(0.0, noise=0.0), 5, 5, MARGIN) == 0


def test_what_is_asked_often_and_costs_little_comes_first() -> None:
    it = compared(0.04)
    plain, often, dear = (
        worth(Open(it, 5, asked, cost), 5, MARGIN)
        for asked, cost in ((1, 60.0), (3, 60.0), (1, 120.0))
    )
    assert often == pytest.approx(3 * plain)
    assert dear == pytest.approx(plain / 2)


def test_who_cannot_win_any_more_is_out() -> None:
    assert still_in_the_race([compared(0.3), compared(0.0), compared(0.29)]) == [True, False, True]
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (0.1,), "k")])
    assert still_in_the_race([compared(0.3), unknown]) == [True, True]
    assert still_in_the_race([]) == []


def test_the_comparison_that_jobs_tell_most_of_comes_first() -> None:
    near, far, settled, lost = (
        replace(compared(gain, noise=noise), candidate=name)
        for name, gain, noise in (
            ("near", 0.025, 0.03), ("far", 0.06, 0.06), ("settled", 0.04, 0.005),
            ("lost", -0.05, 0.04),
        )
    )  # fmt: skip
    found = further_jobs([near, far, settled, lost], 0.02)
    assert settled.verdict is Verdict.FASTER
    assert lost.verdict is Verdict.UNDETERMINED
    assert [it.candidate for it in found] == ["far", "near"]
    assert found[0].chance > found[1].chance
    assert (found[0].jobs, found[0].baseline_jobs) == (far.jobs_missing, far.baseline_jobs_missing)
    assert further_jobs([], 0.02) == ()


def test_of_claims_those_count_that_were_measured_here_and_may_still_be_the_best() -> None:
    bench = Bench()
    for version, gain, noise in (("1", 0, 4), ("2", 0.03, 4), ("3", 0.5, 0.1), ("4", 0.035, 4)):
        package = "fast" if version != "4" else "other"
        arm = {"fast": "1", "other": "1", package: version}
        rates = [rate * noise + gain for rate in jobs(seed=int(version))]
        bench.measure(bench.stack(*(f"{name}=={it}" for name, it in arm.items())), rates)
    claims = claims_about(bench, ["fast==1", "other==1"], ["fast==2", "fast==3", "other==4"])
    assert [it.verdict.value for it in claims] == ["undetermined", "faster", "undetermined"]
    (found,) = next_claims(claims)
    assert (found.package, found.purl) == ("other", purl("other==4"))
    assert 0 < found.chance < 1
    elsewhere = claims_about(bench, ["other==1"], ["other==4"], Circumstances(ELSEWHERE, "3.11"))
    assert [it.chance for it in elsewhere] == [0.0]
    assert next_claims(elsewhere) == ()
