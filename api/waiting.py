"""A bound on waiting for the graph in a thread, where no alarm is delivered."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from common.errors import StoreUnavailable
from graph.engine import GRAPH

T = TypeVar("T")

#: Questions of one process at a time. One to which no answer comes keeps its place.
_AT_A_TIME = 4

_pool = ThreadPoolExecutor(_AT_A_TIME, "graph-question")


def answer_within(seconds: float, ask: Callable[[], T]) -> T:
    """What ``ask`` gives, unless the graph took the question and answers no more.

    :raises StoreUnavailable: once ``seconds`` have passed, waiting for a place included
    """
    asked = _pool.submit(ask)
    try:
        return asked.result(seconds)
    except TimeoutError:
        if asked.done():  # its own, not that of this wait
            raise
        asked.cancel()
        hint = "see `thoth status`"
        raise StoreUnavailable(GRAPH, f"no answer for {seconds:.0f} s", hint) from None
