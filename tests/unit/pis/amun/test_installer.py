"""How the installer and the compilation of an environment end."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from pis.amun import installer
from pis.amun.installer import BuildLog, run_installer
from pis.amun.launchers import BuildFailed
from tests.factories.errors import raised
from tests.services.waiting import DEADLINE_S, wait_until

#: Stands for uv with a worker of its own.
SLEEPS = "#!/bin/sh\nsleep 600 &\necho $! > worker.part\nmv worker.part worker\nexec sleep 600\n"
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
    wait_until((folder / "worker").exists, "the installer's worker runs")
    return psutil.Process(int((folder / "worker").read_text()))


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; nobody may be there to collect it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or not process.is_running()
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_installer_process_ends_when_its_runner_ends(folder: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        worker = worker_of(folder)
        (started,) = psutil.Process(process.pid).children()
        process.send_signal(number)
        process.wait(DEADLINE_S)
    wait_until(lambda: is_gone(started), "the installer has ended")
    if number is signal.SIGKILL:  # only the kernel could act: uv's workers end with their pipes
        worker.kill()
    wait_until(lambda: is_gone(worker), "the installer's worker has ended")


def test_installer_ends_at_its_time_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uv.find_uv_bin", lambda: str(folder / "uv"))
    monkeypatch.setattr(installer, "TIMEOUT_S", 0.1)
    communicate = subprocess.Popen.communicate

    def communicate_when_at_work(process: subprocess.Popen[str], timeout: float) -> Any:
        worker_of(folder)
        return communicate(process, timeout=timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate_when_at_work)
    with raised(BuildFailed, reason="timed-out"):
        run_installer([], {"PATH": "/usr/bin:/bin"}, folder, BuildLog())
    worker = int((folder / "worker").read_text())
    assert not psutil.pid_exists(worker) or is_gone(psutil.Process(worker))


COMPILING = """
import sys
from pathlib import Path
from pis.amun.environments import _compile, find_interpreter
from pis.amun.installer import BuildLog
log = BuildLog()
_compile(Path(sys.argv[1]), find_interpreter(None, log), log)
"""


def test_killed_runner_leaves_no_installer_process(tmp_path: Path) -> None:
    for number in range(500):  # a minute of work
        (tmp_path / f"module_{number}.py").write_text("x = [" + "1 + y, " * 10_000 + "]\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COMPILING, str(tmp_path)]
    with subprocess.Popen(command, env=environment) as process:
        wait_until(lambda: any(tmp_path.glob("__pycache__/*.pyc")), "a worker compiles")
        started = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    try:
        wait_until(lambda: all(map(is_gone, started)), "all workers have ended")
    finally:
        for it in started:
            if not is_gone(it):
                it.kill()
