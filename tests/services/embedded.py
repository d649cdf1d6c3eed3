"""Embedded stores that die."""

import contextlib
import signal

import psutil

from graph.embedded.start_stop import EmbeddedStores
from graph.embedded.store_process import StoreProcess
from tests.services.waiting import DEADLINE_S


def kill_store(
    stores: EmbeddedStores, kind: type[StoreProcess], how: signal.Signals = signal.SIGKILL
) -> None:
    """End a running store, and wait until it has ended."""
    record = stores.record_of(kind)
    assert record is not None
    process = psutil.Process(record.pid)
    process.send_signal(how)
    with contextlib.suppress(psutil.NoSuchProcess):
        process.wait(DEADLINE_S)
