"""The resolver in a child process, held to its limits of time and memory from outside.

Whatever happens to the child, there is an answer: it hands over each better stack as soon as
it has it, so killing it loses nothing but the proof.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Lock
from time import monotonic
from types import TracebackType
from typing import Any

from adviser.resolver.answers import answer, status_of
from adviser.resolver.branching import branched
from adviser.resolver.compression import compressed
from adviser.resolver.problems import Found, Problem
from adviser.resolver.requests import Budget
from adviser.resolver.results import Conflict, Limit, Resolution, Status
from adviser.resolver.universe import Universe
from adviser.resolver.wording import conflict_of_roots

#: How long a child may take beyond its time to stop by itself before it is killed.
GRACE_S = 0.25
#: How long a new child may take to be ready; that is not the search's time.
START_S = 5.0


@dataclass(frozen=True, slots=True)
class _Pipes:
    """Our ends of what the child reads and writes."""

    requests: Connection
    replies: Connection


class Worker:
    """A child process that resolves one request after the other; use it as a context manager.

    It starts when a request needs the solver, which few do: branch and bound answers the others
    in this process. It starts anew after it was killed; :meth:`start` starts it ahead. Threads
    may share it; their requests wait for each other.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._pipes: _Pipes | None = None
        self._ready = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> _Pipes:
        """Start the child if there is none; returns at once."""
        if self._pipes is None:
            theirs_in, requests = Pipe(duplex=False)
            replies, theirs_out = Pipe(duplex=False)
            with theirs_in, theirs_out:
                numbers = [theirs_in.fileno(), theirs_out.fileno()]
                self._child = subprocess.Popen(
                    [sys.executable, "-m", "adviser.resolver.child", *map(str, numbers)],
                    pass_fds=numbers,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            self._pipes, self._ready = _Pipes(requests, replies), False
        return self._pipes

    def close(self) -> None:
        """End the child."""
        if self._pipes is not None:
            self._pipes.requests.close()
            self._pipes.replies.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        self._child = self._pipes = None

    def resolve(
        self, universe: Universe, budget: Budget | None = None, *, count: int = 1
    ) -> Resolution:
        """As :func:`adviser.resolver.resolve.resolve`, with every limit kept to."""
        began, spend = monotonic(), budget or Budget()
        with self._lock:
            problem = compressed(universe, keep=count)
            limit = None
            found = branched(problem, count, spend.steps)
            if found is None:
                found, limit = self._search(problem, spend, count, began)
            conflict = None
            if status_of(found) is Status.INFEASIBLE:
                conflict = self._conflict(universe, replace(spend, threads=1))
        return answer(universe, problem, found, conflict, limit, spend, began)

    def _search(
        self, problem: Problem, budget: Budget, count: int, began: float
    ) -> tuple[Found, Limit | None]:
        """The last that the child told, and what ended it if it did not end by itself."""
        left = replace(budget, time_s=max(0.0, began + budget.time_s - monotonic()))
        told, limit = self._ask("search", left, (problem, left, count))
        return Found() if told is None else told, limit

    def _conflict(self, universe: Universe, budget: Budget) -> Conflict:
        portable = replace(
            universe,
            packages=dict(universe.packages),
            refused=dict(universe.refused),
            overrides=dict(universe.overrides),
            contributions={},
            baseline={},
        )
        told, _ = self._ask("conflict", budget, (portable, budget))
        return conflict_of_roots(universe) if told is None else told

    def _ask(
        self, name: str, budget: Budget, arguments: tuple[Any, ...]
    ) -> tuple[Any, Limit | None]:
        """The last that the child tells before it is done, or before it ends."""
        told, pipes = None, self.start()
        until = monotonic() + budget.time_s + GRACE_S
        if not self._ready:
            until += START_S
        try:
            pipes.requests.send((name, budget.memory_bytes, arguments))
            while pipes.replies.poll(max(0.0, until - monotonic())):
                done, latest = pipes.replies.recv()
                if done:
                    self._ready = True
                    return told, None
                told = latest
            limit = Limit.TIME
        except (EOFError, ConnectionError):
            limit = Limit.MEMORY
        self.close()
        return told, limit
