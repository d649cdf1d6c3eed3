"""The graph catches up beside ingest, and what keeps it from that is told."""

import threading
from collections.abc import Callable

import pytest

from ingest.record import BackgroundProjector
from model.errors import ProjectionFailed, StoreUnavailable
from tests.services.waiting import DEADLINE_S


def test_background_projection_runs_once_more_at_its_end() -> None:
    runs: list[int] = []
    with BackgroundProjector(lambda _: runs.append(1)):
        pass
    assert runs


def test_unreachable_graph_is_reported_after_background_projection() -> None:
    def project(_: Callable[[], None]) -> None:
        raise StoreUnavailable("the graph", "refused", "start it")

    with BackgroundProjector(project) as projector:
        projector.wake()
    assert isinstance(projector.error, StoreUnavailable)


def test_rows_refused_by_the_graph_do_not_stop_later_rows() -> None:
    runs: list[int] = []
    first = threading.Event()

    def project(_: Callable[[], None]) -> None:
        runs.append(1)
        first.set()
        if len(runs) == 1:
            raise ProjectionFailed(["stack sha256:1f"], "too large")

    with BackgroundProjector(project) as projector:
        projector.wake()
        assert first.wait(DEADLINE_S)
    assert len(runs) >= 2
    assert isinstance(projector.error, ProjectionFailed)


def test_unexpected_error_of_background_projection_is_raised() -> None:
    def project(_: Callable[[], None]) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), BackgroundProjector(project):
        pass


def test_background_projection_gives_up_a_graph_that_never_answers() -> None:
    never = threading.Event()
    with BackgroundProjector(lambda _: never.wait(DEADLINE_S), stalled_after_s=0.2) as projector:
        projector.wake()
    never.set()
    assert isinstance(projector.error, StoreUnavailable)


def test_synchronous_projection_handles_each_entry_before_the_next() -> None:
    written: list[int] = []
    projected: list[int] = []
    with BackgroundProjector(lambda _: projected.extend(written), in_turn=True) as projector:
        for number in range(20):
            written.append(number)
            projector.wake()
            assert number in projected


def test_synchronous_projection_continues_without_the_graph() -> None:
    def away(_: Callable[[], None]) -> None:
        raise StoreUnavailable("the graph", "refused", "start it")

    never = threading.Event()
    for project in (away, lambda _: never.wait(DEADLINE_S)):
        with BackgroundProjector(project, in_turn=True, stalled_after_s=0.2) as projector:
            projector.wake()
            projector.wake()
        assert isinstance(projector.error, StoreUnavailable)
    never.set()
