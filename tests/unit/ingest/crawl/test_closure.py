"""What a crawl looks at next."""

from __future__ import annotations

from ingest.crawl.closure import FollowedPackage, RequirementClosure, WantedPackage
from model.packages.releases import Requirement, parse_requirement


def lines(*raw: str) -> tuple[Requirement, ...]:
    return tuple(map(parse_requirement, raw))


def names(layer: list[FollowedPackage]) -> list[str]:
    """What a layer has, taken as looked at."""
    for package in layer:
        package.fresh.clear()
    return [package.name for package in layer]


def begun(*roots: WantedPackage, most: int = 100) -> RequirementClosure:
    closure = RequirementClosure(most)
    closure.want(roots)
    assert names(closure.next_layer()) == sorted(root.name for root in roots)
    return closure


def test_layers_go_from_the_roots_outwards_and_end() -> None:
    closure = begun(WantedPackage("a"))
    closure.learn("a", "1", lines("c", "b>=1"))
    closure.learn("a", "2", lines("b>=1"))
    assert names(closure.next_layer()) == ["b", "c"]
    closure.learn("b", "1", lines("a"))
    assert closure.next_layer() == []


def test_what_holds_nowhere_and_what_has_an_address_is_not_followed() -> None:
    closure = begun(WantedPackage("a"))
    closure.learn(
        "a", "1",
        lines("b ; python_version < '3'", "c ; extra == 'x'", "d @ https://host.example/d.whl",
              "not a requirement", "e ; os_name == 'nt'"),
    )  # fmt: skip
    assert names(closure.next_layer()) == ["e"]


def test_a_package_comes_again_for_a_specifier_that_it_did_not_meet_before() -> None:
    closure = begun(WantedPackage("a"), WantedPackage("b"))
    closure.learn("a", "1", lines("b<2"))
    (again,) = closure.next_layer()
    assert (again.name, again.fresh) == ("b", {"<2"})
    again.fresh.clear()
    closure.learn("a", "2", lines("b<2"))
    assert closure.next_layer() == []


def test_an_extra_that_is_asked_for_late_is_followed_in_what_was_read_before() -> None:
    closure = begun(WantedPackage("a"), WantedPackage("b"))
    closure.learn("b", "1", lines("c ; extra == 'net'"))
    closure.learn("a", "1", lines("b[net]"))
    assert names(closure.next_layer()) == ["c"]


def test_an_extra_that_is_asked_for_first_is_followed_in_what_is_read_later() -> None:
    closure = begun(WantedPackage("b", extras=frozenset({"net"})))
    closure.learn("b", "1", lines("c ; extra == 'net'", "d ; extra == 'other'"))
    assert names(closure.next_layer()) == ["c"]


def test_circular_extras_end() -> None:
    closure = begun(WantedPackage("a", extras=frozenset({"all"})))
    closure.learn(
        "a", "1",
        lines("a[all,x] ; extra == 'all'", "b[y] ; extra == 'x'", "a[all] ; extra == 'x'"),
    )  # fmt: skip
    assert names(closure.next_layer()) == ["b"]
    closure.learn("b", "1", lines("b[y] ; extra == 'y'", "a[x] ; extra == 'y'"))
    assert closure.next_layer() == []
    assert closure.followed["a"].extras == {"all", "x"}


def test_names_beyond_the_bound_are_reported_and_not_followed() -> None:
    closure = begun(WantedPackage("a"), most=3)
    closure.learn("a", "1", lines("b", "c", "d"))
    assert names(closure.next_layer()) == ["b", "c"]
    assert closure.left_out == {"d"}
    closure.learn("b", "1", lines("d", "e"))
    assert closure.next_layer() == []
    assert closure.left_out == {"d", "e"}
