"""How the installer ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pis.amun import installer
from pis.amun.installer import BuildLog, run_installer
from pis.amun.launchers import BuildFailed

#: Stands for uv with a worker of its own.
SLEEPS = "#!/bin/sh\nsleep 60 &\necho $! > worker.part\nmv worker.part worker\nexec sleep 60\n"
PROGRAM = """
import sys, uv
from pathlib import Path
from pis.amun.installer import BuildLog, run_installer
from pis.amun.processes import interrupted_by_signals
folder = Path(sys.argv[1])
uv.find_uv_bin = lambda: str(folder / "uv")
with interrupted_by_signals():
    run_installer([], {"PATH": "/usr/bin:/bin"}, folder, BuildLog())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where ``uv`` is one that sleeps."""
    (tmp_path / "uv").write_text(SLEEPS)
    (tmp_path / "uv").chmod(0o755)
    return tmp_path


def worker_of(folder: Path) -> psutil.Process:
    until = time.monotonic() + 30
    while not (folder / "worker").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    return psutil.Process(int((folder / "worker").read_text()))


def is_gone(process: psutil.Process) -> bool:
    """At once or soon; nobody may be there to collect it."""
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_the_installer_ends_with_its_runner(folder: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        worker = worker_of(folder)
        (started,) = psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait(timeout=30)
    assert is_gone(started)
    if number is signal.SIGKILL:  # only the kernel could act: uv's workers end with their pipes
        worker.kill()
    assert is_gone(worker)


def test_the_installer_ends_with_its_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(folder / "uv"))
    monkeypatch.setattr(installer, "TIMEOUT_S", 1.0)
    with pytest.raises(BuildFailed) as failed:
        run_installer([], {"PATH": "/usr/bin:/bin"}, folder, BuildLog())
    assert failed.value.reason == "timed-out"
    worker = int((folder / "worker").read_text())
    assert not psutil.pid_exists(worker) or is_gone(psutil.Process(worker))
