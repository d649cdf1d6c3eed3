"""A search in a child process: the same answer, within its limits, whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from time import monotonic

import pytest

from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.requests import Budget, Request
from adviser.resolver.resolve import resolve
from adviser.resolver.results import Limit, Status
from adviser.resolver.universe import Universe
from adviser.resolver.worker import GRACE_S, START_S, Worker
from tests.factories.universes import drawn_scores, snapshot_of, synthetic_index

#: No branch and bound, which would answer before the child is asked.
IN_THE_CHILD = Budget(steps=0)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as started:
        yield started


@pytest.fixture(scope="module")
def large() -> Universe:
    """Takes a second or more."""
    index, roots = synthetic_index(150, 60)
    snapshot = snapshot_of(index, roots)
    return universe_of(snapshot, Request(), drawn_scores(snapshot))


def small() -> Universe:
    index = {"app": {"2.0": {"requires": ["lib<2"]}}, "lib": {"2.0": {}, "1.0": {}}}
    return universe_of(snapshot_of(index, ["app"]), Request(), {})


def impossible() -> Universe:
    index = {"app": {"2.0": {"requires": ["lib<1"]}}, "lib": {"2.0": {}, "1.0": {}}}
    return universe_of(snapshot_of(index, ["app"]), Request(), {})


def test_the_answer_is_that_of_this_process(worker: Worker) -> None:
    for universe in (small(), impossible()):
        for budget in (Budget(), IN_THE_CHILD):
            here = resolve(universe, budget, count=2)
            there = worker.resolve(universe, budget, count=2)
            assert replace(here, wall_s=0) == replace(there, wall_s=0)


def test_time_ends_in_an_answer(worker: Worker, large: Universe) -> None:
    began = monotonic()
    resolution = worker.resolve(large, Budget(time_s=0.3))
    assert monotonic() - began < 0.3 + GRACE_S + START_S
    assert not resolution.settled
    assert resolution.limit is Limit.TIME
    assert resolution.status is not Status.INFEASIBLE
    assert check_resolution(large, resolution) == []


def test_memory_ends_in_an_answer(large: Universe) -> None:
    with Worker() as fresh:
        resolution = fresh.resolve(large, Budget(time_s=20, memory_bytes=64 << 20))
        assert resolution.limit is Limit.MEMORY
        assert check_resolution(large, resolution) == []
        # and the next one is answered as if nothing had happened
        assert fresh.resolve(small(), IN_THE_CHILD).status is Status.OPTIMAL


def test_a_killed_child_leaves_its_best_stack(large: Universe) -> None:
    # Many threads on few cores and a tie to settle for each of 50 stacks: it is still at it.
    with Worker() as fresh:
        assert fresh.resolve(small(), IN_THE_CHILD).settled
        child = fresh._child
        assert child is not None
        timer = threading.Timer(2.5, os.kill, (child.pid, signal.SIGKILL))
        timer.start()
        resolution = fresh.resolve(large, Budget(time_s=60), count=50)
        timer.cancel()
        assert resolution.limit is Limit.MEMORY  # killed from outside, as for memory
        assert check_resolution(large, resolution) == []
        assert fresh.resolve(small(), IN_THE_CHILD).settled


def test_the_parent_loads_no_solver() -> None:
    code = "import sys, adviser.resolver.worker; print(any('ortools' in it for it in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"
