"""Processes that outlive their starter: found again, never mistaken for another."""

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

#: Process start times are read from the clock's boot time, which time
#: synchronisation moves a little; a pid is not reused within this many seconds.
_CLOCK_TOLERANCE_S = 2.0

#: The shell starts the daemon, prints its pid and ends, so that the daemon belongs
#: to init: it leaves no zombie behind in a starter that lives on.
_DETACH = 'umask 077; log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'

_LOG_LIMIT_BYTES = 20_000_000


def spawn(argv: list[str], log: Path, folder: Path) -> psutil.Process:
    """Start ``argv`` as a daemon working in ``folder``, its output appended to ``log``."""
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
    """The process ``pid`` if it is still the one that started at ``created``."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < _CLOCK_TOLERANCE_S
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def processes_where(test: Callable[[psutil.Process], bool]) -> Iterator[psutil.Process]:
    """Living processes of ours for which ``test`` holds, oldest first.

    Ours are this user's, and nobody's where root runs PostgreSQL: what another
    user starts is never trusted, whatever its command line says.
    """
    for process in sorted(psutil.process_iter(), key=lambda found: found.pid):
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


def stop(process: psutil.Process, ask: signal.Signals, timeout_s: float) -> bool:
    """End ``process`` with ``ask``, and with ``SIGKILL`` after ``timeout_s``.

    :returns: whether it ended by itself
    """
    for number, patience_s in ((ask, timeout_s), (signal.SIGKILL, 5.0)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        if wait_for(lambda: not _running(process), patience_s):
            return number is ask
    return False


def _running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def wait_for(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.02) -> bool:
    """Ask until ``condition`` holds; ``False`` if it does not within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(every_s)
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A connection that just ended (TIME_WAIT) does not count, as for the servers.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listens(port: int) -> bool:
    """Whether somebody accepts connections: asked often, so cheaper than a driver."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def last_lines(log: Path, count: int = 5) -> str:
    """The end of ``log``, for an error's text."""
    with contextlib.suppress(OSError):
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode("utf-8", "replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-count:])
    return ""
