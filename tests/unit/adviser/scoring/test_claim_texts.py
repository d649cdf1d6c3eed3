"""Sentences about claims: the number and its interval, and what tells a series apart."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts, effect_text
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from tests.factories.evidence import ELSEWHERE, HERE, Bench, claims_about, jobs, series
from tests.factories.golden import compare_views

INF = math.inf


@pytest.mark.parametrize(
    ("effect", "text"),
    [
        ((10.2, 9.5, 11.0), "10.2 % faster than 1 (95 % interval 9.5 to 11.0 %)"),
        ((2.4, 0.3, 4.5), "2.4 % faster than 1 (95 % interval 0.3 to 4.5 %)"),
        ((-20.2, -24.3, -16.4), "20 % slower than 1 (95 % interval 16 to 24 %)"),
        ((99.6, 80.0, 120.0), "2.0 times as fast as 1 (95 % interval 1.8 to 2.2)"),
        ((-68.75, -71.4, -65.5), "3.2 times as slow as 1 (95 % interval 2.9 to 3.5)"),
        ((1100, 1000, 1200), "12 times as fast as 1 (95 % interval 11 to 13)"),
        ((30, 10, 5e9), "30 % faster than 1 (95 % interval 10 to more than 1,000 %)"),
        ((-3.1, -9.4, 2.9), "3 % slower than 1 (95 % interval 9 % slower to 3 % faster)"),
        ((0.01, -1.2, 1.2), "no difference (95 % interval 1 % slower to 1 % faster)"),
        ((30, -INF, INF), "30 % faster than 1 (of unknown error)"),
        ((math.nan, -INF, INF), "no jobs to compare ()"),
    ],
)
def test_effect_is_shown_as_one_number_with_its_interval(
    effect: tuple[float, float, float], text: str
) -> None:
    size, interval = effect_text(*effect, "1")
    assert f"{size} ({interval})" == text


def test_shown_effect_lies_within_its_shown_interval() -> None:
    draw = np.random.default_rng(5)
    for d, width in zip(draw.normal(0, 0.8, 500), 10 ** draw.uniform(-4, 0, 500), strict=True):
        ends = (float(100 * math.expm1(it)) for it in (d, d - width, d + width))
        size, interval = effect_text(*ends)
        numbers = [float(it) for it in re.findall(r"[\d.]+", f"{size} {interval[13:]}")]
        if len(numbers) == 3 and " slower to " not in interval:
            assert numbers[1] <= numbers[0] <= numbers[2], (size, interval)


def measured(gains: Mapping[int, float], count: int = 8) -> list[Claim]:
    """``fast`` 2 next to 1 in a series for each size."""
    bench = Bench()
    for size, gain in gains.items():
        how = series(parameters={"matrix_size": size, "dtype": "float32", "reps": 3})
        for version, level in (("1", 0.0), ("2", gain)):
            bench.measure(bench.stack(f"fast=={version}"), jobs(level, count), how)
    return claims_about(bench, ["fast==1"], ["fast==2"])


def messages(claims: list[Claim], *, every: bool = False) -> list[str]:
    return [it.message for it in ClaimTexts(claims).justifications(claims, every=every)]


SIZES = [2**it for it in range(4, 13)]


def in_turns() -> list[Claim]:
    bench = Bench()
    for version, level in (("1", 0.0), ("2", 0.3)):
        stack, blocks = bench.stack(f"fast=={version}"), list("abcdefg")
        bench.measure(stack, jobs(level, 7), blocks=blocks, run="one night")
    return claims_about(bench, ["fast==1"], ["fast==2"])


def from_elsewhere(gains: Mapping[int, float]) -> list[Claim]:
    bench = Bench()
    for size, gain in gains.items():
        how = series(hardware=ELSEWHERE, parameters={"matrix_size": size})
        for version, level in (("1", 0.0), ("2", gain)):
            bench.measure(bench.stack(f"fast=={version}"), jobs(level), how)
    return claims_about(bench, ["fast==1"], ["fast==2"], Target(HERE, "3.12"))


def test_claim_text_states_verdict_size_and_uncertainty() -> None:
    one_of_ten = measured(dict.fromkeys(SIZES, -0.05) | {8192: -0.3})
    (claim,) = measured({64: 0.3})
    claims = {
        "one size of ten differs": one_of_ten,
        "one size of ten has another verdict": measured(
            dict.fromkeys(SIZES, 0.001) | {8192: -0.3}, 40
        ),
        "a trend": measured({size: 0.1 * n for n, size in enumerate(SIZES, 1)}),
        "undetermined series": measured({64: 0.1, 512: 0.1, 4096: 0.1}, 4),
        "one job": measured({64: 0.0}, 1),
        "two scripts": [claim, replace(claim, comparison_key="sha256:" + "c" * 64)],
        "pairs": in_turns(),
        "other hardware and another Python": from_elsewhere({64: 1.0}),
        "several series on other hardware": from_elsewhere({64: -0.1, 512: 0.05, 4096: 0.2}),
    }
    views = {title: "\n".join(messages(it)) for title, it in claims.items()}
    compare_views("claims", views)
    assert len(messages(one_of_ten, every=True)) == 10


def test_claim_names_hosts_that_disagree_with_their_differences() -> None:
    bench, alike = Bench(), Bench()
    for host, gain in (("h1", 0.02), ("h2", 0.08)):
        for it, level in ((bench, gain), (alike, 0.05)):
            it.measure(it.stack("fast==1"), jobs(count=40), host=host)
            it.measure(it.stack("fast==2"), jobs(level, 40), host=host)
    (claim,), (agreed,) = (claims_about(it, ["fast==1"], ["fast==2"]) for it in (bench, alike))
    assert claim.host_differences_pct == pytest.approx({"h1": 2.0201, "h2": 8.3287}, abs=1e-4)
    (text,) = messages([claim])
    assert "80 jobs of each on 2 hosts)" in text
    assert text.endswith("; the 2 hosts disagree, from +2.0 % on h1 to +8.3 % on h2")
    assert agreed.host_differences_pct == {}
    assert "disagree" not in messages([agreed])[0]


def test_undetermined_difference_that_may_be_too_small_says_so() -> None:
    (claim,) = measured({64: 0.03})
    claim = replace(claim, verdict=Verdict.UNDETERMINED, observed_pct=2.8, interval_high_pct=3.7)
    for low, told in ((1.9, True), (-0.1, False), (2.4, False)):
        text = ClaimTexts([claim]).sentence(replace(claim, interval_low_pct=low))
        assert (", not settled to be more than 2 %, " in text) is told, text
