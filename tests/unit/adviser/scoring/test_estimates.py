"""Which jobs are compared with which and how, also on several hosts."""

import math
from collections.abc import Sequence

import pytest

from adviser.scoring.comparisons import compare_candidates
from adviser.scoring.effects import Effect
from adviser.scoring.estimates import (
    UNKNOWN_HOST_SPREAD,
    Estimate,
    HostSpread,
    Method,
    estimates_of,
    host_spread,
    pooled_effect,
)
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


def test_jobs_of_common_blocks_are_compared_in_pairs() -> None:
    found = estimate(turns(drifting(0.05)), turns(list(DRIFT)))
    assert (found.method, found.pairs, found.jobs, found.hosts) == (Method.PAIRED, 6, 6, 1)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))
    assert found.tau is None


def test_jobs_without_a_partner_are_left_out_of_pairs() -> None:
    candidate, baseline = turns([*drifting(0.05), 9.0]), turns([-9.0, *DRIFT], first=-1)
    found = estimate(candidate, baseline)
    assert (found.method, found.pairs) == (Method.PAIRED, 6)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))


def test_four_pairs_are_compared_as_unpaired_jobs() -> None:
    candidate, baseline = turns(drifting(0.05)), turns(drifting(), first=2)
    found = estimate(candidate, baseline)
    assert (found.method, found.pairs, found.jobs, found.baseline_jobs) == (Method.WELCH, 0, 6, 6)
    assert found.effect == welch_effect(candidate.log_rates, baseline.log_rates)


@pytest.mark.parametrize("places", [False, True])
def test_jobs_without_a_block_are_compared_unpaired(places: bool) -> None:
    known = (JobPlace("h1"),) * 6 if places else ()
    candidate = Sample("c", tuple(drifting(0.05)), "key", known)
    baseline = Sample("b", DRIFT, "key", known)
    found = estimate(candidate, baseline)
    assert (found.method, found.hosts) == (Method.WELCH, 1 if places else None)
    assert found.effect == welch_effect(candidate.log_rates, DRIFT)


def test_jobs_of_unknown_hosts_are_not_paired() -> None:
    found = estimate(turns(drifting(), host=None), turns(drifting(), host=None))
    assert (found.method, found.hosts) == (Method.WELCH, None)


def test_jobs_of_a_stack_in_one_block_count_as_their_mean() -> None:
    twice = arms(turns(drifting(0.04)), turns(drifting(0.06)))
    found = estimate(twice, turns(list(DRIFT)))
    assert (found.method, found.pairs) == (Method.PAIRED, 6)
    assert found.effect.d == pytest.approx(0.05 + sum(NOISE) / 6)


def test_jobs_on_a_host_with_only_one_stack_are_left_out() -> None:
    here, there = turns(drifting(0.05)), turns([7.0] * 8, host="h2", first=100)
    for candidate, baseline in ((here, arms(turns(list(DRIFT)), there)),
                                (arms(here, there), turns(list(DRIFT)))):  # fmt: skip
        found = estimate(candidate, baseline)
        assert found.effect == paired_effect(drifting(0.05), list(DRIFT))
        assert found.hosts == 1


def test_stacks_without_a_common_host_have_no_verdict() -> None:
    here, there = turns([0.0] * 9), turns([1.0] * 9, host="h2")
    (found,) = compare_candidates(here, [there])
    assert (found.verdict, found.hosts) == (Verdict.UNDETERMINED, 0)
    assert math.isnan(found.d)
    assert (found.jobs_missing, found.baseline_jobs_missing) == (5, 5)


def test_paired_and_unpaired_results_of_hosts_are_pooled() -> None:
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


def test_host_with_too_few_jobs_is_not_pooled() -> None:
    few = turns([3.0] * 4, host="h2"), turns([1.0] * 4, host="h2")
    found = estimate(arms(turns(drifting(0.05)), few[0]), arms(turns(list(DRIFT)), few[1]))
    assert (found.method, found.pairs, found.hosts) == (Method.PAIRED, 6, 1)
    assert found.effect == paired_effect(drifting(0.05), list(DRIFT))


