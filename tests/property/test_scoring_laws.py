"""Laws of the comparison: symmetric, blind to order and scale, and quiet on noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adviser.scoring.verdicts import Comparison, Sample, Verdict, compare_candidates

log_rates = st.lists(st.floats(-1, 1), max_size=12).map(tuple)
MIRRORED = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.EQUIVALENT: Verdict.EQUIVALENT,
    Verdict.UNDETERMINED: Verdict.UNDETERMINED,
}


def compare(candidate: tuple[float, ...], baseline: tuple[float, ...]) -> Comparison:
    return compare_candidates(Sample("b", baseline, "key"), [Sample("c", candidate, "key")])[0]


@given(log_rates, log_rates)
def test_swapping_the_arms_flips_the_sign(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    forth, back = compare(a, b), compare(b, a)
    assert forth.d == pytest.approx(-back.d, nan_ok=True, abs=1e-12)
    assert forth.standard_error == pytest.approx(back.standard_error)
    assert forth.verdict is MIRRORED[back.verdict]
    missing = back.baseline_jobs_missing, back.jobs_missing
    assert (forth.jobs_missing, forth.baseline_jobs_missing) == missing


@given(log_rates, log_rates, st.randoms(use_true_random=False))
def test_the_order_of_jobs_never_matters(a: tuple[float, ...], b: tuple[float, ...], rng) -> None:  # type: ignore[no-untyped-def]
    shuffled = tuple(rng.sample(a, len(a)))
    # repr, as nan differs from itself.
    assert repr(compare(shuffled, b)) == repr(compare(a, b))


@given(
    st.lists(st.integers(-50, 50), max_size=12),
    st.lists(st.integers(-50, 50), max_size=12),
    st.integers(-40, 40),
)
def test_a_faster_machine_for_both_arms_changes_nothing(
    a: list[int], b: list[int], scale: int
) -> None:
    # Sixty-fourths add without rounding, so that not even a border case may tip.
    def arms(shift: int) -> list[tuple[float, ...]]:
        return [tuple(x / 64 + shift for x in arm) for arm in (a, b)]

    plain, scaled = compare(*arms(0)), compare(*arms(scale))
    assert scaled.verdict is plain.verdict
    assert scaled.d == pytest.approx(plain.d, nan_ok=True, abs=1e-9)
    assert scaled.standard_error == pytest.approx(plain.standard_error, abs=1e-9)


@settings(max_examples=50)
@given(st.lists(log_rates, max_size=6), log_rates, st.randoms(use_true_random=False))
def test_the_order_of_candidates_never_matters(arms, baseline, rng) -> None:  # type: ignore[no-untyped-def]
    base = Sample("b", baseline, "key")
    candidates = [Sample(str(i), arm, "key") for i, arm in enumerate(arms)]
    shuffled = rng.sample(candidates, len(candidates))
    expected = {c.candidate: repr(c) for c in compare_candidates(base, candidates)}
    assert {c.candidate: repr(c) for c in compare_candidates(base, shuffled)} == expected


def groups_with_a_claim(
    noise: float, *, groups: int, stacks: int, jobs: int, gain: float = 0.0, seed: int
) -> dict[Verdict, int]:
    """In how many groups of alike stacks any candidate gets each verdict."""
    rng = np.random.default_rng(seed)
    seen = dict.fromkeys(Verdict, 0)
    for _ in range(groups):
        arms = rng.normal(0.0, noise, (stacks, jobs))
        arms[1:] += gain
        base, *others = [Sample(str(i), tuple(arm), "key") for i, arm in enumerate(arms)]
        for verdict in {c.verdict for c in compare_candidates(base, others)}:
            seen[verdict] += 1
    return seen


@pytest.mark.parametrize("jobs", [5, 10])
def test_identical_stacks_are_hardly_ever_told_apart(jobs: int) -> None:
    seen = groups_with_a_claim(0.03, groups=400, stacks=20, jobs=jobs, seed=20)
    at_most = stats.binom.ppf(0.999, 400, 0.05)
    assert seen[Verdict.FASTER] <= at_most
    assert seen[Verdict.SLOWER] <= at_most
    assert seen[Verdict.FASTER] + seen[Verdict.SLOWER] <= 0.01 * 400


def test_noise_that_drowns_the_margin_keeps_its_promise_too() -> None:
    seen = groups_with_a_claim(0.5, groups=400, stacks=20, jobs=5, seed=21)
    at_most = stats.binom.ppf(0.999, 400, 0.05)
    assert seen[Verdict.FASTER] <= at_most
    assert seen[Verdict.SLOWER] <= at_most


def test_a_gain_exactly_at_the_margin_is_claimed_as_often_as_alpha() -> None:
    seen = groups_with_a_claim(0.03, groups=2000, stacks=2, jobs=10, gain=math.log(1.02), seed=22)
    low, high = stats.binom.ppf([0.001, 0.999], 2000, 0.05)
    assert low <= seen[Verdict.FASTER] <= high


def test_a_real_gain_of_ten_per_cent_is_found() -> None:
    seen = groups_with_a_claim(0.02, groups=200, stacks=2, jobs=10, gain=math.log(1.10), seed=23)
    assert seen[Verdict.FASTER] >= 0.99 * 200
    assert seen[Verdict.SLOWER] == 0
