"""Variances that stacks of a series share, and what jobs of one run share."""

import math
import random

import numpy as np
import pytest
from scipy import optimize, special, stats

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.effects import Variance
from adviser.scoring.estimates import Estimate, Method, SeriesSpread, estimates_of
from adviser.scoring.histories import History, histories_of
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.turn_noise import turn_variances
from adviser.scoring.variances import (
    MIN_FREEDOM,
    NO_PRIOR,
    UNKNOWN_SPREAD,
    RunSpread,
    VariancePrior,
    moderate_variances,
    pair_prior,
    run_spread,
    turn_residuals,
    variance_prior,
)
from adviser.scoring.verdicts import Verdict
from tests.factories.effects import paired_effect, welch_effect
from tests.factories.evidence import Bench


def test_variances_of_up_to_five_stacks_are_not_shared() -> None:
    assert variance_prior([Variance(1e-4, 9)] * 5) == NO_PRIOR
    assert variance_prior([*[Variance(1e-4, 9)] * 5, Variance(math.nan, 0)]) == NO_PRIOR
    assert variance_prior([Variance(1e-4, 9)] * 6).freedom > 0


def test_shared_variance_has_limited_degrees_of_freedom() -> None:
    # Of eight stacks three count, with 30 % of their four degrees of freedom each.
    prior = variance_prior([Variance(2e-4, 4)] * 8)
    assert prior.variance == pytest.approx(2e-4)
    assert prior.freedom == pytest.approx(0.3 * 3 * 4)


def test_differing_variances_share_fewer_degrees_of_freedom() -> None:
    values = [1e-4 * 3.0**n for n in range(-6, 7)]
    prior = variance_prior([Variance(it, 20) for it in values])
    # Moments of the logs, less what twenty degrees of freedom make them differ by themselves.
    logs = np.log(values) - special.digamma(10) + math.log(10)
    excess = float(np.var(logs, ddof=1) - special.polygamma(1, 10))
    half = optimize.brentq(lambda x: special.polygamma(1, x) - excess, 1e-3, 1e3)
    assert prior.freedom == pytest.approx(2 * half)
    assert prior.freedom < 0.3 * 8 * 20
    middle = math.exp(logs.mean() + special.digamma(half) - math.log(half))
    assert prior.variance == pytest.approx(middle)


def test_moderated_variance_is_weighted_by_degrees_of_freedom() -> None:
    variance, freedom = moderate_variances(
        np.array([1.0, 3.0]), np.array([4.0, 9.0]), [VariancePrior(2.0, 6.0), NO_PRIOR]
    )
    assert variance.tolist() == pytest.approx([(4 * 1.0 + 6 * 2.0) / 10, 3.0])
    assert freedom.tolist() == [10.0, 9.0]


def test_variance_far_above_the_shared_variance_is_unchanged() -> None:
    limit = float(stats.f.ppf(0.95, 4, 6))
    own = np.array([2.0 * limit - 0.01, 2.0 * limit + 0.01])
    variance, freedom = moderate_variances(own, np.array([4.0, 4.0]), [VariancePrior(2.0, 6.0)] * 2)
    assert variance[0] < own[0]
    assert variance[1] == own[1]
    assert freedom.tolist() == [10.0, 4.0]


def test_shared_variance_of_a_pair_equals_the_example_computed_by_hand() -> None:
    prior = VariancePrior(2.0, 6.0)
    # Both arms share: variances 2 and 2/2; Satterthwaite 1 / ((2/3)²/6 + (1/3)²/6) = 54/5.
    both = pair_prior(prior, (Variance(2.1, 9), None), (1.0, 0.5))
    assert both.variance == pytest.approx(3.0)
    assert both.freedom == pytest.approx(54 / 5)
    # An arm that varies far more enters with its own 40 and 9 degrees of freedom.
    wild = pair_prior(prior, (Variance(40.0, 9), None), (1.0, 1.0))
    assert wild.variance == pytest.approx(42.0)
    assert wild.freedom == pytest.approx(1 / ((40 / 42) ** 2 / 9 + (2 / 42) ** 2 / 6))
    assert pair_prior(NO_PRIOR, (Variance(40.0, 9), None), (1.0, 1.0)) == NO_PRIOR


