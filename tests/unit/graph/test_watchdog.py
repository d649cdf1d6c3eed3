"""A store that answers no more is given up."""

from __future__ import annotations

import signal
import threading

import pytest

from graph.watchdog import watchdog
from model.errors import StoreUnavailable
from tests.services.waiting import DEADLINE_S


def test_waiting_ends_in_a_typed_error() -> None:
    with pytest.raises(StoreUnavailable, match="no answer"), watchdog("the graph", 0.1):
        threading.Event().wait(DEADLINE_S)


def test_who_gets_on_is_not_given_up() -> None:
    with watchdog("the graph", 3600) as got_on:
        signal.setitimer(signal.ITIMER_REAL, 1800)  # as if half of it had passed
        got_on()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 1800


def test_the_alarm_is_given_back() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with watchdog("the graph", 60):
        pass
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_threads_are_left_alone() -> None:
    before, _ = signal.getitimer(signal.ITIMER_REAL)  # of pytest, if it limits the test's time
    remaining: list[float] = []

    def work() -> None:
        with watchdog("the graph", 1_000_000):
            remaining.append(signal.getitimer(signal.ITIMER_REAL)[0])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(remaining) == 1
    assert remaining[0] <= before
