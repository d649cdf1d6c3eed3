"""Which comparison to measure next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adviser.scoring.comparisons import Comparison, compare_candidates
from adviser.scoring.next_jobs import further_jobs, may_be_best, next_claims
from adviser.scoring.samples import Sample
from adviser.scoring.target import Target
from adviser.scoring.verdicts import Verdict
from tests.factories.evidence import ELSEWHERE, Bench, claims_about, jobs, purl


def compared(gain: float, jobs: int = 5, noise: float = 0.03) -> Comparison:
    steps = np.linspace(-1, 1, jobs) * noise
    (found,) = compare_candidates(
        Sample("b", tuple(steps), "k"), [Sample("c", tuple(steps + gain), "k")]
    )
    return found


def test_the_chance_is_the_same_on_either_side() -> None:
    up, down = compared(0.05, noise=0.06), compared(-0.05, noise=0.06)
    assert up.verdict is Verdict.UNDETERMINED
    assert up.chance == pytest.approx(down.chance)
    assert (up.jobs_missing, up.needs) == (down.jobs_missing, down.needs)


def test_what_is_settled_or_unknown_has_no_chance_and_is_not_measured_next() -> None:
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (), "k")])
    settled = compared(0.5)
    assert (settled.verdict, settled.chance, settled.jobs_missing) == (Verdict.FASTER, 0, 0)
    assert unknown.chance == 0
    assert [it.jobs for it in further_jobs([settled, unknown])] == [5]


def test_of_two_with_equal_chances_and_jobs_the_larger_difference_comes_first() -> None:
    small = replace(compared(0.04, noise=0.06), candidate="small")
    large = replace(small, candidate="large", d=2 * small.d)
    cheap = replace(small, candidate="cheap", jobs_missing=1, baseline_jobs_missing=1)
    assert small.jobs_missing > 2
    ordered = [it.label for it in further_jobs([small, large, cheap])]
    assert ordered == ["cheap", "large", "small"]


def test_who_cannot_win_any_more_is_out() -> None:
    assert may_be_best([compared(0.3), compared(0.0), compared(0.29)]) == [True, False, True]
    (unknown,) = compare_candidates(Sample("b", (), "k"), [Sample("c", (0.1,), "k")])
    assert may_be_best([compared(0.3), unknown]) == [True, True]
    assert may_be_best([]) == []


def test_the_comparison_that_jobs_tell_most_of_comes_first() -> None:
    near, far, settled, lost = (
        replace(compared(gain, noise=noise), candidate=name)
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


def test_of_claims_those_count_that_were_measured_here_and_may_still_be_the_best() -> None:
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
