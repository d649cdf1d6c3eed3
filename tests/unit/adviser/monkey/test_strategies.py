"""Strategies of Dependency Monkey on small universes."""

from __future__ import annotations

from itertools import islice

import pytest

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
from tests.factories.universes import Index, newest_scores, snapshot_of, synthetic_index

FLASK_AND_TENSORFLOW: Index = {
    "flask": {f"0.{it}": {} for it in range(28)},
    "tensorflow": {f"1.{it}": {} for it in range(59)},
}


def generator(index: Index, roots: list[str], options: GenerationOptions) -> StackGenerator:
    snapshot = snapshot_of(index, roots)
    universe = universe_of(snapshot, ResolverRequest(), newest_scores(snapshot))
    return StackGenerator(universe, options)


def test_the_product_of_tensorflow_and_flask_is_that_of_the_articles() -> None:
    size = generator(
        FLASK_AND_TENSORFLOW, ["flask", "tensorflow"], GenerationOptions(Strategy.ALL)
    ).size()
    assert size.direct_product == size.raw_product == 59 * 28 == 1652
    assert (size.valid.exact, size.valid.estimate) == (True, 1652)


@pytest.mark.parametrize("strategy", [it for it in Strategy if it is not Strategy.INFORMATIVE])
def test_stacks_are_valid_and_different_and_the_same_in_every_run(strategy: Strategy) -> None:
    index, roots = synthetic_index(20, 8)
    options = GenerationOptions(strategy, stacks=40, seed=3)
    made = generator(index, roots, options)
    stacks = list(made.stacks())
    assert len({tuple(it.pins.items()) for it in stacks}) == len(stacks) == 40
    assert all(check_stack(made.universe, it.stack) == [] for it in stacks)
    assert all(it.reason for it in stacks)
    assert list(generator(index, roots, options).stacks()) == stacks


def test_more_stacks_begin_with_the_same_stacks() -> None:
    index, roots = synthetic_index(20, 8)
    for strategy in Strategy:
        few, many = (
            list(generator(index, roots, GenerationOptions(strategy, stacks=it)).stacks())
            for it in (5, 15)
        )
        assert many[:5] == few


def test_only_named_packages_vary() -> None:
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


def test_a_space_beyond_the_limit_is_sampled_by_walks() -> None:
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


def test_a_request_without_stacks_is_explained() -> None:
    index: Index = {"a": {"1": {"requires": ["b<2"]}}, "b": {"2": {}}}
    with pytest.raises(NoStacks, match="a 1 requires b<2"):
        list(generator(index, ["a", "b"], GenerationOptions()).stacks())


def test_versions_that_no_stack_contains_have_a_reason() -> None:
    index: Index = {"a": {"2": {"requires": ["b>=2"]}, "1": {}}, "b": {"1": {}}}
    made = generator(index, ["a"], GenerationOptions(Strategy.ALL, None))
    assert [it.pins for it in made.stacks()] == [{"a": "1"}]
    (impossible,) = made.impossible()
    assert (impossible.name, impossible.versions) == ("a", ("2",))
    assert "a 2 requires b>=2" in impossible.reason


def test_informative_measures_each_other_version_beside_the_reference() -> None:
    index: Index = {"web": {"1": {}, "2": {}, "9": {}, "10": {}}}
    made = generator(index, ["web"], GenerationOptions(Strategy.INFORMATIVE))
    stacks = list(made.stacks())
    assert [it.pins["web"] for it in stacks] == ["10", "9", "2", "1"]  # equal values: newest first
    assert "nothing is measured yet" in stacks[1].reason
    assert [check_stack(made.universe, it.stack) for it in stacks] == [[]] * 4
    assert made.sampling.endswith("stopped because nothing else is worth measuring")


def test_informative_measures_nothing_if_nothing_is_worth_its_time() -> None:
    index: Index = {"web": {"1": {}, "2": {}}}
    options = GenerationOptions(Strategy.INFORMATIVE, ranking=lambda *_: [])
    made = generator(index, ["web"], options)
    assert list(made.stacks()) == []
    assert made.sampling == "stopped because nothing else is worth measuring"


def test_versions_of_packages_that_cannot_interact_are_covered_each() -> None:
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
