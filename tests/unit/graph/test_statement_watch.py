"""The thread that looks for a PostgreSQL that hangs."""

from __future__ import annotations

from contextlib import closing
from threading import Event
from typing import NoReturn

import psycopg2
import pytest

from graph import statement_watch
from graph.statement_watch import NoAnswer, StatementWatch
from tests.services.waiting import wait_until


def test_a_probe_that_breaks_leaves_no_server_marked_as_hanging(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(statement_watch, "PROBE_S", 0.01)

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
