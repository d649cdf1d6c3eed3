"""Planned looks at the jobs of ``thoth compare``: when it stops, and what it says."""

import math

import numpy as np
import pytest

from adviser.planned_comparison import (
    LOOK_BLOCKS,
    RATES,
    Attribution,
    ComparedStack,
    attribution_sentence,
    judge_look,
    labels_of,
    verdict_sentence,
)
from adviser.scoring.sample_needs import Need
from adviser.scoring.verdicts import Verdict
from tests.factories.compared_jobs import observations, settled_look

OLD = {"numpy": "1.26.4", "six": "1.16.0"}
NEW = {"numpy": "2.4.6", "six": "1.16.0"}


def stack(letter: str, pins: dict[str, str], **variables: str) -> ComparedStack:
    return ComparedStack(letter, f"lock-{letter}", pins, variables)


def test_planned_looks_of_a_comparison_share_the_error_rate() -> None:
    assert len(RATES) == len(LOOK_BLOCKS)
    assert sum(RATES) == pytest.approx(1)
    assert all(it % 2 == 0 for it in LOOK_BLOCKS)


def test_a_difference_of_ten_per_cent_is_settled_within_a_few_blocks() -> None:
    draw = np.random.default_rng(1)
    blocks = []
    for _ in range(40):
        rates = draw.normal([[0], [math.log(1.1)]], 0.03, (2, LOOK_BLOCKS[4]))
        look = settled_look(rates, 5)
        ((_, _, comparison),) = look.comparisons
        assert comparison.verdict is Verdict.FASTER
        blocks.append(look.blocks)
    assert np.mean(blocks) <= 10


def test_identical_stacks_are_rarely_called_different() -> None:
    """A person's own noisy script: heavy tails, and now and then a much slower run."""
    draw = np.random.default_rng(2)
    claims = 0
    for _ in range(100):
        rates = draw.standard_t(3, (2, LOOK_BLOCKS[6])) * 0.04
        rates -= (draw.random(rates.shape) < 0.1) * 0.3
        claims += any(it.verdict.different for *_, it in settled_look(rates, 7).comparisons)
    assert claims <= 2


def test_settled_stack_keeps_its_verdict_without_further_jobs() -> None:
    draw = np.random.default_rng(3)
    rates = draw.normal([[0], [0.3], [0.04]], 0.02, (3, LOOK_BLOCKS[0]))
    first = judge_look([observations(rates)], 0, LOOK_BLOCKS[0], 1.0)
    assert first.open_stacks == {"C"}
    # The settled stack would look equal now.
    more = np.concatenate([rates, draw.normal(0, 0.3, (3, 2))], axis=1)
    second = judge_look([observations(more)], 1, LOOK_BLOCKS[1], 1.0, first)
    kept = {it.stack_digest: one for _, it, one in second.comparisons}
    assert kept["B"] == {it.stack_digest: one for _, it, one in first.comparisons}["B"]


def test_no_claim_is_made_between_two_planned_looks() -> None:
    rates = np.random.default_rng(4).normal([[0], [0.5]], 0.01, (2, 7))
    look = judge_look([observations(rates)], 1, 7, 2.0)
    ((_, _, comparison),) = look.comparisons
    assert comparison.verdict is Verdict.UNDETERMINED
    assert look.seconds_missing(comparison) == 2.0


def test_benchmarks_of_one_comparison_are_adjusted_together() -> None:
    rates = np.random.default_rng(5).normal([[0], [0.075]], 0.03, (2, 12))
    alone = judge_look([observations(rates)], 2, 12, 1.0)
    noise = np.random.default_rng(6).normal(0, 0.03, (30, 2, 12))
    many = [observations(rates), *(observations(it, f"other {n}") for n, it in enumerate(noise))]
    together = judge_look(many, 2, 12, 1.0)
    of_one, of_many = (
        next(
            it.p_value
            for group, _, it in look.comparisons
            if group.parameters["benchmark"] == "bench"
        )
        for look in (alone, together)
    )
    assert of_many == pytest.approx(min(1.0, 31 * of_one))


@pytest.mark.parametrize(
    ("shift", "noise", "words"),
    [
        (0.12, 0.01, "B is 12.7 % faster than A ("),
        (-0.12, 0.01, "B is 11.3 % slower than A ("),
        (0.0, 0.005, "B is as fast as A for `bench` on this machine: a difference is smaller"),
        (0.0, 0.3, "too noisy here: jobs of one stack vary by"),
        (0.02, 0.03, "are likely to settle it"),
    ],
)
def test_verdict_of_a_comparison_is_one_sentence(shift: float, noise: float, words: str) -> None:
    steps = np.resize([-1.0, 1.0, 0.5, -0.5], 28) * noise
    rates = np.array([steps, np.roll(steps, 1) + shift])
    look = judge_look([observations(rates)], 4, 28, 1.0)
    ((_, _, comparison),) = look.comparisons
    assert words in verdict_sentence(look, comparison, "B", "A", "`bench`")


def test_large_difference_in_few_noisy_jobs_is_not_called_hopeless() -> None:
    noise = 0.39 * np.linspace(-1, 1, 6)[[3, 0, 5, 2, 1, 4]]
    rates = np.array([np.zeros(6), noise - 0.41])
    look = judge_look([observations(rates)], 1, 6, 1.0)
    ((_, _, comparison),) = look.comparisons
    sentence = verdict_sentence(look, comparison, "B", "A", "`bench`")
    assert comparison.needs is Need.MARGIN
    assert sentence.endswith("%. More jobs may settle it.")
    assert look.continuing_helps


def test_difference_is_attributed_to_versions_or_settings_but_not_both() -> None:
    old, new = stack("A", OLD), stack("B", NEW)
    assert new.attribution(old) is Attribution.VERSIONS
    assert attribution_sentence(new, old) == "Only numpy 1.26.4 → 2.4.6 differs."
    threads = stack("B", OLD, OMP_NUM_THREADS="1")
    assert threads.attribution(old) is Attribution.SETTING
    assert "due to the setting, OMP_NUM_THREADS unset → 1" in attribution_sentence(threads, old)
    both = stack("B", NEW, OMP_NUM_THREADS="1")
    assert both.attribution(old) is Attribution.BOTH
    assert "attributed to neither" in attribution_sentence(both, old)
    assert stack("B", OLD).attribution(old) is Attribution.NOTHING


def test_stack_labels_name_only_what_differs() -> None:
    assert labels_of([stack("A", OLD), stack("B", NEW)]) == ["numpy 1.26.4", "numpy 2.4.6"]
    assert labels_of([stack("A", OLD), stack("B", OLD, N="1")]) == ["lock-A", "lock-B N=1"]
    same = [ComparedStack(it, "uv.lock", OLD, {}) for it in "AB"]
    assert labels_of(same) == ["uv.lock (A)", "uv.lock (B)"]