def test_few_pairs_on_each_of_several_hosts_are_compared_together() -> None:
    ours = arms(turns(drifting(0.05, 3)), turns(drifting(0.05, 3), host="h2"))
    theirs = arms(turns(list(DRIFT[:3])), turns(list(DRIFT[:3]), host="h2"))
    found = estimate(ours, theirs)
    assert (found.method, found.pairs, found.hosts) == (Method.PAIRED, 6, 2)
    assert found.effect.d == pytest.approx(0.05 + sum(NOISE[:3]) / 3)


def test_constant_readings_are_not_pooled_by_host() -> None:
    ours = arms(turns([1.0] * 5), turns([1.0] * 5, host="h2"))
    theirs = arms(turns([0.0] * 5), turns([0.0] * 5, host="h2"))
    found = estimate(ours, theirs)
    assert (found.method, found.pairs, found.tested) == (Method.PAIRED, 10, True)
    assert found.effect.d == pytest.approx(1.0)
    # The smallest gap of the readings is one tick of their clock.
    assert found.effect.standard_error == pytest.approx(math.sqrt(1 / 6))


def test_missing_pairs_are_planned_from_the_spread_of_paired_differences() -> None:
    differences = [0.06 + 0.0424 * x for x in (-1.2649, -0.6325, 0.0, 0.6325, 1.2649)]
    missing = set()
    for level in ([0.0] * 5, [10 * it for it in DRIFT]):
        candidate = turns([d + a for d, a in zip(differences, level, strict=False)])
        (comparison,) = compare_candidates(turns(level[:5]), [candidate])
        assert comparison.verdict is Verdict.UNDETERMINED
        assert comparison.jobs_missing == comparison.baseline_jobs_missing > 0
        missing.add((comparison.jobs_missing, round(comparison.chance, 9)))
    assert len(missing) == 1, "what the jobs of a turn share takes no part in it"


def test_paired_and_unpaired_comparisons_are_adjusted_together() -> None:
    baseline = turns(list(DRIFT), label="b")
    in_turns, apart = turns(drifting(0.05)), Sample("d", DRIFT, "key", (JobPlace("h1"),) * 6)
    first, second = compare_candidates(baseline, [in_turns, apart])
    assert (first.method, first.verdict) == (Method.PAIRED, Verdict.FASTER)
    assert (second.method, second.verdict) == (Method.WELCH, Verdict.UNDETERMINED)
    alone = compare_candidates(baseline, [in_turns])[0]
    assert first.p_value == pytest.approx(2 * alone.p_value)


def test_sample_with_hosts_for_only_some_jobs_is_refused() -> None:
    with pytest.raises(ValueError, match="one place"):
        Sample("c", (1.0, 2.0), "key", (JobPlace("h1"),))


def test_pooled_effect_of_agreeing_hosts_equals_the_hand_computed_example() -> None:
    # Weights 10,000 and 2,500, shares 0.8 and 0.2, Q = 0.04 + 0.16 = 0.2. Meier's factor is
    # 1 + 4 (0.16 + 0.16) / 8 = 1.16; the hosts add 0.8 and 0.2 of the variance.
    pooled = pooled_effect([Effect(0.10, 0.01, 8.0), Effect(0.11, 0.02, 8.0)])
    assert pooled.effect.d == pytest.approx((4 * 0.10 + 0.11) / 5)
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(1.16 / 12_500))
    assert pooled.effect.degrees_of_freedom == pytest.approx(8 / (0.8**2 + 0.2**2))
    assert (pooled.tau, pooled.hosts, pooled.agree) == (0.0, 2, True)


def test_pooled_effect_of_disagreeing_hosts_equals_the_hand_computed_example() -> None:
    # Weights 100 each, mean 0.2: Q = 100 (0.04 + 0 + 0.04) = 8, of which chance alone shows as
    # much in e⁻⁴ = 1.8 % of all cases. C = 300 − 30000/300 = 200, τ² = (8 − 2) / 200 = 0.03; the
    # moderated Birge ratio is (2 + 8) / (2 + 2) = 2.5.
    pooled = pooled_effect([Effect(d, 0.1, 8.0) for d in (0.0, 0.2, 0.4)])
    assert pooled.effect.d == pytest.approx(0.2)
    assert pooled.tau == pytest.approx(math.sqrt(0.03))
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(2.5 / 300))
    assert (pooled.effect.degrees_of_freedom, pooled.hosts, pooled.agree) == (4.0, 3, False)


