"""Which jobs are worth their time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adviser.monkey.job_value import job_values
from adviser.scoring.assessment_types import Claim
from adviser.scoring.sample_needs import Need
from tests.factories.evidence import Bench, claims_about, jobs, purl


@pytest.fixture
def claims() -> list[Claim]:
    """``fast 3`` is settled; ``fast 2`` lost to it, and ``other 4`` is open."""
    bench = Bench()
    for version, gain, noise in (("1", 0, 4), ("2", 0.03, 4), ("3", 0.5, 0.1), ("4", 0.035, 4)):
        package = "fast" if version != "4" else "other"
        arm = {"fast": "1", "other": "1", package: version}
        rates = [rate * noise + gain for rate in jobs(seed=int(version))]
        bench.measure(bench.stack(*(f"{name}=={it}" for name, it in arm.items())), rates)
    return claims_about(bench, ["fast==1", "other==1"], ["fast==2", "fast==3", "other==4"])


def test_settled_versions_and_those_that_cannot_win_are_left_out(claims: list[Claim]) -> None:
    (value,) = job_values(claims, [], {}, {})
    assert value.purl == purl("other==4")
    assert 0 < value.chance < 1
    assert value.minutes == value.jobs > 0
    per_hour = 100 * 60 / value.minutes
    assert value.value == pytest.approx(value.chance * value.size * per_hour)


def test_weight_and_time_count(claims: list[Claim]) -> None:
    (plain,) = job_values(claims, [], {}, {})
    (watched,) = job_values(claims, [], {"other": 3.0}, {})
    (slow,) = job_values(claims, [], {}, {"other": 2.0})
    assert watched.value == pytest.approx(3 * plain.value)
    assert slow.value == pytest.approx(plain.value / 2)


def test_what_nobody_measured_has_the_value_of_the_prior(claims: list[Claim]) -> None:
    values = job_values(claims, [purl("new==1")], {"new": 1000.0}, {})
    assert [it.purl for it in values] == [purl("new==1"), purl("other==4")]
    assert values[0].stack is None
    assert "nothing is measured yet" in values[0].reason


def test_nothing_is_left_below_the_threshold(claims: list[Claim]) -> None:
    (value,) = job_values(claims, [], {}, {})
    assert job_values(claims, [], {}, {}, threshold=value.value) == [value]
    assert job_values(claims, [], {}, {}, threshold=value.value * 1.01) == []
    assert job_values(claims, [], {"other": 0.0}, {}) == []


def test_the_number_of_jobs_is_the_one_that_settles_most_per_job(claims: list[Claim]) -> None:
    """A difference that no number of jobs is likely to settle still has a small value."""
    (value,) = job_values(claims, [], {}, {})
    (claim,) = (it for it in claims if it.purl == purl("other==4"))
    assert value.jobs % 2 == 0
    out_of_reach = replace(claim, needs=Need.MARGIN, jobs_missing=0, baseline_jobs_missing=0)
    assert job_values([out_of_reach], [], {}, {})[0].value > 0


def test_a_wide_interval_asks_for_more_jobs_and_is_worth_less(claims: list[Claim]) -> None:
    (claim,) = (it for it in claims if it.purl == purl("other==4"))
    middle = claim.observed_pct
    narrow, wide = (
        replace(
            claim, needs=Need.JOBS,
            interval_low_pct=middle - half, interval_high_pct=middle + half,
        )
        for half in (2.0, 12.0)
    )  # fmt: skip
    (sure,), (unsure,) = (job_values([it], [], {}, {}) for it in (narrow, wide))
    assert sure.jobs < unsure.jobs
    assert sure.value > unsure.value
