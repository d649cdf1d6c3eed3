"""A watchdog for commands that wait for a store.

Neither driver has a client-side read timeout, and a stopped or hung server keeps its connections
open. A command does not share its process with other work, so an alarm signal can end the wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from model.errors import StoreUnavailable

#: Closing a connection to a hung server may hang too; the alarm repeats after this time.
_REPEAT_S = 2.0


class _DeadlinePassed(BaseException):
    """Ends the block of a :func:`watchdog`.

    It is no :exc:`Exception`, because the alarm may interrupt any library. The driver of the graph
    keeps an :exc:`Exception` from the decoding of a value and raises a ``BrokenRecordError`` later.
    """


@contextmanager
def watchdog(store: str, seconds: float) -> Iterator[Callable[[], None]]:
    """Raise :exc:`StoreUnavailable` if the yielded function is not called for ``seconds``.

    The watchdog does nothing outside the main thread, because signals are delivered to the main
    thread only.

    :param store: name of the store in the error message
    :raises StoreUnavailable: after the alarm, which may end the block at any point
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise _DeadlinePassed

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_S)
        yield lambda: signal.setitimer(signal.ITIMER_REAL, seconds, _REPEAT_S) and None
    except _DeadlinePassed:
        cause = f"no answer for {seconds:.0f} s"
        raise StoreUnavailable(store, cause, "see `thoth status`") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
