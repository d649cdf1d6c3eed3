"""Waits until this machine is free: no other measurement runs, and no other process is busy."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from common.errors import AlreadyRunning
from pis.amun.conditions import busy_share

#: Address of the lock, in Linux's abstract namespace (unix(7)). The kernel frees it when the
#: process ends, however it ends, and it works across users and homes.
_LOCK = "\0thoth-measures"
_PAUSE_S = 1.0


class MachineBusy(AlreadyRunning):
    """The machine did not become free in time; the message says what it waited for."""


@contextmanager
def free_machine(
    wait_s: float, most_busy: float = 1.0, on_wait: Callable[[str], None] = lambda _cause: None
) -> Iterator[None]:
    """Hold the machine for measurements, once it is free.

    A job of a killed process may still run for a moment; it keeps the machine busy.

    :param wait_s: limit for both waits together
    :param most_busy: share of all processors that other processes may use; 1 for any
    :param on_wait: called once before each of the two waits, with its cause
    :raises MachineBusy: after ``wait_s``
    """
    until = time.monotonic() + wait_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        waits = False
        while not _bound(lock):
            cause = "another measurement runs on this machine"
            waits = _pause(until, cause, on_wait, waits)
        if most_busy < 1:
            wait_until_quiet(until - time.monotonic(), most_busy, on_wait)
        yield


def wait_until_quiet(
    wait_s: float, most_busy: float, on_wait: Callable[[str], None] = lambda _cause: None
) -> None:
    """Wait until other processes use little of the processors.

    :param most_busy: share of all processors that they may use
    :param on_wait: called once with the cause, if this waits
    :raises MachineBusy: after ``wait_s``
    """
    until, waits = time.monotonic() + wait_s, False
    while (share := busy_share()) > most_busy:
        cause = f"other processes use {share:.0%} of the processors"
        waits = _pause(until, cause, on_wait, waits)


def _bound(lock: socket.socket) -> bool:
    try:
        lock.bind(_LOCK)
    except OSError:
        return False
    return True


def _pause(until: float, cause: str, on_wait: Callable[[str], None], waits: bool) -> bool:
    if time.monotonic() >= until:
        raise MachineBusy(cause)
    if not waits:
        on_wait(cause)
    time.sleep(_PAUSE_S)
    return True
