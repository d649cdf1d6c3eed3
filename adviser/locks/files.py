"""Which files of a release a lock names, and by which hashes."""

from __future__ import annotations

from datetime import datetime

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

from adviser.locks.stacks import Chosen, LockOptions, NoLock
from common.releases import ReleaseFile

_INSTALLED = frozenset({"wheel", "sdist"})


def locked_files(chosen: Chosen, options: LockOptions) -> list[ReleaseFile]:
    """The files of a package that a lock names, by file name, wheels first.

    Only what an installer takes and an index names by its SHA-256: yanked files only if all
    are, as of a yanked release that was pinned; with ``all_files`` off, wheels that fit. A file
    that was added to a release since ``published_before`` is none of it yet.

    :raises NoLock: if there is none
    """
    usable = [it for it in chosen.files if it.kind in _INSTALLED and it.sha256]
    if options.published_before is not None:
        usable = [it for it in usable if _is_before(it, options.published_before)]
    kept = [it for it in usable if not it.yanked] or usable
    if not options.all_files:
        kept = [it for it in kept if fits(it, options)]
    if not kept:
        what = "a wheel that fits and has a SHA-256" if usable else "a file with a SHA-256"
        if options.published_before is not None:
            what += f" from before {options.published_before:%Y-%m-%d}"
        raise NoLock(
            f"{chosen.name} {chosen.version}: {what} is not known",
            "`thoth packages refresh` reads what its index says of its files",
        )
    return sorted(kept, key=lambda it: (it.kind != "wheel", it.filename))


def _is_before(it: ReleaseFile, moment: datetime) -> bool:
    return it.uploaded_at is not None and it.uploaded_at < moment


def hashes_of(chosen: Chosen, options: LockOptions) -> list[str]:
    """``sha256:`` and digits, sorted, none twice."""
    return sorted({f"sha256:{it.sha256}" for it in locked_files(chosen, options)})


def fits(file: ReleaseFile, options: LockOptions) -> bool:
    """Whether a file is a wheel that the environment of the lock takes."""
    if file.kind != "wheel":
        return False
    try:
        tags = parse_wheel_filename(file.filename)[3]
    except (InvalidWheelFilename, ValueError):
        return False
    return any(tag in options.environment.ranks for tag in tags)


def is_named_well(file: ReleaseFile, chosen: Chosen) -> bool:
    """Whether a file's name says this package and version, as PEP 751 demands."""
    try:
        if file.kind == "wheel":
            name, version, *_ = parse_wheel_filename(file.filename)
        else:
            name, version = parse_sdist_filename(file.filename)
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return False
    return (name, str(version)) == (chosen.name, chosen.version)
