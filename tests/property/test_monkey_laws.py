"""Laws of Dependency Monkey: its spaces hold exactly the stacks that trying everything finds."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product

import pytest
from scipy.stats import chisquare

from adviser.monkey.coverage import CoveringArray
from adviser.monkey.space import SpaceTooLarge, StackSpace, distinct_ranks, group_versions
from adviser.monkey.strategies import closed_universe
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_stack
from adviser.resolver.resolve import resolved_stack
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.universe import Universe
from tests.effort import examples
from tests.factories.drawn_indexes import VERSIONS, drawn_requirement, drawn_universe
from tests.factories.stacks_by_force import stacks_by_force
from tests.factories.universes import newest_scores, snapshot_of, synthetic_index

CASES = range(examples(800))


def drawn_spaces(seed: int) -> Universe:
    """Every other universe is without unknown packages, so that it has more stacks."""
    if seed % 2:
        return closed_universe(drawn_universe(seed))
    draw = random.Random(seed)
    index = {
        name: {
            version: {
                "requires": [
                    text
                    for text in (drawn_requirement(draw) for _ in range(draw.randint(0, 3)))
                    if text[0] in "abc"
                ],
                "yanked": draw.random() < 0.15,
                "extras": ["x", "y"],
            }
            for version in VERSIONS[:: draw.randint(1, 2)]
        }
        for name in "abc"
    }
    snapshot = snapshot_of(index, draw.sample(["a", "b[x]", "c", "a>=1.5", "b"], 2))
    return closed_universe(universe_of(snapshot, ResolverRequest(), newest_scores(snapshot)))


def versions_in(universe: Universe, space: StackSpace) -> Iterator[frozenset[tuple[str, str]]]:
    for rank in range(space.count()):
        stack = resolved_stack(universe, space.classes.problem, frozenset(space.stack(rank)))
        assert check_stack(universe, stack) == []
        yield frozenset(stack.versions().items())


def test_stack_generator_enumerates_exactly_the_valid_stacks() -> None:
    sizes = []
    for seed in CASES:
        universe = drawn_spaces(seed)
        expected = [frozenset(versions.items()) for _, versions in stacks_by_force(universe)]
        listed = list(versions_in(universe, StackSpace(group_versions(universe))))
        assert len(listed) == len(set(listed)), seed
        assert set(listed) == set(expected), seed
        sizes.append(len(listed))
    assert sum(it > 2 for it in sizes) > len(CASES) / 4
    assert min(sizes) == 0


def test_stack_generator_samples_every_stack_with_equal_probability() -> None:
    """Pearson's test over the stacks of a space with unequal branches."""
    index = {
        "a": {f"{it}.0": {"requires": ["b<3"] if it % 2 else ["b", "c"]} for it in range(1, 6)},
        "b": {f"{it}.0": {"requires": ["c>=2"] if it > 2 else []} for it in range(1, 5)},
        "c": {f"{it}.0": {} for it in range(1, 4)},
    }
    snapshot = snapshot_of(index, ["a"])
    space = StackSpace(
        group_versions(closed_universe(universe_of(snapshot, ResolverRequest(), {})))
    )
    total = space.count()
    drawn = Counter(space.stack(next(distinct_ranks(total, seed))) for seed in range(200 * total))
    assert len(drawn) == total > 20
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_sampled_stack_numbers_are_distinct_and_reproducible() -> None:
    for total in (0, 1, 2, 7, 100):
        for seed in range(20):
            ranks = list(distinct_ranks(total, seed))
            assert sorted(ranks) == list(range(total))
            assert ranks == list(distinct_ranks(total, seed))


def test_estimated_number_of_stacks_agrees_with_the_exact_number() -> None:
    """An interval of 95 % holds the truth in about 95 of 100 estimates."""
    inside = cases = 0
    for seed in range(examples(400)):
        index, roots = synthetic_index(6, 8, seed=seed)
        universe = closed_universe(universe_of(snapshot_of(index, roots), ResolverRequest(), {}))
        space = StackSpace(group_versions(universe))
        exact = space.count()
        limited = StackSpace(space.classes, limit=0)
        with pytest.raises(SpaceTooLarge):
            limited.count()
        size = limited.size(random.Random(seed), samples=400)
        assert not size.exact
        inside += size.low <= exact <= size.high
        cases += exact > 20
    assert cases > 20
    assert inside >= 0.85 * examples(400)


def test_generated_stacks_cover_all_and_only_possible_version_pairs() -> None:
    """Checked by trying everything, without the generator's diagram."""
    infeasible = 0
    for seed in CASES:
        universe = drawn_spaces(seed)
        space = StackSpace(group_versions(universe))
        possible = [versions for _, versions in stacks_by_force(universe)]
        requires = interactions(universe, possible)
        for strength in (1, 2, 3):
            array = CoveringArray(space, universe.direct, strength=strength)
            problem = space.classes.problem
            generated = [
                resolved_stack(universe, problem, frozenset(nodes)).versions()
                for nodes, _, _ in array.stacks()
            ]
            size = min(strength, len(problem.names)) or 1
            wanted = occurring(possible, size, requires)
            assert occurring(generated, size, requires) == wanted, (seed, strength)
            assert all(it in possible for it in generated), seed
            for pair in array.infeasible:
                infeasible += 1
                versions = [
                    {
                        (problem.names[package], universe.packages[problem.names[package]][place])
                        for place in (
                            problem.nodes[node].place
                            for node in space.classes.packages[package].classes[one].nodes
                        )
                    }
                    for package, one in pair
                ]
                for combination in product(*versions):
                    named = {(name, it.version) for name, it in combination}
                    assert not any(named <= set(stack.items()) for stack in possible), seed
    assert infeasible > 20


def occurring(
    stacks: list[dict[str, str]], size: int, requires: dict[str, set[str]]
) -> set[frozenset[tuple[str, str]]]:
    """Combinations of versions that occur in some stack and can interact.

    :param requires: by package, the packages with which it interacts
    """
    return {
        frozenset(group)
        for stack in stacks
        for group in combinations(sorted(stack.items()), size)
        if all(
            one[0] in requires[other[0]] or other[0] in requires[one[0]]
            for one, other in combinations(group, 2)
        )
    }


def interactions(universe: Universe, stacks: list[dict[str, str]]) -> dict[str, set[str]]:
    """By package, those that occurring versions require, directly or through others."""
    requires: dict[str, set[str]] = {name: set() for stack in stacks for name in stack}
    for name, version in {pin for stack in stacks for pin in stack.items()}:
        for candidate in universe.packages[name]:
            if candidate.version == version:
                always = (it.name for it in candidate.requires if it.extra is None)
                requires[name] |= {it for it in always if it in requires}
    for middle, further in requires.items():
        for required in requires.values():
            if middle in required:
                required.update(further)
    for name in set(universe.direct) & requires.keys():
        requires[name] |= set(universe.direct)
    return requires
