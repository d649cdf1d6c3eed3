"""Files of a lock that says where each is, against where indexes serve it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adviser.issues import Issue, IssueId, issue_of
from adviser.places import Address, Place, address_of, may_serve
from adviser.scoring.assessments import NoteLevel
from common.formats.locks import LockedFile, LockEntry

if TYPE_CHECKING:
    from adviser.provenance import Listing, Served

#: Told once of all files of a package that are at one host.
_UNKNOWN_PLACE = "check with --live, or name the host in PACKAGE_FILE_HOSTS if it is meant"
#: The other one's addresses are not this machine's.
_MIRRORED = "check it where that index itself is read: this machine reads it by a mirror"


def of_files(locked: LockEntry, listings: Sequence[Listing], served: Served) -> Iterator[Issue]:
    """What is wrong with where a lock says that its files are, and with their sizes."""
    named = served.index_of(locked.index)
    ours = [it for it in listings if it.index == named] or list(listings)
    for it in locked.files:
        tell = partial(
            issue_of, package=locked.name, version=locked.version,
            digest=f"sha256:{it.sha256}" if it.sha256 else None,
        )  # fmt: skip
        sizes = {
            file.size_bytes
            for listing in ours
            for file in listing.files
            if it.sha256 and file.sha256 == it.sha256 and file.size_bytes is not None
        }
        if it.size_bytes is not None and sizes and it.size_bytes not in sizes:
            message = f"the lock gives {it.filename} {it.size_bytes} bytes, and it has {max(sizes)}"
            yield tell(IssueId.INVALID_ARTIFACT_SIZE, message)
        if it.url is not None:
            yield from _of_address(locked, it, it.url, ours, served)


def _of_address(
    locked: LockEntry, file: LockedFile, url: str, ours: Sequence[Listing], served: Served
) -> Iterator[Issue]:
    tell = partial(issue_of, package=locked.name, version=locked.version)
    place = address_of(url)
    where = url.partition("://")[0] + "://" + (place.host if place else "")
    if place is not None and place.scheme in ("http", "ftp"):
        message = f"the lock takes files from {where}, which is not reached by verified https"
        yield tell(IssueId.INSECURE_SOURCE, message)
    known = [
        (it.index, it.addresses[name])
        for it in ours
        for name in sorted(_names_of(file, it) & it.addresses.keys())
    ]
    if place is not None and any(address_of(it) == place for _, it in known):
        return
    at = tuple(sorted({it.index for it in ours}))
    mirrored = any(_is_mirrored(locked, served.places.get(it)) for it in at)
    if known and not mirrored:
        index, address = known[0]
        message = f"the lock takes {file.filename} from {url}, and {index} serves it at {address}"
        digest = f"sha256:{file.sha256}" if file.sha256 else None
        yield tell(IssueId.ARTIFACT_DIFFERENT_SOURCE, message, indexes=at, digest=digest)
    # Of what no index has nothing can be compared, and that is told already.
    elif at and (mirrored or not any(_may_serve(it, place, served) for it in ours)):
        message = f"whether {served.shown_all(at)} serves files at {where} is not known"
        found = tell(IssueId.UNVERIFIABLE, message, indexes=at, level=NoteLevel.WARNING)
        yield replace(found, remedy=_MIRRORED if mirrored else _UNKNOWN_PLACE)


def _names_of(file: LockedFile, listing: Listing) -> set[str]:
    """What an index calls a file: a lock may call the same bytes as it likes."""
    same = (it.filename for it in listing.files if it.sha256 and it.sha256 == file.sha256)
    return {file.filename, *same}


def _is_mirrored(locked: LockEntry, place: Place | None) -> bool:
    """Whether a lock names the address of an index that this machine reads elsewhere."""
    said, ours = address_of(locked.index or ""), address_of(place.url) if place else None
    return bool(said and ours and said.scheme and said.host != ours.host)


def _may_serve(listing: Listing, address: Address | None, served: Served) -> bool:
    """Whether an index may have files at an address, or is known to have others there."""
    if address is None:
        return False
    place = served.places.get(listing.index)
    others = map(address_of, listing.addresses.values())
    there = any(it and (it.scheme, it.host) == (address.scheme, address.host) for it in others)
    return there or (place is not None and may_serve(place, address))
