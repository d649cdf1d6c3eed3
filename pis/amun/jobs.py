"""One job: a fresh process in a group of its own, watched until all of it is gone."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, Any, Protocol

from pis.amun.conditions import Conditions, conditions_between, read_conditions
from pis.amun.job_limits import (
    KIBIBYTE,
    MEBIBYTE,
    JobLimits,
)
from pis.amun.processes import dying_with_us, pinned, wait_until_gone

#: What is kept of a job's output; the rest is counted, and the result says that it was cut.
STDOUT_BYTES = MEBIBYTE
STDERR_BYTES = 256 * KIBIBYTE

#: Between SIGTERM and SIGKILL.
GRACE_S = 2.0
_WATCH_S = 0.05
_PIECE_BYTES = 64 * KIBIBYTE
_LAUNCH_FAILED = 127

#: The fields of ``getrusage`` that a result has.
_USAGE = (
    "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_idrss", "ru_isrss", "ru_minflt",
    "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv",
    "ru_nsignals", "ru_nvcsw", "ru_nivcsw",
)  # fmt: skip


class Ended(StrEnum):
    """How a job came to its end."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    OUTPUT_LIMIT = "output-limit"
    MEMORY_LIMIT = "memory-limit"
    #: The machine itself ran short of memory, whatever took it.
    HOST_MEMORY = "host-memory"
    PROCESS_LIMIT = "process-limit"
    LAUNCH_FAILED = "launch-failed"


class Watcher(Protocol):
    """Looks at a running job now and then."""

    def breach(self) -> Ended | None:
        """Which limit the job broke, if it broke one."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a job left behind.

    :param exit_code: negative for the signal that ended it; 127 if it could not be started
    :param usage: ``getrusage`` of the process and of those that it waited for
    :param started_at, ended_at: in UTC
    :param conditions: of the machine, before and after: :func:`conditions_between`
    """

    exit_code: int
    ended: Ended
    stdout: bytes
    stderr: bytes
    stdout_truncated: bool
    stderr_truncated: bool
    usage: Mapping[str, float | int]
    started_at: datetime
    ended_at: datetime
    conditions: Mapping[str, Any]


