"""Temporary folders that name their owner: what a killed one left, the next one removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psutil

_NAME = re.compile(r"thoth-[a-z]+-(?P<pid>[0-9]+)-[^-]+")


@contextlib.contextmanager
def scratch_folder(kind: str) -> Iterator[Path]:
    """A folder that is gone after.

    :param kind: a word of small letters, which its name bears
    """
    _sweep()
    made = tempfile.TemporaryDirectory(prefix=f"thoth-{kind}-{os.getpid()}-")
    with made as name, _held(Path(name)):
        yield Path(name)


@cache
def _sweep() -> None:
    """Remove the folders of this user whose owner is dead, once a process."""
    with os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    for path in map(Path, names):
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                with _held(path):
                    shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    found, status = _NAME.fullmatch(path.name), path.lstat()
    owner = int(found["pid"]) if found else os.getpid()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not psutil.pid_exists(owner)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Locked: containers that share the folder do not see each other's processes.

    :raises BlockingIOError: if its owner lives after all
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
