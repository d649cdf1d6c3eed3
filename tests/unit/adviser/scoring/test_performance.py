"""Claims: what counts, what is only told, and what is not even told."""

import math
from datetime import timedelta

import pytest
from scipy import stats

from adviser.scoring.assessment_types import Claim
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.estimates import Method
from adviser.scoring.sample_needs import Need
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from tests.factories.evidence import (
    ELSEWHERE,
    GAIN,
    HERE,
    NOW,
    Bench,
    choice_about,
    claims_about,
    jobs,
    measured,
    performance_about,
    purl,
    series,
)

#: The error of a difference of two arms of eight jobs of ``jobs()``: their variance is 24/49 %².
ERROR = 0.01 * math.sqrt(24 / 49 * 2 / 8)


def test_settled_gain_is_scored_with_its_lower_bound() -> None:
    (claim,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"])
    assert (claim.package, claim.purl) == ("fast", purl("fast==2"))
    assert claim.baseline_purl == purl("fast==1")
    assert claim.verdict is Verdict.FASTER
    assert claim.scored
    assert claim.same_hardware
    assert claim.same_python
    assert claim.observed_pct == pytest.approx(30, abs=0.01)
    assert claim.interval_low_pct < claim.effect_pct < claim.observed_pct
    # One effect alone is shrunk by SE²/d; the bound is one-sided, at 5 % with 14 degrees.
    shrunk = GAIN - ERROR**2 / GAIN
    assert math.log1p(claim.effect_pct / 100) == pytest.approx(shrunk)
    assert claim.bound == pytest.approx(shrunk - stats.t.ppf(0.95, 14) * ERROR)
    assert (claim.jobs, claim.baseline_jobs, len(claim.evidence)) == (8, 8, 16)


def test_settled_loss_is_scored_as_the_opposite_of_the_gain() -> None:
    (claim,) = claims_about(measured(), ["fast==2", "rest==1"], ["fast==1"])
    (gain,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"])
    assert claim.verdict is Verdict.SLOWER
    assert claim.bound == -gain.bound
    assert claim.scored


def test_settled_gain_is_scored_with_at_least_the_margin() -> None:
    # Just above what a claim needs, the bound of the shrunk effect is below ln 1.02.
    needed = math.log(1.02) + stats.t.ppf(0.95, 14) * ERROR
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==1": jobs(needed + 1e-5)}
    (claim,) = claims_about(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2"])
    assert claim.verdict is Verdict.FASTER
    shrunk = math.log1p(claim.effect_pct / 100)
    assert shrunk - stats.t.ppf(0.95, 14) * ERROR < math.log(1.02)
    assert claim.bound == pytest.approx(math.log(1.02))


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [(jobs(0.001, 40), Verdict.EQUIVALENT), (jobs(GAIN, 4), Verdict.UNDETERMINED)],
)
def test_equal_and_undetermined_comparisons_are_scored_as_zero(
    rates: list[float], verdict: Verdict
) -> None:
    changed = {"fast==1 rest==1": jobs(0.0, 40), "fast==2 rest==1": rates}
    (claim,) = claims_about(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2"])
    assert claim.verdict is verdict
    assert claim.bound == 0
    assert (claim.jobs_missing > 0) is (verdict is Verdict.UNDETERMINED)


def test_stacks_that_differ_in_two_packages_are_reported_and_not_scored() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==2": jobs(GAIN)}
    (claim,) = claims_about(
        measured(changed=changed), ["fast==1", "rest==1"], ["fast==2", "rest==2"]
    )
    assert claim.verdict is Verdict.FASTER
    assert claim.confounded
    assert claim.differs == ("fast", "rest")
    assert (claim.purl, claim.scored, claim.bound) == (None, False, 0.0)
    assert choice_about(measured(changed=changed), ["fast==1", "fast==2"]) is None


def test_comparison_with_an_added_package_is_confounded_and_not_scored() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==1 more==1": jobs(GAIN)}
    (claim,) = claims_about(
        measured(changed=changed), ["fast==1", "rest==1"], ["fast==2", "more==1"]
    )
    assert claim.confounded
    assert not claim.scored


def test_comparisons_of_unavailable_stacks_are_not_reported() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==2": jobs(GAIN)}
    assert claims_about(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2"]) == []


def test_versions_are_compared_without_measurements_of_the_baseline() -> None:
    (claim,) = claims_about(measured(), ["fast==3", "rest==1"], ["fast==1", "fast==2"])
    assert (claim.purl, claim.baseline_purl) == (purl("fast==2"), purl("fast==1"))
    assert (claim.verdict, claim.beside_baseline) == (Verdict.FASTER, False)
    assert claims_about(measured(), ["fast==3", "rest==1"], ["fast==2"]) == []


def test_claim_comes_from_the_measured_pair_most_similar_to_the_baseline() -> None:
    bench = Bench()
    for rest, gain in (("1", GAIN), ("2", -GAIN), ("3", -GAIN)):
        bench.measure(bench.stack("fast==1", f"rest=={rest}"), jobs())
        bench.measure(bench.stack("fast==2", f"rest=={rest}"), jobs(gain))
    claims = claims_about(bench, ["fast==1", "rest==1"], ["fast==2"])
    assert [(it.purl, it.verdict) for it in claims if it.purl] == [
        (purl("fast==2"), Verdict.FASTER)
    ]


def test_claim_from_another_hardware_class_is_named_and_less_certain() -> None:
    (here,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"])
    (there,) = claims_about(
        measured(series(hardware=ELSEWHERE)), ["fast==1", "rest==1"], ["fast==2"]
    )
    assert not there.same_hardware
    assert there.hardware_label == "another class"
    assert there.interval_low_pct < here.interval_low_pct < here.interval_high_pct
    assert there.interval_high_pct > here.interval_high_pct
    assert here.verdict is Verdict.FASTER
    assert there.bound < here.bound
    small = {"fast==1 rest==1": jobs(), "fast==2 rest==1": jobs(0.1)}
    away = measured(series(hardware=ELSEWHERE), changed=small)
    assert (
        claims_about(away, ["fast==1", "rest==1"], ["fast==2"])[0].verdict is Verdict.UNDETERMINED
    )
    home = measured(changed=small)
    assert claims_about(home, ["fast==1", "rest==1"], ["fast==2"])[0].verdict is Verdict.FASTER


def test_other_hardware_is_ignored_if_this_hardware_was_measured() -> None:
    bench = measured()
    for releases, level in (("fast==1", 0.0), ("fast==2", -2.0)):
        bench.measure(bench.stack(releases, "rest==1"), jobs(level), series(hardware=ELSEWHERE))
    (claim,) = claims_about(bench, ["fast==1", "rest==1"], ["fast==2"])
    assert claim.same_hardware
    assert claim.verdict is Verdict.FASTER


def test_all_measurements_count_as_foreign_if_the_hardware_is_unknown() -> None:
    (claim,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"], Target(None, "3.11"))
    assert not claim.same_hardware
    assert claim.interval_low_pct < 10


@pytest.mark.parametrize("prefix", [HERE, HERE[:12], "aaaa"])
def test_hardware_is_selected_by_a_digest_prefix(prefix: str) -> None:
    (claim,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"], Target(prefix, "3.11"))
    assert claim.same_hardware


def test_claim_from_another_python_is_named_and_less_certain() -> None:
    (claim,) = claims_about(measured(), ["fast==1", "rest==1"], ["fast==2"], Target(HERE, "3.12"))
    assert (claim.same_python, claim.python_version) == (False, "3.11")
    assert claim.interval_high_pct - claim.interval_low_pct > 30


def test_measurements_of_different_pythons_are_not_compared() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(), series(python_version="3.10"))
    bench.measure(bench.stack("fast==2", "rest==1"), jobs(GAIN), series())
    assert claims_about(bench, ["fast==1", "rest==1"], ["fast==2"]) == []


def test_each_indicator_has_equal_weight_for_any_number_of_sizes() -> None:
    bench = Bench()
    for size in (256, 512, 1024):
        how = series("PiMatmul", parameters={"size": size})
        bench.measure(bench.stack("fast==1"), jobs(), how)
        bench.measure(bench.stack("fast==2"), jobs(GAIN), how)
    bench.measure(bench.stack("fast==1"), jobs(0.0, 40), series("PiConv"))
    bench.measure(bench.stack("fast==2"), jobs(0.0, 40), series("PiConv"))
    claims = claims_about(bench, ["fast==1"], ["fast==2"])
    assert [it.indicator for it in claims] == ["PiConv", *["PiMatmul"] * 3]
    choice = choice_about(bench, ["fast==1", "fast==2"])
    assert choice.lost[purl("fast==1")].loss == pytest.approx(GAIN / 2, rel=0.01)


def message_of(claim: Claim) -> str:
    return ClaimTexts([claim]).justification(claim).message


def test_one_run_of_each_stack_makes_no_claim_and_asks_for_interleaved_runs() -> None:
    """Ten jobs of each stack, all of one night: what that night did to them nobody knows."""
    bench = Bench()
    for version, level in (("1", 0.0), ("2", GAIN)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level, 10), run="one night")
    (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
    assert (claim.verdict, claim.needs) == (Verdict.UNDETERMINED, Need.TURNS)
    assert (claim.jobs, claim.runs, claim.baseline_runs) == (10, 1, 1)
    assert claim.observed_pct == pytest.approx(30)
    assert not math.isfinite(claim.interval_high_pct)
    assert claim.chance == 0
    message = message_of(claim)
    assert "5 jobs each in turns, about 10 minutes" in message
    assert "10 jobs of each in one run each" in message


def test_claim_asks_for_more_jobs_to_replace_unstable_interleaved_jobs() -> None:
    bench = Bench()
    for version, stable in (("1", 8), ("2", 3)):
        blocks = [f"night:{n}" for n in range(stable)]
        stack = bench.stack(f"fast=={version}")
        bench.measure(stack, jobs(0.0, stable), run=f"{version} stable", blocks=blocks)
        bench.measure(stack, jobs(0.0, 8 - stable), unstable="steal", run=f"{version} disturbed")
    (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
    assert (claim.needs, claim.jobs_missing, claim.baseline_jobs_missing) == (Need.JOBS, 2, 2)
    message = message_of(claim)
    assert "2 more jobs each (5 disturbed jobs left out), about 4 minutes" in message
    assert "in turns" not in message


def test_claim_lists_used_jobs_and_counts_excluded_ones_by_reason() -> None:
    bench = Bench()
    for version, level in (("1", 0.0), ("2", 0.1)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level))
    late = NOW + timedelta(days=9)
    bench.measure(bench.stack("fast==1"), jobs(count=30), host="h2", begin=late)
    bench.measure(bench.stack("fast==2"), jobs(count=3), host="h3")
    bench.measure(bench.stack("fast==2"), [0.5] * 6, run="x", unstable="throttled")
    (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
    stable = [it for it in bench.readings if it.unstable_reason is None]
    on_host = {it.observation_id for it in stable if it.host == "h1"}
    assert (claim.jobs, claim.baseline_jobs) == (8, 8)
    assert set(claim.evidence) == on_host
    assert claim.left_out == {"other_host": 33, "throttled": 6}
    assert claim.as_of is None, "of those that took part nobody said when"
    assert "left out: 33 on another host, 6 throttled" in message_of(claim)


@pytest.mark.parametrize(("level", "parts"), [(0.0, 10), (0.2, 9)])
def test_comparisons_without_the_baseline_do_not_weaken_those_with_it(
    level: float, parts: int
) -> None:
    alone, crowded = Bench(), Bench()
    for bench in (alone, crowded):
        for version, gain in (("1", 0.0), ("2", 0.05)):
            bench.measure(bench.stack(f"fast=={version}", "rest==1"), jobs(gain))
    for version in range(2, 5):  # five stacks in all, so that no variance is moderated
        crowded.measure(crowded.stack("fast==3", f"rest=={version}"), jobs(level, seed=version))
    wanted = ["fast==2", "fast==3", *(f"rest=={it}" for it in range(2, 5))]
    (one,) = claims_about(alone, ["fast==1", "rest==1"], ["fast==2"])
    several = claims_about(crowded, ["fast==1", "rest==1"], wanted)
    assert sum(it.confounded for it in several) == 3
    (same,) = (it for it in several if it.beside_baseline)
    # Of 6 + 3 + 1 parts of α the comparison with the baseline keeps 6, whatever else there is;
    # what is surer than it, as stacks that differ by 20 % are, gives its part back.
    assert one.p_value == pytest.approx(_raw_p_value(0.05, 14), rel=1e-9, abs=0)
    assert same.p_value == pytest.approx(parts / 6 * one.p_value, rel=1e-9, abs=0)


def _raw_p_value(d: float, freedom: float) -> float:
    """Of a difference of two arms of ``jobs()`` before anything is adjusted for."""
    beyond = sum(stats.t.sf((d + sign * math.log(1.02)) / ERROR, freedom) for sign in (-1, 1))
    return float(max(beyond, 2 * stats.t.sf(d / ERROR, freedom) * 0.05 / 0.02))


def test_spread_ratio_is_reported_from_twenty_jobs_on() -> None:
    for count in (19, 20):
        bench = Bench()
        bench.measure(bench.stack("fast==1"), jobs(count=count))
        bench.measure(bench.stack("fast==2"), [3 * it for it in jobs(count=count)])
        (claim,) = claims_about(bench, ["fast==1"], ["fast==2"])
        if count < 20:
            assert claim.spread_ratio is None
            continue
        assert claim.spread_ratio.ratio == pytest.approx(3)
        assert claim.spread_ratio.low == pytest.approx(3 / 1.59, rel=0.01)


def test_missing_jobs_are_not_stated_if_more_jobs_cannot_settle_a_claim() -> None:
    away = measured(series(hardware=ELSEWHERE))
    (claim,) = claims_about(away, ["fast==1", "rest==1"], ["fast==2"])
    if claim.verdict is Verdict.UNDETERMINED:
        assert (claim.needs, claim.jobs_missing) == (Need.HERE, 5)
    pooled = Bench()
    for host, gain in (("h1", 0.02), ("h2", 0.08)):
        pooled.measure(pooled.stack("fast==1"), jobs(count=40), host=host)
        pooled.measure(pooled.stack("fast==2"), jobs(gain, 40), host=host)
    (claim,) = claims_about(pooled, ["fast==1"], ["fast==2"])
    assert (claim.method, claim.needs) == (Method.POOLED, Need.HOSTS)
    assert f"{claim.jobs_missing} more jobs each on more hosts, about " in message_of(claim)
    border = Bench()
    border.measure(border.stack("fast==1"), jobs(count=400))
    border.measure(border.stack("fast==2"), jobs(math.log(1.02) + 0.0001, 400))
    (claim,) = claims_about(border, ["fast==1"], ["fast==2"])
    assert (claim.needs, claim.jobs_missing, claim.chance) == (Need.MARGIN, 0, 0)
    assert "too close to matter here: any difference is smaller than 2.1 %" in message_of(claim)


def test_all_comparisons_are_adjusted_together() -> None:
    bench = Bench()
    for version in range(1, 6):  # five stacks, so that no variance is moderated
        bench.measure(
            bench.stack(f"fast=={version}"), jobs(0.04 if version == 2 else 0, seed=version)
        )
    performance = performance_about(bench, ["fast==1"], [f"fast=={it}" for it in range(2, 6)])
    # Four beside the baseline, three of the newest one.
    assert performance.comparisons == 4 + 3
    raw = _raw_p_value(0.04, 14)
    (claim,) = (
        it for it in performance.claims if it.purl == purl("fast==2") and it.beside_baseline
    )
    assert claim.p_value == pytest.approx(raw * (6 + 3) / (6 / 4), rel=1e-9, abs=0)
