"""A bound on waiting for a store that took a request and answers no more.

Neither driver bounds a read on the client's side, and a server that is stopped or wedged
keeps its connections open. Commands are single processes, so an alarm can end the wait.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from common.errors import StoreUnavailable

#: Closing a connection to such a server may wait as well; it is ended this soon.
_AGAIN_S = 2.0


@contextmanager
def watchdog(store: str, seconds: float) -> Iterator[Callable[[], None]]:
    """Give up on ``store`` once ``seconds`` have passed without a call of what this yields.

    Does nothing outside the main thread, where alarms are not delivered.

    :raises StoreUnavailable: in the middle of whatever waits
    """

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise StoreUnavailable(store, f"no answer for {seconds:.0f} s", "see `thoth status`")

    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    previous = signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
        yield lambda: signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S) and None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
