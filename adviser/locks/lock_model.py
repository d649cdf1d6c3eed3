"""The input of lock writers: the chosen packages with their files."""

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

from model.errors import ProjectError
from model.packages.environments import Environment
from model.packages.identity import DEFAULT_INDEX
from model.packages.releases import ReleaseFile


class LockFormat(StrEnum):
    """The formats of locks; the values are those of the option ``--format``."""

    PIPFILE_LOCK = "pipfile-lock"
    REQUIREMENTS = "requirements"
    PYLOCK = "pylock"
    CONSTRAINTS = "constraints"


class UnwritableLock(ProjectError):
    """A stack cannot be written in this format; the message names the package and the cause."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class LockablePackage:
    """A package of a stack with the data that locks need.

    :param index: name of the index that serves the package
    :param files: files of the release; those without a SHA-256 are not locked
    :param extras: required extras, sorted
    :param marker: marker of the requirement; ``None`` for always
    :param dependencies: names of the packages of the stack that it requires
    :param urls: URL by file name; required for ``pylock``
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

    :param name: usual file name
    :param sha256: hexadecimal digits of ``data``
    """

    format: LockFormat
    name: str
    data: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class LockOptions:
    """Options of a lock in addition to its packages.

    :param environment: the environment that the lock is for
    :param indexes: URL by name of this machine's indexes, in search order
    :param all_files: list every file of a release, not only those that fit the environment
    :param published_before: leave out files published later or at an unknown time, even if the
        release itself is older (a cooldown)
    """

    environment: Environment
    indexes: Mapping[str, str] = field(default_factory=dict)
    all_files: bool = True
    published_before: datetime | None = None


_INSTALLED = frozenset({"wheel", "sdist"})


def locked_files(chosen: LockablePackage, options: LockOptions) -> list[ReleaseFile]:
    """The files of a package that a lock lists: wheels first, then by file name.

    Only wheels and source distributions with a SHA-256 are listed. Yanked files are listed only if
    all files are yanked, as in a yanked release that is pinned. Without ``all_files``, only fitting
    wheels are listed. Files published after ``published_before`` are left out.

    :raises UnwritableLock: if no file is left
    """
    usable = [it for it in chosen.files if it.kind in _INSTALLED and it.sha256]
    if options.published_before is not None:
        end = options.published_before
        usable = [it for it in usable if it.uploaded_at and it.uploaded_at < end]
    kept = [it for it in usable if not it.yanked] or usable
    if not options.all_files:
        kept = [it for it in kept if fits(it, options)]
    if not kept:
        missing = "fitting wheel with a SHA-256" if usable else "file with a SHA-256"
        if options.published_before is not None:
            missing += f" from before {options.published_before:%Y-%m-%d}"
        raise UnwritableLock(
            f"{chosen.name} {chosen.version}: no {missing} is known",
            "`thoth packages refresh` reads the files that its index lists",
        )
    return sorted(kept, key=lambda it: (it.kind != "wheel", it.filename))


def hashes_of(chosen: LockablePackage, options: LockOptions) -> list[str]:
    """Hashes of the locked files as ``sha256:…``, sorted and unique."""
    return sorted({f"sha256:{it.sha256}" for it in locked_files(chosen, options)})


def fits(file: ReleaseFile, options: LockOptions) -> bool:
    """Whether a file is a wheel that fits the environment of the lock."""
    if file.kind != "wheel":
        return False
    try:
        tags = parse_wheel_filename(file.filename)[3]
    except (InvalidWheelFilename, ValueError):
        return False
    return any(tag in options.environment.ranks for tag in tags)


def has_matching_name(file: ReleaseFile, chosen: LockablePackage) -> bool:
    """Whether a file name contains this package and version, as PEP 751 requires."""
    try:
        if file.kind == "wheel":
            name, version, *_ = parse_wheel_filename(file.filename)
        else:
            name, version = parse_sdist_filename(file.filename)
    except (InvalidWheelFilename, InvalidSdistFilename, ValueError):
        return False
    return (name, str(version)) == (chosen.name, chosen.version)
