"""The order of jobs, and one job as a new process group, whose processes all end with it.

Jobs run in blocks with one job per stack, alternately forwards and backwards (ABBA). A linear drift
of the machine over two blocks then affects all stacks equally. The jobs of one block run close
together, so that only their stacks differ. All other stacks are compared with the reference. The
reference may run several times per block, because its error enters every comparison.
"""

import contextlib
import math
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
from types import MappingProxyType
from typing import IO, Any, Protocol

from pis.amun.conditions import conditions_between, read_conditions
from pis.amun.launchers import Job
from pis.amun.processes import (
    KIBIBYTE,
    MEBIBYTE,
    JobLimits,
    dying_with_parent,
    kill_group,
    pinned_to_cpus,
)

#: How much of a job's output is kept. The rest is counted, and the result marked as truncated.
STDOUT_BYTES = MEBIBYTE
STDERR_BYTES = 256 * KIBIBYTE

#: Time between SIGTERM and SIGKILL.
GRACE_S = 2.0
_WATCH_INTERVAL_S = 0.05
_READ_BYTES = 64 * KIBIBYTE
_LAUNCH_FAILED = 127
NOTHING: Mapping[str, Any] = MappingProxyType({})

#: The fields of ``getrusage`` that a result contains.
_USAGE = (
    "ru_utime", "ru_stime", "ru_maxrss", "ru_ixrss", "ru_idrss", "ru_isrss", "ru_minflt",
    "ru_majflt", "ru_nswap", "ru_inblock", "ru_oublock", "ru_msgsnd", "ru_msgrcv",
    "ru_nsignals", "ru_nvcsw", "ru_nivcsw",
)  # fmt: skip


class JobEnd(StrEnum):
    """How a job ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed-out"
    OUTPUT_LIMIT = "output-limit"
    MEMORY_LIMIT = "memory-limit"
    #: The machine ran short of memory, whichever process used it.
    HOST_MEMORY = "host-memory"
    PROCESS_LIMIT = "process-limit"
    FILE_LIMIT = "file-limit"
    LAUNCH_FAILED = "launch-failed"


class Watcher(Protocol):
    """Checks the limits of a running job."""

    def breach(self) -> JobEnd | None:
        """Return the limit that the job exceeds, if any."""

    def usage(self) -> Mapping[str, float | int]:
        """Return the job's usage until the last check, by names of ``getrusage``."""


