"""Laws of closures and snapshots: order leaves no trace, and everything reached is there."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from graph.snapshot_reader import freeze, walk
from model.packages.candidate_builder import roots_of
from model.packages.environments import environment
from model.packages.snapshot import Snapshot
from tests.effort import examples
from tests.factories.drawn_worlds import requests, worlds
from tests.factories.worlds import World, reader_of

LINUX = environment("3.11", "manylinux_2_28_x86_64")
MANY = settings(max_examples=examples(150), deadline=None)


def snapshot(world: World, roots: list[str], shuffle: random.Random | None = None) -> Snapshot:
    wanted = roots_of(roots, LINUX)
    return freeze(walk(reader_of(world, shuffle), wanted, LINUX), {}, wanted, LINUX)


@MANY
@given(worlds, requests, st.integers(0, 10**6))
def test_snapshot_does_not_depend_on_the_order_of_requirements_or_reads(
    world: World, roots: list[str], seed: int
) -> None:
    draw = random.Random(seed)
    mixed = list(world), list(roots)
    for each in mixed:
        draw.shuffle(each)
    one, other = snapshot(world, roots), snapshot(*mixed, draw)
    assert one == other
    assert one.to_json() == other.to_json()


@MANY
@given(worlds, requests)
def test_snapshot_contains_each_required_package_or_lists_it_as_missing(
    world: World, roots: list[str]
) -> None:
    found = snapshot(world, roots)
    candidates = [it for package in found.packages.values() for it in package]
    for dependency in (*found.roots, *(it for each in candidates for it in each.requires)):
        assert dependency.name in found.packages or dependency.name in found.missing
        if dependency.name in found.packages:
            assert set(dependency.extras) <= set(found.extras[dependency.name])
    assert not set(found.packages) & set(found.missing)
    assert sorted(name for layer in found.layers for name in layer) == sorted(found.revisions)


@MANY
@given(worlds, requests, requests)
def test_snapshot_of_a_larger_request_has_all_candidates_of_the_smaller(
    world: World, roots: list[str], more: list[str]
) -> None:
    small, large = snapshot(world, roots), snapshot(world, roots + more)
    for name, candidates in small.packages.items():
        assert [it.purl for it in candidates] == [it.purl for it in large.packages[name]]
        for one, other in zip(candidates, large.packages[name], strict=True):
            assert set(one.requires) <= set(other.requires)


@MANY
@given(worlds, requests)
def test_snapshot_is_read_back_from_json(world: World, roots: list[str]) -> None:
    found = snapshot(world, roots)
    assert Snapshot.from_json(found.to_json()) == found


@MANY
@given(worlds, requests, st.data())
def test_snapshot_revision_changes_exactly_with_the_content(
    world: World, roots: list[str], data: st.DataObject
) -> None:
    other = data.draw(worlds)
    one, another = snapshot(world, roots), snapshot([*world[1:], *other[:1]], roots)
    same = (one.packages, one.excluded, one.missing, one.extras, one.roots) == (
        another.packages, another.excluded, another.missing, another.extras, another.roots,
    )  # fmt: skip
    assert (one.revision == another.revision) == same
