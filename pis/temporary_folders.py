"""Temporary folders named after their owner; the next process cleans up after a killed owner."""

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
    """Make a folder that is removed when the ``with`` block ends.

    :param kind: part of its name, in lower-case letters
    """
    _sweep()
    folder = tempfile.TemporaryDirectory(prefix=f"thoth-{kind}-{os.getpid()}-")
    with folder as name, _locked(Path(name)):
        yield Path(name)


@cache
def _sweep() -> None:
    """Remove this user's folders whose owner has died, and end the processes that use them."""
    with os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if _NAME.fullmatch(entry.name)]
    for path in map(Path, names):
        with contextlib.suppress(OSError):
            if _is_abandoned(path):
                with _locked(path):
                    _end_users(path)
                    shutil.rmtree(path, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    match, status = _NAME.fullmatch(path.name), path.lstat()
    owner = int(match["pid"]) if match else os.getpid()
    own = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return own and not psutil.pid_exists(owner)


def _end_users(folder: Path) -> None:
    """End this user's processes that have a path in ``folder`` among their arguments.

    A process can ask the kernel to end it with its parent, but only after the process has started.
    If the parent is killed before that, the process survives. For example, bubblewrap's first
    process survives with its job.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().real == os.getuid() and any(
                argument.startswith(f"{folder}/") for argument in process.cmdline()
            ):
                process.kill()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock ``folder``, because containers that share it do not see each other's processes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
