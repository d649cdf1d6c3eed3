"""Dependency Monkey: strategies on small universes, and which jobs are worth their time."""

from dataclasses import replace
from itertools import islice
from statistics import fmean

import pytest

from adviser.monkey.job_value import job_values
from adviser.monkey.strategies import (
    GenerationOptions,
    NoStacks,
    StackGenerator,
    StacksTooMany,
    Strategy,
)
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_stack
from adviser.resolver.resolver_request import ResolverRequest
from adviser.scoring.assessment_types import Claim
from adviser.scoring.sample_needs import Need
from tests.factories.evidence import Bench, claims_about, jobs, purl
from tests.factories.planted_versions import PlantedVersions, searched
from tests.factories.universes import Index, newest_scores, snapshot_of, synthetic_index

FLASK_AND_TENSORFLOW: Index = {
    "flask": {f"0.{it}": {} for it in range(28)},
    "tensorflow": {f"1.{it}": {} for it in range(59)},
}


def generator(index: Index, roots: list[str], options: GenerationOptions) -> StackGenerator:
    snapshot = snapshot_of(index, roots)
    universe = universe_of(snapshot, ResolverRequest(), newest_scores(snapshot))
    return StackGenerator(universe, options)


def test_number_of_tensorflow_and_flask_stacks_equals_the_published_number() -> None:
    size = generator(
        FLASK_AND_TENSORFLOW, ["flask", "tensorflow"], GenerationOptions(Strategy.ALL)
    ).size()
    assert size.direct_product == size.raw_product == 59 * 28 == 1652
    assert (size.valid.exact, size.valid.estimate) == (True, 1652)


@pytest.mark.parametrize("strategy", [it for it in Strategy if it is not Strategy.INFORMATIVE])
def test_generated_stacks_are_valid_distinct_and_reproducible(strategy: Strategy) -> None:
    index, roots = synthetic_index(20, 8)
    options = GenerationOptions(strategy, stacks=40, seed=3)
    made = generator(index, roots, options)
    stacks = list(made.stacks())
    assert len({tuple(it.pins.items()) for it in stacks}) == len(stacks) == 40
    assert all(check_stack(made.universe, it.stack) == [] for it in stacks)
    assert all(it.reason for it in stacks)
    assert list(generator(index, roots, options).stacks()) == stacks


def test_more_generated_stacks_begin_with_those_of_a_shorter_generation() -> None:
    index, roots = synthetic_index(20, 8)
    for strategy in Strategy:
        few, many = (
            list(generator(index, roots, GenerationOptions(strategy, stacks=it)).stacks())
            for it in (5, 15)
        )
        assert many[:5] == few


def test_generated_stacks_vary_only_the_named_packages() -> None:
    index, roots = synthetic_index(20, 8)
    varied = (roots[0],)
    options = GenerationOptions(Strategy.ALL, None, varied=varied)
    stacks = list(generator(index, roots, options).stacks())
    newest = next(generator(index, roots, GenerationOptions(Strategy.INFORMATIVE)).stacks()).pins
    assert len(stacks) > 1
    for it in stacks:
        differing = {
            name for name, version in it.pins.items() if newest.get(name, version) != version
        }
        assert differing <= set(varied)


def test_distinct_valid_stacks_are_sampled_from_a_space_too_large_to_count() -> None:
    index, roots = synthetic_index(20, 8)
    options = GenerationOptions(Strategy.RANDOM, stacks=20, state_limit=2)
    made = generator(index, roots, options)
    stacks = list(made.stacks())
    assert len({tuple(it.pins.items()) for it in stacks}) == 20
    assert all(check_stack(made.universe, it.stack) == [] for it in stacks)
    assert "approximately uniform" in made.sampling
    assert not made.size().valid.exact
    every = GenerationOptions(Strategy.ALL, state_limit=2)
    with pytest.raises(StacksTooMany):
        list(islice(generator(index, roots, every).stacks(), 1))


def test_generation_without_a_possible_stack_explains_the_conflict() -> None:
    index: Index = {"a": {"1": {"requires": ["b<2"]}}, "b": {"2": {}}}
    with pytest.raises(NoStacks, match="a 1 requires b<2"):
        list(generator(index, ["a", "b"], GenerationOptions()).stacks())


def test_generation_gives_a_reason_for_versions_in_no_stack() -> None:
    index: Index = {"a": {"2": {"requires": ["b>=2"]}, "1": {}}, "b": {"1": {}}}
    made = generator(index, ["a"], GenerationOptions(Strategy.ALL, None))
    assert [it.pins for it in made.stacks()] == [{"a": "1"}]
    (impossible,) = made.impossible()
    assert (impossible.name, impossible.versions) == ("a", ("2",))
    assert "a 2 requires b>=2" in impossible.reason


