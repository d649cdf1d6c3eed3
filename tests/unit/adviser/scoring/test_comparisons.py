"""Four verdicts, none on too few jobs, and whether the rules keep their promises."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from adviser.scoring.comparisons import (
    Comparison,
    ComparisonGroup,
    compare_all,
    compare_candidates,
    self_check,
    smallest_difference,
)
from adviser.scoring.sample_needs import Need
from adviser.scoring.samples import Sample
from adviser.scoring.verdicts import Verdict, holm_adjusted
from model.errors import IncomparableSamples

#: Five jobs around zero: variance 2.5e-4, standard deviation 1.58 %.
NOISE = (-0.02, -0.01, 0.0, 0.01, 0.02)


def sample(centre: float, noise: tuple[float, ...] = NOISE, key: str = "key") -> Sample:
    return Sample(f"{centre:+.2f}", tuple(centre + x for x in noise), key)


def compared(*candidates: Sample, baseline: Sample | None = None) -> list[Comparison]:
    return compare_candidates(baseline or sample(0.0), candidates)


@pytest.mark.parametrize(
    ("centre", "verdict"),
    [
        (0.10, Verdict.FASTER),
        (-0.10, Verdict.SLOWER),
        (0.0, Verdict.EQUIVALENT),  # ± 1.86 · 0.01 stays within ± ln 1.02 = 0.0198
        (0.03, Verdict.UNDETERMINED),
    ],
)
def test_difference_of_ten_per_cent_is_settled_by_five_jobs_and_three_is_not(
    centre: float, verdict: Verdict
) -> None:
    assert compared(sample(centre))[0].verdict is verdict


def test_comparison_equals_the_example_computed_by_hand() -> None:
    # SE = √(2 · 2.5e-4 / 5) = 0.01, df = 8; H0: |d| ≤ ln 1.02, so t = (0.05 ∓ 0.0198)/0.01.
    found = compared(sample(0.05))[0]
    assert found.standard_error == pytest.approx(0.01)
    assert found.degrees_of_freedom == pytest.approx(8)
    margin = math.log(1.02)
    beyond = stats.t.sf((0.05 - margin) / 0.01, 8) + stats.t.sf((0.05 + margin) / 0.01, 8)
    none = 2 * stats.t.sf(5, 8) * 0.05 / (0.02 * 4 / 13)
    assert found.p_value == pytest.approx(max(beyond, none), rel=1e-9)
    half = stats.t.ppf(0.975, 8) * 0.01
    assert found.interval_low_pct == pytest.approx(100 * math.expm1(0.05 - half))
    assert found.interval_high_pct == pytest.approx(100 * math.expm1(0.05 + half))
    assert found.difference_pct == pytest.approx(100 * math.expm1(0.05))
    assert (found.candidate, found.baseline) == ("+0.05", "+0.00")


def test_claim_is_adjusted_for_the_number_of_comparisons() -> None:
    # p = 0.0083 alone passes; as the smallest of ten it is 0.083.
    assert compared(sample(0.05))[0].verdict is Verdict.FASTER
    among_ten = compared(sample(0.05), *[sample(0.0)] * 9)[0]
    assert among_ten.verdict is Verdict.UNDETERMINED
    assert among_ten.p_value == pytest.approx(10 * compared(sample(0.05))[0].p_value)


def test_candidates_with_too_few_jobs_do_not_weaken_other_claims() -> None:
    few = sample(0.5, NOISE[:4])
    assert compared(sample(0.05), *[few] * 9)[0].verdict is Verdict.FASTER


def test_claim_beyond_the_margin_must_also_differ_significantly_from_zero() -> None:
    # Where the error dwarfs δ, that |d| is beyond δ is hardly more than that d is not zero.
    noise = tuple(20 * x for x in NOISE)  # SE = 0.2, df = 8
    (comparison,) = compare_candidates(sample(0.0, noise), [sample(0.5, noise)])
    beyond = sum(stats.t.sf((0.5 + sign * math.log(1.02)) / 0.2, 8) for sign in (-1, 1))
    # Five jobs an arm have four degrees of freedom: 2 % · 4/13 of any difference are allowed.
    any_difference = 2 * stats.t.sf(0.5 / 0.2, 8) * 0.05 / (0.02 * 4 / 13)
    assert beyond < 0.05 < any_difference
    assert comparison.p_value == pytest.approx(any_difference, rel=1e-9)
    assert comparison.verdict is Verdict.UNDETERMINED


def test_p_value_accounts_for_the_test_of_any_difference() -> None:
    noise = (tuple(20 * x for x in NOISE) * 3)[:14]
    error = math.sqrt(2 * np.var(noise, ddof=1) / 14)
    (comparison,) = compare_candidates(sample(0.0, noise), [sample(0.5, noise)])
    any_difference = 2 * stats.t.sf(0.5 / error, 26) * 0.05 / 0.02
    assert comparison.p_value == pytest.approx(any_difference, rel=1e-9)
    assert comparison.verdict is Verdict.FASTER


def test_equivalence_is_adjusted_for_the_number_of_comparisons() -> None:
    # t = 0.0198/0.01 with 8 degrees of freedom: p = 0.042 alone, 0.083 of two.
    alone, two = compared(sample(0.0)), compared(sample(0.0), sample(0.0))
    raw = stats.t.sf(math.log(1.02) / 0.01, 8)
    assert alone[0].p_value == pytest.approx(raw, rel=1e-9)
    assert alone[0].verdict is Verdict.EQUIVALENT
    assert [it.p_value for it in two] == pytest.approx([2 * raw] * 2, rel=1e-9)
    assert {it.verdict for it in two} == {Verdict.UNDETERMINED}


def test_comparisons_on_a_page_are_adjusted_as_one_family() -> None:
    contest = ComparisonGroup(sample(0.0), [sample(0.05), sample(0.03)])
    ((alone, _),) = compare_all([contest])
    page = compare_all([contest] * 4)
    assert [len(group) for group in page] == [2] * 4
    assert [group[0].p_value for group in page] == pytest.approx([4 * alone.p_value] * 4)
    assert compare_all([]) == []
    nothing = ComparisonGroup(Sample("", (), "key"), ())
    assert compare_all([nothing, contest]) == [
        [], compare_candidates(contest.baseline, contest.candidates)
    ]  # fmt: skip


@pytest.mark.parametrize("jobs", [0, 1, 2, 4])
def test_fewer_than_five_jobs_make_no_claim(jobs: int) -> None:
    few = sample(3.0, NOISE[:jobs])
    found = compared(few)[0]
    assert found.verdict is Verdict.UNDETERMINED
    assert (found.jobs_missing, found.baseline_jobs_missing) == (5 - jobs, 0)
    assert found.p_value == 1.0
    turned = compared(sample(3.0), baseline=few)[0]
    assert turned.verdict is Verdict.UNDETERMINED
    assert (turned.jobs_missing, turned.baseline_jobs_missing) == (0, 5 - jobs)


def test_undetermined_comparison_states_how_many_jobs_are_missing() -> None:
    wide = tuple(3 * x for x in NOISE)  # 4.74 % between jobs
    found = compare_candidates(sample(0.0, wide), [sample(0.06, wide)])[0]
    assert found.verdict is Verdict.UNDETERMINED
    assert found.needs is Need.JOBS
    assert found.jobs_missing == found.baseline_jobs_missing > 0
    assert 0 < found.chance < 1
    wider = tuple(2 * x for x in wide)
    more = compare_candidates(sample(0.0, wider), [sample(0.06, wider)])[0]
    assert more.jobs_missing > found.jobs_missing


def test_every_undetermined_comparison_states_what_would_settle_it() -> None:
    draw = np.random.default_rng(1)
    needs = set()
    for count in (30, 200):
        noise = tuple(draw.normal(0, 0.03, count))
        for centre in (*np.linspace(-0.05, 0.05, 41), math.log(1.02) + 1e-4):
            found = compare_candidates(sample(0.0, noise), [sample(float(centre), noise)])[0]
            assert (found.needs is not None) is (found.verdict is Verdict.UNDETERMINED)
            lacking = max(found.jobs_missing, found.baseline_jobs_missing)
            assert (lacking > 0) is (found.needs is Need.JOBS)
            needs.add(found.needs)
    assert needs == {None, Need.JOBS, Need.MARGIN}


@pytest.mark.parametrize(
    ("tick", "expected"),
    [
        (0.0, ["undetermined"] * 4),
        (0.2, ["undetermined"] * 4),
        (1e-4, ["equivalent", "faster", "slower", "undetermined"]),
    ],
)
def test_constant_readings_are_judged_by_the_clock_resolution(
    tick: float, expected: list[str]
) -> None:
    same = (0.0,) * 5
    found = [
        compare_candidates(
            replace(sample(0.0, same), tick=tick), [replace(sample(centre, same), tick=tick)]
        )[0]
        for centre in (0.0, 0.1, -0.1, math.log1p(0.02))
    ]
    assert [it.verdict for it in found] == expected
    for it in found:
        assert it.needs is (Need.CLOCK if it.verdict is Verdict.UNDETERMINED else None)


def test_samples_of_different_comparison_keys_are_refused() -> None:
    with pytest.raises(IncomparableSamples, match="gpu-b"):
        compare_candidates(sample(0.0), [sample(0.0), sample(0.1, key="gpu-b")])


def test_margin_exceeds_differences_seen_between_identical_stacks() -> None:
    history = [0.001 * i for i in range(101)]  # 95th percentile 0.095
    assert smallest_difference(history) == pytest.approx(math.expm1(0.095))
    assert smallest_difference([0.001, -0.002]) == 0.02
    assert compared(sample(0.10))[0].verdict is Verdict.FASTER
    with_history = compare_candidates(sample(0.0), [sample(0.10)], aa_history=history)
    assert with_history[0].verdict is Verdict.UNDETERMINED


def test_weighted_holm_adjustment_equals_the_example_computed_by_hand() -> None:
    # 0.02/3 comes first: all of 5 parts are left, so 0.02/3 · 5; then 0.01/1 · 2; then 0.04/1.
    adjusted = holm_adjusted(np.array([0.01, 0.02, 0.04]), np.array([1.0, 3.0, 1.0]))
    assert adjusted.tolist() == pytest.approx([0.1 / 3, 0.1 / 3, 0.04])
    # Sorted 0.01·4, 0.02·3, 0.03·2, 0.4·1, then never falling.
    equal = holm_adjusted(np.array([0.4, 0.01, 0.03, 0.02]), np.full(4, 7.0))
    assert equal.tolist() == pytest.approx([0.4, 0.04, 0.06, 0.06])


def test_holm_adjustment_equals_the_step_down_procedure() -> None:
    p = np.random.default_rng(3).uniform(0, 0.1, 25)
    rejected, threshold = set(), 0.05
    for rank, i in enumerate(np.argsort(p)):
        if p[i] >= threshold / (len(p) - rank):
            break
        rejected.add(int(i))
    assert set(np.flatnonzero(holm_adjusted(p) < threshold).tolist()) == rejected


def identical(count: int, noise: float = 0.03) -> list[Comparison]:
    draw = np.random.default_rng(41)
    arms = [[Sample("s", tuple(draw.normal(0, noise, 8)), "k") for _ in "ab"] for _ in range(count)]
    return [compare_candidates(a, [b])[0] for a, b in arms]


def test_self_check_of_identical_stacks_finds_no_problem() -> None:
    found = self_check(identical(1000))
    assert found.problems == ()
    assert found.faster + found.slower <= 0.05 * found.comparisons
    assert found.coverage is not None
    assert 0.93 <= found.coverage <= 0.97


def test_self_check_reports_false_claims() -> None:
    claimed = [replace(it, verdict=Verdict.FASTER) for it in identical(100)[:20]]
    many, lopsided = self_check([*claimed, *identical(80)]).problems
    assert many == "20 false claims in 100 comparisons of identical stacks"
    assert lopsided == "identical stacks were called faster 20 times and slower 0 times"


def test_self_check_reports_intervals_that_are_too_narrow_or_too_wide() -> None:
    known = identical(400)
    narrow = [replace(it, interval_low_pct=it.d, interval_high_pct=it.d + 1e-9) for it in known]
    wide = [replace(it, interval_low_pct=-100, interval_high_pct=100) for it in known]
    for lying, held in ((narrow, 0), (wide, 400)):
        (problem,) = self_check(lying).problems
        assert problem == (
            f'{held} of 400 intervals contain "no difference", instead of about 95 %'
        )


def test_self_check_without_comparisons_finds_no_problem() -> None:
    found = self_check([])
    assert (found.problems, found.comparisons, found.coverage) == ((), 0, None)
    one = compare_candidates(Sample("a", (1.0,), "k"), [Sample("b", (1.0,), "k")])
    assert self_check(one).coverage is None
