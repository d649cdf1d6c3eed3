"""Laws of the comparison: symmetric, blind to order and scale, and quiet on noise."""

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from adviser.scoring.comparisons import Comparison, compare_candidates
from adviser.scoring.estimates import Method
from adviser.scoring.samples import JobPlace, Sample
from adviser.scoring.verdicts import Verdict
from tests.effort import examples

log_rates = st.lists(st.floats(-1, 1), max_size=12).map(tuple)
#: Where a job ran, and its log rate in sixty-fourths, which add without rounding.
placed_jobs = st.lists(
    st.tuples(
        st.sampled_from([JobPlace("h1"), JobPlace("h2"), JobPlace()])
        | st.builds(
            JobPlace,
            st.sampled_from(["h1", "h2"]),
            st.integers(0, 7).map("run:{}".format),
            seen_at=st.none() | st.datetimes(timezones=st.just(UTC)),
        ),
        st.integers(-50, 50),
    ),
    max_size=24,
)
Placed = list[tuple[JobPlace, int]]
MIRRORED = {
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.EQUIVALENT: Verdict.EQUIVALENT,
    Verdict.UNDETERMINED: Verdict.UNDETERMINED,
}


def compare(candidate: tuple[float, ...], baseline: tuple[float, ...]) -> Comparison:
    return compare_candidates(Sample("b", baseline, "key"), [Sample("c", candidate, "key")])[0]


