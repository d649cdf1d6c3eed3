"""Files of a lock against what indexes serve: each issue by a lock that has it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, ProjectIndex, ProjectWarning, WarningCode
from adviser.provenance import IndexLocation, KnownIndexes, ReleaseListing, check_lock
from adviser.provenance_issues import IssueId, ProvenanceIssue
from adviser.scoring.assessment_types import NoteLevel
from common.formats.locks.entries import LockedFile, LockEntry
from model.packages.releases import ReleaseFile

GOOD, OTHER = "a" * 64, "b" * 64


def file(sha256: str = GOOD, **more: Any) -> ReleaseFile:
    return ReleaseFile(f"pkg-1.0-{sha256[:1]}.whl", sha256, "wheel", **{"attested": True, **more})


def listing(*files: ReleaseFile, index: str = "pypi", **more: Any) -> ReleaseListing:
    return ReleaseListing(index, files or (file(),), **more)


def locked(*hashes: str, index: str | None = None) -> LockEntry:
    return LockEntry("pkg", "1.0", tuple(f"sha256:{it}" for it in hashes), index=index)


def issues(package: LockEntry, *listings: ReleaseListing, **more: Any) -> list[ProvenanceIssue]:
    served = KnownIndexes({("pkg", "1.0"): listings}, **{"allowed": ("pypi", "ours"), **more})
    return check_lock(Project(lock_entries=(package,)), served)


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
        (replace(locked(), hashes=(f"sha512:{'c' * 128}",)), [listing()], IssueId.NO_HASH),
        (
            replace(locked(), hashes=(f"sha256:{GOOD}", f"md5:{'c' * 32}")),
            [listing()],
            IssueId.UNVERIFIABLE,
        ),
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
    package: LockEntry, listings: list[ReleaseListing], expected: IssueId
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
    assert [it.type for it in found] == [NoteLevel.ERROR, NoteLevel.INFO]


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
    found = {it.id: it.type for it in check_lock(project, KnownIndexes({}))}
    assert found == {
        IssueId.INVALID_LOCK_HASH: NoteLevel.ERROR,
        IssueId.SOURCE_NOT_WHITELISTED: NoteLevel.ERROR,
        IssueId.INSECURE_SOURCE: NoteLevel.WARNING,
    }


def found_in(files: dict[str, str], **more: Any) -> list[tuple[IssueId, NoteLevel]]:
    """Issues of a project whose every version is served with the good hash."""
    project = parse_project({name: text.encode() for name, text in files.items()})
    listings = {(it.name, it.version): [listing()] for it in project.lock_entries}
    places = {"pypi": IndexLocation("https://index.example/simple", frozenset({"h.example"}))}
    issues = check_lock(project, KnownIndexes(listings, **{"places": places, **more}))
    return [(it.id, it.type) for it in issues]


def pipfile_lock(default: Any, develop: Any = None, **source: Any) -> dict[str, str]:
    sources = [{"name": "pypi", "url": "https://index.example/simple", **source}]
    meta = {"sources": sources, "requires": {}}
    return {
        "Pipfile.lock": json.dumps({"_meta": meta, "default": default, "develop": develop or {}})
    }


FINE = {"version": "==1.0", "hashes": [f"sha256:{GOOD}"], "index": "pypi"}
FORGED = {**FINE, "hashes": [f"sha256:{OTHER}"]}
PYLOCK = """
[[packages]]
name = "pkg"
version = "{version}"
marker = "os_name == '{os}'"
[[packages.wheels]]
name = "pkg-{version}-py3-none-any.whl"
url = "https://h.example/pkg-{version}-py3-none-any.whl"
hashes = {{sha256 = "{digest}"}}
"""


@pytest.mark.parametrize(
    "files",
    [
        pipfile_lock({"pkg": FINE}, {"pkg": FORGED}),
        {
            "pylock.toml": 'lock-version = "1.0"\ncreated-by = "x"\n'
            + PYLOCK.format(version="1.0", os="nt", digest=GOOD)
            + PYLOCK.format(version="2.0", os="posix", digest=OTHER)
        },
        {
            "requirements.txt": f"pkg==1; os_name=='nt' --hash=sha256:{GOOD}\n"
            f"pkg==1; os_name=='posix' --hash=sha256:{OTHER}\n"
        },
    ],
    ids=["section", "environment", "marker"],
)
def test_every_entry_of_a_package_is_checked(files: dict[str, str]) -> None:
    assert found_in(files) == [(IssueId.INVALID_ARTIFACT_HASH, NoteLevel.ERROR)]


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        ({"file": "https://h.example/evil-1.whl"}, NoteLevel.ERROR),
        ({"path": "HTTPS://h.example/evil-1.whl"}, NoteLevel.ERROR),
        ({"git": "https://h.example/evil", "ref": "main"}, NoteLevel.ERROR),
        ({"git": "https://h.example/evil", "editable": True}, NoteLevel.ERROR),
        ({"path": ".", "editable": True}, NoteLevel.WARNING),
        ({"path": "./wheels/own-1.whl"}, NoteLevel.WARNING),
    ],
)
def test_what_comes_from_no_index_is_reported(entry: dict[str, Any], level: NoteLevel) -> None:
    assert found_in(pipfile_lock({"pkg": FINE, "evil": entry})) == [(IssueId.UNVERIFIABLE, level)]


def test_the_locks_own_indexes_are_looked_at_beside_those_of_its_manifest() -> None:
    pipfile = "[[source]]\nname='pypi'\nurl='https://index.example/simple'\nverify_ssl=true\n"
    files = {"Pipfile": pipfile + "[packages]\npkg='*'\n"}
    called = {
        "https://index.example/simple": "pypi", "pypi": "https://else.example/simple",
        "https://else.example/simple": "https://else.example/simple",
    }  # fmt: skip
    unnamed = {"pkg": {**FINE, "index": None}}
    lock = pipfile_lock(unnamed, url="https://else.example/simple", verify_ssl=False)
    found = found_in(files | lock, called=called)
    assert (IssueId.SOURCE_NOT_WHITELISTED, NoteLevel.ERROR) in found
    assert (IssueId.INSECURE_SOURCE, NoteLevel.WARNING) in found


@pytest.mark.parametrize(
    "line",
    [
        "-i HTTP://index.example/simple",
        "--trusted-host index.example",
        "--find-links http://index.example/files",
    ],
)
def test_an_insecure_place_is_reported_however_it_is_written(line: str) -> None:
    text = f"{line}\npkg==1 --hash=sha256:{GOOD}\n"
    names = {"index-url", "find-links-1", "pypi"}
    assert found_in({"requirements.txt": text}, allowed=names) == [
        (IssueId.INSECURE_SOURCE, NoteLevel.WARNING)
    ]


def test_without_a_hash_the_index_that_the_lock_names_has_to_have_the_package() -> None:
    assert ids(locked(index="ours"), listing()) == [
        IssueId.NO_HASH,
        IssueId.ARTIFACT_DIFFERENT_SOURCE,
    ]


HERE = "https://files.example/pkg-1.0-a.whl"
PLACES = {"pypi": IndexLocation("https://index.example/simple", frozenset({"kept.example"}))}


def placed(url: str | None, **more: Any) -> LockEntry:
    """The package whose one file a lock places at an address."""
    files = (LockedFile(**{"filename": "pkg-1.0-a.whl", "url": url, "sha256": GOOD, **more}),)
    return replace(locked(GOOD, index="pypi"), files=files)


def found_at(package: LockEntry, **more: Any) -> list[tuple[IssueId, NoteLevel]]:
    found = issues(package, listing(file(size_bytes=7), **more), places=PLACES)
    return [(it.id, it.type) for it in found]


@pytest.mark.parametrize("url", [HERE, "HTTPS://Files.example:443/pkg%2D1.0-a.whl#x", None])
def test_a_file_where_its_index_serves_it_is_no_issue(url: str | None) -> None:
    assert found_at(placed(url, size_bytes=7), addresses={"pkg-1.0-a.whl": HERE}) == []


@pytest.mark.parametrize("name", ["pkg-1.0-a.whl", "other.whl"])
@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/pkg-1.0-a.whl",
        "https://files.example@evil.example/pkg-1.0-a.whl",
        "https://files.example:8443/pkg-1.0-a.whl",
        "https://files.example/else/pkg-1.0-a.whl",
        "https://files.example:none/pkg-1.0-a.whl",
    ],
)
def test_a_file_that_was_moved_elsewhere_is_an_error(url: str, name: str) -> None:
    found = found_at(placed(url, filename=name), addresses={"pkg-1.0-a.whl": HERE})
    assert found == [(IssueId.ARTIFACT_DIFFERENT_SOURCE, NoteLevel.ERROR)]


def test_a_file_by_http_is_insecure_beside_that() -> None:
    assert found_at(
        placed("http://evil.example/pkg-1.0-a.whl"), addresses={"pkg-1.0-a.whl": HERE}
    ) == [
        (IssueId.ARTIFACT_DIFFERENT_SOURCE, NoteLevel.ERROR),
        (IssueId.INSECURE_SOURCE, NoteLevel.WARNING),
    ]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://index.example/files/pkg-1.0-a.whl", []),
        ("https://kept.example/pkg-1.0-a.whl", []),
        ("https://evil.example/pkg-1.0-a.whl", [(IssueId.UNVERIFIABLE, NoteLevel.WARNING)]),
    ],
)
def test_without_known_addresses_the_host_has_to_be_one_of_the_index(
    url: str, expected: list[tuple[IssueId, NoteLevel]]
) -> None:
    assert found_at(placed(url)) == expected


def test_hosts_of_other_files_of_the_release_are_known() -> None:
    assert found_at(placed(HERE), addresses={"b.whl": "https://files.example/b.whl"}) == []


def test_addresses_of_an_index_that_is_read_by_a_mirror_cannot_be_compared() -> None:
    package = replace(placed(HERE), index="https://other.example/simple")
    found = issues(
        package,
        listing(addresses={"pkg-1.0-a.whl": "https://mirror.example/pkg-1.0-a.whl"}),
        called={"https://other.example/simple": "pypi"},
        places=PLACES,
    )
    assert [(it.id, it.type) for it in found] == [(IssueId.UNVERIFIABLE, NoteLevel.WARNING)]
    assert "mirror" in found[0].remedy


def test_another_size_than_that_of_the_file_is_an_error() -> None:
    package = placed(HERE, size_bytes=8)
    assert found_at(package, addresses={"pkg-1.0-a.whl": HERE}) == [
        (IssueId.INVALID_ARTIFACT_SIZE, NoteLevel.ERROR)
    ]


def test_where_a_lock_places_files_is_read() -> None:
    text = PYLOCK.format(version="1.0", os="nt", digest=GOOD).replace(
        "https://h.example", "https://me:word@evil.example"
    )
    files = {"pylock.toml": 'lock-version = "1.0"\ncreated-by = "x"\n' + text}
    assert found_in(files) == [(IssueId.UNVERIFIABLE, NoteLevel.WARNING)]
    (entry,) = parse_project({"pylock.toml": files["pylock.toml"].encode()}).lock_entries
    assert entry.files[0].url == "https://evil.example/pkg-1.0-py3-none-any.whl"


def test_two_indexes_of_one_name_are_reported_by_their_addresses() -> None:
    package = locked(GOOD, index="pypi")
    found = issues(
        package, listing(), called={"pypi": "https://else.example/simple"}, places=PLACES
    )
    (told,) = [it for it in found if it.id is IssueId.ARTIFACT_DIFFERENT_SOURCE]
    assert told.justification == (
        "the lock names pypi (https://else.example/simple), but the file is on "
        "pypi (https://index.example/simple)"
    )


def test_what_a_requirements_file_cannot_say_is_no_warning() -> None:
    project = parse_project({"requirements.txt": f"pkg==1 --hash=sha256:{GOOD}\n".encode()})
    found = check_lock(
        project, KnownIndexes({("pkg", "1"): [listing(index="ours")]}, ("ours", "pypi"))
    )
    assert [(it.id, it.type) for it in found] == [
        (IssueId.ARTIFACT_POSSIBLE_DIFFERENT_SOURCE, NoteLevel.INFO)
    ]
