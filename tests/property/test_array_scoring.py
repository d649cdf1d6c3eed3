"""A million comparisons at once answer as one by one."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.effects import (
    Arms,
    Effect,
    Effects,
    Moments,
    effects_of,
    per_cent,
    welch_effects,
)
from adviser.scoring.estimates import Method, clock_tick, clock_variance, with_clock
from adviser.scoring.lazy_numpy import FloatArray, IntArray
from adviser.scoring.samples import MIN_JOBS, JobPlace, Sample
from adviser.scoring.verdicts import Judgements, judge
from tests.effort import examples
from tests.factories.effects import paired_effect

arm = st.lists(st.floats(-0.5, 0.5) | st.sampled_from([0.0, 0.25]), max_size=12)
MARGIN = math.log1p(0.02)


def arms_of(arms: list[list[float]]) -> Arms:
    values = np.array([value for it in arms for value in it], dtype=np.float64)
    return Arms(values, np.array([len(it) for it in arms], dtype=np.int64))


def judged_pairs(
    arms: Moments, ours: IntArray, theirs: IntArray, margin: FloatArray | float
) -> tuple[Effects, Judgements]:
    """Two arms of jobs each, by their places among all arms."""
    candidates, baselines = arms.taken(ours), arms.taken(theirs)
    fewest = np.minimum(candidates.jobs, baselines.jobs)
    effects = welch_effects(candidates, baselines)
    return effects, judge(effects, fewest >= MIN_JOBS, margin, fewest - 1)


def by_the_clock(
    effects: Sequence[Effect], variances: Sequence[float], jobs: IntArray
) -> tuple[Effects, Judgements]:
    """Effects with the errors of their clocks, one by one, then judged as one family."""
    timed = [
        with_clock(effect, variance, fewest - 1.0)
        for effect, variance, fewest in zip(effects, variances, jobs.tolist(), strict=True)
    ]
    told = effects_of([effect for effect, _ in timed])
    tested = (jobs >= MIN_JOBS) & np.isfinite(told.standard_error)
    return told, judge(told, tested, MARGIN, np.array([freedom for _, freedom in timed]))


def error_of_clocks(ours: list[float], theirs: list[float]) -> float:
    """Of two arms; unknown only if both are constant and no reading tells the tick."""
    tick = clock_tick([*ours, *theirs])
    known = [
        it for it in (clock_variance(ours, tick), clock_variance(theirs, tick)) if it < math.inf
    ]
    return math.fsum(known) if known else math.inf


@settings(max_examples=examples(150))
@given(arm, st.lists(arm, min_size=1, max_size=8))
def test_vectorised_two_sample_verdicts_equal_individual_comparisons(
    baseline: list[float], candidates: list[list[float]]
) -> None:
    told = compare_candidates(
        Sample("b", tuple(baseline), "key"), [Sample("c", tuple(it), "key") for it in candidates]
    )
    places = np.arange(1, len(candidates) + 1)
    arms = arms_of([baseline, *candidates]).moments()
    ours, theirs = arms.taken(places), arms.taken(np.zeros_like(places))
    welch = welch_effects(ours, theirs)
    effects, judged = by_the_clock(
        [welch.single(i) for i in range(len(candidates))],
        [error_of_clocks(it, baseline) for it in candidates],
        np.minimum(ours.jobs, theirs.jobs),
    )
    low, high = per_cent(judged.low), per_cent(judged.high)
    for i, it in enumerate(told):
        assert judged.verdict(i) is it.verdict
        assert judged.p_value[i] == it.p_value
        assert effects.single(i).d == pytest.approx(it.d, abs=0, rel=0, nan_ok=True)
        assert effects.single(i).standard_error == it.standard_error
        ends = low[i], high[i]
        assert ends == pytest.approx((it.interval_low_pct, it.interval_high_pct), nan_ok=True)


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(st.tuples(st.integers(-30, 30), st.integers(-30, 30)), min_size=5,
                      max_size=9), min_size=1, max_size=6)
)  # fmt: skip
def test_vectorised_paired_verdicts_equal_scalar_ones(pairs: list[list[tuple[int, int]]]) -> None:
    # One comparison each: with several, pairs of the shared baseline would have to agree.
    for them in pairs:
        ours, theirs = ([x / 64 for x in column] for column in zip(*them, strict=True))
        places = tuple(JobPlace("h", f"run:{n}") for n in range(len(them)))
        (told,) = compare_candidates(
            Sample("b", tuple(theirs), "key", places), [Sample("c", tuple(ours), "key", places)]
        )
        differences = [a - b for a, b in zip(ours, theirs, strict=True)]
        effects, judged = by_the_clock(
            [paired_effect(ours, theirs)],
            [clock_variance(differences, clock_tick([*ours, *theirs]), 2)],
            np.array([len(them)]),
        )
        assert told.method is Method.PAIRED
        assert judged.verdict(0) is told.verdict
        assert judged.p_value[0] == told.p_value
        assert effects.single(0).d == told.d
        assert effects.single(0).standard_error == told.standard_error


@settings(max_examples=examples(150))
@given(
    st.lists(
        st.lists(st.integers(-500, 500), min_size=5, max_size=12, unique=True),
        min_size=2,
        max_size=9,
    )
)
def test_distinct_readings_have_no_clock_error(ticks: list[list[int]]) -> None:
    """Then arrays alone decide. No reading of an arm is one of another arm."""
    arms = [[(it + number / 16) / 1000 for it in own] for number, own in enumerate(ticks)]
    baseline, *candidates = arms
    told = compare_candidates(
        Sample("b", tuple(baseline), "key"), [Sample("c", tuple(it), "key") for it in candidates]
    )
    places = np.arange(1, len(arms))
    effects, judged = judged_pairs(arms_of(arms).moments(), places, np.zeros_like(places), MARGIN)
    assert len(told) == len(judged.verdicts)
    for i, it in enumerate(told):
        assert judged.verdict(i) is it.verdict
        assert judged.p_value[i] == it.p_value
        assert effects.single(i).standard_error == it.standard_error


def test_each_vectorised_comparison_uses_its_own_margin() -> None:
    draw = np.random.default_rng(8)
    arms = Arms(draw.normal(0, 0.001, 30) + np.repeat([0, 0.1, 0.1], 10), np.full(3, 10))
    margins = np.log1p([0.02, 0.2])
    _, judged = judged_pairs(arms.moments(), np.array([1, 2]), np.array([0, 0]), margins)
    assert [judged.verdict(i).value for i in (0, 1)] == ["faster", "equivalent"]


def test_vectorised_comparisons_of_identical_stacks_rarely_give_verdicts() -> None:
    draw = np.random.default_rng(9)
    arms = Arms(draw.normal(0, 0.03, 200_000), np.full(20_000, 10))
    ours, theirs = draw.integers(0, 20_000, (2, 1_000_000))
    effects, judged = judged_pairs(arms.moments(), ours, theirs, MARGIN)
    assert len(effects.d) == len(judged.verdicts) == 1_000_000
    assert int((judged.verdicts > 1).sum()) <= 10
