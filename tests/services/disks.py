"""Small disks, which tests can fill."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graph.embedded.home import free_bytes


def mounted(folder: Path, *arguments: str) -> bool:
    """Run ``mount`` on a folder; whether it succeeded."""
    command = ["/usr/bin/env", "mount", *arguments, str(folder)]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@contextmanager
def mounted_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A disk of this size, mounted at a new folder; without the rights to mount it a skip."""
    folder.mkdir()
    if shutil.which("mount") is None or not mounted(
        folder, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"
    ):
        pytest.skip("only root can mount a disk, and some containers forbid it")
    try:
        yield folder
    finally:
        subprocess.run(["/usr/bin/env", "umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """Write a file that takes all space; deleting it frees the space."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while left := free_bytes(disk):
            file.write(bytes(min(left, 1 << 20)))
    return filler
