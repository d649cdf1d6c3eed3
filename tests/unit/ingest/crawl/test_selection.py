"""Which releases are read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from ingest.crawl.closure import CrawlBounds
from ingest.crawl.release_selection import (
    invalid,
    needed_versions,
    newest,
)
from model.packages.project_pages import ListedVersion

JANUARY = datetime(2024, 1, 1, tzinfo=UTC)


def listed(*versions: str, yanked: tuple[str, ...] = ()) -> list[ListedVersion]:
    return [ListedVersion(it, 1, yanked=it in yanked) for it in versions]


def test_the_newest_are_by_version_not_by_text_or_place() -> None:
    found = newest(listed("1.9", "1.10", "1!0.1", "1.2"), CrawlBounds(max_versions=2))
    assert found == ["1!0.1", "1.10"]


def test_prereleases_are_read_when_asked_for_or_when_there_is_nothing_else() -> None:
    both = listed("2.0rc1", "1.0", "2.0.dev1")
    assert newest(both, CrawlBounds()) == ["1.0"]
    assert newest(both, CrawlBounds(prereleases=True)) == ["2.0rc1", "2.0.dev1", "1.0"]
    assert newest(listed("0.1a1", "0.1a2"), CrawlBounds()) == ["0.1a2", "0.1a1"]


def test_stable_releases_that_were_all_yanked_are_as_good_as_none() -> None:
    assert newest(listed("1.0", "1.1a1", yanked=("1.0",)), CrawlBounds()) == ["1.1a1", "1.0"]


def test_a_yanked_release_takes_nobodys_place() -> None:
    found = newest(listed("3", "2", "1", yanked=("3",)), CrawlBounds(max_versions=2))
    assert found == ["3", "2", "1"]
    assert newest(listed("3", "2", "1", yanked=("1",)), CrawlBounds(max_versions=2)) == ["3", "2"]


def test_yanked_releases_are_bounded_too() -> None:
    versions = [f"1.{minor}" for minor in range(100)]
    found = newest(listed(*versions, yanked=tuple(versions)), CrawlBounds(max_versions=3))
    assert found == ["1.99", "1.98", "1.97"]


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


def test_a_requirement_that_the_newest_meet_needs_no_more() -> None:
    some = listed("1.9", "2.0", "2.1")
    assert needed_versions([">=2", "", "==2.*"], some, ["2.0", "2.1"]) == set()


def test_a_requirement_below_the_newest_gets_two_candidates() -> None:
    some = listed("1.7", "1.8", "1.9", "2.0", "2.1")
    assert needed_versions(["<2"], some, ["2.0", "2.1"]) == {"1.8", "1.9"}


def test_candidates_are_stable_and_not_yanked_if_there_are_such() -> None:
    some = listed("1.7", "1.8", "1.9rc1", "1.9", yanked=("1.9",))
    assert needed_versions(["<2"], some, []) == {"1.7", "1.8"}
    assert needed_versions([">1.8"], some, []) == {"1.9rc1"}
    assert needed_versions(["==1.9"], some, []) == {"1.9"}


def test_nothing_fits_a_requirement_that_nobody_can_meet() -> None:
    assert needed_versions(["==9", "no specifier"], listed("1.0"), ["1.0"]) == set()


def test_two_requirements_share_their_candidates() -> None:
    some = listed("1.7", "1.8", "1.9", "2.0")
    assert needed_versions(["<2", "<2,>=1.8"], some, ["2.0"]) == {"1.8", "1.9"}


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
