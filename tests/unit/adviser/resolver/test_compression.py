"""Compression: what is kept, and that nothing is lost by it."""

from __future__ import annotations

from adviser.resolver.admission import universe_of
from adviser.resolver.compression import compress
from adviser.resolver.resolve import resolve
from adviser.resolver.resolver_request import ResolverRequest
from tests.factories.universes import Index, snapshot_of, synthetic_index


def kept(index: Index, *roots: str, keep: int = 1) -> dict[str, list[int]]:
    """Places of the kept versions by package."""
    problem = compress(universe_of(snapshot_of(index, roots), ResolverRequest(), {}), keep)
    places: dict[str, list[int]] = {name: [] for name in problem.names}
    for node in problem.nodes:
        places[problem.names[node.package]].append(node.place)
    return places


def test_interchangeable_versions_are_one() -> None:
    index = {"app": {"1.0": {"requires": ["lib>=3"]}}, "lib": {f"{v}.0": {} for v in range(1, 9)}}
    assert kept(index, "app", "lib") == {"app": [0], "lib": [0, 6]}
    assert kept(index, "app", "lib", keep=3)["lib"] == [0, 1, 2, 6, 7]


def test_texts_that_admit_the_same_versions_are_the_same_requirement() -> None:
    index = {
        "app": {"2.0": {"requires": ["lib>=1.5"]}, "1.0": {"requires": ["lib>1.0,<9"]}},
        "lib": {"2.0": {}, "1.0": {}},
    }
    assert kept(index, "app") == {"app": [0], "lib": [0]}


def test_the_best_score_of_a_class_is_kept() -> None:
    snapshot = snapshot_of({"app": {"3.0": {}, "2.0": {}, "1.0": {}}}, ["app"])
    scores = {snapshot.packages["app"][1].purl: (5,)}
    problem = compress(universe_of(snapshot, ResolverRequest(), scores))
    assert [(node.place, node.first) for node in problem.nodes] == [(1, 0)]


def test_what_nothing_leads_to_and_what_leads_nowhere_is_dropped() -> None:
    index = {
        "app": {"2.0": {"requires": ["nowhere"]}, "1.0": {"requires": ["lib"]}},
        "lib": {"2.0": {}, "1.0": {"requires": ["more"]}},
        "more": {"1.0": {"requires": ["app>=2"]}},
    }
    assert kept(index, "app") == {"app": [1], "lib": [0]}


def test_equal_problems_have_equal_digests() -> None:
    index, roots = synthetic_index(20, 6)
    first, second = (
        universe_of(snapshot_of(index, order), ResolverRequest(), {})
        for order in (roots, roots[::-1])
    )
    assert compress(first).digest == compress(second).digest
    other = universe_of(snapshot_of(index, [f"{roots[0]}<3"]), ResolverRequest(), {})
    assert compress(other).digest != compress(first).digest


def test_the_counts_are_reported() -> None:
    sizes = resolve(universe_of(snapshot_of(*synthetic_index(30, 12)), ResolverRequest(), {})).sizes
    assert 0 < sizes.kept < sizes.versions
    assert sizes.packages <= 30
