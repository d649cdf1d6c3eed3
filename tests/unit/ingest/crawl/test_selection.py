"""Which releases are read, and what is done about one project."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet

from graph.record.crawls import ProjectRow, QueueRow
from graph.record.release_merging import KnownRelease, Ranks
from ingest.crawl.closure import CrawlBounds
from ingest.crawl.release_selection import (
    ProjectNeeds,
    ProjectPlan,
    as_listed,
    invalid,
    needed_versions,
    needs_reading,
    newest,
    plan,
)
from ingest.releases.parsing import checked_release
from model.packages.identity import Purl
from model.packages.project_pages import IndexFile, ListedVersion, PageContents, ProjectPage
from model.packages.releases import SOLVER, ReleaseFile, ReleaseProblem, ReleaseState
from tests.factories.case_files import described
from tests.factories.golden import compare_views

JANUARY = datetime(2024, 1, 1, tzinfo=UTC)


def listed(*versions: str, yanked: tuple[str, ...] = ()) -> list[ListedVersion]:
    return [ListedVersion(it, 1, yanked=it in yanked) for it in versions]


def test_crawl_skips_releases_uploaded_before_the_given_date() -> None:
    some = [
        ListedVersion("1", 1, uploaded_at=JANUARY - timedelta(days=1)),
        ListedVersion("2", 1, uploaded_at=JANUARY),
        ListedVersion("3", 1),
    ]
    assert newest(some, CrawlBounds(newer_than=JANUARY)) == ["3", "2"]


def test_releases_with_invalid_versions_are_recorded_within_the_limit() -> None:
    some = listed("1.0", "2004b-final", "2004c-final")
    assert newest(some, CrawlBounds()) == ["1.0"]
    assert invalid(some, CrawlBounds(max_versions=1)) == ["2004c-final"]


_VERSIONS = st.lists(
    st.from_regex(r"[0-3]\.[0-9](rc1)?", fullmatch=True), unique=True, min_size=1, max_size=30
)
_SPECIFIERS = st.lists(st.from_regex(r"(<|<=|>=|==|!=|~=)[0-3]\.[0-9]", fullmatch=True), max_size=6)


@given(_VERSIONS, _SPECIFIERS, st.integers(1, 5))
def test_crawl_selects_a_version_for_every_satisfiable_requirement(
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
def test_crawl_selects_the_newest_releases_within_its_bounds(
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
def test_crawl_selects_two_versions_for_a_requirement_below_the_newest(
    specifiers: list[str], versions: str, yanked: str, read: str, expected: str
) -> None:
    some = listed(*versions.split(), yanked=tuple(yanked.split()))
    assert needed_versions(specifiers, some, read.split()) == {*expected.split()}


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


def pages(*versions: str) -> ProjectPage:
    return page(*map(wheel, versions))


REFRESH = ProjectNeeds(None, all_known=True)
LOW = frozenset({"<2"})
SAME = seen("1", digest="sha256:1")
EGG = IndexFile("demo-1-py3.7.egg", "1", "other", None)
UNREAD = known("1", ReleaseState.UNREAD, metadata_file=None, files={})
QUEUE = (
    QueueRow("1", 1, NOW + timedelta(minutes=1)),
    QueueRow("2", 5, NOW, given_up=True),
    QueueRow("3", 1, NOW - timedelta(minutes=1)),
)
PLANS = {
    "one of two releases is known": planned(pages("1", "2"), None, known("1")),
    "a specifier beyond the bound": planned(
        pages("1.8", "1.9", "2.0", "2.1"), ProjectNeeds(CrawlBounds(max_versions=1), LOW)
    ),
    "a second look": planned(
        pages("1.9", "2.0", "2.1"), ProjectNeeds(None, LOW, frozenset({"2.1"})), known("2.1")
    ),
    "nothing to install": planned(page(EGG)),
    "an invalid version": planned(pages("1", "2004b-final")),
    "a release that a stack named": planned(pages("1"), None, UNREAD),
    "a page that says the same": planned(pages("1"), None, known("1"), before=SAME),
    "a page on which a release was yanked": planned(
        page(wheel("1", yanked=True)), None, known("1"), before=seen("1")
    ),
    "a release from a dump": planned(
        pages("1"), None, known("1", files_complete=False), before=SAME
    ),
    "a release that vanished": planned(
        pages("2"), None, known("1"), known("2"), before=seen("1", "2")
    ),
    "a release that appeared": planned(pages("1", "2"), before=seen("1")),
    "a new project": planned(pages("1", "2")),
    "a project that was missing": planned(pages("1", "2"), before=ProjectRow("demo", "missing")),
    "a refresh": planned(
        pages("0.1", "1", "2", "3"), REFRESH, known("1"), before=seen("0.1", "1", "2")
    ),
    "a refresh with a new pre-release": planned(
        pages("1", "2rc1"), REFRESH, known("1"), before=seen("1")
    ),
    "a refresh with a queue": planned(
        pages("1", "2"), REFRESH, queue=(QueueRow("1"), QueueRow("9")), before=seen("1", "2")
    ),
    "releases that failed": planned(pages("1", "2", "3"), queue=QUEUE),
    "releases that failed, again": planned(
        pages("1", "2", "3"), ProjectNeeds(CrawlBounds(), again=True), queue=QUEUE
    ),
}


def test_crawl_plan_names_what_to_read_queue_and_report() -> None:
    views = {}
    for title, made in PLANS.items():
        drafts = [
            f"reports {it.version}: {it.state}, {it.problem}, {len(it.files)} files"
            f"{'' if it.files_complete else ' of more'}{', yanked' if it.yanked else ''}"
            for it in map(checked_release, made.drafts)
        ]
        views[title] = "\n".join([*described(replace(made, drafts=())), *drafts])
    compare_views("crawl_plans", views)


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
def test_release_file_is_read_only_once(
    release: KnownRelease | None, files: tuple[IndexFile, ...], wanted: bool
) -> None:
    assert needs_reading(release, "1", files) is wanted


SOLVED_ONCE = known("1", metadata_source=SOLVER, metadata_file=None)


def test_release_known_from_a_solver_is_verified_on_the_index() -> None:
    assert planned(page(wheel("1")), None, SOLVED_ONCE).to_read == ("1",)
    assert not needs_reading(
        replace(SOLVED_ONCE, metadata_file="demo-1.tar.gz"), "1", (sdist("1"),)
    )


def test_release_known_from_a_solver_is_reported_once() -> None:
    ask = ProjectNeeds(CrawlBounds(max_versions=1))
    made = planned(page(wheel("1"), wheel("2")), ask, SOLVED_ONCE, known("2"), before=seen("1"))
    assert {it.version: it.metadata.requires_dist for it in made.drafts} == {"1": None, "2": ()}


def test_known_version_is_recognised_in_any_spelling() -> None:
    listed = as_listed({"1.0.0": known("1.0.0"), "2": known("2")}, ["1.0", "2", "3"])
    assert {it: release.version for it, release in listed.items()} == {"1.0": "1.0.0", "2": "2"}
    assert planned(page(wheel("1.0")), None, replace(known("1.0.0"), version="1.0")).to_read == ()


def test_broken_release_file_is_read_again_only_on_request() -> None:
    assert needs_reading(UNSOLVABLE, "1", (sdist("1"),), again=True)
    assert not needs_reading(known("1"), "1", (wheel("1"),), again=True)