@given(log_rates, log_rates)
def test_swapping_stacks_flips_the_sign(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    forth, back = compare(a, b), compare(b, a)
    assert forth.d == pytest.approx(-back.d, nan_ok=True, abs=1e-12)
    assert forth.standard_error == pytest.approx(back.standard_error)
    assert forth.verdict is MIRRORED[back.verdict]
    missing = back.baseline_jobs_missing, back.jobs_missing
    assert (forth.jobs_missing, forth.baseline_jobs_missing) == missing


@given(log_rates, log_rates, st.randoms(use_true_random=False))
def test_order_of_jobs_does_not_change_verdicts(
    a: tuple[float, ...], b: tuple[float, ...], rng
) -> None:  # type: ignore[no-untyped-def]
    shuffled = tuple(rng.sample(a, len(a)))
    # repr, as nan differs from itself.
    assert repr(compare(shuffled, b)) == repr(compare(a, b))


@given(
    st.lists(st.integers(-50, 50), max_size=12),
    st.lists(st.integers(-50, 50), max_size=12),
    st.integers(-40, 40),
)
def test_faster_machine_for_both_stacks_does_not_change_the_verdict(
    a: list[int], b: list[int], scale: int
) -> None:
    # Sixty-fourths add without rounding, so that not even a border case may tip.
    def arms(shift: int) -> list[tuple[float, ...]]:
        return [tuple(x / 64 + shift for x in arm) for arm in (a, b)]

    plain, scaled = compare(*arms(0)), compare(*arms(scale))
    assert scaled.verdict is plain.verdict
    assert scaled.d == pytest.approx(plain.d, nan_ok=True, abs=1e-9)
    assert scaled.standard_error == pytest.approx(plain.standard_error, abs=1e-9)


@settings(max_examples=examples(50))
@given(st.lists(log_rates, max_size=6), log_rates, st.randoms(use_true_random=False))
def test_order_of_candidates_does_not_change_verdicts(arms, baseline, rng) -> None:  # type: ignore[no-untyped-def]
    base = Sample("b", baseline, "key")
    candidates = [Sample(str(i), arm, "key") for i, arm in enumerate(arms)]
    shuffled = rng.sample(candidates, len(candidates))
    expected = {c.candidate: repr(c) for c in compare_candidates(base, candidates)}
    assert {c.candidate: repr(c) for c in compare_candidates(base, shuffled)} == expected


def groups_with_a_claim(
    noise: float, *, groups: int, stacks: int, jobs: int, gain: float = 0.0, seed: int
) -> dict[Verdict, int]:
    """In how many groups of alike stacks any candidate gets each verdict."""
    rng = np.random.default_rng(seed)
    seen = dict.fromkeys(Verdict, 0)
    for _ in range(groups):
        arms = rng.normal(0.0, noise, (stacks, jobs))
        arms[1:] += gain
        base, *others = [Sample(str(i), tuple(arm), "key") for i, arm in enumerate(arms)]
        for verdict in {c.verdict for c in compare_candidates(base, others)}:
            seen[verdict] += 1
    return seen


@pytest.mark.parametrize("jobs", [5, 10])
def test_identical_stacks_are_rarely_called_different(jobs: int) -> None:
    seen = groups_with_a_claim(0.03, groups=400, stacks=20, jobs=jobs, seed=20)
    at_most = stats.binom.ppf(0.999, 400, 0.05)
    assert seen[Verdict.FASTER] <= at_most
    assert seen[Verdict.SLOWER] <= at_most
    assert seen[Verdict.FASTER] + seen[Verdict.SLOWER] <= 0.01 * 400


def test_claims_about_identical_stacks_stay_rare_in_noise_above_the_margin() -> None:
    seen = groups_with_a_claim(0.5, groups=400, stacks=20, jobs=5, seed=21)
    at_most = stats.binom.ppf(0.999, 400, 0.05)
    assert seen[Verdict.FASTER] <= at_most
    assert seen[Verdict.SLOWER] <= at_most


def test_gain_exactly_at_the_margin_is_claimed_at_the_error_rate() -> None:
    seen = groups_with_a_claim(0.03, groups=2000, stacks=2, jobs=10, gain=math.log(1.02), seed=22)
    low, high = stats.binom.ppf([0.001, 0.999], 2000, 0.05)
    assert low <= seen[Verdict.FASTER] <= high


def test_true_gain_of_ten_per_cent_is_found() -> None:
    seen = groups_with_a_claim(0.02, groups=200, stacks=2, jobs=10, gain=math.log(1.10), seed=23)
    assert seen[Verdict.FASTER] >= 0.99 * 200
    assert seen[Verdict.SLOWER] == 0


def placed(label: str, jobs: Placed, drift: dict[JobPlace, int] | None = None) -> Sample:
    """A sample of jobs whose rates are moved by what their place has in ``drift``."""
    moved = drift or {}
    rates = tuple((rate + moved.get(place, 0)) / 64 for place, rate in jobs)
    return Sample(label, rates, "key", tuple(place for place, _ in jobs))


@given(placed_jobs, placed_jobs)
def test_swapping_stacks_mirrors_every_method(a: Placed, b: Placed) -> None:
    (forth,) = compare_candidates(placed("a", a), [placed("b", b)])
    (back,) = compare_candidates(placed("b", b), [placed("a", a)])
    assert forth.d == pytest.approx(-back.d, nan_ok=True, abs=1e-12)
    assert forth.standard_error == pytest.approx(back.standard_error)
    assert forth.verdict is MIRRORED[back.verdict]
    assert (forth.method, forth.pairs, forth.hosts) == (back.method, back.pairs, back.hosts)
    assert forth.tau == pytest.approx(back.tau)
    missing = back.baseline_jobs_missing, back.jobs_missing
    assert (forth.jobs_missing, forth.baseline_jobs_missing) == missing


@given(placed_jobs, placed_jobs, st.randoms(use_true_random=False))
def test_order_of_jobs_in_blocks_does_not_change_verdicts(a: Placed, b: Placed, rng) -> None:  # type: ignore[no-untyped-def]
    def told(baseline: Placed, candidate: Placed) -> tuple[str, list[str], list[str]]:
        """What is found, and the jobs that took part, which the comparison names by position."""
        (one,) = compare_candidates(placed("a", baseline), [placed("b", candidate)])
        return (
            repr(replace(one, used=(), baseline_used=())),
            sorted(repr(candidate[position]) for position in one.used),
            sorted(repr(baseline[position]) for position in one.baseline_used),
        )

    assert told(rng.sample(a, len(a)), rng.sample(b, len(b))) == told(a, b)


@given(placed_jobs, placed_jobs, st.lists(st.integers(-640, 640), min_size=16, max_size=16))
def test_drift_common_to_a_pair_of_jobs_does_not_change_the_verdict(
    a: Placed, b: Placed, steps: list[int]
) -> None:
    blocks = [JobPlace(host, f"run:{n}") for host in ("h1", "h2") for n in range(8)]
    drift = dict(zip(blocks, steps, strict=True))
    (plain,) = compare_candidates(placed("a", a), [placed("b", b)])
    (moved,) = compare_candidates(placed("a", a, drift), [placed("b", b, drift)])
    assert (moved.method, moved.pairs, moved.hosts) == (plain.method, plain.pairs, plain.hosts)
    if plain.method is Method.PAIRED:
        assert moved.d == pytest.approx(plain.d, abs=1e-9)
        assert moved.standard_error == pytest.approx(plain.standard_error, abs=1e-9)
        assert moved.verdict is plain.verdict


@given(placed_jobs, placed_jobs)
def test_settled_verdict_needs_five_pairs_or_jobs(a: Placed, b: Placed) -> None:
    (found,) = compare_candidates(placed("a", a), [placed("b", b)])
    if found.verdict is not Verdict.UNDETERMINED:
        assert min(len(a), len(b)) >= 5
        assert found.hosts != 0
    assert found.pairs == 0 if found.method is Method.WELCH else True
    assert found.pairs >= 5 if found.method is Method.PAIRED else True
    assert (found.hosts or 2) >= 2 if found.method is Method.POOLED else True


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), max_size=4),
    st.sampled_from(["h1", None]),
)
def test_four_pairs_never_settle_a_verdict(pairs: list[tuple[int, int]], host: str | None) -> None:
    places = [JobPlace(host, f"run:{n}") for n in range(len(pairs))]
    ours, theirs = zip(*pairs, strict=True) if pairs else ((), ())
    (found,) = compare_candidates(
        placed("a", list(zip(places, ours, strict=True))),
        [placed("b", list(zip(places, theirs, strict=True)))],
    )
    assert found.verdict is Verdict.UNDETERMINED
    assert found.jobs_missing + found.baseline_jobs_missing > 0


