"""Where processes leave their figures for ``/metrics``: a folder a group of processes.

Nothing here imports the Prometheus client, which looks at the environment when it is imported.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def metrics_folder(root: Path, role: str) -> Iterator[Path]:
    """A folder below ``root`` for this process and its children, removed at the end.

    What processes of this machine left that are no more is removed, too. The name holds the
    host's, since containers may share ``root`` and have the same process ids.
    """
    host = socket.gethostname()
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    for left in root.glob(f"*@{host}@*"):
        pid = left.name.rpartition("@")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"{role}@{host}@{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    os.environ[_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(_VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


def files() -> list[str] | None:
    """Metrics files of all process groups below the same root; ``None`` without a folder."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return None
    return [str(path) for path in Path(folder).parent.glob("*@*@*/*.db")]
