"""Starts daemons, finds them again, and stops them."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

#: Start times of processes change slightly when the clock is synchronised. A process identifier is
#: not reused within this time.
_CLOCK_TOLERANCE_S = 2.0

#: The shell starts the daemon, prints its identifier and ends. The daemon then belongs to init, so
#: it leaves no zombie in a process that keeps running.
_DETACH = 'umask 077; log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'

_LOG_LIMIT_BYTES = 20_000_000


def spawn(argv: list[str], log: Path, folder: Path) -> psutil.Process:
    """Start ``argv`` as a daemon with working directory ``folder``; append its output to ``log``.

    If the log is larger than 20 MB, it is renamed first.
    """
    if log.exists() and log.stat().st_size > _LOG_LIMIT_BYTES:
        log.replace(log.with_suffix(".log.1"))
    shell = subprocess.run(
        ["/bin/sh", "-c", _DETACH, "sh", str(log), *argv],
        stdout=subprocess.PIPE,
        cwd=folder,
        start_new_session=True,
        check=True,
    )
    return psutil.Process(int(shell.stdout))


def alive(pid: int, created: float) -> psutil.Process | None:
    """The running process ``pid``; ``None`` if its start time is not ``created``.

    :param created: start time of the process, in seconds since the epoch
    """
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < _CLOCK_TOLERANCE_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def processes_where(test: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    """Running processes for which ``test`` is true, by process identifier.

    Processes of other users are ignored. Root also sees the processes of ``nobody``, because
    PostgreSQL runs as ``nobody`` when root starts it.
    """
    for process in sorted(psutil.process_iter(), key=lambda process: process.pid):
        with contextlib.suppress(psutil.Error):
            ours = process.uids().real in _our_users()
            if ours and process.status() != psutil.STATUS_ZOMBIE and test(process):
                yield process


def _our_users() -> set[int]:
    users = {os.getuid()}
    if os.getuid() == 0:
        with contextlib.suppress(KeyError):
            users.add(pwd.getpwnam("nobody").pw_uid)
    return users


def stop(process: psutil.Process, stop_signal: signal.Signals, timeout_s: float) -> bool:
    """Send ``stop_signal`` to a process, and ``SIGKILL`` after ``timeout_s``.

    :returns: whether the process ended without ``SIGKILL``
    """
    for number, wait_s in ((stop_signal, timeout_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        if wait_for(lambda: not _running(process), wait_s):
            return number is stop_signal
    return False


def _running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Poll until ``condition`` is true; return ``False`` after ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers ignore connections in TIME_WAIT, too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether a server accepts connections on this loopback port; cheaper than a query."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A free loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def last_lines(log: Path, count: int = 5) -> str:
    """The last lines of ``log``, indented for an error message; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-count:])
    return ""
