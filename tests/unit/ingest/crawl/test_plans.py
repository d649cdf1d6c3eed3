"""What is done about one project."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from graph.record.crawls import ProjectRow, QueueRow
from graph.record.release_merging import KnownRelease, Ranks
from ingest.crawl.crawl_request import CrawlBounds
from ingest.crawl.release_selection import (
    ProjectNeeds,
    ProjectPlan,
    as_listed,
    needs_reading,
    plan,
)
from ingest.releases.parsing import checked_release
from model.packages.identity import Purl
from model.packages.project_pages import IndexFile, PageContents, ProjectPage
from model.packages.releases import SOLVER, ReleaseFile, ReleaseProblem, ReleaseState

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def wheel(version: str, sha256: str = "a" * 64, *, yanked: bool = False) -> IndexFile:
    return IndexFile(f"demo-{version}-py3-none-any.whl", version, "wheel", sha256, yanked=yanked)


def sdist(version: str) -> IndexFile:
    return IndexFile(f"demo-{version}.tar.gz", version, "sdist", "b" * 64)


def page(*files: IndexFile, digest: str = "sha256:1") -> ProjectPage:
    releases: dict[str, tuple[IndexFile, ...]] = {}
    for file in files:
        releases[file.version] = (*releases.get(file.version, ()), file)
    return ProjectPage("demo", NOW, PageContents(releases, digest))


def known(
    version: str,
    state: ReleaseState = ReleaseState.SOLVED,
    *,
    files_complete: bool = True,
    **more: object,
) -> KnownRelease:
    name = f"demo-{version}-py3-none-any.whl"
    bare = KnownRelease(
        Purl(f"pkg:pypi/demo@{version}"), "demo", version, "local", state,
        files={name: ReleaseFile(name, "a" * 64, "wheel")},
        ranks=Ranks(files="1" if files_complete else ""),
        metadata_file=name, metadata_source="wheel",
    )  # fmt: skip
    return replace(bare, **more)  # type: ignore[arg-type]


def planned(
    listed: ProjectPage,
    ask: ProjectNeeds | None = None,
    *releases: KnownRelease,
    queue: tuple[QueueRow, ...] = (),
    before: ProjectRow | None = None,
) -> ProjectPlan:
    return plan(
        "local", listed, ask or ProjectNeeds(CrawlBounds()), {it.version: it for it in releases},
        {it.version: it for it in queue}, before, NOW,
    )  # fmt: skip


def seen(*versions: str, digest: str = "sha256:0") -> ProjectRow:
    """The project as it was answered for before."""
    return ProjectRow("demo", "known", digest, frozenset(versions))


def test_what_is_not_known_is_read() -> None:
    made = planned(page(wheel("1"), wheel("2")), None, known("1"))
    assert (made.selected, made.to_read) == ({"1", "2"}, ("2",))


def test_the_bound_is_kept_and_what_a_specifier_needs_is_read_beyond_it() -> None:
    some = page(*map(wheel, ("1.8", "1.9", "2.0", "2.1")))
    ask = ProjectNeeds(CrawlBounds(max_versions=1), frozenset({"<2"}))
    assert planned(some, ask).to_read == ("1.8", "1.9", "2.1")


def test_a_second_look_takes_only_what_the_specifier_needs() -> None:
    some = page(*map(wheel, ("1.9", "2.0", "2.1")))
    made = planned(some, ProjectNeeds(None, frozenset({"<2"}), frozenset({"2.1"})), known("2.1"))
    assert (made.selected, made.to_read) == ({"2.1", "1.9"}, ("1.9",))


def test_without_anything_to_install_there_is_nothing_to_read() -> None:
    made = planned(page(IndexFile("demo-1-py3.7.egg", "1", "other", None)))
    assert made.to_read == ()
    assert [it.metadata.problem for it in made.drafts] == [ReleaseProblem.NO_FILES]
    assert checked_release(made.drafts[0]).state is ReleaseState.UNSOLVABLE


def test_a_version_that_is_none_is_kept_and_never_read() -> None:
    made = planned(page(wheel("1"), wheel("2004b-final")))
    assert made.to_read == ("1",)
    (draft,) = made.drafts
    assert checked_release(draft).state is ReleaseState.UNPARSABLE
    assert checked_release(draft).files


def test_a_release_that_a_stack_named_is_read() -> None:
    unread = known("1", ReleaseState.UNREAD, metadata_file=None, files={})
    assert planned(page(wheel("1")), None, unread).to_read == ("1",)


def test_a_page_that_says_the_same_tells_nothing() -> None:
    made = planned(page(wheel("1")), None, known("1"), before=seen("1", digest="sha256:1"))
    assert (made.drafts, made.to_read, made.events) == ((), (), ())


def test_a_page_that_changed_tells_of_known_releases_without_reading_them() -> None:
    yanked = page(wheel("1", yanked=True))
    made = planned(yanked, None, known("1"), before=seen("1"))
    (draft,) = made.drafts
    release = checked_release(draft)
    assert release.yanked
    assert release.state is ReleaseState.SOLVED
    assert made.to_read == ()


def test_of_a_release_from_a_dump_all_files_are_reported() -> None:
    partial = known("1", files_complete=False)
    made = planned(page(wheel("1")), None, partial, before=seen("1", digest="sha256:1"))
    assert [it.files_complete for it in made.drafts] == [True]


def test_a_release_that_vanished_keeps_what_it_required_and_has_no_files() -> None:
    made = planned(page(wheel("2")), None, known("1"), known("2"), before=seen("1", "2"))
    assert [(it.kind, it.version) for it in made.events] == [("removed", "1")]
    gone = [it for it in map(checked_release, made.drafts) if it.version == "1"]
    assert [(it.state, it.files, it.files_complete) for it in gone] == [
        (ReleaseState.SOLVED, (), True)
    ]


def test_a_release_that_appeared_is_an_event_unless_the_project_is_new() -> None:
    both = page(wheel("1"), wheel("2"))
    assert [(it.kind, it.version) for it in planned(both, None, before=seen("1")).events] == [
        ("new_release", "2")
    ]
    assert planned(both).events == ()
    assert planned(both, before=ProjectRow("demo", "missing")).events == ()


def test_a_refresh_follows_what_is_known_and_what_is_new() -> None:
    some = page(*map(wheel, ("0.1", "1", "2", "3")))
    made = planned(
        some, ProjectNeeds(None, all_known=True), known("1"), before=seen("0.1", "1", "2")
    )
    assert (made.selected, made.to_read) == ({"1", "3"}, ("3",))


def test_a_refresh_reads_no_prerelease_because_it_is_the_only_new_one() -> None:
    some = page(wheel("1"), wheel("2rc1"))
    made = planned(some, ProjectNeeds(None, all_known=True), known("1"), before=seen("1"))
    assert made.to_read == ()


def test_a_refresh_reads_the_queue_and_drops_what_is_gone_from_it() -> None:
    queue = (QueueRow("1"), QueueRow("9"))
    made = planned(
        page(wheel("1"), wheel("2")),
        ProjectNeeds(None, all_known=True),
        queue=queue,
        before=seen("1", "2"),
    )
    assert (made.to_read, made.stale) == (("1",), ("9",))


def test_what_failed_waits_and_what_was_given_up_waits_for_a_person() -> None:
    queue = (
        QueueRow("1", 1, NOW + timedelta(minutes=1)),
        QueueRow("2", 5, NOW, given_up=True),
        QueueRow("3", 1, NOW - timedelta(minutes=1)),
    )
    some = page(*map(wheel, ("1", "2", "3")))
    made = planned(some, queue=queue)
    assert (made.to_read, made.waiting) == (("3",), ("1", "2"))
    assert planned(some, ProjectNeeds(CrawlBounds(), again=True), queue=queue).to_read == (
        "1",
        "2",
        "3",
    )


UNSOLVABLE = known(
    "1", ReleaseState.UNSOLVABLE, metadata_file="demo-1.tar.gz",
    problem=ReleaseProblem.DYNAMIC_METADATA,
)  # fmt: skip


@pytest.mark.parametrize(
    ("release", "files", "wanted"),
    [
        (None, (wheel("1"),), True),
        (known("1"), (wheel("1", "c" * 64),), False),
        (known("1"), (sdist("1"),), False),
        (UNSOLVABLE, (sdist("1"),), False),
        (UNSOLVABLE, (sdist("1"), wheel("1")), True),
        (replace(UNSOLVABLE, metadata_file=None), (sdist("1"),), True),
        (None, (), False),
    ],
)
def test_a_file_is_looked_at_once(
    release: KnownRelease | None, files: tuple[IndexFile, ...], wanted: bool
) -> None:
    assert needs_reading(release, "1", files) is wanted


SOLVED_ONCE = known("1", metadata_source=SOLVER, metadata_file=None)


def test_what_a_solver_told_is_read_from_the_index_and_not_reported_again_in_its_name() -> None:
    assert planned(page(wheel("1")), None, SOLVED_ONCE).to_read == ("1",)
    assert not needs_reading(
        replace(SOLVED_ONCE, metadata_file="demo-1.tar.gz"), "1", (sdist("1"),)
    )
    ask = ProjectNeeds(CrawlBounds(max_versions=1))
    made = planned(page(wheel("1"), wheel("2")), ask, SOLVED_ONCE, known("2"), before=seen("1"))
    assert {it.version: it.metadata.requires_dist for it in made.drafts} == {"1": None, "2": ()}


def test_a_version_is_known_however_it_is_spelt() -> None:
    listed = as_listed({"1.0.0": known("1.0.0"), "2": known("2")}, ["1.0", "2", "3"])
    assert {it: release.version for it, release in listed.items()} == {"1.0": "1.0.0", "2": "2"}
    assert planned(page(wheel("1.0")), None, replace(known("1.0.0"), version="1.0")).to_read == ()


def test_a_file_that_was_broken_is_looked_at_again_when_a_person_asks() -> None:
    assert needs_reading(UNSOLVABLE, "1", (sdist("1"),), again=True)
    assert not needs_reading(known("1"), "1", (wheel("1"),), again=True)
