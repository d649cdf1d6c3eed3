"""Batches of jobs that ran in turns, and their order."""

import math
from datetime import timedelta

import numpy as np
import pytest

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.estimates import Estimate, SeriesSpread, estimates_of
from adviser.scoring.sample_needs import Need
from adviser.scoring.samples import JobPlace, Sample, in_batches
from adviser.scoring.turn_noise import Batches, TurnNoise, mean_variance, turn_effects, turn_noises
from adviser.scoring.variances import NO_PRIOR, TurnResiduals, turn_residuals
from tests.factories.evidence import NOW


def places(*runs: tuple[str, int]) -> tuple[JobPlace, ...]:
    """Jobs in blocks of their own, by run and number of jobs."""
    return tuple(
        JobPlace("h1", f"{run.strip('ab')}:{n}", run) for run, jobs in runs for n in range(jobs)
    )


def in_turns(differences: list[list[float]], noise: TurnNoise | None = None) -> Estimate:
    """A stack against a baseline of which it differs so much, night by night."""
    nights = [(str(n), len(night)) for n, night in enumerate(differences)]
    where = [places(*((f"{name}{night}", jobs) for night, jobs in nights)) for name in "ab"]
    level = [0.01 * math.sin(n) for n in range(sum(map(len, differences)))]
    all_differences = [it for night in differences for it in night]
    ours = tuple(a + b for a, b in zip(level, all_differences, strict=True))
    spread = SeriesSpread(noise={} if noise is None else {"h1": noise})
    (found,) = estimates_of(
        Sample("b", tuple(level), "key", where[1]), [Sample("a", ours, "key", where[0])], spread
    )
    return found


NIGHT = [0.01, -0.02, 0.02, -0.01, 0.0]


def test_blocks_that_share_inspections_form_one_batch() -> None:
    blocks = {
        ("h1", "r:10"): [JobPlace("h1", "r:10", "a")],
        ("h1", "r:9"): [JobPlace("h1", "r:9", "a"), JobPlace("h1", "r:9", "b")],
        ("h1", "s:1"): [JobPlace("h1", "s:1", "b"), JobPlace("h1", "s:1", "c")],
        ("h1", "t:1"): [JobPlace("h1", "t:1", "d")],
        ("h1", "u:1"): [JobPlace("h1", "u:1", None), JobPlace("h1", "u:1", "d")],
        ("h2", "t:1"): [JobPlace("h2", "t:1", "d")],
    }
    expected = [["u:1"], ["s:1", "r:9", "r:10"], ["t:1"], ["t:1"]]
    for order in (list(blocks), list(blocks)[::-1]):
        batches = in_batches({it: blocks[it] for it in order})
        assert [[name for _, name in batch] for batch in batches] == expected


def test_blocks_of_a_batch_are_ordered_by_time() -> None:
    def at(block: str, hour: int) -> JobPlace:
        return JobPlace("h1", block, "a", NOW + timedelta(hours=hour))

    jobs = [at("r:1", 3), at("r:2", 1), at("r:2", 9), at("r:3", 2)]
    blocks: dict[tuple[str, str], list[JobPlace]] = {}
    for it in jobs:
        blocks.setdefault(("h1", it.block or ""), []).append(it)
    (batch,) = in_batches(blocks)
    assert [name for _, name in batch] == ["r:2", "r:3", "r:1"]


def test_error_of_a_single_batch_comes_from_its_pairs() -> None:
    found = in_turns([NIGHT])
    assert found.batches == 1
    assert found.effect.standard_error == pytest.approx(math.sqrt(0.00025 / 5))
    assert (found.effect.degrees_of_freedom, found.own_freedom) == (4.0, 4.0)


def test_agreeing_batches_are_as_precise_as_one_batch_with_all_their_pairs() -> None:
    found = in_turns([NIGHT, NIGHT, NIGHT])
    assert (found.batches, found.pairs) == (3, 15)
    assert found.effect.standard_error == pytest.approx(math.sqrt(0.001 * 3 / 12 / 15))
    assert found.effect.degrees_of_freedom == pytest.approx(12.0)


def test_error_of_disagreeing_batches_comes_from_their_means() -> None:
    levels = [-0.2, -0.1, 0.0, 0.1, 0.2]
    found = in_turns([[it + level for it in NIGHT] for level in levels])
    # Nearly all of the error is that of five means, which a little agreement is added to.
    assert found.effect.standard_error == pytest.approx(math.sqrt(0.025 / 5), rel=0.02)
    assert found.effect.degrees_of_freedom == pytest.approx(4.0, abs=0.1)
    assert found.batches_differ


