"""An embedded store: a daemon that later processes find, use and stop."""

import contextlib
import json
import logging
import os
import pwd
import re
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import psutil

from common.files import PRIVATE, write_atomically
from common.settings import Settings
from graph.embedded.home import FREE_SPACE, Home, Passwords, has_full_disk, read_json
from model.errors import ServiceFailed

logger = logging.getLogger(__name__)

#: A start takes about 3 s; recovery of a large store after a crash may take longer.
START_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The content of ``run/KEY.json``; it also keeps the port while the store is stopped.

    :param created: start time of the process in seconds since the epoch; needed because the process
        identifier may belong to another process by now
    :param ready: whether the store has answered a query
    """

    port: int
    pid: int | None = None
    created: float | None = None
    ready: bool = False


class StoreProcess(ABC):
    """An embedded store; callers must hold the home's lock to start or stop it."""

    name: ClassVar[str]
    key: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]
    #: Free space that the first start and the schema need, in bytes.
    new_bytes: ClassVar[int]

    def __init__(self, settings: Settings, home: Home, passwords: Passwords) -> None:
        self.settings = settings
        self.home = home
        self.passwords = passwords

    @abstractmethod
    def prepare(self) -> None:
        """Create the files that the store needs to start; safe to repeat after an interruption."""

    @abstractmethod
    def command(self, port: int) -> list[str]:
        """The command line, with ``port=N`` and without passwords."""

    @abstractmethod
    def is_ours(self, process: psutil.Process) -> bool:
        """Whether ``process`` runs this store in this home."""

    @abstractmethod
    def answers(self, port: int) -> bool:
        """Whether the store answers a query."""

    @classmethod
    def is_outdated(cls, home: Home) -> bool:
        """Whether the store in ``home`` has an outdated configuration that must be replaced."""
        return False

    @property
    def log(self) -> Path:
        """The log file with the store's output."""
        return self.home.logs / f"{self.key}.log"

    @property
    def record(self) -> RunRecord | None:
        """The run record as it was last written; it may be outdated."""
        return read_record(self.home, self.key)

    def running(self) -> RunRecord | None:
        """The record of the running process, or ``None``.

        This also finds a process whose start was interrupted before its record was written.
        """
        record = self.record
        if record is not None and living(record):
            return record
        orphan = next(processes_where(self.is_ours), None)
        return None if orphan is None else self._adopt(orphan)

    def ensure_running(self) -> bool:
        """Start the store if necessary, and wait until it answers a query.

        A store with an outdated configuration is restarted.

        :returns: whether this call started it
        :raises ServiceFailed: with the last lines of the store's log
        """
        if self.is_outdated(self.home):
            self.stop()
        running = self.running()
        if running is not None:
            self._wait_until_ready(running)
            return False
        self.prepare()
        # Another program may take the port before the store does: try another port, once.
        for last_try in (False, True):
            record = self._launch(other_port=last_try)
            try:
                self._wait_until_ready(record)
            except ServiceFailed:
                was_taken = "already in use" in last_lines(self.log, 20)
                if last_try or (is_free(record.port) and not was_taken):
                    raise
            else:
                break
        logger.info("store_started", extra={"store": self.key, "port": record.port})
        return True

    def stop(self) -> bool:
        """Stop the store; return ``False`` if it was not running."""
        running = self.running()
        process = None if running is None else living(running)
        if running is None or process is None:
            return False
        if not stop(process, self.stop_signal, STOP_TIMEOUT_S):
            logger.warning("store_killed", extra={"store": self.key, "pid": process.pid})
        self._write(RunRecord(running.port))
        return True

    def _launch(self, *, other_port: bool) -> RunRecord:
        known = self.record
        reuse = known is not None and not other_port and is_free(known.port)
        port = known.port if known is not None and reuse else free_port()
        # Written before the start, so that the port is known even if this process is killed.
        self._write(RunRecord(port))
        pid = spawn(self.command(port), self.log, self.home.graph)
        try:
            record = RunRecord(port, pid, psutil.Process(pid).create_time())
        except psutil.NoSuchProcess:  # it ended at once
            return RunRecord(port)
        self._write(record)
        return record

    def _wait_until_ready(self, record: RunRecord) -> None:
        if record.ready:
            return
        ended = False

        def ended_or_ready() -> bool:
            nonlocal ended
            ended = living(record) is None
            return ended or self.answers(record.port)

        if not wait_for(ended_or_ready, START_TIMEOUT_S) or ended:
            raise self._failure(
                "ended while starting" if ended else f"no answer within {START_TIMEOUT_S:g} s"
            )
        self._write(RunRecord(record.port, record.pid, record.created, ready=True))

    def _adopt(self, orphan: psutil.Process) -> RunRecord | None:
        try:
            port = re.search(r"port=(\d+)", " ".join(orphan.cmdline()))
            if port is None:
                return None
            record = RunRecord(int(port[1]), orphan.pid, orphan.create_time())
        except psutil.Error:
            return None
        logger.info("store_adopted", extra={"store": self.key, "pid": orphan.pid})
        self._write(record)
        return record

    def _write(self, record: RunRecord) -> None:
        path = self.home.run / f"{self.key}.json"
        write_atomically(path, f"{json.dumps(asdict(record))}\n".encode(), PRIVATE)

    def _failure(self, cause: str) -> ServiceFailed:
        end = last_lines(self.log)
        hint = FREE_SPACE if has_full_disk(self.home.root) else f"see {self.log}"
        return ServiceFailed(self.name, f"{cause}\n{end}" if end else cause, hint)


def read_record(home: Home, key: str) -> RunRecord | None:
    """Content of ``run/KEY.json``; ``None`` if the file is missing or damaged."""
    content = read_json(home.run / f"{key}.json")
    try:
        return None if content is None else RunRecord(**content)
    except TypeError:
        return None


def living(record: RunRecord) -> psutil.Process | None:
    """The process of ``record`` if it is still running."""
    if record.pid is None or record.created is None:
        return None
    return alive(record.pid, record.created)


#: Start times of processes change slightly when the clock is synchronised. A process identifier is
#: not reused within this time.
_CLOCK_TOLERANCE_S = 2.0

#: The shell starts the daemon, prints its identifier and ends. The daemon then belongs to init, so
#: it leaves no zombie in a process that keeps running.
_DETACH = 'umask 077; log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'

_LOG_LIMIT_BYTES = 20_000_000


def spawn(argv: list[str], log: Path, folder: Path) -> int:
    """Start ``argv`` as a daemon with working directory ``folder``; append its output to ``log``.

    If the log is larger than 20 MB, it is renamed first.

    :returns: identifier of the process, which may have ended already
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
    return int(shell.stdout)


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
    users = {os.getuid()}
    if os.getuid() == 0:
        with contextlib.suppress(KeyError):
            users.add(pwd.getpwnam("nobody").pw_uid)
    for process in sorted(psutil.process_iter(), key=lambda process: process.pid):
        with contextlib.suppress(psutil.Error):
            ours = process.uids().real in users
            if ours and process.status() != psutil.STATUS_ZOMBIE and test(process):
                yield process


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
