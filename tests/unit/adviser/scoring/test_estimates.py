"""Which jobs are compared with which, and how."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.estimates import Estimate, Method, estimates_of
from adviser.scoring.host_pooling import pooled_effect
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.verdicts import Verdict
from tests.factories.effects import paired_effect, welch_effect

#: What each block shares: a machine that gets slower and slower.
DRIFT = (0.0, -0.1, -0.2, -0.3, -0.4, -0.5)
NOISE = (0.001, -0.002, 0.0, 0.002, -0.001, 0.0)


def turns(
    values: Sequence[float], host: str | None = "h1", first: int = 0, label: str = "c"
) -> Sample:
    """A job a value, in blocks that count from ``first``."""
    places = tuple(JobPlace(host, f"run:{first + n}") for n in range(len(values)))
    return Sample(label, tuple(values), "key", places)


def arms(*samples: Sample) -> Sample:
    """The jobs of several samples as those of one stack."""
    rates = tuple(rate for sample in samples for rate in sample.log_rates)
    return Sample("c", rates, "key", tuple(it for sample in samples for it in sample.places))


def estimate(candidate: Sample, baseline: Sample) -> Estimate:
    (found,) = estimates_of(baseline, [candidate])
    return found


def drifting(gain: float = 0.0, count: int = 6) -> list[float]:
    return [DRIFT[n] + NOISE[n] + gain for n in range(count)]


def test_jobs_of_the_same_blocks_are_compared_in_pairs() -> None:
    found = estimate(turns(drifting(0.05)), turns(list(DRIFT)))
    assert (found.method, found.pairs, found.jobs, found.hosts) == (Method.PAIRED, 6, 6, 1)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))
    assert found.tau is None


def test_jobs_without_a_partner_are_left_out_of_pairs() -> None:
    candidate, baseline = turns([*drifting(0.05), 9.0]), turns([-9.0, *DRIFT], first=-1)
    found = estimate(candidate, baseline)
    assert (found.method, found.pairs) == (Method.PAIRED, 6)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))


def test_four_pairs_are_not_enough_and_all_jobs_are_two_arms() -> None:
    candidate, baseline = turns(drifting(0.05)), turns(drifting(), first=2)
    found = estimate(candidate, baseline)
    assert (found.method, found.pairs, found.jobs, found.baseline_jobs) == (Method.WELCH, 0, 6, 6)
    assert found.effect == welch_effect(candidate.log_rates, baseline.log_rates)


@pytest.mark.parametrize("places", [False, True])
def test_jobs_of_no_block_are_two_arms(places: bool) -> None:
    known = (JobPlace("h1"),) * 6 if places else ()
    candidate = Sample("c", tuple(drifting(0.05)), "key", known)
    baseline = Sample("b", DRIFT, "key", known)
    found = estimate(candidate, baseline)
    assert (found.method, found.hosts) == (Method.WELCH, 1 if places else None)
    assert found.effect == welch_effect(candidate.log_rates, DRIFT)


def test_blocks_without_a_host_make_no_pairs() -> None:
    found = estimate(turns(drifting(), host=None), turns(drifting(), host=None))
    assert (found.method, found.hosts) == (Method.WELCH, None)


def test_several_jobs_in_a_block_count_by_their_mean() -> None:
    twice = arms(turns(drifting(0.04)), turns(drifting(0.06)))
    found = estimate(twice, turns(list(DRIFT)))
    assert (found.method, found.pairs) == (Method.PAIRED, 6)
    assert found.effect.d == pytest.approx(0.05 + sum(NOISE) / 6)


def test_jobs_on_a_host_that_only_one_saw_are_left_out() -> None:
    here, there = turns(drifting(0.05)), turns([7.0] * 8, host="h2", first=100)
    for candidate, baseline in ((here, arms(turns(list(DRIFT)), there)),
                                (arms(here, there), turns(list(DRIFT)))):  # fmt: skip
        found = estimate(candidate, baseline)
        assert found.effect == paired_effect(drifting(0.05), list(DRIFT))
        assert found.hosts == 1


def test_stacks_without_a_common_host_are_distinguished_by_nothing() -> None:
    here, there = turns([0.0] * 9), turns([1.0] * 9, host="h2")
    (found,) = compare_candidates(here, [there])
    assert (found.verdict, found.hosts) == (Verdict.UNDETERMINED, 0)
    assert math.isnan(found.d)
    assert (found.jobs_missing, found.baseline_jobs_missing) == (5, 5)


def test_several_hosts_are_pooled_each_in_its_own_way() -> None:
    paired, two_arms = turns(drifting(0.05)), Sample(
        "c", tuple(1 + x for x in NOISE), "key", (JobPlace("h2"),) * 6
    )  # fmt: skip
    base_arms = Sample("b", tuple(0.94 - x for x in NOISE), "key", (JobPlace("h2"),) * 6)
    found = estimate(arms(paired, two_arms), arms(turns(list(DRIFT)), base_arms))
    expected = pooled_effect(
        [
            paired_effect(drifting(0.05), list(DRIFT)),
            welch_effect(two_arms.log_rates, base_arms.log_rates),
        ]
    )
    assert (found.method, found.hosts, found.pairs) == (Method.POOLED, 2, 6)
    assert (found.jobs, found.baseline_jobs) == (12, 12)
    assert (found.effect, found.tau) == (expected.effect, expected.tau)


def test_a_host_with_too_few_jobs_does_not_enter_the_pool() -> None:
    few = turns([3.0] * 4, host="h2"), turns([1.0] * 4, host="h2")
    found = estimate(arms(turns(drifting(0.05)), few[0]), arms(turns(list(DRIFT)), few[1]))
    assert (found.method, found.pairs, found.hosts) == (Method.PAIRED, 6, 1)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))


def test_hosts_with_few_pairs_each_have_enough_together() -> None:
    ours = arms(turns(drifting(0.05, 3)), turns(drifting(0.05, 3), host="h2"))
    theirs = arms(turns(list(DRIFT[:3])), turns(list(DRIFT[:3]), host="h2"))
    found = estimate(ours, theirs)
    assert (found.method, found.pairs, found.hosts) == (Method.PAIRED, 6, 2)
    assert found.effect.d == pytest.approx(0.05 + sum(NOISE[:3]) / 3)


def test_readings_without_any_spread_are_not_pooled() -> None:
    ours = arms(turns([1.0] * 5), turns([1.0] * 5, host="h2"))
    theirs = arms(turns([0.0] * 5), turns([0.0] * 5, host="h2"))
    found = estimate(ours, theirs)
    assert (found.method, found.pairs, found.tested) == (Method.PAIRED, 10, True)
    assert found.effect.d == pytest.approx(1.0)
    # The smallest gap of the readings is one tick of their clock.
    assert found.effect.standard_error == pytest.approx(math.sqrt(1 / 6))


def test_the_missing_pairs_are_planned_from_the_spread_of_differences() -> None:
    differences = [0.06 + 0.0424 * x for x in (-1.2649, -0.6325, 0.0, 0.6325, 1.2649)]
    missing = set()
    for level in ([0.0] * 5, [10 * it for it in DRIFT]):
        candidate = turns([d + a for d, a in zip(differences, level, strict=False)])
        (comparison,) = compare_candidates(turns(level[:5]), [candidate])
        assert comparison.verdict is Verdict.UNDETERMINED
        assert comparison.jobs_missing == comparison.baseline_jobs_missing > 0
        missing.add((comparison.jobs_missing, round(comparison.chance, 9)))
    assert len(missing) == 1, "what the jobs of a turn share takes no part in it"


def test_candidates_in_pairs_and_in_arms_are_judged_together() -> None:
    baseline = turns(list(DRIFT), label="b")
    in_turns, apart = turns(drifting(0.05)), Sample("d", DRIFT, "key", (JobPlace("h1"),) * 6)
    first, second = compare_candidates(baseline, [in_turns, apart])
    assert (first.method, first.verdict) == (Method.PAIRED, Verdict.FASTER)
    assert (second.method, second.verdict) == (Method.WELCH, Verdict.UNDETERMINED)
    alone = compare_candidates(baseline, [in_turns])[0]
    assert first.p_value == pytest.approx(2 * alone.p_value)


def test_a_place_for_each_job_or_for_none() -> None:
    with pytest.raises(ValueError, match="one place"):
        Sample("c", (1.0, 2.0), "key", (JobPlace("h1"),))
