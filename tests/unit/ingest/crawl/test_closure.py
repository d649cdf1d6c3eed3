"""What a crawl looks at next, and which markers could hold somewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker, default_environment

from ingest.crawl.closure import FollowedPackage, RequirementClosure, WantedPackage, could_hold
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


def test_crawl_proceeds_layer_by_layer_until_no_package_is_new() -> None:
    closure = begun(WantedPackage("a"))
    closure.learn("a", "1", lines("c", "b>=1"))
    closure.learn("a", "2", lines("b>=1"))
    assert names(closure.next_layer()) == ["b", "c"]
    closure.learn("b", "1", lines("a"))
    assert closure.next_layer() == []


def test_inapplicable_and_url_requirements_are_not_followed() -> None:
    closure = begun(WantedPackage("a"))
    closure.learn(
        "a", "1",
        lines("b ; python_version < '3'", "c ; extra == 'x'", "d @ https://host.example/d.whl",
              "not a requirement", "e ; os_name == 'nt'"),
    )  # fmt: skip
    assert names(closure.next_layer()) == ["e"]


def test_crawl_reads_a_package_again_for_an_unmet_specifier() -> None:
    closure = begun(WantedPackage("a"), WantedPackage("b"))
    closure.learn("a", "1", lines("b<2"))
    (again,) = closure.next_layer()
    assert (again.name, again.fresh) == ("b", {"<2"})
    again.fresh.clear()
    closure.learn("a", "2", lines("b<2"))
    assert closure.next_layer() == []


def test_crawl_follows_a_late_extra_in_releases_already_read() -> None:
    closure = begun(WantedPackage("a"), WantedPackage("b"))
    closure.learn("b", "1", lines("c ; extra == 'net'"))
    closure.learn("a", "1", lines("b[net]"))
    assert names(closure.next_layer()) == ["c"]


def test_crawl_follows_an_early_extra_in_releases_read_later() -> None:
    closure = begun(WantedPackage("b", extras=frozenset({"net"})))
    closure.learn("b", "1", lines("c ; extra == 'net'", "d ; extra == 'other'"))
    assert names(closure.next_layer()) == ["c"]


def test_crawl_of_circular_extras_ends() -> None:
    closure = begun(WantedPackage("a", extras=frozenset({"all"})))
    closure.learn(
        "a", "1", lines("a[all,x] ; extra == 'all'", "b[y] ; extra == 'x'", "a[all] ; extra == 'x'")
    )
    assert names(closure.next_layer()) == ["b"]
    closure.learn("b", "1", lines("b[y] ; extra == 'y'", "a[x] ; extra == 'y'"))
    assert closure.next_layer() == []
    assert closure.followed["a"].extras == {"all", "x"}


def test_packages_beyond_the_crawl_limit_are_reported_and_not_read() -> None:
    closure = begun(WantedPackage("a"), most=3)
    closure.learn("a", "1", lines("b", "c", "d"))
    assert names(closure.next_layer()) == ["b", "c"]
    assert closure.left_out == {"d"}
    closure.learn("b", "1", lines("d", "e"))
    assert closure.next_layer() == []
    assert closure.left_out == {"d", "e"}


def marker(text: str) -> str | None:
    """The canonical text of a marker, as requirements have it."""
    return parse_requirement(f"a ; {text}").marker


@pytest.mark.parametrize(
    "text",
    [
        "python_version < '3.8'",
        "python_version >= '3.13'",
        "'3.8' <= python_version",
        "python_version == '3.9.*'",
        "python_full_version < '3.11.0a7'",
        "python_full_version == '3.6.9'",
        "python_version in '3.8, 3.9'",
        "sys_platform == 'win32' and platform_machine != 'arm64'",
        "python_version < '3' or os_name == 'nt'",
        "python_version ~= '3.8'",
        "platform_python_implementation === 'PyPy'",
        "extra != 'net'",
    ],
)
def test_crawl_follows_requirements_that_apply_in_some_environment(text: str) -> None:
    assert could_hold(marker(text))


@pytest.mark.parametrize(
    "text",
    [
        "python_version < '3'",
        "python_version == '2.7'",
        "'3' > python_version",
        "python_full_version <= '2.7.18'",
        "os_name == 'nt' and python_version < '3.0'",
        "extra == 'net'",
        "(os_name == 'nt' or os_name == 'posix') and extra == 'net'",
        "python_version < '3.6' and python_version >= '3.9'",
    ],
)
def test_crawl_ignores_requirements_that_apply_in_no_environment(text: str) -> None:
    assert not could_hold(marker(text))


def test_crawl_follows_a_requested_extra_in_any_spelling() -> None:
    text = marker("extra == 'Net_Work' and python_version >= '3.8'")
    assert could_hold(text, "net-work")
    assert not could_hold(text, "other")
    assert not could_hold(marker("extra == 'net' and python_version < '3'"), "net")


def test_crawl_follows_requirements_with_an_invalid_marker() -> None:
    assert could_hold("((((")
    assert could_hold("(" * 500 + "os_name == 'nt'" + ")" * 500)


_ATOMS = st.sampled_from(
    [
        "python_version < '3.8'", "python_version >= '3.11'", "python_full_version != '3.11.2'",
        "sys_platform == 'win32'", "sys_platform != 'linux'", "extra == 'a'", "extra == 'b'",
        "platform_machine in 'x86_64 arm64'", "python_version not in '3.8 3.9'",
    ]
)  # fmt: skip
_MARKERS = st.recursive(
    _ATOMS,
    lambda inner: st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
        lambda it: f"({it[0]}) {it[1]} ({it[2]})"
    ),
    max_leaves=6,
)


@given(_MARKERS, st.sampled_from(["", "a", "b"]), st.sampled_from(["3.7", "3.9", "3.11", "3.13"]))
def test_crawl_follows_requirements_that_apply_in_any_generated_environment(
    text: str, extra: str, python: str
) -> None:
    environment = {**default_environment(), "python_version": python, "extra": extra}
    environment |= {"python_full_version": f"{python}.2", "sys_platform": "win32"}
    if Marker(text).evaluate(environment):
        assert could_hold(marker(text), extra)
