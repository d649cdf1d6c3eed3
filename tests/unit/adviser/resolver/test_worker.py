"""A search in a child process: the same answer, within its limits, whatever happens to it."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from adviser.resolver import conflicts, resolver_request
from adviser.resolver.admission import universe_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.compression import compress
from adviser.resolver.conflicts import conflict_of
from adviser.resolver.problem import SearchResult
from adviser.resolver.resolve import answer, resolve
from adviser.resolver.resolver_request import Budget, ResolverRequest, SearchClock
from adviser.resolver.results import ResolutionStatus, SearchLimit
from adviser.resolver.universe import Universe
from adviser.resolver.worker import ResolverWorker, SearchFailed
from adviser.resolver.worker_process import PROGRESS
from tests.factories.universes import drawn_scores, snapshot_of, synthetic_index
from tests.services.waiting import DEADLINE_S

#: No branch and bound, which would answer before the child is asked.
IN_THE_CHILD = Budget(DEADLINE_S, steps=0)


@pytest.fixture(scope="module")
def worker() -> Iterator[ResolverWorker]:
    with ResolverWorker() as started:
        yield started


@pytest.fixture(scope="module")
def large() -> Universe:
    """Takes a second or more."""
    index, roots = synthetic_index(150, 60)
    snapshot = snapshot_of(index, roots)
    return universe_of(snapshot, ResolverRequest(), drawn_scores(snapshot))


def small() -> Universe:
    index = {"app": {"2.0": {"requires": ["lib<2"]}}, "lib": {"2.0": {}, "1.0": {}}}
    return universe_of(snapshot_of(index, ["app"]), ResolverRequest(), {})


def impossible() -> Universe:
    index = {"app": {"2.0": {"requires": ["lib<1"]}}, "lib": {"2.0": {}, "1.0": {}}}
    return universe_of(snapshot_of(index, ["app"]), ResolverRequest(), {})


def test_resolver_process_finds_the_stacks_of_an_in_process_search(worker: ResolverWorker) -> None:
    for universe in (small(), impossible()):
        for budget in (Budget(), IN_THE_CHILD):
            here = resolve(universe, budget, count=2)
            there = worker.resolve(universe, budget, count=2)
            assert replace(here, wall_s=0) == replace(there, wall_s=0)


def test_valid_stack_is_returned_at_the_time_limit(worker: ResolverWorker, large: Universe) -> None:
    resolution = worker.resolve(large, Budget(time_s=0.3))
    assert not resolution.settled
    assert resolution.limit is SearchLimit.TIME
    assert resolution.status is not ResolutionStatus.INFEASIBLE
    assert check_resolution(large, resolution) == []


def test_valid_stack_is_returned_at_the_memory_limit(large: Universe) -> None:
    with ResolverWorker() as fresh:
        resolution = fresh.resolve(large, Budget(DEADLINE_S, memory_bytes=64 << 20))
        assert resolution.limit is SearchLimit.MEMORY
        assert check_resolution(large, resolution) == []
        # and the next one is answered as if nothing had happened
        assert fresh.resolve(small(), IN_THE_CHILD).status is ResolutionStatus.OPTIMAL


class KilledByFirstStack:
    """Replies of a child that is killed as soon as it has told a stack."""

    def __init__(self, replies: Connection, pid: int) -> None:
        self._replies, self._pid = replies, pid

    def recv(self) -> Any:
        reply = self._replies.recv()
        if reply[0] == PROGRESS:
            os.kill(self._pid, signal.SIGKILL)
        return reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replies, name)


def test_best_stack_survives_a_killed_resolver_process(large: Universe) -> None:
    # Many threads on few cores and a tie to settle for each of 50 stacks: it is still at it.
    with ResolverWorker() as fresh:
        assert fresh.resolve(small(), IN_THE_CHILD).settled
        child = fresh._child
        told = KilledByFirstStack(fresh._pipes.replies, child.pid)
        fresh._pipes = replace(fresh._pipes, replies=told)
        resolution = fresh.resolve(large, Budget(DEADLINE_S), count=50)
        assert resolution.limit is SearchLimit.MEMORY  # killed from outside, as for memory
        assert resolution.stacks
        assert check_resolution(large, resolution) == []
        assert fresh.resolve(small(), IN_THE_CHILD).settled


def test_error_in_the_resolver_process_is_raised_without_ending_the_process(
    worker: ResolverWorker,
) -> None:
    assert worker.resolve(small(), IN_THE_CHILD).settled
    child = worker._child
    with pytest.raises(SearchFailed, match="KeyError: 'nothing of the sort'"):
        worker._ask("nothing of the sort", Budget(), ())
    assert worker.resolve(small(), IN_THE_CHILD).settled
    assert worker._child is child


def test_failed_start_of_the_resolver_is_not_reported_as_memory_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    with ResolverWorker() as broken, pytest.raises(SearchFailed, match="ended with status 1"):
        broken.resolve(small(), replace(IN_THE_CHILD, memory_bytes=1 << 30))


@pytest.mark.slow
def test_resolver_process_that_starts_slowly_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nsleep 6\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    with ResolverWorker() as fresh:
        assert fresh.resolve(small(), IN_THE_CHILD).settled


def test_terminated_resolver_process_is_not_reported_as_a_memory_limit() -> None:
    with ResolverWorker() as fresh:
        assert fresh.resolve(small(), IN_THE_CHILD).settled
        os.kill(fresh._child.pid, signal.SIGTERM)
        with pytest.raises(SearchFailed, match="ended with status -15"):
            fresh.resolve(small(), IN_THE_CHILD)
        assert fresh.resolve(small(), IN_THE_CHILD).settled


def test_lower_memory_limit_of_the_system_applies_to_the_search() -> None:
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
        "from adviser.resolver.admission import universe_of\n"
        "from adviser.resolver.resolver_request import Budget, ResolverRequest\n"
        "from adviser.resolver.worker import ResolverWorker\n"
        "from tests.factories.universes import snapshot_of\n"
        "snapshot = snapshot_of({'app': {'1.0': {}}}, ['app'])\n"
        "universe = universe_of(snapshot, ResolverRequest(), {})\n"
        "with ResolverWorker() as worker:\n"
        f"    budget = Budget({DEADLINE_S}, steps=0, memory_bytes=2 << 30)\n"
        "    found = worker.resolve(universe, budget)\n"
        "    print(found.status.value, found.limit)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.split() == ["optimal", "None"]


def test_waiting_for_another_search_does_not_count_as_search_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passed_s: list[float] = []
    monkeypatch.setattr(resolver_request, "monotonic", lambda: monotonic() + sum(passed_s))

    class Waiting:
        """A lock that another holds for an hour."""

        def __enter__(self) -> None:
            passed_s.append(3600)

        def __exit__(self, *_: object) -> None: ...

    with ResolverWorker() as fresh:
        monkeypatch.setattr(fresh, "_lock", Waiting())
        assert fresh.resolve(small(), Budget(DEADLINE_S)).settled
    assert passed_s


def test_preparation_counts_towards_the_time_limit(worker: ResolverWorker, large: Universe) -> None:
    for resolution in (worker.resolve(large, Budget(1e-9)), resolve(large, Budget(1e-9))):
        assert resolution.status is ResolutionStatus.UNKNOWN
        assert (resolution.limit, resolution.stacks) == (SearchLimit.TIME, ())
        assert check_resolution(large, resolution) == []


def test_conflict_among_direct_requirements_is_found_in_a_large_closure(
    worker: ResolverWorker,
) -> None:
    index, roots = synthetic_index(300, 40)
    index["x"] = {"1.0": {"requires": [f"{roots[0]}>=100"]}}
    universe = universe_of(snapshot_of(index, ["x", *roots[:1]]), ResolverRequest(), {})
    budget = Budget(DEADLINE_S)
    for resolution in (worker.resolve(universe, budget), resolve(universe, budget)):
        assert resolution.conflict.minimal
        assert [it.kind for it in resolution.conflict.steps] == ["asked", "requires"]


def test_conflict_search_adds_only_requirements_of_the_pinned_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Only the pinned package counts: neither the other root nor the other versions are looked at.
    index: dict[str, dict[str, Any]] = {
        "boto": {f"1.{n}": {"requires": [f"core>=1.{n},<1.{n + 1}"]} for n in range(60)},
        "core": {f"1.{n}": {} for n in range(60)},
        "async": {f"1.{n}": {"requires": [f"core>=1.{n},<1.{n + 9}"]} for n in range(60)},
    }
    roots = ["boto==1.34", "core>=1.35", "async"]
    universe = universe_of(snapshot_of(index, roots), ResolverRequest(), {})
    required: list[str] = []
    model = conflicts.ConflictModel

    def counted(*arguments: Any, **options: Any) -> Any:
        world = model(*arguments, **options)
        required.extend(it.wanted for it in world.facts)
        return world

    monkeypatch.setattr(conflicts, "ConflictModel", counted)
    conflict = conflict_of(universe, Budget(DEADLINE_S))
    assert conflict.minimal
    assert [it.message for it in conflict.steps] == [
        "you ask for boto==1.34",
        "you ask for core>=1.35",
        "boto 1.34 requires core<1.35,>=1.34",
    ]
    assert required == ["boto==1.34", "core>=1.35", "core<1.35,>=1.34"]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_conflict_search_out_of_time_is_not_reported_as_minimal(
    elsewhere: bool, worker: ResolverWorker
) -> None:
    universe, none = impossible(), Budget(time_s=0)
    conflict = worker._conflict(universe, none) if elsewhere else conflict_of(universe, none)
    assert not conflict.minimal
    lines = "\n".join(conflict.lines())
    assert "app 2.0: there was no time to find out why it cannot be chosen" in lines
    assert "every choice of the other packages conflicts" not in lines
    assert lines.endswith(
        "there was no time to find the smallest reason (--time-limit allows more time)"
    )


@pytest.mark.parametrize(
    ("wall_s", "memory_bytes", "limit"),
    [
        (0.89, 1 << 30, SearchLimit.MEMORY),
        (0.91, 1 << 30, SearchLimit.TIME),
        (0.89, None, SearchLimit.TIME),
        (2.0, 1 << 30, SearchLimit.TIME),
    ],
)
def test_solver_limit_is_identified_by_the_duration_of_the_search(
    wall_s: float, memory_bytes: int | None, limit: SearchLimit
) -> None:
    class Stopped(SearchClock):
        @property
        def wall_s(self) -> float:
            return wall_s

    universe, budget = small(), Budget(1.0, memory_bytes)
    found = answer(
        universe, compress(universe), SearchResult(), None, None, budget, Stopped(budget)
    )
    assert found.limit is limit


def test_modules_in_the_current_folder_are_not_imported_by_the_resolver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("adviser", "common", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with ResolverWorker() as new:
        assert new.resolve(impossible()).status is ResolutionStatus.INFEASIBLE
