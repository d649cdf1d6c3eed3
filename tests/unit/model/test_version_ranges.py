"""Which versions a range affects: OSV's evaluation in PEP 440 order."""

from __future__ import annotations

import pytest

from model.advisories import AffectedPackage, Range, RangeEvent, RangeEventKind, VersionLine

VERSIONS = ("0.9", "1.0rc1", "1.0", "1.0.post1", "1.1", "2.0.dev1", "2.0", "1!0.1")


def ends(*pairs: tuple[str, str]) -> Range:
    return tuple(RangeEvent(RangeEventKind(kind), version) for kind, version in pairs)


def found(
    *ranges: Range, versions: tuple[str, ...] = VERSIONS, listed: tuple[str, ...] = ()
) -> list[str]:
    line = VersionLine(versions)
    affected = line.affected(AffectedPackage("x", ranges, listed))
    return [version for version in line.ordered if version in affected]


def test_a_fixed_version_is_the_first_that_is_not_affected() -> None:
    assert found(ends(("introduced", "1.0"), ("fixed", "1.1"))) == ["1.0", "1.0.post1"]


def test_introduced_in_zero_is_before_every_version() -> None:
    assert found(ends(("introduced", "0"), ("fixed", "1.0"))) == ["0.9", "1.0rc1"]
    assert found(ends(("introduced", "0")), versions=("0.dev1", "0a1")) == ["0.dev1", "0a1"]


def test_the_last_affected_version_is_affected() -> None:
    assert found(ends(("introduced", "1.1"), ("last_affected", "2.0"))) == [
        "1.1",
        "2.0.dev1",
        "2.0",
    ]


def test_events_are_taken_in_the_order_of_versions_not_of_the_document() -> None:
    shuffled = ends(
        ("fixed", "2.0"), ("introduced", "2.0.dev1"), ("fixed", "1.0"), ("introduced", "0")
    )
    assert found(shuffled) == ["0.9", "1.0rc1", "2.0.dev1"]


def test_events_of_one_version_are_taken_in_the_order_of_the_document() -> None:
    assert found(ends(("introduced", "1.0"), ("fixed", "1.0"))) == []
    reopened = ends(("introduced", "0"), ("fixed", "1.1"), ("introduced", "1.1"))
    assert found(reopened) == list(found(ends(("introduced", "0"))))


def test_an_epoch_is_later_than_any_version_without() -> None:
    assert found(ends(("introduced", "2.0"))) == ["2.0", "1!0.1"]


def test_nothing_at_or_above_the_limit_is_affected() -> None:
    assert found(ends(("introduced", "0"), ("limit", "1.0"))) == ["0.9", "1.0rc1"]
    # Several limits are alternatives: below one of them is enough.
    assert found(ends(("introduced", "1.1"), ("limit", "1.0"), ("limit", "2.0"))) == [
        "1.1",
        "2.0.dev1",
    ]
    assert found(ends(("introduced", "2.0"), ("limit", "*"))) == ["2.0", "1!0.1"]


def test_a_version_is_affected_if_it_is_in_one_range_or_listed() -> None:
    low, high = ends(("introduced", "0"), ("fixed", "1.0rc1")), ends(("introduced", "1!0"))
    assert found(low, high, listed=("2.0",)) == ["0.9", "2.0", "1!0.1"]


@pytest.mark.parametrize("last", [("last_affected", "2.0.1"), ("fixed", "2.0.2")])
def test_a_local_build_is_affected_as_the_release_it_is_built_from(last: tuple[str, str]) -> None:
    builds = ("2.0.1", "2.0.1+cu118", "2.0.2+cu118")
    assert found(ends(("introduced", "0"), last), versions=builds) == ["2.0.1", "2.0.1+cu118"]
    assert found(versions=builds, listed=("2.0.1",)) == ["2.0.1", "2.0.1+cu118"]


def test_an_advisory_may_name_a_local_version_itself() -> None:
    builds = ("2.0", "2.0+patch1", "2.0+patch2")
    assert found(versions=builds, listed=("2.0+patch1",)) == ["2.0+patch1"]
    fixed = ends(("introduced", "0"), ("fixed", "2.0+patch2"))
    assert found(fixed, versions=builds) == ["2.0", "2.0+patch1"]


def test_what_is_no_version_can_only_be_listed() -> None:
    versions = ("final-2004", "1.0")
    assert found(ends(("introduced", "0")), versions=versions) == ["1.0"]
    assert found(versions=versions, listed=("final-2004",)) == ["final-2004"]


def test_a_listed_version_may_be_spelled_otherwise() -> None:
    assert found(versions=("1.0.0-beta1",), listed=("1.0.0b1",)) == ["1.0.0-beta1"]


@pytest.mark.parametrize(
    ("version", "listed"),
    [("1.0.0", "1.0"), ("1", "1.0"), ("1.0.0-beta1", "1.0b1"), ("2.0.0+cu118", "2.0"),
     ("2.0+a.1", "2.0.0+a-1"), ("v1.0", "1"), ("final-2004", "final-2004")],
)  # fmt: skip
def test_a_listed_version_means_all_that_are_equal_to_it(version: str, listed: str) -> None:
    assert found(versions=(version, "3.0"), listed=(listed,)) == [version]
    assert found(versions=("2.0",), listed=("2.0.0+cu118", "final")) == []