def test_variances_of_interleaved_jobs_equal_the_example_computed_by_hand() -> None:
    # Two stacks in turns: each has half the variance of their differences.
    differences = [0.05, 0.01, 0.03, 0.02, 0.04, 0.0]
    turns = [JobPlace("h1", f"run:{n}") for n in range(6)]
    hours = [0.3, -0.2, 0.1, 0.0, 0.5, -0.4]
    jobs = {
        "a": [(place, hour + d) for place, hour, d in zip(turns, hours, differences, strict=True)],
        "b": list(zip(turns, hours, strict=True)),
        "alone": [(JobPlace("h1", f"other:{n}"), 0.01 * n) for n in range(6)],
        "nowhere": [(JobPlace("h1"), 0.0)] * 6,
    }
    residuals = turn_residuals(jobs)
    assert list(residuals) == ["h1"]
    variances = turn_variances(residuals["h1"])
    assert variances.keys() == {"a", "b"}
    for it in variances.values():
        assert it.value == pytest.approx(np.var(differences, ddof=1) / 2)
        assert it.freedom == 5


def in_turns(
    stacks: int, wild: float = 1.0, blocks: int = 10, seed: int = 71, *, order: int = 0
) -> History:
    """Stacks on one host that vary by 1 %; the last one by ``wild`` times as much.

    :param order: seed of the order in which the stacks are measured; 0 for the plain one
    """
    draw = np.random.default_rng(seed)
    hours = draw.normal(0, 0.1, blocks)
    rates = [draw.normal(0, 0.01 * (wild if n == stacks - 1 else 1), blocks) for n in range(stacks)]
    bench = Bench()
    turn = [f"run:{n}" for n in range(blocks)]
    for n in random.Random(order).sample(range(stacks), stacks) if order else range(stacks):
        bench.measure(bench.stack(f"fast=={n}"), hours + rates[n], blocks=turn)
    (history,) = histories_of(bench.evidence(), [0]).values()
    return history


def digest_of(stack: int) -> str:
    return Bench().stack(f"fast=={stack}")


def estimate(history: History, candidate: int, baseline: int = 0) -> Estimate:
    (one,) = estimates_of(
        history.sample(digest_of(baseline)), [history.sample(digest_of(candidate))], history.spread
    )
    return one


def own_error(history: History, candidate: int) -> float:
    ours, theirs = (history.sample(digest_of(n)) for n in (candidate, 0))
    at = dict(zip(theirs.places, theirs.log_rates, strict=True))
    by_block = {place.block: rate for place, rate in at.items()}
    return paired_effect(
        ours.log_rates, [by_block[place.block] for place in ours.places]
    ).standard_error


def test_very_noisy_stack_keeps_its_own_variance() -> None:
    ratios, quiet = [], []
    for seed in range(40):
        history = in_turns(12, wild=3.0, seed=seed)
        wild = estimate(history, 11)
        assert wild.method is Method.PAIRED
        ratios.append(wild.effect.standard_error / (0.01 * math.sqrt((1 + 9) / 10)))
        quiet.append(estimate(history, 5).effect.standard_error / (0.01 * math.sqrt(2 / 10)))
    assert 0.9 < float(np.median(ratios)) < 1.1
    assert 0.9 < float(np.median(quiet)) < 1.15
    # What moderation is for: errors that are small by luck are rare.
    assert min(quiet) > 0.6


def test_sharing_variances_reduces_the_scatter_of_errors() -> None:
    moderate, plain = [], []
    for seed in range(40):
        history = in_turns(12, blocks=5, seed=seed)
        one = estimate(history, 5)
        moderate.append(one.effect.standard_error)
        plain.append(own_error(history, 5))
        assert one.effect.degrees_of_freedom > 4
        assert one.own_freedom == 4
    assert np.std(np.log(moderate)) < 0.75 * np.std(np.log(plain))
    assert np.mean(np.square(moderate)) == pytest.approx(2 * 0.01**2 / 5, rel=0.2)


def test_variances_of_up_to_five_interleaved_stacks_are_not_shared() -> None:
    history = in_turns(5)
    assert estimate(history, 3).effect.standard_error == pytest.approx(own_error(history, 3))


