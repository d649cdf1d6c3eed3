"""Temporary folders, and what killed owners left."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pis.temporary_folders import scratch_folder

PROGRAM = """
import sys
from pis.temporary_folders import scratch_folder
with scratch_folder("job") as folder:
    print(folder)
"""


def swept_by_another(folder: Path) -> Path:
    """A process makes a folder there, and is gone."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM]
    return Path(subprocess.check_output(command, env=environment, text=True).strip())


@pytest.fixture
def abandoned(tmp_path: Path) -> Path:
    """What a process left that is dead."""
    with subprocess.Popen(["/bin/true"]) as process:
        process.wait()
    folder = tmp_path / f"thoth-job-{process.pid}-abcdefgh"
    (folder / "work").mkdir(parents=True)
    return folder


def test_scratch_folder_names_its_owner_and_is_removed(tmp_path: Path) -> None:
    with scratch_folder("job") as folder:
        assert folder.name.startswith(f"thoth-job-{os.getpid()}-")
        (folder / "file").write_text("words")
    assert not folder.exists()
    assert not swept_by_another(tmp_path).exists()


def test_scratch_folder_of_a_killed_owner_is_removed(tmp_path: Path, abandoned: Path) -> None:
    swept_by_another(tmp_path)
    assert not abandoned.exists()


def test_processes_that_use_an_abandoned_folder_are_ended(tmp_path: Path, abandoned: Path) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen([*sleep, f"{abandoned}/work/script.py"]) as survivor,
        subprocess.Popen([*sleep, f"{tmp_path}/script.py"]) as other,
    ):
        swept_by_another(tmp_path)
        assert survivor.wait() == -signal.SIGKILL
        assert other.poll() is None
        other.kill()


def test_scratch_folder_of_a_living_owner_is_kept(tmp_path: Path, abandoned: Path) -> None:
    mine = tmp_path / f"thoth-job-{os.getpid()}-abcdefgh"
    mine.mkdir()
    link = tmp_path / f"{abandoned.name}x"
    link.symlink_to(mine)
    # In another namespace of processes an owner may live that is not seen from here.
    descriptor = os.open(abandoned, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    swept_by_another(tmp_path)
    os.close(descriptor)
    assert mine.exists()
    assert link.is_symlink()
    assert abandoned.exists()