def test_single_batch_includes_the_between_batch_variance_of_its_series() -> None:
    found = in_turns([NIGHT], TurnNoise(between=0.005, freedom=12.0))
    assert found.effect.standard_error == pytest.approx(math.sqrt(0.00025 / 5 + 2 * 0.005))
    assert found.effect.degrees_of_freedom < 7
    assert found.batches_differ


def test_disagreeing_batches_need_further_runs() -> None:
    levels = [0.2, 0.32, 0.44, 0.26]
    night = [(f"a{n}", 5) for n in range(4)], [(f"b{n}", 5) for n in range(4)]
    noise = [it for level in levels for it in (level + x for x in NIGHT)]
    ours = Sample("a", tuple(x + 0.01 * n for n, x in enumerate(noise)), "key", places(*night[0]))
    theirs = Sample("b", tuple(0.01 * n for n in range(20)), "key", places(*night[1]))
    (found,) = compare_candidates(theirs, [ours])
    assert found.needs is Need.RUNS
    assert 0 < found.jobs_missing < 20


def test_autocorrelation_of_pairs_widens_the_error() -> None:
    noise = TurnNoise(correlation=0.5)
    batches = Batches.of([[it for n in range(4) for it in NIGHT]], [[20]])
    plain, alike = (turn_effects(batches, [NO_PRIOR], [it]) for it in (TurnNoise(), noise))
    share = float(mean_variance(0.5, np.array([20.0]))[0])
    widened = math.sqrt(19 * share / (1 - share))
    assert alike.effects.standard_error[0] / plain.effects.standard_error[0] == pytest.approx(
        widened
    )
    assert alike.effects.degrees_of_freedom[0] == pytest.approx(19 * 0.75 / 1.25)


def test_variance_of_a_correlated_mean_equals_the_mean_covariance() -> None:
    for n in (1, 2, 7):
        covariances = 0.6 ** np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        assert mean_variance(0.6, np.array([float(n)]))[0] == pytest.approx(covariances.mean())


def test_trend_within_a_batch_widens_the_error() -> None:
    trend = [0.01 * n for n in range(20)]
    assert in_turns([trend]).effect.standard_error > 3 * np.std(trend, ddof=1) / math.sqrt(20)


@pytest.mark.parametrize("searched", [0, 12])
def test_independent_jobs_show_no_autocorrelation(searched: int) -> None:
    """Not even where a search adds short batches of two stacks to a long one."""
    random, correlations = np.random.default_rng(5), []
    batches = [(0, 1, 36), *((n, n + 1, 5) for n in range(2, 2 + searched, 2))]
    for _ in range(200):
        rows = []
        for batch, (one, other, turns) in enumerate(batches):
            half = random.normal(0.0, 0.2, turns) / 2
            rows += [(one, batch, value) for value in half]
            rows += [(other, batch, -value) for value in half]
        rows.sort(key=lambda row: row[:2])
        stack, batch, values = (np.array(column) for column in zip(*rows, strict=True))
        stacks = tuple(str(n) for n in range(int(stack.max()) + 1))
        residuals = TurnResiduals(stacks, stack, batch, values, np.full(len(values), 2.0))
        correlations.append(turn_noises([residuals])[0].correlation)
    assert np.mean(np.array(correlations) > 0) <= 0.1
    assert np.mean(correlations) <= 0.02


def residuals_of(draw: np.random.Generator, between: float) -> TurnResiduals:
    """Five stacks in seven turns of each of two sessions that differ by so much."""
    jobs = {}
    for stack in "abcde":
        session = draw.normal(0, between, 2)
        where = places((f"{stack}0", 7), (f"{stack}1", 7))
        rates = np.repeat(session, 7) + draw.normal(0, 0.01, 14)
        blocks = (JobPlace("h1", f"{n}", it.run) for n, it in enumerate(where))
        jobs[stack] = list(zip(blocks, rates.tolist(), strict=True))
    return turn_residuals(jobs)["h1"]


def test_between_session_variances_are_shared_unless_a_series_varies_more() -> None:
    draw = np.random.default_rng(7)
    alike = [residuals_of(draw, 0.01) for _ in range(12)]
    alone = [turn_noises([it])[0] for it in alike]
    shared = turn_noises(alike)
    # The same level, with less scatter and more certainty.
    levels, apart = ([math.sqrt(it.between) for it in them] for them in (shared, alone))
    assert np.mean(levels) == pytest.approx(0.01, rel=0.15)
    assert np.std(levels) < 0.6 * np.std(apart)
    assert {it.freedom for it in alone} == {4.0}
    assert np.median([it.freedom for it in shared]) > 8
    wild = residuals_of(draw, 0.1)
    *others, odd = turn_noises([*alike, wild])
    assert odd.freedom == 4.0
    assert odd.between == pytest.approx(turn_noises([wild])[0].between, rel=0.2)
    assert max(it.between for it in others) < 0.03**2
