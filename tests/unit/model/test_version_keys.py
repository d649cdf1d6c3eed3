"""Keys of versions, by which stores that know no versions sort them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from model.packages.identity import version_key

numbers = st.one_of(st.integers(0, 12), st.integers(0, 10**12))


def some(text: str, number: st.SearchStrategy[int] = numbers) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), number.map(lambda it: f"{text}{it}"))


local = st.lists(
    st.one_of(numbers.map(str), st.from_regex(r"[a-z][a-z0-9]{0,3}", fullmatch=True)),
    min_size=1, max_size=3,
).map(lambda parts: "+" + ".".join(parts))  # fmt: skip
versions = st.builds(
    "{}{}{}{}{}{}".format,
    st.one_of(st.just(""), numbers.map(lambda it: f"{it}!")),
    st.lists(numbers, min_size=1, max_size=4).map(lambda it: ".".join(map(str, it))),
    st.one_of(some("a"), some("b"), some("rc")),
    some(".post"),
    some(".dev"),
    st.one_of(st.just(""), local),
)


@given(versions, versions)
def test_two_keys_compare_as_their_versions_do(one: str, other: str) -> None:
    ours, theirs = version_key(one), version_key(other)
    assert (ours < theirs) == (Version(one) < Version(other))
    assert (ours == theirs) == (Version(one) == Version(other))


@given(versions)
def test_what_is_no_version_comes_first(version: str) -> None:
    assert version_key("not a version") < version_key(version)
