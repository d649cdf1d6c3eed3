"""A store that answers no more is given up."""

import signal
import threading
from contextlib import closing
from threading import Event
from typing import NoReturn

import psycopg2
import pytest

from graph import hung_stores
from graph.hung_stores import NoAnswer, StatementWatch, watchdog
from model.errors import StoreUnavailable
from tests.services.waiting import DEADLINE_S, wait_until


def test_blocked_store_call_ends_in_a_store_unavailable_error() -> None:
    with pytest.raises(StoreUnavailable, match="no answer"), watchdog("the graph", 0.1):
        threading.Event().wait(DEADLINE_S)


def test_slow_store_that_makes_progress_is_not_given_up() -> None:
    with watchdog("the graph", 3600) as got_on:
        signal.setitimer(signal.ITIMER_REAL, 1800)  # as if half of it had passed
        got_on()
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 1800


def test_watchdog_restores_the_earlier_alarm_handler() -> None:
    before = signal.getsignal(signal.SIGALRM)
    with watchdog("the graph", 60):
        pass
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_watchdog_in_a_thread_sets_no_alarm() -> None:
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


def test_probe_that_itself_fails_does_not_report_a_hanging_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hung_stores, "PROBE_S", 0.01)

    def probe() -> NoReturn:
        raise RuntimeError("no further thread can be started")

    def connect() -> NoReturn:
        blocked.wait()
        raise psycopg2.OperationalError

    def is_refused() -> bool:
        try:
            watch.refuse()
        except psycopg2.OperationalError:
            return True
        return False

    blocked, watch = Event(), StatementWatch(probe)
    with closing(watch):
        with pytest.raises(NoAnswer):
            watch.connection(connect)
        wait_until(lambda: not is_refused(), "the server is asked again")
        blocked.set()
