"""Claims: what counts, what is only told, and what is not even told."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

import numpy as np
import pytest

from adviser.scoring.assessments import Claim
from adviser.scoring.circumstances import Circumstances
from adviser.scoring.contrasts import Stacks, name_of
from adviser.scoring.estimates import Method
from adviser.scoring.lacking import Need
from adviser.scoring.notes import claim_note
from adviser.scoring.performance import _counted, performance_claims, performance_values
from adviser.scoring.verdicts import Verdict
from common.packages import Purl
from graph.evidence import Series
from tests.factories.evidence import ELSEWHERE, HERE, NOW, Bench, purl, series

GAIN = math.log(1.3)
AT = Circumstances(HERE, "3.11")


def jobs(level: float = 0.0, count: int = 8, seed: int = 1) -> list[float]:
    """Log rates about a level, their mean exactly it, with a spread of 1 %."""
    steps = np.linspace(-1, 1, count)
    return list(level + 0.01 * np.random.default_rng(seed).permutation(steps))


def told(
    bench: Bench, baseline: Sequence[str], candidates: Collection[str], place: Circumstances = AT
) -> list[Claim]:
    """The claims about some versions next to a baseline; both may be chosen."""
    evidence = bench.evidence()
    base = {name_of(purl(it)): purl(it) for it in baseline}
    versions: dict[str, set[Purl]] = {}
    for it in {*baseline, *candidates}:
        versions.setdefault(name_of(purl(it)), set()).add(purl(it))
    return performance_claims(evidence, Stacks(evidence), base, versions, place)


def measured(
    how: Series | None = None, *, changed: Mapping[str, Sequence[float]] | None = None
) -> Bench:
    """``fast`` 1 and 2 beside ``rest`` 1, the second 30 % faster."""
    bench = Bench()
    arms = changed or {"fast==1 rest==1": jobs(), "fast==2 rest==1": jobs(GAIN)}
    for releases, rates in arms.items():
        bench.measure(bench.stack(*releases.split()), rates, how)
    return bench


def test_a_settled_gain_of_one_package_counts_by_its_pessimistic_bound() -> None:
    (claim,) = told(measured(), ["fast==1", "rest==1"], ["fast==2"])
    assert (claim.package, claim.purl) == ("fast", purl("fast==2"))
    assert claim.baseline_purl == purl("fast==1")
    assert claim.verdict is Verdict.FASTER
    assert claim.scored
    assert claim.same_hardware
    assert claim.same_python
    assert claim.observed_pct == pytest.approx(30, abs=0.01)
    assert claim.interval_low_pct < claim.effect_pct < claim.observed_pct
    assert 0 < claim.bound < math.log1p(claim.effect_pct / 100)
    assert (claim.jobs, claim.baseline_jobs, len(claim.evidence)) == (8, 8, 16)
    assert performance_values([claim]) == {purl("fast==2"): claim.bound}


def test_a_settled_loss_counts_against_a_version_by_more_than_was_observed() -> None:
    (claim,) = told(measured(), ["fast==2", "rest==1"], ["fast==1"])
    assert claim.verdict is Verdict.SLOWER
    assert claim.bound < -GAIN * 0.99
    assert claim.scored


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [(jobs(0.001, 40), Verdict.EQUIVALENT), (jobs(GAIN, 4), Verdict.UNDETERMINED)],
)
def test_no_difference_and_too_few_jobs_count_for_nothing(
    rates: list[float], verdict: Verdict
) -> None:
    changed = {"fast==1 rest==1": jobs(0.0, 40), "fast==2 rest==1": rates}
    (claim,) = told(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2"])
    assert claim.verdict is verdict
    assert claim.bound == 0
    assert (claim.jobs_missing > 0) is (verdict is Verdict.UNDETERMINED)


def test_stacks_that_differ_in_two_packages_are_told_and_not_scored() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==2": jobs(GAIN)}
    (claim,) = told(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2", "rest==2"])
    assert claim.verdict is Verdict.FASTER
    assert claim.confounded
    assert claim.differs == ("fast", "rest")
    assert (claim.purl, claim.scored, claim.bound) == (None, False, 0.0)
    assert performance_values([claim]) == {}


def test_a_package_that_came_along_confounds_as_well() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==1 more==1": jobs(GAIN)}
    (claim,) = told(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2", "more==1"])
    assert claim.confounded
    assert not claim.scored


def test_stacks_that_nobody_can_choose_are_not_told() -> None:
    changed = {"fast==1 rest==1": jobs(), "fast==2 rest==2": jobs(GAIN)}
    assert told(measured(changed=changed), ["fast==1", "rest==1"], ["fast==2"]) == []


def test_a_baseline_that_was_not_measured_leaves_nothing_to_say() -> None:
    assert told(measured(), ["fast==3", "rest==1"], ["fast==1", "fast==2"]) == []


def test_the_pair_whose_others_are_most_like_the_baseline_is_taken() -> None:
    bench = Bench()
    for rest, gain in (("1", GAIN), ("2", -GAIN), ("3", -GAIN)):
        bench.measure(bench.stack("fast==1", f"rest=={rest}"), jobs())
        bench.measure(bench.stack("fast==2", f"rest=={rest}"), jobs(gain))
    claims = told(bench, ["fast==1", "rest==1"], ["fast==2"])
    assert [(it.purl, it.verdict) for it in claims if it.purl] == [
        (purl("fast==2"), Verdict.FASTER)
    ]


def test_another_hardware_class_is_named_and_wider_and_never_pooled() -> None:
    (here,) = told(measured(), ["fast==1", "rest==1"], ["fast==2"])
    (there,) = told(measured(series(hardware=ELSEWHERE)), ["fast==1", "rest==1"], ["fast==2"])
    assert not there.same_hardware
    assert there.hardware_label == "another class"
    assert there.interval_low_pct < here.interval_low_pct < here.interval_high_pct
    assert there.interval_high_pct > here.interval_high_pct
    assert here.verdict is Verdict.FASTER
    assert there.bound < here.bound
    small = {"fast==1 rest==1": jobs(), "fast==2 rest==1": jobs(0.1)}
    away = measured(series(hardware=ELSEWHERE), changed=small)
    assert told(away, ["fast==1", "rest==1"], ["fast==2"])[0].verdict is Verdict.UNDETERMINED
    home = measured(changed=small)
    assert told(home, ["fast==1", "rest==1"], ["fast==2"])[0].verdict is Verdict.FASTER


def test_measurements_from_here_silence_those_from_elsewhere() -> None:
    bench = measured()
    for releases, level in (("fast==1", 0.0), ("fast==2", -2.0)):
        bench.measure(bench.stack(releases, "rest==1"), jobs(level), series(hardware=ELSEWHERE))
    (claim,) = told(bench, ["fast==1", "rest==1"], ["fast==2"])
    assert claim.same_hardware
    assert claim.verdict is Verdict.FASTER


def test_without_known_hardware_everything_is_from_elsewhere() -> None:
    (claim,) = told(measured(), ["fast==1", "rest==1"], ["fast==2"], Circumstances(None, "3.11"))
    assert not claim.same_hardware
    assert claim.interval_low_pct < 10


@pytest.mark.parametrize("prefix", [HERE, HERE[:12], "aaaa"])
def test_hardware_may_be_named_by_the_beginning_of_its_digest(prefix: str) -> None:
    (claim,) = told(measured(), ["fast==1", "rest==1"], ["fast==2"], Circumstances(prefix, "3.11"))
    assert claim.same_hardware


def test_another_python_is_named_and_wider() -> None:
    (claim,) = told(measured(), ["fast==1", "rest==1"], ["fast==2"], Circumstances(HERE, "3.12"))
    assert (claim.same_python, claim.python_version) == (False, "3.11")
    assert claim.interval_high_pct - claim.interval_low_pct > 30


def test_two_pythons_are_never_compared_with_each_other() -> None:
    bench = Bench()
    bench.measure(bench.stack("fast==1", "rest==1"), jobs(), series(python_version="3.10"))
    bench.measure(bench.stack("fast==2", "rest==1"), jobs(GAIN), series())
    assert told(bench, ["fast==1", "rest==1"], ["fast==2"]) == []


def test_indicators_weigh_alike_however_many_sizes_each_has() -> None:
    bench = Bench()
    for size in (256, 512, 1024):
        how = series("PiMatmul", parameters={"size": size})
        bench.measure(bench.stack("fast==1"), jobs(), how)
        bench.measure(bench.stack("fast==2"), jobs(GAIN), how)
    bench.measure(bench.stack("fast==1"), jobs(0.0, 40), series("PiConv"))
    bench.measure(bench.stack("fast==2"), jobs(0.0, 40), series("PiConv"))
    claims = told(bench, ["fast==1"], ["fast==2"])
    assert [it.indicator for it in claims] == ["PiConv", *["PiMatmul"] * 3]
    matmul = [it.bound for it in claims[1:]]
    assert performance_values(claims)[purl("fast==2")] == pytest.approx(sum(matmul) / 3 / 2)


def test_identical_stacks_that_differ_in_turns_widen_what_is_of_no_interest() -> None:
    bench = measured()
    base, blocks = bench.stack("fast==1", "rest==1"), [f"aa:{n}" for n in range(8)]
    bench.measure(base, jobs(), run="aa 1", blocks=blocks)
    bench.measure(base, jobs(math.log(1.4)), run="aa 2", blocks=blocks)
    (claim,) = told(bench, ["fast==1", "rest==1"], ["fast==2"])
    assert claim.delta_pct == pytest.approx(40, abs=0.1)
    assert claim.verdict is not Verdict.FASTER
    assert claim.bound == 0


def one_run_each(bench: Bench, gain: float = GAIN) -> None:
    """Ten jobs of each stack, all of one night: what that night did to them nobody knows."""
    for version, level in (("1", 0.0), ("2", gain)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level, 10), run="one night")


def test_one_run_of_each_is_no_reason_to_claim_and_asks_for_turns() -> None:
    bench = Bench()
    one_run_each(bench)
    (claim,) = told(bench, ["fast==1"], ["fast==2"])
    assert (claim.verdict, claim.needs) == (Verdict.UNDETERMINED, Need.TURNS)
    assert (claim.jobs, claim.runs, claim.baseline_runs) == (10, 1, 1)
    assert claim.observed_pct == pytest.approx(30)
    assert not math.isfinite(claim.interval_high_pct)
    assert claim.chance == 0
    message = claim_note(claim).message
    assert "run both in turns (`thoth inspect` with both specifications), 5 jobs each" in message
    assert "10 and 10 jobs of 1 and 1 runs" in message


def test_what_other_runs_show_of_nights_tells_what_one_run_of_each_is_worth() -> None:
    bench, other = Bench(), Bench()
    for it, night in ((bench, 0.02), (other, 0.2)):
        one_run_each(it)
        for run, level in enumerate(np.random.default_rng(3).normal(0, night, 11)):
            it.measure(it.stack("reference==1"), jobs(level), run=str(run))
    (steady,), (wild,) = (told(it, ["fast==1"], ["fast==2"]) for it in (bench, other))
    assert steady.verdict is Verdict.FASTER
    assert (wild.verdict, wild.needs) == (Verdict.UNDETERMINED, Need.RUNS)
    assert wild.jobs_missing > 0
    assert "more runs of each would tell, or jobs that run in turns" in claim_note(wild).message


def test_ten_runs_of_each_are_ten_and_not_a_hundred_jobs() -> None:
    bench, nights = Bench(), np.random.default_rng(4).normal(0, 0.03, (2, 10))
    for version, levels in zip("12", nights, strict=True):
        for run, level in enumerate(levels):
            bench.measure(bench.stack(f"fast=={version}"), jobs(level), run=str(run))
    (claim,) = told(bench, ["fast==1"], ["fast==2"])
    assert (claim.jobs, claim.runs, claim.baseline_runs) == (80, 10, 10)
    alike = Bench()
    for version, levels in zip("12", nights, strict=True):
        alike.measure(alike.stack(f"fast=={version}"), levels)
    (same,) = told(alike, ["fast==1"], ["fast==2"])
    assert claim.interval_low_pct == pytest.approx(same.interval_low_pct, abs=0.01)


def test_only_what_took_part_is_evidence_and_the_rest_is_counted() -> None:
    bench = Bench()
    for version, level in (("1", 0.0), ("2", 0.1)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level))
    late = NOW + timedelta(days=9)
    bench.measure(bench.stack("fast==1"), jobs(count=30), host="h2", begin=late)
    bench.measure(bench.stack("fast==2"), jobs(count=3), host="h3")
    bench.measure(bench.stack("fast==2"), [0.5] * 6, run="x", unstable="throttled")
    (claim,) = told(bench, ["fast==1"], ["fast==2"])
    stable = [it for it in bench.readings if it.unstable_reason is None]
    on_host = {it.observation_id for it in stable if it.host == "h1"}
    assert (claim.jobs, claim.baseline_jobs) == (8, 8)
    assert set(claim.evidence) == on_host
    assert claim.left_out == {"other_host": 33, "throttled": 6}
    assert claim.as_of is None, "of those that took part nobody said when"
    assert "left out: 33 on another host, 6 throttled" in claim_note(claim).message


def test_a_job_without_a_partner_is_counted_as_left_out() -> None:
    bench = Bench()
    for version, count in (("1", 8), ("2", 7)):
        blocks = [f"r:{n}" for n in range(count)]
        bench.measure(bench.stack(f"fast=={version}"), jobs(count=count), blocks=blocks)
    (claim,) = told(bench, ["fast==1"], ["fast==2"])
    assert (claim.pairs, claim.left_out, len(claim.evidence)) == (7, {"unpaired": 1}, 14)


def test_what_is_only_told_costs_what_is_scored_nothing() -> None:
    alone, crowded = measured(), measured()
    for version in range(2, 40):
        crowded.measure(crowded.stack("fast==3", f"rest=={version}"), jobs(0.2, seed=version))
    wanted = ["fast==2", "fast==3", *(f"rest=={it}" for it in range(2, 40))]
    (one,) = told(alone, ["fast==1", "rest==1"], ["fast==2"])
    several = told(crowded, ["fast==1", "rest==1"], wanted)
    assert sum(it.confounded for it in several) == 38
    (same,) = (it for it in several if it.purl)
    assert (same.p_value, same.bound) == (one.p_value, one.bound)


def test_hardware_and_python_both_another_are_wider_by_both() -> None:
    def width(place: Circumstances) -> float:
        (claim,) = told(measured(changed=MANY), ["fast==1", "rest==1"], ["fast==2"], place)
        return math.log1p(claim.interval_high_pct / 100) - math.log1p(claim.observed_pct / 100)

    one, both = width(Circumstances(HERE, "3.12")), width(Circumstances(ELSEWHERE, "3.12"))
    assert both / one == pytest.approx(math.sqrt(2), rel=0.01)


#: So many jobs that the width is all from elsewhere.
MANY = {"fast==1 rest==1": jobs(0.0, 400), "fast==2 rest==1": jobs(GAIN, 400)}


def test_a_settled_gain_whose_bound_is_a_loss_counts_for_nothing() -> None:
    assert _counted(Verdict.FASTER, -0.01) == 0
    assert _counted(Verdict.SLOWER, 0.01) == 0
    assert _counted(Verdict.FASTER, 0.02) == 0.02
    assert _counted(Verdict.SLOWER, -0.02) == -0.02
    assert _counted(Verdict.EQUIVALENT, 0.02) == 0


def test_how_much_more_one_varies_is_told_from_twenty_jobs_on() -> None:
    for count in (19, 20):
        bench = Bench()
        bench.measure(bench.stack("fast==1"), jobs(count=count))
        bench.measure(bench.stack("fast==2"), [3 * it for it in jobs(count=count)])
        (claim,) = told(bench, ["fast==1"], ["fast==2"])
        if count < 20:
            assert claim.spread_ratio is None
            continue
        assert claim.spread_ratio is not None
        assert claim.spread_ratio.ratio == pytest.approx(3)
        assert claim.spread_ratio.low == pytest.approx(3 / 1.59, rel=0.01)


def test_elsewhere_on_two_hosts_and_on_the_border_no_number_of_jobs_is_made_up() -> None:
    away = measured(series(hardware=ELSEWHERE))
    (claim,) = told(away, ["fast==1", "rest==1"], ["fast==2"])
    if claim.verdict is Verdict.UNDETERMINED:
        assert (claim.needs, claim.jobs_missing) == (Need.HERE, 5)
    pooled = Bench()
    for host, gain in (("h1", 0.08), ("h2", 0.12)):
        pooled.measure(pooled.stack("fast==1"), jobs(count=40), host=host)
        pooled.measure(pooled.stack("fast==2"), jobs(gain, 40), host=host)
    (claim,) = told(pooled, ["fast==1"], ["fast==2"])
    assert (claim.method, claim.needs) == (Method.POOLED, Need.HOSTS)
    assert "5 jobs of each on about 1 further host would tell" in claim_note(claim).message
    border = Bench()
    border.measure(border.stack("fast==1"), jobs(count=400))
    border.measure(border.stack("fast==2"), jobs(math.log(1.02) + 0.0001, 400))
    (claim,) = told(border, ["fast==1"], ["fast==2"])
    assert (claim.needs, claim.jobs_missing, claim.chance) == (Need.MARGIN, 0, 0)
    assert "too close to 2.0 % for any number of jobs to tell" in claim_note(claim).message


def test_all_that_is_looked_at_is_adjusted_for_together() -> None:
    alone, crowded = measured(), measured()
    for version in range(3, 30):
        crowded.measure(crowded.stack(f"fast=={version}", "rest==1"), jobs(0.0, seed=version))
    (one,) = told(alone, ["fast==1", "rest==1"], ["fast==2"])
    several = told(crowded, ["fast==1", "rest==1"], [f"fast=={it}" for it in range(2, 30)])
    (same,) = (it for it in several if it.purl == purl("fast==2"))
    assert same.p_value == pytest.approx(28 * one.p_value)


def test_jobs_that_ran_in_turns_are_paired() -> None:
    bench = Bench()
    blocks = [f"run:{n}" for n in range(8)]
    hour = np.random.default_rng(2).normal(0, 0.3, 8)
    for version, gain in (("1", 0.0), ("2", 0.05)):
        stack = bench.stack(f"fast=={version}")
        bench.measure(stack, hour + jobs(gain), blocks=blocks, begin=NOW - timedelta(days=1))
    (claim,) = told(bench, ["fast==1"], ["fast==2"])
    assert (claim.method, claim.pairs) == (Method.PAIRED, 8)
    assert claim.verdict is Verdict.FASTER
    assert claim.as_of == NOW - timedelta(days=1) + timedelta(hours=7)


def test_the_order_of_evidence_changes_nothing() -> None:
    bench = measured()
    bench.measure(bench.stack("fast==3", "rest==1"), jobs(-0.2))
    forth = told(bench, ["fast==1", "rest==1"], ["fast==2", "fast==3"])
    bench.readings.reverse()
    bench.stacks = dict(reversed(bench.stacks.items()))
    assert told(bench, ["fast==1", "rest==1"], ["fast==3", "fast==2"]) == forth
