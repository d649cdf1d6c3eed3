"""The child process that runs a search. It can be killed at any time without losing a result.

``python -m adviser.resolver.worker_process IN OUT`` reads requests from one inherited pipe and
writes replies to the other, one request at a time, until the pipes are closed. Only
:mod:`adviser.resolver.worker` starts it.
"""

import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from time import monotonic
from traceback import format_exc
from types import ModuleType
from typing import Any

from adviser.resolver.resolver_request import Budget

#: Exit status if memory runs out; results were reported before.
OUT_OF_MEMORY = 77


#: Kinds of replies: ready for requests; best result so far; request finished; or a bug, with its
#: traceback, after which the process accepts the next request.
READY, PROGRESS, DONE, FAILED = range(4)


def main(requests: int, replies: int) -> None:
    """Serve requests of the form (function name, budget, deadline, arguments).

    The deadline is a value of ``time.monotonic``, which is the same clock in all processes.
    """
    # Let OR-Tools load an empty pandas in this process. OR-Tools uses two classes of pandas for
    # models of data frames, which Thoth never builds. Without pandas, the process is ready in half
    # the time.
    pandas = ModuleType("pandas")
    vars(pandas).update(Index=type("Index", (), {}), Series=type("Series", (), {}))
    sys.modules.setdefault(pandas.__name__, pandas)
    # These imports are slow; they run before the first request.
    from adviser.resolver.conflicts import conflict_of
    from adviser.resolver.cp_sat_search import search

    def searched(tell: Callable[[Any], None], budget: Budget, problem: Any, count: int) -> None:
        search(problem, budget, count, tell)

    def explained(tell: Callable[[Any], None], budget: Budget, universe: Any) -> None:
        tell(conflict_of(universe, budget))

    answers: dict[str, Callable[..., None]] = {"search": searched, "conflict": explained}
    with Connection(requests, writable=False) as ours, Connection(replies, readable=False) as out:
        out.send((READY, None))
        while True:
            try:
                name, budget, until, arguments = ours.recv()
                _limit_memory(budget.memory_bytes)
                budget = replace(budget, time_s=max(0.0, until - monotonic()))
                answers[name](lambda result: out.send((PROGRESS, result)), budget, *arguments)
                out.send((DONE, None))
            except EOFError:
                return
            except (MemoryError, BrokenPipeError):
                raise
            except Exception:
                out.send((FAILED, format_exc()))


def _limit_memory(memory_bytes: int | None) -> None:
    """Limit private memory, at most to the limit inherited from the parent.

    A larger allocation ends the process.
    """
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = most if memory_bytes is None else memory_bytes
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, most))


if __name__ == "__main__":
    try:
        main(int(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:
        sys.exit(OUT_OF_MEMORY)
    except BrokenPipeError:
        sys.exit(0)  # the parent is gone
