"""Sentences about claims: the number and its interval, and what tells a series apart."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts, effect_text
from tests.factories.evidence import Bench, claims_about, jobs, series

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
)  # fmt: skip
def test_an_effect_has_one_number_and_an_interval_in_its_unit(
    effect: tuple[float, float, float], text: str
) -> None:
    size, interval = effect_text(*effect, "1")
    assert f"{size} ({interval})" == text


def test_a_rounded_number_lies_within_its_rounded_interval() -> None:
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
    return [it.message for it in ClaimTexts(claims).notes(claims, every=every)]


SIZES = [2**it for it in range(4, 13)]


def test_the_one_size_of_ten_that_differs_has_its_own_sentence() -> None:
    claims = measured(dict.fromkeys(SIZES, -0.05) | {8192: -0.3})
    common, apart = messages(claims)
    assert common.startswith("fast 2 is 5 % slower than 1 in 9 series of PiMatmul (95 % interval ")
    assert "; matrix_size 16, 32, 64, 128, 256 and 4 more)" in common
    assert apart.startswith("fast 2 is 25.9 % slower than 1 in PiMatmul with matrix_size 8192 (95")
    assert "reps" not in common + apart
    assert len(messages(claims, every=True)) == 10


def test_a_size_with_another_verdict_has_its_own_sentence() -> None:
    alike, loss = messages(measured(dict.fromkeys(SIZES, 0.001) | {8192: -0.3}, 40))
    assert alike.startswith("fast 2 is as fast as 1, to within 2 %, in 9 series of PiMatmul (matr")
    assert "with matrix_size 8192" in loss


def test_a_trend_is_one_sentence_with_its_ends() -> None:
    (trend,) = messages(measured({size: 0.1 * n for n, size in enumerate(SIZES, 1)}))
    assert "fast 2 is faster than 1 in 9 series of PiMatmul, from 10.5 % faster with" in trend
    assert re.search(r"to 2\.46 times as fast with matrix_size 4096 \(95 % interval 2", trend)


def test_several_undetermined_series_name_the_one_nearest_to_a_verdict() -> None:
    (text,) = messages(measured({64: 0.1, 512: 0.1, 4096: 0.1}, 4))
    assert text.startswith(
        "undetermined whether fast 2 or 1 is faster in 3 series of PiMatmul (matrix_size 64, 512,"
        " 4096): with matrix_size 64, about 2 more jobs would settle it"
    )


def test_two_series_that_only_differ_in_the_script_have_their_keys() -> None:
    (claim,) = measured({64: 0.3})
    other = replace(claim, comparison_key="sha256:" + "c" * 64)
    texts = messages([claim, other])
    for key in (claim.comparison_key[7:15], "cccccccc"):
        assert any(f"in PiMatmul with key {key} (" in it for it in texts)


def test_hosts_that_disagree_are_named_with_their_differences() -> None:
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


def test_pairs_are_counted_as_pairs() -> None:
    bench = Bench()
    for version, level in (("1", 0.0), ("2", 0.3)):
        stack, blocks = bench.stack(f"fast=={version}"), list("abcdefg")
        bench.measure(stack, jobs(level, 7), blocks=blocks, run="one night")
    (text,) = messages(claims_about(bench, ["fast==1"], ["fast==2"]))
    assert "7 pairs of jobs in one run)" in text
