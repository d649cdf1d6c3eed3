"""What a lock is made of: the chosen packages with their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

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


class NoLock(ProjectError):
    """A stack that cannot be written in a format; the text names package and cause."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Chosen:
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
