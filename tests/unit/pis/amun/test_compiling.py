"""How the compilation of an environment ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.services.waiting import DEADLINE_S, wait_until

PROGRAM = """
import sys
from pathlib import Path
from pis.amun.environments import _compile, find_interpreter
from pis.amun.installer import BuildLog
log = BuildLog()
_compile(Path(sys.argv[1]), find_interpreter(None, log), log)
"""


def is_gone(process: psutil.Process) -> bool:
    """Whether a process has ended; nobody may be there to collect it."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE or not process.is_running()
    except psutil.NoSuchProcess:
        return True


def test_no_worker_outlives_a_killed_runner(tmp_path: Path) -> None:
    for number in range(500):  # a minute of work
        (tmp_path / f"module_{number}.py").write_text("x = [" + "1 + y, " * 10_000 + "]\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
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