def test_informative_strategy_measures_each_version_against_the_reference() -> None:
    index: Index = {"web": {"1": {}, "2": {}, "9": {}, "10": {}}}
    made = generator(index, ["web"], GenerationOptions(Strategy.INFORMATIVE))
    stacks = list(made.stacks())
    assert [it.pins["web"] for it in stacks] == ["10", "9", "2", "1"]  # equal values: newest first
    assert "nothing is measured yet" in stacks[1].reason
    assert [check_stack(made.universe, it.stack) for it in stacks] == [[]] * 4
    assert made.sampling.endswith("stopped because nothing else is worth measuring")


def test_informative_strategy_stops_if_nothing_is_worth_measuring() -> None:
    index: Index = {"web": {"1": {}, "2": {}}}
    options = GenerationOptions(Strategy.INFORMATIVE, ranking=lambda *_: [])
    made = generator(index, ["web"], options)
    assert list(made.stacks()) == []
    assert made.sampling == "stopped because nothing else is worth measuring"


def test_generated_stacks_cover_versions_of_independent_packages() -> None:
    index: Index = {
        "app": {"1.0": {"requires": ["left", "right"]}},
        "left": {it: {} for it in ("1.0", "2.0", "3.0")},
        "right": {it: {} for it in ("1.0", "2.0")},
    }
    options = GenerationOptions(Strategy.COVERAGE, stacks=None, varied=("left", "right"))
    stacks = list(generator(index, ["app"], options).stacks())
    assert len(stacks) == 3
    for name in ("left", "right"):
        assert {it.pins[name] for it in stacks} == index[name].keys()


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


def test_informative_strategy_skips_settled_and_hopeless_versions(claims: list[Claim]) -> None:
    (value,) = job_values(claims, [], {}, {})
    assert value.purl == purl("other==4")
    assert 0 < value.chance < 1
    assert value.minutes == value.jobs > 0
    per_hour = 100 * 60 / value.minutes
    assert value.value == pytest.approx(value.chance * value.size * per_hour)


def test_value_of_a_job_grows_with_weight_and_falls_with_duration(claims: list[Claim]) -> None:
    (plain,) = job_values(claims, [], {}, {})
    (watched,) = job_values(claims, [], {"other": 3.0}, {})
    (slow,) = job_values(claims, [], {}, {"other": 2.0})
    assert watched.value == pytest.approx(3 * plain.value)
    assert slow.value == pytest.approx(plain.value / 2)


def test_unmeasured_version_is_valued_by_the_expected_effect(claims: list[Claim]) -> None:
    values = job_values(claims, [purl("new==1")], {"new": 1000.0}, {})
    assert [it.purl for it in values] == [purl("new==1"), purl("other==4")]
    assert values[0].stack is None
    assert "nothing is measured yet" in values[0].reason


def test_jobs_of_too_little_value_are_left_out(claims: list[Claim]) -> None:
    (value,) = job_values(claims, [], {}, {})
    assert job_values(claims, [], {}, {}, threshold=value.value) == [value]
    assert job_values(claims, [], {}, {}, threshold=value.value * 1.01) == []
    assert job_values(claims, [], {"other": 0.0}, {}) == []


def test_planned_number_of_jobs_maximises_the_chance_per_job(claims: list[Claim]) -> None:
    """A difference that no number of jobs is likely to settle still has a small value."""
    (value,) = job_values(claims, [], {}, {})
    (claim,) = (it for it in claims if it.purl == purl("other==4"))
    assert value.jobs % 2 == 0
    out_of_reach = replace(claim, needs=Need.MARGIN, jobs_missing=0, baseline_jobs_missing=0)
    assert job_values([out_of_reach], [], {}, {})[0].value > 0


def test_wide_interval_needs_more_jobs_and_has_less_value(claims: list[Claim]) -> None:
    (claim,) = (it for it in claims if it.purl == purl("other==4"))
    middle = claim.observed_pct
    narrow, wide = (
        replace(
            claim, needs=Need.JOBS, interval_low_pct=middle - half, interval_high_pct=middle + half
        )
        for half in (2.0, 12.0)
    )
    (sure,), (unsure,) = (job_values([it], [], {}, {}) for it in (narrow, wide))
    assert sure.jobs < unsure.jobs
    assert sure.value > unsure.value


@pytest.mark.slow
@pytest.mark.parametrize("gains", [(0.1, 0.1, 0.1), (0.08, 0.1, 0.12)])
def test_informative_strategy_needs_half_the_jobs_of_random(gains: tuple[float, ...]) -> None:
    truth = PlantedVersions(gains + (0.0,) * 16)
    valued = searched(truth, 30, 1, informative=True)
    drawn = searched(truth, 30, 1, informative=False)
    # Of a difference measured in a few nights, these may happen to disagree.
    assert sum(it.settled for it in valued) >= 88
    assert fmean(it.jobs for it in valued) <= 0.5 * fmean(it.jobs for it in drawn)
    assert all(it.stopped and not it.false for it in valued)


def test_informative_strategy_stops_without_claims_if_nothing_differs() -> None:
    outcomes = searched(PlantedVersions((0.0,) * 19), 12, 1, informative=True)
    assert all(it.stopped and not it.false for it in outcomes)