@pytest.mark.parametrize("wild", [1.0, 3.0])
def test_swapping_the_compared_stacks_only_flips_the_sign(wild: float) -> None:
    history = in_turns(12, wild=wild)
    forth, back = estimate(history, 11, 0), estimate(history, 0, 11)
    assert forth.effect.d == pytest.approx(-back.effect.d, rel=1e-12)
    assert forth.effect.standard_error == pytest.approx(back.effect.standard_error, rel=1e-12)
    freedom = back.effect.degrees_of_freedom
    assert forth.effect.degrees_of_freedom == pytest.approx(freedom, rel=1e-12)
    assert (forth.own_freedom, forth.pairs, forth.tested) == (
        back.own_freedom, back.pairs, back.tested,
    )  # fmt: skip


@pytest.mark.parametrize("order", [1, 2, 3])
def test_estimates_are_bitwise_independent_of_the_order_of_stacks(order: int) -> None:
    plain, shuffled = in_turns(12, wild=3.0), in_turns(12, wild=3.0, order=order)
    assert shuffled.spread.turns == plain.spread.turns
    assert shuffled.spread.runs == plain.spread.runs
    for stack in range(1, 12):
        assert estimate(shuffled, stack) == estimate(plain, stack)
    draw = random.Random(order)
    variances = [Variance(draw.uniform(1e-5, 1e-3), draw.randint(4, 20)) for _ in range(9)]
    assert variance_prior(draw.sample(variances, 9)) == variance_prior(variances)
    arms, shares = (variances[0], None), (1.0, 0.5)
    prior = variance_prior(variances)
    assert pair_prior(prior, arms[::-1], shares[::-1]) == pair_prior(prior, arms, shares)


def test_variances_within_runs_of_six_stacks_are_shared() -> None:
    draw = np.random.default_rng(72)
    rates = draw.normal(0, 0.02, (8, 6))
    stack_of = np.repeat(np.arange(8), 6).tolist()
    spread = run_spread(rates.ravel().tolist(), list(range(48)), stack_of)
    own = [Variance(float(np.var(arm, ddof=1)), 5) for arm in rates]
    shared = variance_prior(own)
    assert spread.prior.variance == pytest.approx(shared.variance)
    assert spread.prior.freedom == pytest.approx(shared.freedom)
    assert shared.freedom > 0


KNOWN = RunSpread(variance=0.0009, freedom=MIN_FREEDOM, within=0.0, per_run=0.1)


def sample(*runs: list[float], host: str | None = "h1") -> Sample:
    places = [JobPlace(host, None, f"run {n}") for n, run in enumerate(runs) for _ in run]
    return Sample("c", tuple(rate for run in runs for rate in run), "key", tuple(places))


def steady(level: float, jobs: int) -> list[float]:
    """Jobs that vary far less than runs, measured with a fine clock."""
    return [level + 1e-9 * number for number in range(jobs)]


def run_estimate(ours: Sample, theirs: Sample, spread: RunSpread = UNKNOWN_SPREAD) -> Estimate:
    (found,) = estimates_of(theirs, [ours], SeriesSpread(spread))
    return found


def spread_of(arms: list[list[list[float]]]) -> RunSpread:
    rates = [rate for runs in arms for run in runs for rate in run]
    numbers = [run for runs in arms for run in runs]
    number = [n for n, run in enumerate(numbers) for _ in run]
    return run_spread(rates, number, [n for n, runs in enumerate(arms) for _ in runs])


def test_variance_between_runs_equals_the_example_computed_by_hand() -> None:
    # Means 1 and 3 of the one, 0 of the other twice: squares 2 and 0, freedom 1 and 1.
    found = spread_of([[[0.0, 2.0], [3.0]], [[0.0], [0.0]], [[7.0, 9.0]]])
    assert found.variance == pytest.approx(1.0)
    assert found.freedom == 2
    assert found.within == pytest.approx(2.0)
    assert found.per_run == pytest.approx((0.5 + 1 + 1 + 1) / 4)


@pytest.mark.parametrize("arms", [[], [[[1.0, 2.0]]], [[[1.0]], [[2.0]]]])
def test_single_runs_give_no_variance_between_runs(arms: list[list[list[float]]]) -> None:
    assert spread_of(arms).freedom == 0
    assert not spread_of(arms).known


