"""The supervisor with real processes: restarts, signals, the end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from api.server import supervisor
from api.server.supervisor import ChildProcess, Supervisor
from tests.services.waiting import wait_until

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
STUBBORN = (
    sys.executable, "-c",
    "import pathlib, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    " pathlib.Path(sys.argv[1]).touch(); time.sleep(600)",
)  # fmt: skip


def dies(code: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"raise SystemExit({code})")


def signal_when(
    condition: Callable[[], bool], number: signal.Signals = signal.SIGTERM
) -> threading.Thread:
    """Send this process a signal once ``condition`` holds, or after the deadline."""

    def wait() -> None:
        try:
            wait_until(condition, "the children are at work")
        finally:
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def children() -> list[psutil.Process]:
    return psutil.Process().children()


def test_a_signal_ends_every_child() -> None:
    before = set(children())
    thread = signal_when(lambda: len(set(children()) - before) == 2)
    assert Supervisor([ChildProcess("a", SLEEPS), ChildProcess("b", SLEEPS)]).run() == 0
    thread.join()
    assert set(children()) <= before


def test_a_child_that_died_is_started_again_and_counted() -> None:
    restarted: list[str] = []
    thread = signal_when(lambda: len(restarted) == 2)
    children = [ChildProcess("fragile", dies(7)), ChildProcess("steady", SLEEPS)]
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert set(restarted) == {"fragile"}


def test_a_child_whose_heartbeats_cease_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENT_S", 0.3)
    restarted: list[str] = []
    beats = (
        "import pathlib, sys, time\nwhile True: pathlib.Path(sys.argv[1]).touch(); time.sleep(0.01)"
    )
    once = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    children = [
        ChildProcess(
            name, (sys.executable, "-c", script, str(tmp_path / name)), heartbeat=tmp_path / name
        )
        for name, script in (("alive", beats), ("silent", once))
    ]
    thread = signal_when(lambda: restarted.count("silent") == 2)
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert "alive" not in restarted


def test_a_child_that_has_not_begun_to_send_heartbeats_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "SILENT_S", 0.0)
    restarted: list[str] = []
    slow, fragile = ChildProcess("slow", SLEEPS, heartbeat=tmp_path / "slow"), dies(7)
    thread = signal_when(lambda: len(restarted) == 2)
    children = [slow, ChildProcess("fragile", fragile)]
    assert Supervisor(children, lambda child: restarted.append(child.name)).run() == 0
    thread.join()
    assert set(restarted) == {"fragile"}


def test_the_end_of_an_essential_child_ends_all_with_its_code() -> None:
    before = set(children())
    assert (
        Supervisor(
            [ChildProcess("steady", SLEEPS), ChildProcess("server", dies(3), essential=True)]
        ).run()
        == 3
    )
    assert set(children()) <= before


def test_a_child_that_does_not_end_is_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    thread = signal_when(ready.exists, signal.SIGINT)
    child = ChildProcess("stubborn", (*STUBBORN, str(ready)))
    assert Supervisor([child], grace_s=0.5).run() == 0
    thread.join()


def test_handlers_of_before_are_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    Supervisor([ChildProcess("server", dies(1), essential=True)]).run()
    assert signal.getsignal(signal.SIGTERM) is before
