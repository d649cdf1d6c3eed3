"""Which versions a range affects: OSV's evaluation in PEP 440 order."""

from __future__ import annotations

import pytest

from model.advisories import AffectedPackage, Range, RangeEvent, RangeEventKind, VersionLine

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
def test_a_listed_version_means_all_that_are_equal_to_it(version: str, listed: str) -> None:
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
def test_a_range_affects_the_versions_that_osv_says(
    ranges: list[str], given: dict[str, tuple[str, ...]], expected: str
) -> None:
    assert found(*map(events, ranges), **given) == expected.split()