def test_hosts_disagree_if_their_difference_is_significant_at_five_per_cent() -> None:
    # With two hosts of error 0.1 Q is 50 times the squared difference; χ² with one degree of
    # freedom exceeds 3.8415 in 5 % of all cases.
    limit = math.sqrt(3.8415 / 50)
    for difference, agree in ((limit - 0.001, True), (limit + 0.001, False)):
        pooled = pooled_effect([Effect(0.0, 0.1, 8.0), Effect(difference, 0.1, 8.0)])
        assert pooled.agree is agree


def test_usual_spread_between_hosts_is_not_reported_as_disagreement() -> None:
    effects = [Effect(0.10, 0.01, 8.0), Effect(0.14, 0.01, 8.0)]
    assert not pooled_effect(effects).agree  # Q = 8 with one degree of freedom
    # Weights 1 / (0.0001 + 0.0004) = 2,000, Q = 1.6. Meier's factor is 1.25, so that SE² is
    # 1.25 / 4,000; of it 2 · 0.25 · 0.0001 · 1.25 is noise, the rest is the spread.
    pooled = pooled_effect(effects, HostSpread(0.0004, 6))
    assert pooled.agree
    assert pooled.tau == pytest.approx(0.02)
    assert pooled.effect.standard_error == pytest.approx(math.sqrt(1.25 / 4_000))
    parts = 2 * 3.125e-5**2 / 8 + (3.125e-4 - 6.25e-5) ** 2 / 6
    assert pooled.effect.degrees_of_freedom == pytest.approx(3.125e-4**2 / parts)


def test_spread_between_hosts_equals_the_example_computed_by_hand() -> None:
    # Q = 0.04² / (2 (0.0001 + τ²)) is 0.4549, the median of χ² with one degree of freedom.
    stack = [Effect(0.10, 0.01, 8.0), Effect(0.14, 0.01, 8.0)]
    spread = host_spread([stack] * 5)
    assert spread.variance == pytest.approx(0.04**2 / (2 * 0.454936) - 0.0001, rel=1e-5)
    assert spread.freedom == 5
    assert host_spread([stack] * 3) == UNKNOWN_HOST_SPREAD
    # Four of four stacks above their median are no rarer than 1 in 16.
    assert host_spread([stack] * 4) == HostSpread(0.0, 4)
    alone = [Effect(0.3, 0.01, 8.0), Effect(0.9, math.inf, 0.0)]
    assert host_spread([*[stack] * 5, alone]) == spread, "one host tells nothing of hosts"
    assert host_spread([[Effect(0.1, 0.1, 8.0)] * 2] * 4).variance == 0.0
    silent = [Effect(0.1, 0.0, 8.0), Effect(0.2, 0.1, 8.0)]
    assert host_spread([*[stack] * 4, silent]) == UNKNOWN_HOST_SPREAD


def test_one_outlying_stack_does_not_change_the_spread_between_hosts() -> None:
    calm = [[Effect(0.1, 0.01, 8.0), Effect(0.1 + 0.001 * n, 0.01, 8.0)] for n in range(10)]
    wild = [Effect(0.1, 0.01, 8.0), Effect(0.5, 0.01, 8.0)]
    assert host_spread([*calm, wild]).variance == host_spread(calm).variance == 0.0


def test_effect_is_unchanged_if_only_one_host_is_usable() -> None:
    alone = Effect(0.1, 0.01, 8.0)
    pooled = pooled_effect([alone, Effect(0.3, math.inf, 0.0)])
    assert (pooled.effect, pooled.tau, pooled.hosts) == (alone, 0.0, 1)


def test_hosts_without_a_usable_error_are_refused() -> None:
    with pytest.raises(ValueError, match="no host"):
        pooled_effect([Effect(0.3, math.inf, 0.0)])
    with pytest.raises(ValueError, match="outweigh"):
        pooled_effect([Effect(0.3, 0.0, 4.0), Effect(0.3, 0.1, 4.0)])