@dataclass(frozen=True, slots=True)
class FinishedJob:
    """A job after its end.

    :param exit_code: the negative number of the signal that ended it; 127 if it did not start
    :param usage: ``getrusage`` of the process and of the children that it waited for; for a
        confined job, the usage that :class:`pis.amun.limit_watch.Watch` saw
    :param started_at, ended_at: in UTC
    :param conditions: of the machine before and after, from :func:`conditions_between`
    """

    exit_code: int
    ended: JobEnd
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
) -> FinishedJob:
    """Run ``command`` and wait until all processes of its group have ended.

    :param environment: the whole environment of the job; nothing is inherited
    :param cpus: processors that the job is pinned to; by default those of this process
    :param watch: makes a watcher from the process ID and the limits. It is called some twenty
        times a second. Bundled scripts have none, so that nothing disturbs their measurement
    """
    before, started_at = read_conditions(), datetime.now(UTC)
    try:
        with pinned_to_cpus(cpus):
            process = subprocess.Popen(
                dying_with_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=workdir,
                env=dict(environment),
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        conditions = conditions_between(before, read_conditions())
        return failed_to_launch(str(error), started_at, dict.fromkeys(_USAGE, 0), conditions)
    running = _RunningJob(process, limits, watch(process.pid, limits) if watch else None)
    ended, status, usage = running.wait()
    ended_at, after = datetime.now(UTC), read_conditions()
    exit_code = os.waitstatus_to_exitcode(status)
    if ended is JobEnd.EXITED and exit_code < 0:
        ended = JobEnd.SIGNALLED
    elif ended is not JobEnd.EXITED:
        # A script that handles SIGTERM and exits with 0 has not finished either.
        exit_code = exit_code or -signal.SIGTERM
    return FinishedJob(
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


def failed_to_launch(
    message: str,
    started_at: datetime,
    usage: Mapping[str, float] = NOTHING,
    conditions: Mapping[str, Any] = NOTHING,
) -> FinishedJob:
    """Return a job that could not be started, with ``message`` as its standard error."""
    stderr = message.encode("utf-8", "backslashreplace")
    return FinishedJob(
        _LAUNCH_FAILED, JobEnd.LAUNCH_FAILED, b"", stderr, False, False, usage, started_at,
        datetime.now(UTC), conditions,
    )  # fmt: skip


@dataclass(slots=True)
class _Output:
    """The first ``most`` bytes read from a pipe, and the total number of bytes."""

    most: int
    kept: bytearray = field(default_factory=bytearray)
    seen: int = 0

    def add(self, data: bytes) -> None:
        self.seen += len(data)
        self.kept += data[: self.most - len(self.kept)]

    @property
    def truncated(self) -> bool:
        return self.seen > self.most


class _RunningJob:
    """A job's process with its pipes and its deadline."""

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
        self.ended = JobEnd.EXITED

    def wait(self) -> tuple[JobEnd, int, dict[str, float | int]]:
        """Read the output, enforce the limits, and wait for the end of the job.

        :returns: how it ended, its wait status, and its resource usage
        """
        try:
            with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:
                exit_fd = self._register(selector, stack)
                while not self._exited():
                    for key, _ in selector.select(self._timeout(exit_fd)):
                        if key.data is not None:
                            self._read(selector, key.fileobj, key.data)
                    self._enforce_limits()
                self._signal(signal.SIGKILL)
                self._drain(selector)
        finally:
            status, usage = self._reap()
        # The kernel's figures are those of the programs that make the sandbox.
        return self.ended, status, dict(self.watcher.usage()) if self.watcher else usage

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
        except OSError:  # not supported by the kernel, or forbidden in the container
            return None
        stack.callback(os.close, exit_fd)
        selector.register(exit_fd, selectors.EVENT_READ, None)
        return exit_fd

    def _exited(self) -> bool:
        """Whether the process ended; it stays a zombie, so that its ID is not reused."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, flags) is not None

    def _timeout(self, exit_fd: int | None) -> float:
        deadline = self.deadline if self.killing_at is None else self.killing_at
        left = max(0.0, deadline - time.monotonic())
        return min(left, _WATCH_INTERVAL_S) if self.watcher or exit_fd is None else left

    def _read(
        self, selector: selectors.BaseSelector, pipe: Any, output: _Output, most_reads: int = 16
    ) -> None:
        """Read available output in limited portions; endless output must not block the timeout."""
        for _ in range(most_reads):
            data = _available_data(pipe)
            if data is None:
                return
            if not data:
                selector.unregister(pipe)
                return
            output.add(data)

    def _enforce_limits(self) -> None:
        now = time.monotonic()
        if self.killing_at is not None:
            if now >= self.killing_at:
                self._signal(signal.SIGKILL)
                self.killing_at = now + GRACE_S
            return
        breach = self.watcher.breach() if self.watcher else None
        if self.stdout.seen + self.stderr.seen > self.limits.output_bytes:
            breach = breach or JobEnd.OUTPUT_LIMIT
        if breach is not None:
            self.ended, self.killing_at = breach, now + GRACE_S
            self._signal(signal.SIGKILL)
        elif now >= self.deadline and not self._exited():  # a busy machine may look late
            self.ended, self.killing_at = JobEnd.TIMED_OUT, now + GRACE_S
            self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)

    def _drain(self, selector: selectors.BaseSelector) -> None:
        """Read the remaining output; a process outside the group may keep the pipes open."""
        for key in list(selector.get_map().values()):
            if key.data is not None:
                self._read(selector, key.fileobj, key.data, most_reads=256)

    def _reap(self) -> tuple[int, dict[str, float | int]]:
        """Kill the group and wait for the process."""
        self._signal(signal.SIGKILL)
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        kill_group(self.process.pid)
        return status, {name: getattr(usage, name) for name in _USAGE}


def _available_data(pipe: IO[bytes]) -> bytes | None:
    """Read without blocking; ``None`` if there is nothing yet, empty at the end."""
    try:
        return os.read(pipe.fileno(), _READ_BYTES)
    except BlockingIOError:
        return None


@dataclass(frozen=True, slots=True)
class MissingJobs:
    """The jobs of one inspection that have no result yet.

    :param missing: their numbers
    :param per_block: jobs of the inspection in a block
    """

    inspection_id: str
    missing: tuple[int, ...]
    per_block: int = 1

    def of_block(self, number: int) -> list[tuple[str, int]]:
        """Return the missing jobs of block ``number``."""
        return [
            (self.inspection_id, job) for job in self.missing if job // self.per_block == number
        ]


def reference_jobs(others: int) -> int:
    """Return the number of reference jobs per block that makes the comparisons most precise.

    The number is about √k for k ``others`` (Dunnett 1955, doi:10.1080/01621459.1955.10501294). For
    one or two others, the number is 1, because further jobs would cost more than they gain.

    >>> [reference_jobs(others) for others in (1, 2, 3, 5, 20)]
    [1, 1, 2, 3, 5]
    """
    return math.ceil(math.sqrt(others)) if others > 2 else 1


def blocks(
    plans: Sequence[MissingJobs], run: str, *, interleaved: bool, slots: int = 1
) -> list[tuple[Job, ...]]:
    """Return all jobs in the order in which they run, grouped into blocks.

    :param run: identifier of this invocation, which every job records
    :param interleaved: if false, inspections run one after another, and each job is a block
    :param slots: number of blocks that may run concurrently; blocks alternate within each slot

    >>> plans = [MissingJobs("a", (0, 1)), MissingJobs("b", (0, 1))]
    >>> [[job.inspection_id for job in block] for block in blocks(plans, "r", interleaved=True)]
    [['a', 'b'], ['b', 'a']]
    """
    grouped = (
        _interleaved(plans, slots)
        if interleaved
        else [(number, [(plan.inspection_id, number)]) for plan in plans for number in plan.missing]
    )
    return [
        tuple(
            Job(inspection_id, number, run, name, turn, interleaved, position % slots)
            for turn, (inspection_id, number) in enumerate(block, start=1)
        )
        for position, (name, block) in enumerate(grouped)
    ]


#: Number of a block and its jobs in order, each as inspection and number.
_Block = tuple[int, list[tuple[str, int]]]


def _interleaved(plans: Sequence[MissingJobs], slots: int) -> list[_Block]:
    """Alternate by a block's position, not by its number, so that a resumed run alternates too."""
    names = sorted({number // plan.per_block for plan in plans for number in plan.missing})
    interleaved = []
    for position, name in enumerate(names):
        block = _spread([plan.of_block(name) for plan in plans])
        interleaved.append((name, block if position // slots % 2 == 0 else block[::-1]))
    return interleaved


def _spread(jobs_by_stack: Sequence[list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """Return the jobs of one block; jobs of the same stack are spread evenly among the others."""
    single = [jobs[0] for jobs in jobs_by_stack if len(jobs) == 1]
    groups = [single, *(jobs for jobs in jobs_by_stack if len(jobs) > 1)]
    placed = [((n + 0.5) / len(jobs), job) for jobs in groups for n, job in enumerate(jobs)]
    return [job for _, job in sorted(placed, key=lambda pair: pair[0])]
