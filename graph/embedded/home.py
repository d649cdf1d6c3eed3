"""The folder that holds everything the embedded stores leave on disk."""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from common.errors import ServiceFailed


@dataclass(frozen=True, slots=True)
class Home:
    """Where what is kept, below ``THOTH_HOME``; every folder is for its owner alone."""

    root: Path

    @property
    def postgresql(self) -> Path:
        """PostgreSQL's data folder."""
        return self.root / "postgresql"

    @property
    def graph(self) -> Path:
        """ArcadeDB's root folder, and its working directory."""
        return self.root / "graph"

    @property
    def logs(self) -> Path:
        """One log file a store."""
        return self.root / "logs"

    @property
    def run(self) -> Path:
        """Ports and process ids, and the lock that one starter at a time holds."""
        return self.root / "run"

    @property
    def lock(self) -> Path:
        """The lock file; the kernel frees it however its holder ends."""
        return self.run / "lock"

    @property
    def secrets(self) -> Path:
        """The passwords, mode 0600."""
        return self.root / "secrets.json"

    def prepare(self) -> None:
        """Make the folders; ``OSError`` where that is not possible.

        A folder that somebody already uses for other things keeps its mode: only a
        new or an empty ``THOTH_HOME`` is closed to others, what lies below it always.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not any(self.root.iterdir()):
            self.root.chmod(0o700)
        for folder in (self.graph, self.logs, self.run):
            folder.mkdir(exist_ok=True, mode=0o700)
            folder.chmod(0o700)


def unusable(path: Path, error: OSError) -> ServiceFailed:
    """The error for a home that cannot be read or written."""
    return ServiceFailed(
        "embedded stores",
        f"{error.filename or path}: {error.strerror or error}",
        "set THOTH_HOME to a folder on a disk with room that you may write",
    )


def write_private(path: Path, text: str) -> None:
    """Replace ``path`` by ``text`` at once, mode 0600: a reader sees the old or the new."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in ``path``; ``None`` if the file is missing or no JSON object.

    :raises ServiceFailed: if the file belongs to somebody else
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
    """One password a user; none of them shows in a traceback or a log."""

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
        """The passwords in ``home``, made up at the first call; the caller holds the lock."""
        found = cls.load(home)
        if found is not None:
            return found
        # URL-safe characters only: ArcadeDB's list of users has : , [ ] as punctuation.
        created = cls(*(secrets.token_urlsafe(24) for _ in range(3)))
        write_private(home.secrets, json.dumps(asdict(created), indent=2) + "\n")
        return created
