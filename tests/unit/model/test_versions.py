"""Versions: ranges that advisories affect, old specifiers, keys of order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import InvalidSpecifier
from packaging.version import Version

from model.advisories import AffectedPackage, Range, RangeEvent, RangeEventKind, VersionLine
from model.packages.identity import version_key
from model.packages.releases import parse_requirement, specifier_set

VERSIONS = ("0.9", "1.0rc1", "1.0", "1.0.post1", "1.1", "2.0.dev1", "2.0", "1!0.1")


def found(
    *ranges: Range, versions: tuple[str, ...] = VERSIONS, listed: tuple[str, ...] = ()
) -> list[str]:
    line = VersionLine(versions)
    affected = line.affected(AffectedPackage("x", ranges, listed))
    return [version for version in line.ordered if version in affected]


@pytest.mark.parametrize(
    ("version", "listed"),
    [("1.0.0", "1.0"), ("1", "1.0"), ("1.0.0-beta1", "1.0b1"), ("2.0.0+cu118", "2.0"),
     ("2.0+a.1", "2.0.0+a-1"), ("v1.0", "1"), ("final-2004", "final-2004")],
)  # fmt: skip
def test_listed_affected_version_matches_equal_versions(version: str, listed: str) -> None:
    assert found(versions=(version, "3.0"), listed=(listed,)) == [version]
    assert found(versions=("2.0",), listed=("2.0.0+cu118", "final")) == []


def events(text: str) -> Range:
    """Events such as ``introduced 1.0, fixed 1.1``, in this order."""
    pairs = (it.split() for it in text.split(", "))
    return tuple(RangeEvent(RangeEventKind(kind), version) for kind, version in pairs)


BUILDS = ("2.0.1", "2.0.1+cu118", "2.0.2+cu118")
PATCHES = ("2.0", "2.0+patch1", "2.0+patch2")
REST: dict[str, tuple[str, ...]] = {}


@pytest.mark.parametrize(
    ("ranges", "given", "expected"),
    [
        (["introduced 1.0, fixed 1.1"], REST, "1.0 1.0.post1"),
        (["introduced 0, fixed 1.0"], REST, "0.9 1.0rc1"),
        (["introduced 0"], {"versions": ("0.dev1", "0a1")}, "0.dev1 0a1"),
        (["introduced 1.1, last_affected 2.0"], REST, "1.1 2.0.dev1 2.0"),
        # Events are taken in the order of versions; those of one version in that of the document.
        (["fixed 2.0, introduced 2.0.dev1, fixed 1.0, introduced 0"], REST, "0.9 1.0rc1 2.0.dev1"),
        (["introduced 1.0, fixed 1.0"], REST, ""),
        (["introduced 0, fixed 1.1, introduced 1.1"], REST,
         "0.9 1.0rc1 1.0 1.0.post1 1.1 2.0.dev1 2.0 1!0.1"),
        # An epoch is later than any version without one.
        (["introduced 2.0"], REST, "2.0 1!0.1"),
        # Nothing at or above a limit is affected; several limits are alternatives.
        (["introduced 0, limit 1.0"], REST, "0.9 1.0rc1"),
        (["introduced 1.1, limit 1.0, limit 2.0"], REST, "1.1 2.0.dev1"),
        (["introduced 2.0, limit *"], REST, "2.0 1!0.1"),
        # One of several ranges is enough, and so is a list.
        (["introduced 0, fixed 1.0rc1", "introduced 1!0"], {"listed": ("2.0",)}, "0.9 2.0 1!0.1"),
        # A local build is affected as the release that it is built from.
        (["introduced 0, last_affected 2.0.1"], {"versions": BUILDS}, "2.0.1 2.0.1+cu118"),
        (["introduced 0, fixed 2.0.2"], {"versions": BUILDS}, "2.0.1 2.0.1+cu118"),
        ([], {"versions": BUILDS, "listed": ("2.0.1",)}, "2.0.1 2.0.1+cu118"),
        # An advisory may name a local version itself.
        ([], {"versions": PATCHES, "listed": ("2.0+patch1",)}, "2.0+patch1"),
        (["introduced 0, fixed 2.0+patch2"], {"versions": PATCHES}, "2.0 2.0+patch1"),
        # What is no version can only be listed.
        (["introduced 0"], {"versions": ("final-2004", "1.0")}, "1.0"),
        ([], {"versions": ("final-2004", "1.0"), "listed": ("final-2004",)}, "final-2004"),
    ],
)  # fmt: skip
def test_version_range_affects_exactly_the_versions_that_osv_defines(
    ranges: list[str], given: dict[str, tuple[str, ...]], expected: str
) -> None:
    assert found(*map(events, ranges), **given) == expected.split()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (">=1.19.*", ">=1.19"),
        ("< 3.4.*, >=2.7", "<3.4,>=2.7"),
        (">=7.2.0<8.0.0", ">=7.2.0,<8.0.0"),
        ("!=~5.0,>=4.12", "!=5.0.*,>=4.12"),
        (">=2.7,!=3.0*", ">=2.7,!=3.0.*"),
        (">=3.6,", ">=3.6"),
        (">dev", ">0.0.0.dev0"),
        (">=9.0a1.0", ">=9.0a1"),
        (">=3.6', !=3.7.*'", ">=3.6,!=3.7.*"),
        (">=1.2.*<2.*',", ">=1.2,<2"),
    ],
)
def test_historic_specifier_is_read_leniently(written: str, read: str) -> None:
    assert specifier_set(written) == specifier_set(read)
    for raw in (f"boto3{written}", f"a2[x.y] ({written}); python_version >= '3.6'"):
        requirement = parse_requirement(raw)
        assert specifier_set(requirement.specifier) == specifier_set(read)
        assert requirement.name in ("boto3", "a2")
        assert requirement.extras == (("x-y",) if "[" in raw else ())
        assert requirement.marker == ('python_version >= "3.6"' if "[" in raw else None)
    assert parse_requirement(f"a {read}").problem is None


def test_leniently_read_specifier_is_reported() -> None:
    requirement = parse_requirement("numpy (>=1.19.*)")
    assert requirement.problem is not None
    assert "'numpy (>=1.19.*)' is not valid and is read as numpy>=1.19;" in requirement.problem


@pytest.mark.parametrize("raw", ["numpy>=x.*", "numpy ~> 1", "a b", "a @ ", "numpy=='"])
def test_meaningless_requirement_is_not_repaired(raw: str) -> None:
    assert parse_requirement(raw).name is None
    with pytest.raises(InvalidSpecifier):
        specifier_set(">=x.*")


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
def test_version_keys_are_ordered_like_versions(one: str, other: str) -> None:
    ours, theirs = version_key(one), version_key(other)
    assert (ours < theirs) == (Version(one) < Version(other))
    assert (ours == theirs) == (Version(one) == Version(other))


@given(versions)
def test_invalid_version_sorts_first(version: str) -> None:
    assert version_key("not a version") < version_key(version)
