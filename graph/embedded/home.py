"""The home folder, which contains all files of the embedded stores."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.files import PRIVATE, private_folder, write_atomically
from model.errors import ServiceFailed, StoreUnavailable

#: PostgreSQL writes its log in files of this size, and ends if it cannot create the next one.
_LOG_FILE_BYTES = 16 * 2**20

FREE_SPACE = "free space on the disk, then run the command again"

#: Errors of a disk that is full, fails, or was mounted read-only.
_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below ``THOTH_HOME``; all folders have mode 0700."""

    root: Path

    @property
    def postgresql(self) -> Path:
        """PostgreSQL's data folder."""
        return self.root / "postgresql"

    @property
    def graph(self) -> Path:
        """ArcadeDB's root folder and working directory."""
        return self.root / "graph"

    @property
    def logs(self) -> Path:
        """Log files, one for each store."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Ports and process identifiers of the stores, and the lock file."""
        return self.root / "run"

    @property
    def lock(self) -> Path:
        """The lock file; the kernel releases the lock when its holder ends."""
        return self.run / "lock"

    @property
    def secrets(self) -> Path:
        """The file with the passwords, mode 0600."""
        return self.root / "secrets.json"

    def prepare(self) -> None:
        """Create the folders.

        If ``THOTH_HOME`` already contains files, its mode is not changed, because the folder may
        have other uses.

        :raises OSError: if a folder cannot be created
        """
        if not self.root.exists() or not any(self.root.iterdir()):
            private_folder(self.root)
        for folder in (self.graph, self.logs, self.run):
            private_folder(folder)


def free_bytes(folder: Path) -> int:
    """Free space on the disk of ``folder``, in bytes, without the part reserved for root."""
    return shutil.disk_usage(folder).free


def has_full_disk(folder: Path) -> bool:
    """Whether the disk of ``folder`` has too little free space for the stores to continue."""
    return folder.exists() and free_bytes(folder) < _LOG_FILE_BYTES


@contextmanager
def disk_errors() -> Iterator[None]:
    """Treat a disk that cannot be written like a store that does not answer.

    :raises StoreUnavailable: if an error in the block was caused by the disk
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, StoreUnavailable):
            if isinstance(cause, OSError) and cause.errno in _DISK_ERRORS:
                text = os.strerror(cause.errno).lower()
                raise StoreUnavailable("the disk", text, FREE_SPACE) from error
            cause = cause.__cause__ or cause.__context__
        raise


def space_left(folder: Path) -> float:
    """Free space of a disk as a multiple of what counts as nearly full: 5 %, at most 2 GiB."""
    disk = shutil.disk_usage(folder)
    return disk.free / max(1.0, min(disk.total / 20, 2 << 30))


def unusable(path: Path, error: OSError) -> ServiceFailed:
    """The error for a home folder that cannot be read or written."""
    return ServiceFailed(
        "embedded stores",
        f"{error.filename or path}: {error.strerror or error}",
        "set THOTH_HOME to a writable folder on a disk with free space",
    )


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; ``None`` if the file is missing or contains something else.

    :raises ServiceFailed: if the file cannot be read
    """
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    except OSError as error:
        raise unusable(path, error) from error
    return content if isinstance(content, dict) else None


@dataclass(frozen=True, slots=True)
class Passwords:
    """The password of each database user, hidden from tracebacks and logs."""

    postgresql: str = field(repr=False)
    graph: str = field(repr=False)
    analyst: str = field(repr=False)

    @classmethod
    def load(cls, home: Home) -> Passwords | None:
        """The passwords in ``home``; ``None`` before the first start."""
        content = read_json(home.secrets)
        if content is None or not {"postgresql", "graph", "analyst"} <= content.keys():
            return None
        return cls(content["postgresql"], content["graph"], content["analyst"])

    @classmethod
    def load_or_create(cls, home: Home) -> Passwords:
        """The passwords in ``home``, created by the first call; the caller must hold the lock."""
        existing = cls.load(home)
        if existing is not None:
            return existing
        # URL-safe, because ArcadeDB's list of users uses : , [ ] as separators.
        created = cls(*(secrets.token_urlsafe(24) for _ in range(3)))
        write_atomically(
            home.secrets, f"{json.dumps(asdict(created), indent=2)}\n".encode(), PRIVATE
        )
        return created
