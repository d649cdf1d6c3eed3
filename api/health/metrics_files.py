"""Folders in which a group of processes shares its metrics.

This module does not import the Prometheus client, which reads the environment on import.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from common.private_folders import private_folder

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_LOG = logging.getLogger(__name__)


@contextmanager
def metrics_folder(root: Path, role: str) -> Iterator[Path | None]:
    """Make a folder below ``root`` for this process and its children, and remove it at exit.

    Folders of dead processes of this machine are removed, too. The name contains the host name,
    because containers may share ``root`` and have the same process IDs. If the folder cannot be
    made, for example on a full disk, each process keeps its own metrics in memory.
    """
    try:
        folder = _folder(root, role)
    except OSError as error:
        _LOG.warning("metrics_not_shared", extra={"error": str(error)})
        yield None
        return
    os.environ[_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(_VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


def _folder(root: Path, role: str) -> Path:
    host = socket.gethostname()
    private_folder(root)
    for left in root.glob(f"*@{host}@*"):
        pid = left.name.rpartition("@")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"{role}@{host}@{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def files() -> list[str] | None:
    """Return the files of all process groups below the same root; ``None`` if no folder is set."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return None
    return [str(path) for path in Path(folder).parent.glob("*@*@*/*.db")]
