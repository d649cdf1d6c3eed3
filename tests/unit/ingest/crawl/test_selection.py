"""Which releases are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from ingest.crawl.closure import CrawlBounds
from ingest.crawl.release_selection import invalid, needed_versions, newest
from model.packages.project_pages import ListedVersion

JANUARY = datetime(2024, 1, 1, tzinfo=UTC)


def listed(*versions: str, yanked: tuple[str, ...] = ()) -> list[ListedVersion]:
    return [ListedVersion(it, 1, yanked=it in yanked) for it in versions]


def test_older_uploads_are_left_out_and_those_without_a_time_are_not() -> None:
    some = [
        ListedVersion("1", 1, uploaded_at=JANUARY - timedelta(days=1)),
        ListedVersion("2", 1, uploaded_at=JANUARY),
        ListedVersion("3", 1),
    ]
    assert newest(some, CrawlBounds(newer_than=JANUARY)) == ["3", "2"]


def test_versions_that_are_none_are_kept_within_the_bound() -> None:
    some = listed("1.0", "2004b-final", "2004c-final")
    assert newest(some, CrawlBounds()) == ["1.0"]
    assert invalid(some, CrawlBounds(max_versions=1)) == ["2004c-final"]


_VERSIONS = st.lists(
    st.from_regex(r"[0-3]\.[0-9](rc1)?", fullmatch=True), unique=True, min_size=1, max_size=30
)
_SPECIFIERS = st.lists(st.from_regex(r"(<|<=|>=|==|!=|~=)[0-3]\.[0-9]", fullmatch=True), max_size=6)


@given(_VERSIONS, _SPECIFIERS, st.integers(1, 5))
def test_every_requirement_that_can_be_met_is(
    versions: list[str], specifiers: list[str], most: int
) -> None:
    some = listed(*versions)
    selected = newest(some, CrawlBounds(max_versions=most))
    both = {*selected, *needed_versions(specifiers, some, selected)}
    for specifier in specifiers:
        wanted = SpecifierSet(specifier)
        if any(wanted.contains(it, prereleases=True) for it in versions):
            assert any(wanted.contains(it, prereleases=True) for it in both)


@pytest.mark.parametrize(
    ("versions", "yanked", "bounds", "expected"),
    [
        # By version, not by text or place.
        ("1.9 1.10 1!0.1 1.2", "", CrawlBounds(max_versions=2), "1!0.1 1.10"),
        # Pre-releases on request, or where there is nothing else.
        ("2.0rc1 1.0 2.0.dev1", "", CrawlBounds(), "1.0"),
        ("2.0rc1 1.0 2.0.dev1", "", CrawlBounds(prereleases=True), "2.0rc1 2.0.dev1 1.0"),
        ("0.1a1 0.1a2", "", CrawlBounds(), "0.1a2 0.1a1"),
        ("1.0 1.1a1", "1.0", CrawlBounds(), "1.1a1 1.0"),
        # A yanked release takes nobody's place, but is bounded too.
        ("3 2 1", "3", CrawlBounds(max_versions=2), "3 2 1"),
        ("3 2 1", "1", CrawlBounds(max_versions=2), "3 2"),
        ("1.4 1.3 1.2 1.1", "1.4 1.3 1.2 1.1", CrawlBounds(max_versions=3), "1.4 1.3 1.2"),
    ],
)
def test_the_newest_releases_are_read_within_bounds(
    versions: str, yanked: str, bounds: CrawlBounds, expected: str
) -> None:
    some = listed(*versions.split(), yanked=tuple(yanked.split()))
    assert newest(some, bounds) == expected.split()


@pytest.mark.parametrize(
    ("specifiers", "versions", "yanked", "read", "expected"),
    [
        ([">=2", "", "==2.*"], "1.9 2.0 2.1", "", "2.0 2.1", ""),
        (["<2"], "1.7 1.8 1.9 2.0 2.1", "", "2.0 2.1", "1.8 1.9"),
        (["<2", "<2,>=1.8"], "1.7 1.8 1.9 2.0", "", "2.0", "1.8 1.9"),
        # Candidates are stable and not yanked if there are such.
        (["<2"], "1.7 1.8 1.9rc1 1.9", "1.9", "", "1.7 1.8"),
        ([">1.8"], "1.7 1.8 1.9rc1 1.9", "1.9", "", "1.9rc1"),
        (["==1.9"], "1.7 1.8 1.9rc1 1.9", "1.9", "", "1.9"),
        (["==9", "no specifier"], "1.0", "", "1.0", ""),
    ],
)
def test_a_requirement_that_the_newest_do_not_meet_gets_two_candidates(
    specifiers: list[str], versions: str, yanked: str, read: str, expected: str
) -> None:
    some = listed(*versions.split(), yanked=tuple(yanked.split()))
    assert needed_versions(specifiers, some, read.split()) == {*expected.split()}