def run_job(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    limits: JobLimits,
    workdir: Path,
    cpus: Sequence[int] | None = None,
    watch: Callable[[int, JobLimits], Watcher] | None = None,
) -> Finished:
    """Run ``command`` and wait until nothing of its process group is left alive.

    :param environment: the whole environment of the job; nothing is inherited
    :param cpus: processors that it is pinned to; those of this process if unset
    :param watch: made with the job's process id, asked some twenty times a second;
        a bundled script is not watched, so that nothing takes its time
    """
    before, started_at = read_conditions(), _now()
    try:
        with pinned(cpus):
            process = subprocess.Popen(
                dying_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=workdir,
                env=dict(environment),
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        return _not_launched(error, started_at, before)
    running = _Running(process, limits, watch(process.pid, limits) if watch else None)
    ended, status, usage = running.wait()
    ended_at, after = _now(), read_conditions()
    exit_code = os.waitstatus_to_exitcode(status)
    if ended is Ended.EXITED and exit_code < 0:
        ended = Ended.SIGNALLED
    elif ended is not Ended.EXITED:
        # A script that exits in peace when it is told to end has not finished all the same.
        exit_code = exit_code or -signal.SIGTERM
    return Finished(
        exit_code=exit_code,
        ended=ended,
        stdout=bytes(running.stdout.kept),
        stderr=bytes(running.stderr.kept),
        stdout_truncated=running.stdout.truncated,
        stderr_truncated=running.stderr.truncated,
        usage=usage,
        started_at=started_at,
        ended_at=ended_at,
        conditions=conditions_between(before, after),
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _not_launched(error: Exception, started_at: datetime, before: Conditions) -> Finished:
    words = str(error).encode("utf-8", "backslashreplace")
    return Finished(
        _LAUNCH_FAILED, Ended.LAUNCH_FAILED, b"", words, False, False,
        dict.fromkeys(_USAGE, 0), started_at, _now(), conditions_between(before, read_conditions()),
    )  # fmt: skip


@dataclass(slots=True)
class _Output:
    """The beginning of what came through a pipe."""

    most: int
    kept: bytearray = field(default_factory=bytearray)
    seen: int = 0

    def take(self, piece: bytes) -> None:
        self.seen += len(piece)
        self.kept += piece[: self.most - len(self.kept)]

    @property
    def truncated(self) -> bool:
        return self.seen > self.most


class _Running:
    """A process until it is gone: its pipes, its clock, and its group's end."""

    def __init__(
        self, process: subprocess.Popen[bytes], limits: JobLimits, watcher: Watcher | None
    ) -> None:
        self.process = process
        self.limits = limits
        self.watcher = watcher
        self.stdout = _Output(STDOUT_BYTES)
        self.stderr = _Output(STDERR_BYTES)
        self.deadline = time.monotonic() + limits.wall_s
        self.killing_at: float | None = None
        self.ended = Ended.EXITED

    def wait(self) -> tuple[Ended, int, dict[str, float | int]]:
        """Read, watch and end the job.

        :returns: how it ended, its wait status, and its resource usage
        """
        try:
            with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
                exit_fd = self._register(selector, stack)
                while not self._exited():
                    for key, _ in selector.select(self._patience(exit_fd)):
                        if key.data is not None:
                            self._read(selector, key.fileobj, key.data)
                    self._judge()
                self._signal(signal.SIGKILL)
                self._drain(selector)
        finally:
            status, usage = self._reap()
        return self.ended, status, usage

    def _register(
        self, selector: selectors.BaseSelector, stack: contextlib.ExitStack
    ) -> int | None:
        for pipe, output in (
            (self.process.stdout, self.stdout),
            (self.process.stderr, self.stderr),
        ):
            assert pipe is not None  # noqa: S101
            stack.enter_context(pipe)
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, output)
        try:
            exit_fd = os.pidfd_open(self.process.pid)
        except OSError:  # an old kernel, or a container that forbids it
            return None
        stack.callback(os.close, exit_fd)
        selector.register(exit_fd, selectors.EVENT_READ, None)
        return exit_fd

    def _exited(self) -> bool:
        """Whether the process ended; it is not collected, so that its id stays its own."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def _patience(self, exit_fd: int | None) -> float:
        until = self.deadline if self.killing_at is None else self.killing_at
        left = max(0.0, until - time.monotonic())
        return min(left, _WATCH_S) if self.watcher or exit_fd is None else left

    def _read(
        self, selector: selectors.BaseSelector, pipe: Any, output: _Output, pieces: int = 16
    ) -> None:
        """Take what there is, in turns, so that endless output never holds the clock up."""
        for _ in range(pieces):
            piece = _piece(pipe)
            if piece is None:
                return
            if not piece:
                selector.unregister(pipe)
                return
            output.take(piece)

    def _judge(self) -> None:
        now = time.monotonic()
        if self.killing_at is not None:
            if now >= self.killing_at:
                self._signal(signal.SIGKILL)
                self.killing_at = now + GRACE_S
            return
        breach = self.watcher.breach() if self.watcher else None
        if self.stdout.seen + self.stderr.seen > self.limits.output_bytes:
            breach = breach or Ended.OUTPUT_LIMIT
        if breach is not None:
            self.ended, self.killing_at = breach, now + GRACE_S
            self._signal(signal.SIGKILL)
        elif now >= self.deadline:
            self.ended, self.killing_at = Ended.TIMED_OUT, now + GRACE_S
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """What was still in the pipes; a process that left the group may hold them open."""
        for key in list(selector.get_map().values()):
            if key.data is not None:
                self._read(selector, key.fileobj, key.data, pieces=256)

    def _reap(self) -> tuple[int, dict[str, float | int]]:
        """End the group and collect the process, however this came to its end."""
        self._signal(signal.SIGKILL)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        wait_until_gone(self.process.pid)
        return status, {name: getattr(usage, name) for name in _USAGE}


def _piece(pipe: IO[bytes]) -> bytes | None:
    """What can be read at once; ``None`` if there is nothing now, empty at the end."""
    try:
        return os.read(pipe.fileno(), _PIECE_BYTES)
    except BlockingIOError:
        return None
