"""A million comparisons at once answer as one by one."""

from __future__ import annotations

import math
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.effects import (
    Arms,
    Effects,
    Moments,
    effects_of,
    per_cent,
    welch_effects,
)
from adviser.scoring.estimates import Method
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


@settings(max_examples=examples(150))
@given(arm, st.lists(arm, min_size=1, max_size=8))
def test_arms_in_an_array_are_judged_as_samples_are(
    baseline: list[float], candidates: list[list[float]]
) -> None:
    told = compare_candidates(
        Sample("b", tuple(baseline), "key"), [Sample("c", tuple(it), "key") for it in candidates]
    )
    places = np.arange(1, len(candidates) + 1)
    effects, judged = judged_pairs(
        arms_of([baseline, *candidates]).moments(), places, np.zeros_like(places), MARGIN
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
def test_pairs_in_an_array_are_judged_as_samples_are(
    pairs: list[list[tuple[int, int]]],
) -> None:
    # One comparison each: with several, pairs of the shared baseline would have to agree.
    for them in pairs:
        ours, theirs = ([x / 64 for x in column] for column in zip(*them, strict=True))
        places = tuple(JobPlace("h", f"run:{n}") for n in range(len(them)))
        (told,) = compare_candidates(
            Sample("b", tuple(theirs), "key", places), [Sample("c", tuple(ours), "key", places)]
        )
        effects = effects_of([paired_effect(ours, theirs)])
        judged = judge(effects, np.array([True]), MARGIN, np.array([len(them) - 1.0]))
        assert told.method is Method.PAIRED
        assert judged.verdict(0) is told.verdict
        assert judged.p_value[0] == told.p_value
        assert effects.single(0).d == told.d


def test_a_margin_each_is_that_of_its_own_comparison() -> None:
    draw = np.random.default_rng(8)
    arms = Arms(draw.normal(0, 0.001, 30) + np.repeat([0, 0.1, 0.1], 10), np.full(3, 10))
    margins = np.log1p([0.02, 0.2])
    _, judged = judged_pairs(arms.moments(), np.array([1, 2]), np.array([0, 0]), margins)
    assert [judged.verdict(i).value for i in (0, 1)] == ["faster", "equivalent"]


def test_a_million_pairs_take_seconds() -> None:
    draw = np.random.default_rng(9)
    arms = Arms(draw.normal(0, 0.03, 200_000), np.full(20_000, 10))
    ours, theirs = draw.integers(0, 20_000, (2, 1_000_000))
    began = process_time()
    effects, judged = judged_pairs(arms.moments(), ours, theirs, MARGIN)
    took = process_time() - began  # however many others use the processors
    assert took < 30
    assert len(effects.d) == len(judged.verdicts) == 1_000_000
    assert int((judged.verdicts > 1).sum()) <= 10, "identical arms"
