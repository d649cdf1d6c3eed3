"""The process in which a search runs: it may be killed at any time, and has told all by then.

``python -m adviser.resolver.child IN OUT`` answers over two pipes that it inherits, one request
after the other, until they are closed. Only :mod:`adviser.resolver.worker` starts it.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

#: How a process ends that has no memory left; what it found was told before.
OUT_OF_MEMORY = 77


def main(requests: int, replies: int) -> None:
    """Answer requests: a function by name and its arguments; replies are told as they come."""
    # Slow, and done while nobody waits yet.
    from adviser.resolver.conflicts import conflict_of
    from adviser.resolver.search import search

    def searched(tell: Callable[[Any], None], problem: Any, budget: Any, count: int) -> None:
        search(problem, budget, count, tell)

    def explained(tell: Callable[[Any], None], universe: Any, budget: Any) -> None:
        tell(conflict_of(universe, budget))

    answers: dict[str, Callable[..., None]] = {"search": searched, "conflict": explained}
    with Connection(requests, writable=False) as ours, Connection(replies, readable=False) as out:
        while True:
            try:
                name, memory_bytes, arguments = ours.recv()
            except EOFError:
                return
            _limit_memory(memory_bytes)
            answers[name](lambda told: out.send((False, told)), *arguments)
            out.send((True, None))


def _limit_memory(memory_bytes: int | None) -> None:
    """No more private memory than this; an allocation beyond it ends the process."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = most if memory_bytes is None else memory_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        sys.exit(0)  # nobody is left to tell
