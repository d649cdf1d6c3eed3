"""Run the resolver in a child process with enforced limits of time and memory.

The child reports each better stack as soon as it finds one, so killing it loses only the proof.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from signal import SIGABRT, SIGBUS, SIGKILL, SIGSEGV
from tempfile import TemporaryFile
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import IO, Any

from adviser.resolver.conflict_text import conflict_of_roots
from adviser.resolver.problem import SearchResult, SelectionProblem
from adviser.resolver.resolve import answer, best_stacks, out_of_time, status_of
from adviser.resolver.resolver_request import Budget, OutOfTime, SearchClock
from adviser.resolver.results import Conflict, Resolution, ResolutionStatus, SearchLimit
from adviser.resolver.universe import Universe
from adviser.resolver.worker_process import DONE, FAILED, OUT_OF_MEMORY, PROGRESS

#: Seconds after the time limit before the child is killed.
GRACE_S = 0.25
#: Seconds for a new child to start, not counted as search time. Measured: 15 s on a busy machine.
START_S = 60.0
#: With more read versions than this the solver is likely needed, so it starts during compression.
MANY_VERSIONS = 5000
#: Exit statuses of native code after a failed allocation, and of the kernel's out-of-memory killer.
_NO_MEMORY = frozenset({-SIGABRT, -SIGBUS, -SIGSEGV})
_KILLED = -SIGKILL
_PROCESS = "adviser.resolver.worker_process"
#: Characters of a child's error output that an error quotes.
_QUOTED_CHARACTERS = 2000


class SearchFailed(RuntimeError):
    """A bug: the child raised, or ended although no limit was reached. Has the traceback."""


@dataclass(frozen=True, slots=True)
class _Pipes:
    """The parent's ends of the pipes."""

    requests: Connection
    replies: Connection


class ResolverWorker:
    """A child process that resolves one request at a time; use it as a context manager.

    The child starts with the first request that needs the solver; branch and bound solves most
    requests in this process. It restarts after it was killed; :meth:`start` starts it in advance.
    Threads can share a worker; their requests wait for each other.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._pipes: _Pipes | None = None
        self._output: IO[bytes] | None = None
        self._ready = False

    def __enter__(self) -> ResolverWorker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> _Pipes:
        """Start the child if it is not running; do not wait until it is ready."""
        if self._pipes is None:
            theirs_in, requests = Pipe(duplex=False)
            replies, theirs_out = Pipe(duplex=False)
            self._output = TemporaryFile()  # noqa: SIM115 - closed with the child
            with theirs_in, theirs_out:
                numbers = [theirs_in.fileno(), theirs_out.fileno()]
                # -P: the current folder may have packages named like ours.
                self._child = subprocess.Popen(
                    [sys.executable, "-P", "-m", _PROCESS, *map(str, numbers)],
                    pass_fds=numbers,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._output,
                )
            self._pipes, self._ready = _Pipes(requests, replies), False
        return self._pipes

    def close(self) -> None:
        """Kill the child and close the pipes."""
        if self._pipes is not None:
            self._pipes.requests.close()
            self._pipes.replies.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        if self._output is not None:
            self._output.close()
        self._child = self._pipes = self._output = None

    def resolve(
        self, universe: Universe, budget: Budget | None = None, *, count: int = 1
    ) -> Resolution:
        """Like :func:`adviser.resolver.resolve.resolve`, but enforces all limits.

        The time limit starts when the worker begins this request.

        :raises SearchFailed: if the child has a bug
        """
        spend = budget or Budget()
        with self._lock:
            clock = SearchClock(spend)
            if sum(it.read for them in universe.packages.values() for it in them) > MANY_VERSIONS:
                self.start()
            limit: SearchLimit | None = None

            def solve(problem: SelectionProblem) -> SearchResult:
                nonlocal limit
                result, limit = self._search(problem, clock.left, count)
                return result

            try:
                universe, problem, result = best_stacks(universe, count, spend.steps, clock, solve)
            except OutOfTime:
                return out_of_time(clock)
            conflict = None
            if status_of(result) is ResolutionStatus.INFEASIBLE:
                conflict = self._conflict(universe, replace(clock.left, threads=1))
        return answer(universe, problem, result, conflict, limit, spend, clock)

    def _search(
        self, problem: SelectionProblem, budget: Budget, count: int
    ) -> tuple[SearchResult, SearchLimit | None]:
        """The last result that the child reported, and the limit that ended it, if any."""
        result, limit = self._ask("search", budget, (problem, count))
        return SearchResult() if result is None else result, limit

    def _conflict(self, universe: Universe, budget: Budget) -> Conflict:
        if not budget.time_s:
            return conflict_of_roots(universe)
        portable = replace(
            universe,
            packages=dict(universe.packages),
            refused=dict(universe.refused),
            overrides=dict(universe.overrides),
            contributions={},
            inferred={},
        )
        conflict, _ = self._ask("conflict", budget, (portable,))
        return conflict_of_roots(universe) if conflict is None else conflict

    def _ask(
        self, name: str, budget: Budget, arguments: tuple[Any, ...]
    ) -> tuple[Any, SearchLimit | None]:
        """Send a request; returns the last report, and the limit that ended the child, if any."""
        best, pipes, idle = None, self.start(), False
        try:
            if not self._ready:
                if not pipes.replies.poll(START_S):
                    return None, SearchLimit.TIME
                pipes.replies.recv()
                self._ready = True
            ends = monotonic() + budget.time_s
            pipes.requests.send((name, budget, ends, arguments))
            while pipes.replies.poll(max(0.0, ends + GRACE_S - monotonic())):
                reply, latest = pipes.replies.recv()
                idle = reply != PROGRESS
                if reply == FAILED:
                    raise SearchFailed(latest)
                if reply == DONE:
                    return best, None
                best = latest
        except (EOFError, OSError):
            return best, self._ended(budget)
        finally:
            if not idle:
                self.close()
        return best, SearchLimit.TIME

    def _ended(self, budget: Budget) -> SearchLimit:
        """The limit that ended a dead child."""
        code = None
        if self._child is not None:
            with suppress(subprocess.TimeoutExpired):
                code = self._child.wait(START_S)
        limited = budget.memory_bytes is not None
        if code in (OUT_OF_MEMORY, _KILLED) or (limited and code in _NO_MEMORY):
            return SearchLimit.MEMORY
        output = b""
        if self._output is not None:
            self._output.seek(0)
            output = self._output.read()
        tail = output.decode(errors="replace")[-_QUOTED_CHARACTERS:].strip()
        raise SearchFailed(f"the search ended with status {code}: {tail}")
