"""Files of a lock against what indexes serve: each issue by a lock that has it."""

import json
from dataclasses import replace
from typing import Any

from adviser.projects.parsing import parse_project
from adviser.projects.project import Project, ProjectIndex, ProjectWarning, WarningCode
from adviser.provenance import IndexLocation, IssueId, KnownIndexes, ProvenanceIssue, check_lock
from common.formats.locks.entries import LockedFile, LockEntry
from model.packages.releases import ReleaseFile, ReleaseListing
from tests.factories.golden import compare_views

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


def found_in(files: dict[str, str], **more: Any) -> list[ProvenanceIssue]:
    """Issues of a project whose every version is served with the good hash."""
    project = parse_project({name: text.encode() for name, text in files.items()})
    listings = {(it.name, it.version): [listing()] for it in project.lock_entries}
    places = {"pypi": IndexLocation("https://index.example/simple", frozenset({"h.example"}))}
    return check_lock(project, KnownIndexes(listings, **{"places": places, **more}))


def pipfile_lock(default: Any, develop: Any = None, **source: Any) -> dict[str, str]:
    sources = [{"name": "pypi", "url": "https://index.example/simple", **source}]
    meta = {"sources": sources, "requires": {}}
    return {
        "Pipfile.lock": json.dumps({"_meta": meta, "default": default, "develop": develop or {}})
    }


def with_entry(entry: dict[str, Any]) -> list[ProvenanceIssue]:
    return found_in(pipfile_lock({"pkg": FINE, "evil": entry}))


def with_line(line: str, **more: Any) -> list[ProvenanceIssue]:
    return found_in({"requirements.txt": f"pkg==1 --hash=sha256:{GOOD}\n{line}\n"}, **more)


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
LOCKED_FOR_WINDOWS = PYLOCK.format(version="1.0", os="nt", digest=GOOD)
LOCKED_FOR_LINUX = PYLOCK.format(version="2.0", os="posix", digest=OTHER)
PYLOCK_HEAD = 'lock-version = "1.0"\ncreated-by = "x"\n'
MOVED = LOCKED_FOR_WINDOWS.replace("https://h.example", "https://me:hidden@evil.example")
#: The manifest has another index than its lock.
MANIFEST = {
    "Pipfile": "[[source]]\nname='pypi'\nurl='https://index.example/simple'\nverify_ssl=true\n"
    "[packages]\npkg='*'\n"
}
ELSEWHERE = {
    "https://index.example/simple": "pypi", "pypi": "https://else.example/simple",
    "https://else.example/simple": "https://else.example/simple",
}  # fmt: skip
OUTDATED = Project(
    locked={},
    indexes=(ProjectIndex("plain", "http://index.example/simple"),),
    warnings=(ProjectWarning(WarningCode.LOCK_OUTDATED, "for another Pipfile", "lock:$"),),
)
NAMES = {"index-url", "find-links-1", "pypi"}

HERE = "https://files.example/pkg-1.0-a.whl"
PLACES = {"pypi": IndexLocation("https://index.example/simple", frozenset({"kept.example"}))}
KNOWN = {"pkg-1.0-a.whl": HERE}


def placed(url: str | None, **more: Any) -> LockEntry:
    """The package whose one file a lock places at an address."""
    files = (LockedFile(**{"filename": "pkg-1.0-a.whl", "url": url, "sha256": GOOD, **more}),)
    return replace(locked(GOOD, index="pypi"), files=files)


def found_at(package: LockEntry, **more: Any) -> list[ProvenanceIssue]:
    return issues(package, listing(file(size_bytes=7), **more), places=PLACES)


