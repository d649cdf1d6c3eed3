"""How often an answer over identical stacks claims anything, and how often a gain is found.

Samples are made directly, so that a thousand answers take seconds.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adviser.scoring.comparisons import Comparison, ComparisonGroup, compare_all, compare_candidates
from adviser.scoring.estimates import Method, SeriesSpread
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.turn_noise import turn_noises, turn_variances
from adviser.scoring.variances import turn_residuals, variance_prior
from adviser.scoring.verdicts import Verdict
from tests.effort import examples, slow


def turns(
    draw: np.random.Generator, candidates: int, blocks: int, noise: float, *, reference: int = 1
) -> list[list[tuple[JobPlace, float]]]:
    """Identical stacks that ran in turns: of each its jobs, those of the baseline first.

    :param reference: jobs of the baseline in a block; the others have one
    """
    hours = draw.normal(0, 0.1, blocks)
    return [
        [
            (JobPlace("h1", f"run:{block}"), hours[block] + draw.normal(0, noise))
            for block in range(blocks)
            for _ in range(1 if stack else reference)
        ]
        for stack in range(candidates + 1)
    ]


def contest(stacks: list[list[tuple[JobPlace, float]]]) -> ComparisonGroup:
    """The first stack as the baseline of the others, with what all of them show of the noise."""
    residuals = turn_residuals({str(n): jobs for n, jobs in enumerate(stacks)})
    variances = {host: turn_variances(it) for host, it in residuals.items()}
    noise = {host: turn_noises([it])[0] for host, it in residuals.items() if len(stacks) > 2}
    samples = [
        Sample(
            str(n),
            tuple(rate for _, rate in jobs),
            "key",
            tuple(place for place, _ in jobs),
            {host: them[str(n)] for host, them in variances.items() if str(n) in them},
        )
        for n, jobs in enumerate(stacks)
    ]
    priors = {host: variance_prior(list(them.values())) for host, them in variances.items()}
    return ComparisonGroup(samples[0], samples[1:], spread=SeriesSpread(turns=priors, noise=noise))


def compared(one: ComparisonGroup) -> list[Comparison]:
    return compare_candidates(one.baseline, one.candidates, spread=one.spread)


def faster(stack: list[tuple[JobPlace, float]], gain: float) -> list[tuple[JobPlace, float]]:
    return [(place, rate + math.log1p(gain)) for place, rate in stack]


@pytest.mark.parametrize("candidates", [5, *slow([1, 20])])
def test_five_jobs_of_identical_stacks_rarely_make_a_claim(candidates: int) -> None:
    draw, claimed = np.random.default_rng(81), 0
    for _ in range(1000):
        found = compared(contest(turns(draw, candidates, 5, 0.05)))
        assert all(it.method is Method.PAIRED for it in found)
        claimed += any(it.verdict.different for it in found)
    # 4/9 of 2 % are promised; 15 or fewer of a thousand are seen in 98 % of all cases.
    assert stats.binom.ppf(0.98, 1000, 0.02 * 4 / 9) == 15
    assert claimed <= 15


def test_gain_of_ten_per_cent_is_found_with_five_reference_jobs_in_each_block() -> None:
    draw, found = np.random.default_rng(82), 0
    for _ in range(200):
        base, first, *others = turns(draw, 20, 10, 0.05, reference=5)
        (one, *_) = compared(contest([base, faster(first, 0.10), *others]))
        found += one.verdict is Verdict.FASTER
    assert found >= 0.88 * 200


@pytest.mark.slow
def test_comparison_groups_on_a_page_share_the_error_rate() -> None:
    draw, pages = np.random.default_rng(83), 0
    for _ in range(200):
        page = [
            ComparisonGroup(base, others)
            for base, *others in (
                [Sample(str(n), tuple(draw.normal(0, 0.15, 5)), "key") for n in range(6)]
                for _ in range(20)
            )
        ]
        pages += any(it.verdict.different for group in compare_all(page) for it in group)
    assert pages <= 0.05 * 200


def copied(sample: Sample, hosts: int) -> Sample:
    """The same jobs on so many hosts: hosts that agree exactly."""
    names = [f"h{number}" for number in range(1, hosts + 1)]
    return replace(
        sample,
        log_rates=sample.log_rates * hosts,
        places=tuple(place._replace(host=name) for name in names for place in sample.places),
        turn_variances={name: it for name in names for it in sample.turn_variances.values()},
    )


def test_several_agreeing_hosts_find_every_gain_that_one_host_finds() -> None:
    """A gain of 10 % among twenty candidates, on one to four hosts that show exactly the same."""
    draw = np.random.default_rng(84)
    found = dict.fromkeys((1, 2, 3, 4), 0)
    for _ in range(40):
        base, first, *others = turns(draw, 20, 6, 0.05)
        one = contest([base, faster(first, 0.10), *others])
        claimed_before = False
        for hosts in found:
            spread = SeriesSpread(turns={f"h{n + 1}": one.spread.turns["h1"] for n in range(hosts)})
            more = [copied(it, hosts) for it in one.candidates]
            base_there = copied(one.baseline, hosts)
            first_of_them = compare_candidates(base_there, more, spread=spread)[0]
            claimed = first_of_them.verdict is Verdict.FASTER
            assert claimed or not claimed_before, f"{hosts} hosts lose what fewer found"
            claimed_before = claimed
            found[hosts] += claimed
    assert 0 < found[1] < found[2] <= found[3] <= found[4]


def test_three_noisy_hosts_find_more_gains_than_one_host() -> None:
    draw = np.random.default_rng(85)
    found = dict.fromkeys((1, 2, 3), 0)
    for _ in range(40):
        speeds = draw.normal(0, 0.05, (21, 3, 6)) + draw.normal(0, 0.1, (1, 3, 6))
        speeds[1] += math.log(1.10)
        for hosts in found:
            places = [JobPlace(f"h{host}", f"run:{n}") for host in range(hosts) for n in range(6)]
            base, *others = (
                Sample(str(n), tuple(speeds[n, :hosts].ravel()), "key", tuple(places))
                for n in range(21)
            )
            found[hosts] += compare_candidates(base, others)[0].verdict is Verdict.FASTER
    assert found[1] < found[2] < found[3]
    assert found[3] >= 20


rates = st.lists(st.integers(-60, 60), min_size=5, max_size=9)


@settings(max_examples=examples(150))
@given(rates, st.lists(rates, min_size=1, max_size=5), st.booleans())
def test_second_identical_host_never_removes_a_claim(
    baseline: list[int], candidates: list[list[int]], in_turns: bool
) -> None:
    samples = [
        Sample(
            str(n),
            tuple(rate / 256 for rate in arm),
            "key",
            tuple(
                JobPlace("h1", f"run:{i}" if in_turns else None, str(i)) for i in range(len(arm))
            ),
        )
        for n, arm in enumerate([baseline, *candidates])
    ]
    verdicts = [
        [it.verdict for it in compare_candidates(base, others)]
        for hosts in (1, 2)
        for base, *others in [[copied(it, hosts) for it in samples]]
    ]
    for one, two in zip(*verdicts, strict=True):
        assert two is one or one is Verdict.UNDETERMINED
