"""What has no effect, and what is not known, is told; a conflict says what was not read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from adviser.reports.unfetched_versions import UnfetchedVersions, unfetched_in
from tests.factories.requests import INDEX, advice_for, request_for
from tests.factories.universes import Index


def unread(
    manifest: str, listed: dict[str, list[str]], **options: Any
) -> tuple[UnfetchedVersions, ...]:
    advice = advice_for(request_for(manifest, **options))
    conflict = advice.resolution.conflict
    assert conflict is not None
    by_index = {name: {"pypi": versions} for name, versions in listed.items()}
    return unfetched_in(conflict, advice.request, advice.snapshot, by_index)


def test_versions_that_the_request_admits_and_nobody_read_are_reported() -> None:
    (found,) = unread("core<1\n", {"core": ["0.9", "0.8", "1.2"]})
    assert (found.count, found.newest, found.known, found.wanted) == (2, "0.9", 3, "<1")
    assert "`thoth packages add 'core<1'` or --fetch" in found.message


def test_what_the_conflict_rules_out_read_or_not_is_not_reported() -> None:
    assert unread("web>=3\ntool\n", {"core": ["1.5", "2.5"], "web": ["0.1"]}) == ()
    (found,) = unread("web>=3\ntool\n", {"core": ["1.5"], "tool": ["0.9"]})
    assert (found.name, found.wanted) == ("tool", None)
    assert "`thoth advise --fetch` reads those that decide" in found.message


def test_prereleases_that_nobody_welcomes_are_not_missed() -> None:
    listed = {"core": ["0.9rc1"]}
    assert unread("core<1\n", listed) == ()
    assert len(unread("core<1\n", listed, prereleases=frozenset({"core"}))) == 1


def test_without_a_version_on_the_index_there_is_nothing_to_tell() -> None:
    assert "nowhere" not in INDEX
    assert unread("nowhere\n", {"nowhere": ["1.0"]}) == ()


def test_what_is_older_than_a_version_that_is_too_old_already_is_not_worth_reading() -> None:
    index: Index = {"core": {"2.0": {"uploaded_at": "2024-03-01T00:00:00+00:00"}}}
    after = datetime(2025, 1, 1, tzinfo=UTC)
    advice = advice_for(request_for("core\n", published_after=after), index)
    conflict = advice.resolution.conflict
    assert conflict is not None
    listed = {"core": {"pypi": ["3.0", "1.9", "1.0"]}}
    (told,) = unfetched_in(conflict, advice.request, advice.snapshot, listed)
    assert (told.count, told.newest) == (1, "3.0")
    listed = {"core": {"pypi": ["1.9", "1.0"]}}
    assert unfetched_in(conflict, advice.request, advice.snapshot, listed) == ()
