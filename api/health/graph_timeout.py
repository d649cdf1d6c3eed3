"""A limit of time for readings of the graph, some of which never return."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

from graph.engine import GRAPH
from graph.snapshot_reader import CheckTime
from model.errors import StoreUnavailable

T = TypeVar("T")

#: Concurrent readings of one process. One that never returns keeps its place.
MAX_READINGS = 4

_pool = ThreadPoolExecutor(MAX_READINGS, "graph-question")


def answer_within(seconds: float, ask: Callable[[CheckTime], T]) -> T:
    """Run ``ask``, which waits for the graph, in a thread and return its result.

    :param ask: gets a function that raises :exc:`StoreUnavailable` after ``seconds``; work of
        several steps calls it before each step, so that it ends when nobody waits for it
    :raises StoreUnavailable: after ``seconds``, including the wait for a free thread
    """
    over = Event()
    no_answer = StoreUnavailable(GRAPH, f"no answer for {seconds:.0f} s", "see `thoth status`")

    def check_time() -> None:
        if over.is_set():
            raise no_answer

    future = _pool.submit(ask, check_time)
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():  # raised by `ask` itself
            raise
        over.set()
        future.cancel()
        raise no_answer from None
