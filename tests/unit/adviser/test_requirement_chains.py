"""Chains of requirements: shortest, one for each start, and in graphs with circles."""

from __future__ import annotations

from adviser.requirement_chains import chains_to, starting_releases


def test_each_start_has_a_shortest_chain() -> None:
    edges = {"a": {"b": "b>=1", "c": "c"}, "b": {"d": "d"}, "c": {"b": "b"}, "e": {"d": "d<2"}}
    chains = chains_to("d", ["a", "e", "f"], edges)
    assert [it.releases for it in chains] == [("a", "b", "d"), ("e", "d")]
    assert [it.requirements for it in chains] == [("b>=1", "d"), ("d<2",)]


def test_a_release_leads_to_itself_without_a_requirement() -> None:
    (chain,) = chains_to("a", ["a"], {})
    assert (chain.releases, chain.requirements) == (("a",), ())


def test_a_circle_has_chains_and_starts() -> None:
    edges = {"a": {"b": "b"}, "b": {"a": "a"}}
    assert starting_releases(["a", "b"], edges) == ["a", "b"]
    assert [it.releases for it in chains_to("b", ["a", "b"], edges)] == [("a", "b"), ("b",)]
