"""Files of a lock against what indexes serve: each issue by a lock that has it."""

from __future__ import annotations

from typing import Any

import pytest

from adviser.projects.project import (
    LockedPackage,
    Project,
    ProjectIndex,
    ProjectWarning,
    WarningCode,
)
from adviser.provenance import Issue, IssueId, Listing, Served, check_lock
from adviser.scoring.assessments import Level
from common.releases import ReleaseFile

GOOD, OTHER = "a" * 64, "b" * 64


def file(sha256: str = GOOD, **more: Any) -> ReleaseFile:
    return ReleaseFile(f"pkg-1.0-{sha256[:1]}.whl", sha256, "wheel", **{"attested": True, **more})


def listing(*files: ReleaseFile, index: str = "pypi", **more: Any) -> Listing:
    return Listing(index, files or (file(),), **more)


def locked(*hashes: str, index: str | None = None) -> LockedPackage:
    return LockedPackage("pkg", "1.0", tuple(f"sha256:{it}" for it in hashes), index=index)


def issues(package: LockedPackage, *listings: Listing, **more: Any) -> list[Issue]:
    served = Served({"pkg": listings}, **{"allowed": ("pypi", "ours"), **more})
    return check_lock(Project(locked={"pkg": package}), served)


def ids(*arguments: Any, **more: Any) -> list[IssueId]:
    return [it.id for it in issues(*arguments, **more)]


def test_a_file_that_its_index_serves_is_no_issue() -> None:
    assert issues(locked(GOOD, index="pypi"), listing()) == []


@pytest.mark.parametrize(
    ("package", "listings", "expected"),
    [
        (locked(OTHER), [listing()], IssueId.INVALID_ARTIFACT_HASH),
        (locked(GOOD), [], IssueId.MISSING_PACKAGE),
        (locked(), [listing()], IssueId.NO_HASH),
        (locked(GOOD, index="pypi"), [listing(index="ours")], IssueId.ARTIFACT_DIFFERENT_SOURCE),
        (locked(GOOD), [listing(index="ours")], IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE),
        (
            locked(GOOD),
            [listing(), listing(file(OTHER), index="ours")],
            IssueId.DIFFERENT_ARTIFACTS_ON_SOURCES,
        ),
        (locked(OTHER), [listing(gone=(file(OTHER),))], IssueId.ARTIFACT_GONE),
        (locked(OTHER), [listing(complete=False)], IssueId.FILES_UNKNOWN),
        (locked(GOOD), [listing(yanked=True, yanked_reason="broken")], IssueId.YANKED),
        (locked(GOOD), [listing(file(attested=False))], IssueId.NOT_ATTESTED),
        (locked(GOOD, index="else"), [listing(index="else")], IssueId.SOURCE_NOT_WHITELISTED),
    ],
)
def test_each_issue_is_found_alone_with_a_remedy(
    package: LockedPackage, listings: list[Listing], expected: IssueId
) -> None:
    (found,) = issues(package, *listings)
    assert found.id is expected
    assert found.remedy
    document = found.document()
    assert document["package_name"] == "pkg"
    assert document["package_version"] == "==1.0"


def test_what_is_not_known_to_be_attested_is_not_called_unattested() -> None:
    assert ids(locked(GOOD), listing(file(attested=None))) == []


def test_errors_come_first() -> None:
    found = issues(locked(OTHER, GOOD), listing(file(attested=False)))
    assert [it.type for it in found] == [Level.ERROR, Level.INFO]


def test_a_lock_calls_an_index_as_it_likes() -> None:
    package = locked(GOOD, index="main")
    assert ids(package, listing()) == [
        IssueId.SOURCE_NOT_WHITELISTED,
        IssueId.ARTIFACT_DIFFERENT_SOURCE,
    ]
    assert ids(package, listing(), called={"main": "pypi"}) == []


def test_the_project_itself_is_looked_at() -> None:
    project = Project(
        locked={},
        indexes=(ProjectIndex("plain", "http://index.example/simple"),),
        warnings=(ProjectWarning(WarningCode.LOCK_OUTDATED, "for another Pipfile", "lock:$"),),
    )
    found = {it.id: it.type for it in check_lock(project, Served({}))}
    assert found == {
        IssueId.INVALID_LOCK_HASH: Level.ERROR,
        IssueId.SOURCE_NOT_WHITELISTED: Level.ERROR,
        IssueId.INSECURE_SOURCE: Level.WARNING,
    }
