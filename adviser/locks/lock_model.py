"""What a lock is made of: the chosen packages with their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)

from common.environments import Environment
from common.errors import ProjectError
from common.packages import DEFAULT_INDEX
from common.releases import ReleaseFile


class LockFormat(StrEnum):
    """What a lock can be written as; the values are those of ``--format``."""

    PIPFILE_LOCK = "pipfile-lock"
    REQUIREMENTS = "requirements"
    PYLOCK = "pylock"
    CONSTRAINTS = "constraints"


class UnwritableLock(ProjectError):
    """A stack that cannot be written in a format; the text names package and cause."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class LockablePackage:
    """One package of a stack.

    :param index: name of the index that serves it
    :param files: of the release; yanked ones and those without a SHA-256 are not locked
    :param extras: asked of it, sorted
    :param marker: of the requirement, ``None`` for always
    :param dependencies: names of the packages of the stack that it requires
    :param urls: where files are, by file name; ``pylock`` cannot be written without them
    """

    name: str
    version: str
    index: str = DEFAULT_INDEX
    files: tuple[ReleaseFile, ...] = ()
    extras: tuple[str, ...] = ()
    marker: str | None = None
    dependencies: tuple[str, ...] = ()
    requires_python: str | None = None
    urls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LockFile:
    """A lock as bytes.

    :param name: what the file is usually called
    :param sha256: hexadecimal digits of ``data``
    """

    format: LockFormat
    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class LockOptions:
    """What a lock says beside its packages.

    :param environment: what it is for
    :param indexes: of this machine, name to address, in the order in which they are searched
    :param all_files: list every file of a release, not only those that fit the environment
    :param published_before: files since then, or of which nobody knows when, are left out, also
        of a release that is older (a cooldown)
    """

    environment: Environment
    indexes: Mapping[str, str] = field(default_factory=dict)
    all_files: bool = True
    published_before: datetime | None = None


_INSTALLED = frozenset({"wheel", "sdist"})


def locked_files(chosen: LockablePackage, options: LockOptions) -> list[ReleaseFile]:
    """The files of a package that a lock names, by file name, wheels first.

    Only what an installer takes and an index names by its SHA-256: yanked files only if all
    are, as of a yanked release that was pinned; with ``all_files`` off, wheels that fit. A file
    that was added to a release since ``published_before`` is none of it yet.

    :raises UnwritableLock: if there is none
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
        raise UnwritableLock(
            f"{chosen.name} {chosen.version}: {what} is not known",
            "`thoth packages refresh` reads what its index says of its files",
        )
    return sorted(kept, key=lambda it: (it.kind != "wheel", it.filename))


def _is_before(it: ReleaseFile, moment: datetime) -> bool:
    return it.uploaded_at is not None and it.uploaded_at < moment


def hashes_of(chosen: LockablePackage, options: LockOptions) -> list[str]:
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


def is_named_well(file: ReleaseFile, chosen: LockablePackage) -> bool:
    """Whether a file's name says this package and version, as PEP 751 demands."""
    try:
        if file.kind == "wheel":
            name, version, *_ = parse_wheel_filename(file.filename)
        else:
            name, version = parse_sdist_filename(file.filename)
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return False
    return (name, str(version)) == (chosen.name, chosen.version)