def interleaved(
    rng: np.random.Generator, stacks: int, blocks: int, hosts: Iterable[str] = ("h1",)
) -> list[Sample]:
    """Identical stacks in ABBA turns on machines that slow down by some 40 % meanwhile.

    Each job takes its turn on a line that falls all the time, so that jobs of one block
    differ by it as well, and each machine has a speed of its own.
    """
    places: list[JobPlace] = []
    rates: list[list[float]] = [[] for _ in range(stacks)]
    for host in hosts:
        speed, slope = rng.normal(0, 0.05), -0.5 / (blocks * stacks)
        for block in range(blocks):
            places.append(JobPlace(host, f"run:{block}"))
            hour = rng.normal(0, 0.1)
            order = range(stacks) if block % 2 == 0 else range(stacks - 1, -1, -1)
            for turn, stack in enumerate(order):
                when = block * stacks + turn
                rates[stack].append(speed + hour + slope * when + rng.normal(0, 0.01))
    return [Sample(str(i), tuple(arm), "key", tuple(places)) for i, arm in enumerate(rates)]


@pytest.mark.parametrize(
    ("stacks", "blocks", "hosts"),
    [(2, 5, ["h1"]), (2, 10, ["h1"]), (8, 10, ["h1"]), (4, 6, ["h1", "h2", "h3"])],
)
def test_drift_makes_no_claims_about_identical_interleaved_stacks(
    stacks: int, blocks: int, hosts: list[str]
) -> None:
    rng = np.random.default_rng(24)
    claims = dict.fromkeys(Verdict, 0)
    for _ in range(400):
        base, *others = interleaved(rng, stacks, blocks, hosts)
        found = compare_candidates(base, others)
        assert {it.method for it in found} == {Method.POOLED if len(hosts) > 1 else Method.PAIRED}
        for verdict in {it.verdict for it in found}:
            claims[verdict] += 1
    assert claims[Verdict.FASTER] + claims[Verdict.SLOWER] <= 0.05 * 400


def test_paired_jobs_find_gains_under_drift_that_unpaired_jobs_miss() -> None:
    rng = np.random.default_rng(25)
    found = {True: 0, False: 0}
    for _ in range(100):
        base, other = interleaved(rng, 2, 10)
        faster = tuple(rate + math.log(1.10) for rate in other.log_rates)
        for in_turns in found:
            places = other.places if in_turns else ()
            baseline = Sample("b", base.log_rates, "key", places)
            (it,) = compare_candidates(baseline, [Sample("c", faster, "key", places)])
            found[in_turns] += it.verdict is Verdict.FASTER
    assert found[True] >= 95
    assert found[False] <= 20


def test_unbalanced_hosts_make_no_claim_about_identical_stacks() -> None:
    """Four jobs on each fast host and one on each slow one, and the mirror image: one stack."""
    draw = random.Random(7)
    for hosts in (2, 4, 8):
        arms: list[Sample] = []
        for fast in (4, 1):
            jobs = [fast if host % 2 else 5 - fast for host in range(hosts)]
            places = [
                JobPlace(f"host-{host}") for host, count in enumerate(jobs) for _ in range(count)
            ]
            rates = [
                0.1 * (int(it.host[-1]) % 2) + draw.gauss(0, 0.005) for it in places if it.host
            ]
            arms.append(Sample("", tuple(rates), "key", tuple(places)))
        verdict = compare_candidates(arms[1], [arms[0]])[0].verdict
        assert verdict is Verdict.UNDETERMINED, hosts
