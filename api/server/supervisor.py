"""Restarts child processes of the service and embedded stores; the processes share metrics.

This module does not import the Prometheus client, which reads the environment on import.
"""

import ctypes
import logging
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from types import FrameType
from typing import Any

import psutil
from filelock import FileLock, Timeout

from common.files import private_folder
from common.settings import Settings
from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import StoreProcess
from model.errors import ProjectError

#: Time for children to end before they are killed, s.
GRACE_S = 30.0
#: First and longest pause before a child is restarted, s.
_BACKOFF_S, _LONGEST_S = 0.5, 30.0
#: A child that lived longer did not fail at its start, s.
_START_S = 60.0
_CHECK_INTERVAL_S = 0.1
#: A child without a heartbeat for this long is killed, s.
SILENT_S = 60.0
#: Pause between two checks of the stores, s.
_STORES_CHECK_INTERVAL_S = 1.0
#: A store that is stopped on purpose is marked as such within this time after its end, s.
_MARK_TIMEOUT_S = 1.0
_SET_PARENT_DEATH_SIGNAL = 1

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A child process.

    :param essential: when it ends by itself, the supervisor ends with its exit code; after a signal
        has killed it, it is restarted like all others
    :param heartbeat: file that the child touches; if it stops doing so, it is killed and restarted
    """

    name: str
    command: tuple[str, ...]
    essential: bool = False
    heartbeat: Path | None = None


def backoff_s(deaths: int) -> float:
    """Seconds to pause before a restart, after ``deaths`` failures in a row.

    >>> [backoff_s(it) for it in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 30.0]
    """
    return min(_LONGEST_S, _BACKOFF_S * 2.0 ** (deaths - 1))


@dataclass(slots=True)
class _SupervisedChild:
    child: ChildProcess
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    deaths: int = 0
    touched_ns: int = 0
    silent_checks: int = 0

    def is_silent(self) -> bool:
        """Whether heartbeats have ceased; counts checks, because this process may stop, too."""
        if self.child.heartbeat is None or not self.child.heartbeat.exists():
            return False
        touched_ns = self.child.heartbeat.stat().st_mtime_ns
        self.silent_checks = 0 if touched_ns != self.touched_ns else self.silent_checks + 1
        self.touched_ns = touched_ns
        return self.silent_checks * _CHECK_INTERVAL_S > SILENT_S


@dataclass(slots=True)
class Supervisor:
    """Runs children until SIGTERM, SIGINT or SIGHUP; a second signal kills them.

    :param restarted: called for each child that is restarted
    """

    children: Sequence[ChildProcess]
    restarted: Callable[[ChildProcess], None] = lambda _child: None
    grace_s: float = GRACE_S
    _signals: int = 0
    _children: list[_SupervisedChild] = field(default_factory=list)

    def run(self) -> int:
        """:returns: 0 after a signal, else the exit code of the essential child that ended"""
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        self._children = [_SupervisedChild(child) for child in self.children]
        try:
            return self._watch()
        finally:
            self._end()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _watch(self) -> int:
        while not self._signals:
            for supervised in self._children:
                code = self._check(supervised)
                if code is not None:
                    return code
            time.sleep(_CHECK_INTERVAL_S)
        return 0

    def _check(self, supervised: _SupervisedChild) -> int | None:
        """Start a child that is due, or return the exit code of an essential child that ended."""
        now = time.monotonic()
        if supervised.process is None:
            if now >= supervised.due:
                if supervised.child.heartbeat is not None:
                    supervised.child.heartbeat.unlink(missing_ok=True)
                supervised.process, supervised.started = _start(supervised.child), now
            return None
        code = supervised.process.poll()
        if code is None:
            if supervised.is_silent():
                _LOG.error("child_silent", extra={"child": supervised.child.name})
                supervised.silent_checks = 0
                supervised.process.kill()
            return None
        supervised.process = None
        if supervised.child.essential and code >= 0 and not supervised.deaths:
            _LOG.error("child_ended", extra={"child": supervised.child.name, "exit_code": code})
            return code or 1
        supervised.deaths = 1 if now - supervised.started > _START_S else supervised.deaths + 1
        pause_s = backoff_s(supervised.deaths)
        supervised.due = now + pause_s
        fields = {"child": supervised.child.name, "exit_code": code, "again_in_s": pause_s}
        _LOG.warning("child_ended", extra=fields)
        self.restarted(supervised.child)
        return None

    def _end(self) -> None:
        """Terminate all children; kill them after the grace period or at a second signal."""
        running = [it.process for it in self._children if it.process is not None]
        for process in running:
            process.terminate()
        until = time.monotonic() + self.grace_s
        while any(it.poll() is None for it in running):
            if time.monotonic() > until or self._signals > 1:
                for process in running:
                    process.kill()
                    process.wait()
                return
            time.sleep(_CHECK_INTERVAL_S / 2)


def _start(child: ChildProcess) -> subprocess.Popen[bytes]:
    # In a session of its own, so that only the supervisor gets the Ctrl-C of a terminal.
    process = subprocess.Popen(
        child.command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=partial(_bind_to_parent, os.getpid()),  # noqa: PLW1509 - it takes no lock
    )
    _LOG.info("child_started", extra={"child": child.name, "pid": process.pid})
    return process


_LIBC: Any = ctypes.CDLL(None)


def _bind_to_parent(parent: int) -> None:
    """Let the kernel terminate the child when its supervisor dies, even by SIGKILL."""
    _LIBC.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:  # it died before
        os._exit(1)


@contextmanager
def keeping_stores(settings: Settings, look_s: float = _STORES_CHECK_INTERVAL_S) -> Iterator[None]:
    """Restart the embedded stores of ``settings`` if they die within the block.

    A store that was stopped by ``thoth down`` stays down. One of all processes in such a block
    watches the stores; when it ends, another takes over.
    """
    stores, over = EmbeddedStores(settings), Event()
    if not stores.kinds:
        yield
        return

    def keep() -> None:
        # Nobody waits for this lock of the process that watches.
        lock = FileLock(stores.home.run / "watch.lock", timeout=0, mode=0o600)
        try:
            while not over.wait(look_s):
                # A folder that is gone, or a full disk, may be back at the next look.
                with suppress(Timeout, OSError, ProjectError):
                    if not lock.is_locked:
                        lock.acquire()
                    if _died(stores) and not over.wait(_MARK_TIMEOUT_S):
                        _start_again(stores)
        finally:
            lock.release()

    # A daemon: the process may end while a store starts, and `thoth down` waits for that.
    Thread(target=keep, name="stores", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _start_again(stores: EmbeddedStores) -> None:
    for kind in _died(stores):
        fields = {"store": kind.name}
        _LOG.warning("store_died", extra=fields)
        try:
            if stores.start_again(kind):
                _LOG.info("store_started_again", extra=fields)
        except (ProjectError, OSError):
            _LOG.exception("store_not_started", extra=fields)


def _died(stores: EmbeddedStores) -> list[type[StoreProcess]]:
    return [kind for kind in stores.kinds if stores.has_died(kind)]


_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def metrics_folder(root: Path, role: str) -> Iterator[Path | None]:
    """Make a folder below ``root`` for this process and its children, and remove it at exit.

    Folders of dead processes of this machine are removed, too. The name contains the host name,
    because containers may share ``root`` and have the same process IDs. If the folder cannot be
    made, for example on a full disk, each process keeps its own metrics in memory.
    """
    try:
        folder = _folder(root, role)
    except OSError as error:
        _LOG.warning("metrics_not_shared", extra={"error": str(error)})
        yield None
        return
    os.environ[_VARIABLE] = str(folder)
    try:
        yield folder
    finally:
        os.environ.pop(_VARIABLE, None)
        shutil.rmtree(folder, ignore_errors=True)


def _folder(root: Path, role: str) -> Path:
    host = socket.gethostname()
    private_folder(root)
    for left in root.glob(f"*@{host}@*"):
        pid = left.name.rpartition("@")[2]
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            shutil.rmtree(left, ignore_errors=True)
    folder = root / f"{role}@{host}@{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def files() -> list[str] | None:
    """Return the files of all process groups below the same root; ``None`` if no folder is set."""
    folder = os.environ.get(_VARIABLE)
    if not folder:
        return None
    return [str(path) for path in Path(folder).parent.glob("*@*@*/*.db")]