CASES = {
    "a file that its index serves": issues(locked(GOOD, index="pypi"), listing()),
    "another hash": issues(locked(OTHER), listing()),
    "another hash beside the right one": issues(
        locked(OTHER, GOOD), listing(file(attested=False))
    ),
    "a package that no index has": issues(locked(GOOD)),
    "no hash": issues(locked(), listing()),
    "no hash, and the index lacks the package": issues(locked(index="ours"), listing()),
    "only a hash that indexes do not have": issues(
        replace(locked(), hashes=(f"sha512:{'c' * 128}",)), listing()
    ),
    "a weak hash beside a good one": issues(
        replace(locked(), hashes=(f"sha256:{GOOD}", f"md5:{'c' * 32}")), listing()
    ),
    "a file on another index than the lock names": issues(
        locked(GOOD, index="pypi"), listing(index="ours")
    ),
    "a file on another index": issues(locked(GOOD), listing(index="ours")),
    "a file on another index than requirements can name": check_lock(
        parse_project({"requirements.txt": f"pkg==1 --hash=sha256:{GOOD}\n".encode()}),
        KnownIndexes({("pkg", "1"): [listing(index="ours")]}, ("ours", "pypi")),
    ),
    "other files on another index": issues(
        locked(GOOD), listing(), listing(file(OTHER), index="ours")
    ),
    "a file that is gone": issues(locked(OTHER), listing(gone=(file(OTHER),))),
    "files that are not all known": issues(locked(OTHER), listing(complete=False)),
    "a yanked release": issues(locked(GOOD), listing(yanked=True, yanked_reason="broken")),
    "no attestation": issues(locked(GOOD), listing(file(attested=False))),
    "no knowledge of attestations": issues(locked(GOOD), listing(file(attested=None))),
    "an index that is not allowed": issues(locked(GOOD, index="else"), listing(index="else")),
    "an index by an unknown name": issues(locked(GOOD, index="main"), listing()),
    "an index by a known name": issues(
        locked(GOOD, index="main"), listing(), called={"main": "pypi"}
    ),
    "two indexes of one name": issues(
        locked(GOOD, index="pypi"), listing(), places=PLACES,
        called={"pypi": "https://else.example/simple"},
    ),
    "an insecure index and an outdated lock": check_lock(OUTDATED, KnownIndexes({})),
    "a forged entry in another section": found_in(pipfile_lock({"pkg": FINE}, {"pkg": FORGED})),
    "a forged entry for another environment": found_in(
        {"pylock.toml": PYLOCK_HEAD + LOCKED_FOR_WINDOWS + LOCKED_FOR_LINUX}
    ),
    "a forged entry with another marker": found_in(
        {
            "requirements.txt": f"pkg==1; os_name=='nt' --hash=sha256:{GOOD}\n"
            f"pkg==1; os_name=='posix' --hash=sha256:{OTHER}\n"
        }
    ),
    "an entry from a URL": with_entry({"file": "https://h.example/evil-1.whl"}),
    "an entry from a URL with a hash": with_entry({**FINE, "file": "https://h.example/e-1.whl"}),
    "an entry from a repository": with_entry({"git": "https://h.example/evil", "ref": "main"}),
    "an editable entry from a repository": with_entry(
        {"git": "https://h.example/evil", "editable": True}
    ),
    "an editable entry from a path": with_entry({"path": ".", "editable": True}),
    "an entry from a path": with_entry({"path": "./wheels/own-1.whl"}),
    "a line from a URL": with_line("evil @ https://h.example/evil-1.whl"),
    "an editable line from a repository": with_line("-e git+https://h.example/evil#egg=evil"),
    "an editable line from a path": with_line("-e ."),
    "an index by HTTP": with_line("-i HTTP://index.example/simple", allowed=NAMES),
    "a trusted host": with_line("--trusted-host index.example", allowed=NAMES),
    "links by HTTP": with_line("--find-links http://index.example/files", allowed=NAMES),
    "the index of a lock beside that of its manifest": found_in(
        MANIFEST
        | pipfile_lock(
            {"pkg": {**FINE, "index": None}}, url="https://else.example/simple", verify_ssl=False
        ),
        called=ELSEWHERE,
    ),
    "a file where its index serves it": found_at(placed(HERE, size_bytes=7), addresses=KNOWN),
    "the URL in another spelling": found_at(
        placed("HTTPS://Files.example:443/pkg%2D1.0-a.whl#x"), addresses=KNOWN
    ),
    "no URL": found_at(placed(None), addresses=KNOWN),
    **{
        f"a file at {url}": found_at(placed(url), addresses=KNOWN)
        for url in (
            "https://evil.example/pkg-1.0-a.whl", "http://evil.example/pkg-1.0-a.whl",
            "https://files.example@evil.example/pkg-1.0-a.whl",
            "https://files.example:8443/pkg-1.0-a.whl",
            "https://files.example/else/pkg-1.0-a.whl",
            "https://files.example:none/pkg-1.0-a.whl",
        )
    },
    "a file elsewhere by another name": found_at(
        placed("https://evil.example/pkg-1.0-a.whl", filename="other.whl"), addresses=KNOWN
    ),
    **{
        f"a file at {host}, and the index has no URLs": found_at(placed(f"https://{host}/a.whl"))
        for host in ("index.example", "kept.example", "evil.example")
    },
    "a host of another file of the release": found_at(
        placed(HERE), addresses={"b.whl": "https://files.example/b.whl"}
    ),
    "an index that is read by a mirror": issues(
        replace(placed(HERE), index="https://other.example/simple"),
        listing(addresses={"pkg-1.0-a.whl": "https://mirror.example/pkg-1.0-a.whl"}),
        called={"https://other.example/simple": "pypi"}, places=PLACES,
    ),
    "another size": found_at(placed(HERE, size_bytes=8), addresses=KNOWN),
    "a pylock with a file elsewhere": found_in({"pylock.toml": PYLOCK_HEAD + MOVED}),
}  # fmt: skip


def test_provenance_reports_files_that_differ_from_their_index() -> None:
    views = {}
    for title, found in CASES.items():
        views[title] = "\n".join(
            f"{it.type} {it.id}: {it.justification}\n  {it.remedy}" for it in found
        )
        assert all(it.remedy for it in found)
        assert "hidden" not in views[title]
    compare_views("provenance", views)
    found_ids = {it.id for several in CASES.values() for it in several}
    assert found_ids == set(IssueId)


def test_provenance_issue_names_its_package_and_version() -> None:
    (issue,) = issues(locked(OTHER), listing())
    document = issue.document()
    assert (document["package_name"], document["package_version"]) == ("pkg", "==1.0")
