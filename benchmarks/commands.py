"""Run a command to its end, with the seconds and the memory that the operating system counted."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Starts the command of its arguments and writes what it used into the file named first. Linux
#: counts the memory of a parent as its child's until the child runs another program; this parent
#: is small, a benchmark is not.
_LAUNCHER = """
import json, os, sys, time
began = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
wall_s = time.perf_counter() - began
with open(sys.argv[1], "w") as used:
    json.dump([wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024,
               os.waitstatus_to_exitcode(status)], used)
"""


@dataclass(frozen=True, slots=True)
class FinishedCommand:
    """A command as a whole process.

    :param cpu_s: seconds of processor time, with those of its children
    :param peak_bytes: peak resident memory of the largest of its processes
    :param status: exit status; negative if a signal ended it
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    status: int
    stdout: str
    stderr: str


def run_command(
    command: Sequence[str], environ: Mapping[str, str] | None = None, timeout_s: float = 3600
) -> FinishedCommand:
    """Run ``command`` and wait for its end.

    :raises subprocess.TimeoutExpired: if it takes longer than ``timeout_s``; it is killed
    """
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder:
        used = Path(folder, "used.json")
        launcher = (sys.executable, "-I", "-S", "-c", _LAUNCHER, str(used))
        process = subprocess.Popen(
            [*launcher, *command], env=None if environ is None else dict(environ),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            raise
        if not used.exists():
            raise RuntimeError(f"{command[0]} did not start: {stderr}")
        wall_s, cpu_s, peak_bytes, status = json.loads(used.read_text("utf-8"))
    return FinishedCommand(wall_s, cpu_s, peak_bytes, status, stdout, stderr)
