"""What further jobs would show, and which comparison to measure next."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adviser.scoring.comparisons import Comparison, compare_candidates
from adviser.scoring.effects import Effect, Effects, effects_of
from adviser.scoring.next_jobs import further_jobs, may_be_best, next_claims
from adviser.scoring.sample_needs import (
    EFFECT_SDS,
    NONE_SHARES,
    POWER,
    EffectPrior,
    Need,
    OpenEffects,
    effect_prior,
    outlook,
    settling_text,
)
from adviser.scoring.samples import JobPlace, Sample, job_seconds
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from tests.effort import examples
from tests.factories.evidence import ELSEWHERE, Bench, claims_about, jobs, purl

MARGIN = math.log(1.02)
PRIOR = EffectPrior(0.6, (0.4 / len(EFFECT_SDS),) * len(EFFECT_SDS))


#: Where differences of 10 % or so are the rule.
LARGE = EffectPrior(0.0, (*[0.0] * (len(EFFECT_SDS) - 1), 1.0))


def alone(
    d: float, error: float, so_far: int = 10, freedom: float = 18.0, alpha: float = 0.05
) -> OpenEffects:
    """One comparison."""
    return OpenEffects(
        effects_of([Effect(d, error, freedom)]),
        np.array([float(so_far)]),
        np.array([MARGIN]),
        np.array([so_far - 1.0]),
        np.array([alpha]),
    )


def chances(comparison: OpenEffects, *more: int) -> tuple[list[float], list[float]]:
    """Of a difference and of equivalence, for each number of further jobs."""
    different, equal = comparison.with_more(np.array([more], dtype=np.float64), PRIOR)
    return different[0].tolist(), equal[0].tolist()


@pytest.mark.parametrize(
    ("d", "error", "more"), [(0.04, 0.02, 30), (0.1, 0.06, 10), (0.0, 0.03, 200), (0.3, 0.2, 90)]
)
def test_predicted_chances_of_verdicts_match_simulations(d: float, error: float, more: int) -> None:
    """True differences drawn from the prior, weighed by how well they explain what was seen."""
    draw = np.random.default_rng(61)
    sds = np.array([0.0, *EFFECT_SDS])
    true = draw.normal(0, 1, 400_000) * draw.choice(sds, 400_000, p=[PRIOR.none, *PRIOR.sizes])
    # Eighteen degrees of freedom do not know the error; Student's T has the variance 18/16.
    known = error * math.sqrt(18 / 16)
    weight = stats.norm.pdf(d, true, known)
    later = (10 * d + more * draw.normal(true, known * math.sqrt(10 / more))) / (10 + more)
    size, left = np.abs(later), error * math.sqrt(10 / (10 + more))
    freedom, own = 18 * (10 + more) / 10, 9 * (10 + more) / 10
    beyond = stats.t.sf((size - MARGIN) / left, freedom) + stats.t.sf(
        (size + MARGIN) / left, freedom
    )
    any_difference = 2 * stats.t.sf(size / left, freedom)
    claimed = (size > MARGIN) & (beyond < 0.05) & (any_difference < 0.02 * min(1, own / 9))
    alike = (size <= MARGIN) & (stats.t.sf((MARGIN - size) / left, freedom) < 0.05)
    different, equal = chances(alone(d, error), more)
    assert different[0] == pytest.approx(np.average(claimed, weights=weight), abs=0.01)
    assert equal[0] == pytest.approx(np.average(alike, weights=weight), abs=0.01)


@settings(max_examples=examples(100))
@given(
    st.floats(-1, 1),
    st.floats(0.0, 1.0),
    st.integers(5, 100),
    st.floats(1.0, 100.0),
    st.integers(1, 1000),
)
def test_chances_of_difference_and_equivalence_sum_to_at_most_one(
    d: float, error: float, so_far: int, freedom: float, more: int
) -> None:
    comparison = alone(d, error, so_far, freedom)
    (different,), (equal,) = chances(comparison, more)
    assert 0 <= different <= 1 + 1e-12
    assert 0 <= equal <= 1 + 1e-12
    assert different + equal <= 1 + 1e-9
    seen = outlook(comparison, effect_prior(comparison.effects))
    assert 0 <= seen.chance[0] <= 1 + 1e-12
    assert 0 <= seen.more[0] <= 1000


@pytest.mark.parametrize("sign", [1, -1])
def test_more_jobs_raise_the_chance_of_a_claim_if_large_differences_are_common(sign: int) -> None:
    comparison = alone(sign * 0.1, 0.1)
    more = np.array([[1, 3, 10, 30, 100, 300, 1000]], dtype=np.float64)
    different, _ = comparison.with_more(more, LARGE)
    assert different[0].tolist() == sorted(different[0])
    assert different[0][0] < 0.2
    # In the end it is the chance that the true difference, which is normal with these moments, is
    # beyond δ by the error that is left.
    known = 0.1 * math.sqrt(18 / 16)
    kept = EFFECT_SDS[-1] ** 2 / (EFFECT_SDS[-1] ** 2 + known**2)
    true = stats.norm(kept * 0.1, math.sqrt(kept) * known)
    beyond = MARGIN + stats.norm.ppf(0.95) * 0.1 / math.sqrt(101)
    assert different[0][-1] == pytest.approx(true.sf(beyond) + true.cdf(-beyond), abs=0.01)


def test_smallest_number_of_jobs_that_may_settle_a_comparison_is_planned() -> None:
    comparison = alone(0.1, 0.03, alpha=0.0025)
    seen = outlook(comparison, LARGE)
    more = int(seen.more[0])
    assert 1 < more <= 20, "where every number is looked at"
    near = np.array([[more - 1, more]], dtype=np.float64)
    different, equal = (it[0].tolist() for it in comparison.with_more(near, LARGE))
    assert different[0] + equal[0] < POWER <= different[1] + equal[1]
    assert seen.chance[0] == different[1]


def test_no_jobs_are_planned_for_comparisons_unlikely_to_be_settled() -> None:
    seen = outlook(alone(0.3, 0.5), PRIOR)
    assert (seen.more[0], seen.chance[0]) == (0, 0)


def test_jobs_planned_for_identical_stacks_have_little_chance_of_a_difference() -> None:
    draw = np.random.default_rng(62)
    promised = []
    for _ in range(40):
        base, *others = (
            Sample(str(i), tuple(draw.normal(0.0, 0.05, 60)), "key") for i in range(21)
        )
        promised += [it.chance for it in compare_candidates(base, others) if it.jobs_missing]
    assert len(promised) > 100
    assert float(np.mean(promised)) < 0.05


def test_effect_prior_adapts_to_many_comparisons_but_not_to_one() -> None:
    errors = np.full(40, 0.01)
    freedom = np.full(40, 30.0)
    draw = np.random.default_rng(63)
    same = effect_prior(Effects(draw.normal(0, 0.01, 40), errors, freedom))
    apart = effect_prior(Effects(draw.normal(0, 0.1, 40), errors, freedom))
    assert same.none > apart.none + 0.3
    nearest = min(EFFECT_SDS, key=lambda sd: abs(math.log(sd / 0.1)))
    assert max(apart.sizes) == apart.sizes[EFFECT_SDS.index(nearest)]
    for d in (0.0, 0.5):
        one = effect_prior(effects_of([Effect(d, 0.01, 30.0)]))
        assert min(NONE_SHARES) < one.none < max(NONE_SHARES)
    for prior in (same, apart):
        assert prior.none + sum(prior.sizes) == pytest.approx(1)


def test_effect_prior_is_bitwise_independent_of_the_order() -> None:
    draw = random.Random(64)
    effects = [Effect(draw.gauss(0, 0.05), draw.uniform(0.005, 0.05), 8.0) for _ in range(15)]
    prior = effect_prior(effects_of(effects))
    for _ in range(5):
        assert effect_prior(effects_of(draw.sample(effects, 15))) == prior


def test_effect_with_infinite_error_does_not_change_the_effect_prior() -> None:
    unknown = Effect(math.nan, math.inf, 0.0)
    seen = Effect(0.1, 0.02, 8.0)
    assert effect_prior(effects_of([seen, unknown])) == effect_prior(effects_of([seen]))


def still_open(needs: Need, jobs: int, job_s: float | None, bound: float) -> SimpleNamespace:
    return SimpleNamespace(
        needs=needs, hosts=1, jobs_missing=jobs, baseline_jobs_missing=jobs, job_s=job_s,
        interval_low_pct=-bound, interval_high_pct=bound / 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("comparison", "text"),
    [
        (still_open(Need.JOBS, 34, 30.0, 9.0), "34 more jobs each, about 34 minutes"),
        (
            still_open(Need.RUNS, 3, None, 9.0),
            "3 more runs each, or jobs in turns, about 6 minutes",
        ),
        (still_open(Need.TURNS, 5, 4000.0, math.inf), "5 jobs each in turns, about 11.1 hours"),
        (
            still_open(Need.JOBS, 845, 60.0, 4.0),
            "too close to matter here: any difference is smaller than 4.0 %",
        ),
        (
            still_open(Need.MARGIN, 0, 1.0, 9.0),
            "too noisy here: any difference is smaller than 9.0 %. Free the machine, or make each"
            " run longer",
        ),
    ],
)
def test_text_says_if_settling_a_comparison_takes_too_long(
    comparison: SimpleNamespace, text: str
) -> None:
    assert settling_text(comparison, command=None) == text
    assert settling_text(comparison).startswith(text)


def test_job_duration_is_the_median_interval_between_jobs_without_pauses() -> None:
    ends = [0, 40, 82, 121, 90_000, 90_041]
    places = [JobPlace("h1", seen_at=datetime.fromtimestamp(it, UTC)) for it in ends]
    assert job_seconds(reversed(places)) == pytest.approx(40.5)
    assert job_seconds([*places[:1], JobPlace("h1")]) is None


def comparison_of(gain: float, jobs: int = 5, noise: float = 0.03) -> Comparison:
    steps = np.linspace(-1, 1, jobs) * noise
    (found,) = compare_candidates(
        Sample("b", tuple(steps), "k"), [Sample("c", tuple(steps + gain), "k")]
    )
    return found


def test_chance_of_a_verdict_is_symmetric_in_the_effect() -> None:
    up, down = comparison_of(0.05, noise=0.06), comparison_of(-0.05, noise=0.06)
    assert up.verdict is Verdict.UNDETERMINED
    assert up.chance == pytest.approx(down.chance)
    assert (up.jobs_missing, up.needs) == (down.jobs_missing, down.needs)


def test_no_further_jobs_are_planned_for_settled_or_unmeasured_comparisons() -> None:
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (), "k")])
    settled = comparison_of(0.5)
    assert (settled.verdict, settled.chance, settled.jobs_missing) == (Verdict.FASTER, 0, 0)
    assert unknown.chance == 0
    assert [it.jobs for it in further_jobs([settled, unknown])] == [5]


def test_larger_difference_is_measured_first_at_equal_chances_and_jobs() -> None:
    small = replace(comparison_of(0.04, noise=0.06), candidate="small")
    large = replace(small, candidate="large", d=2 * small.d)
    cheap = replace(small, candidate="cheap", jobs_missing=1, baseline_jobs_missing=1)
    assert small.jobs_missing > 2
    ordered = [it.label for it in further_jobs([small, large, cheap])]
    assert ordered == ["cheap", "large", "small"]


def test_version_that_can_no_longer_be_fastest_gets_no_jobs() -> None:
    assert may_be_best([comparison_of(0.3), comparison_of(0.0), comparison_of(0.29)]) == [
        True,
        False,
        True,
    ]
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (0.1,), "k")])
    assert may_be_best([comparison_of(0.3), unknown]) == [True, True]
    assert may_be_best([]) == []


def test_comparison_with_the_highest_chance_per_job_is_measured_first() -> None:
    near, far, settled, lost = (
        replace(comparison_of(gain, noise=noise), candidate=name)
        for name, gain, noise in (
            ("near", 0.025, 0.03), ("far", 0.06, 0.06), ("settled", 0.04, 0.005),
            ("lost", -0.05, 0.04),
        )
    )  # fmt: skip
    found = further_jobs([near, far, settled, lost])
    assert settled.verdict is Verdict.FASTER
    assert lost.verdict is Verdict.UNDETERMINED
    assert [it.label for it in found] == ["far", "near"]
    assert found[0].chance > found[1].chance
    assert (found[0].jobs, found[0].baseline_jobs) == (far.jobs_missing, far.baseline_jobs_missing)
    assert further_jobs([]) == ()


def test_next_jobs_are_suggested_for_versions_that_may_still_be_fastest() -> None:
    bench = Bench()
    for version, gain, noise in (("1", 0, 4), ("2", 0.03, 4), ("3", 0.5, 0.1), ("4", 0.035, 4)):
        package = "fast" if version != "4" else "other"
        arm = {"fast": "1", "other": "1", package: version}
        rates = [rate * noise + gain for rate in jobs(seed=int(version))]
        bench.measure(bench.stack(*(f"{name}=={it}" for name, it in arm.items())), rates)
    claims = claims_about(bench, ["fast==1", "other==1"], ["fast==2", "fast==3", "other==4"])
    beside = [it.verdict.value for it in claims if it.beside_baseline]
    assert beside == ["undetermined", "faster", "undetermined"]
    (found,) = next_claims(claims)
    assert (found.package, found.purl) == ("other", purl("other==4"))
    assert 0 < found.chance < 1
    elsewhere = claims_about(bench, ["other==1"], ["other==4"], Target(ELSEWHERE, "3.11"))
    assert [it.chance for it in elsewhere] == [0.0]
    assert next_claims(elsewhere) == ()