def test_run_counts_once_whatever_its_number_of_jobs() -> None:
    levels, noise = [0.0, 0.1, -0.1, 0.05, -0.05], [-0.01, 0.01] * 4
    ours = sample(*[[0.2 + level + it for it in noise] for level in levels])
    theirs = sample(*[[level + it for it in noise[:2]] for level in levels])
    found = run_estimate(ours, theirs)
    assert (found.jobs, found.baseline_jobs, found.runs, found.baseline_runs) == (40, 10, 5, 5)
    expected = welch_effect([0.2 + it for it in levels], levels)
    assert found.effect.d == pytest.approx(expected.d)
    assert found.effect.standard_error == pytest.approx(expected.standard_error)
    assert found.effect.degrees_of_freedom == pytest.approx(expected.degrees_of_freedom)
    assert found.tested


def test_single_runs_of_two_stacks_give_a_difference_with_infinite_error() -> None:
    found = run_estimate(sample(steady(0.3, 20)), sample(steady(0.0, 20)))
    assert found.effect.d == pytest.approx(0.3)
    assert (found.effect.standard_error, found.effect.degrees_of_freedom) == (math.inf, 0)
    assert not found.tested


def test_single_runs_of_two_stacks_are_judged_by_the_variance_of_other_runs() -> None:
    found = run_estimate(sample(steady(0.3, 10)), sample(steady(0.0, 10)), KNOWN)
    assert found.effect.standard_error == pytest.approx(math.sqrt(2 * 0.0009))
    assert found.effect.degrees_of_freedom == MIN_FREEDOM
    assert found.tested
    (verdict,) = compare_candidates(
        sample(steady(0.0, 10)), [sample(steady(0.3, 10))], spread=SeriesSpread(KNOWN)
    )
    assert verdict.verdict is Verdict.FASTER


def test_too_few_other_runs_do_not_settle_single_runs() -> None:
    few = RunSpread(variance=0.0009, freedom=MIN_FREEDOM - 1, within=0.0, per_run=0.1)
    assert not run_estimate(sample(steady(0.3, 10)), sample(steady(0.0, 10)), few).tested


def test_stack_with_a_noisy_run_has_a_larger_error_of_its_own() -> None:
    wild = [(-1) ** n * 1.0 for n in range(10)]
    found = run_estimate(sample(wild), sample(steady(0.0, 10)), KNOWN)
    own = np.var(wild, ddof=1) / 10
    assert found.effect.standard_error == pytest.approx(math.sqrt(own + 0.0009))
    assert found.effect.degrees_of_freedom == 9


def test_run_with_few_jobs_has_a_larger_error() -> None:
    spread = RunSpread(variance=0.0009, freedom=20, within=0.0016, per_run=0.1)
    found = run_estimate(sample(steady(0.3, 5)), sample(steady(0.0, 10)), spread)
    assert found.effect.standard_error == pytest.approx(
        math.sqrt(0.0009 + 0.0016 * (0.2 - 0.1) + 0.0009)
    )


def test_jobs_of_several_hosts_are_never_one_sample() -> None:
    """Four jobs on one host and three on another: neither is enough, and both together are not."""
    hosts = [*["h1"] * 4, *["h2"] * 3]
    places = tuple(JobPlace(host, None, str(n)) for n, host in enumerate(hosts))
    ours, theirs = (
        Sample("c", tuple(level + (host == "h2") for host in hosts), "key", places)
        for level in (1.0, 0.0)
    )
    found = run_estimate(ours, theirs)
    assert (found.jobs, found.baseline_jobs, found.hosts) == (4, 4, 1)
    assert not found.tested
    assert found.used == (0, 1, 2, 3)


def test_intervals_from_a_single_night_of_each_stack_are_correct() -> None:
    """95 % of intervals hold zero, though S² is itself only known from twelve other runs."""
    draw, held = np.random.default_rng(51), 0
    for _ in range(600):
        night = draw.normal(0, 0.03, 14)
        rates = [list(level + draw.normal(0, 0.01, 8)) for level in night]
        spread = SeriesSpread(spread_of([rates[2:]]))
        (found,) = compare_candidates(sample(rates[0]), [sample(rates[1])], spread=spread)
        held += found.interval_low_pct <= 0 <= found.interval_high_pct
    assert 0.93 <= held / 600 <= 0.97
