"""Waiting for what never answers."""

from __future__ import annotations

from threading import Event

import pytest

from api.service import MAX_READINGS, answer_within
from graph.snapshot_reader import CheckTime
from model.errors import StoreUnavailable


def test_questions_that_are_never_answered_hold_nobody() -> None:
    """More of them than there are places for."""
    stuck = Event()
    try:
        for _ in range(MAX_READINGS + 2):
            with pytest.raises(StoreUnavailable, match="no answer"):
                answer_within(0.02, lambda _: stuck.wait())
    finally:
        stuck.set()
    assert answer_within(60, lambda _: 7) == 7


def test_an_error_of_the_question_is_its_own() -> None:
    def broken(_: CheckTime) -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        answer_within(60, broken)


def test_work_ends_at_its_next_step_when_nobody_waits_for_it() -> None:
    ended = Event()

    def work(check_time: CheckTime) -> None:
        try:
            while True:
                check_time()
                ended.wait(0.001)
        finally:
            ended.set()

    with pytest.raises(StoreUnavailable, match="no answer"):
        answer_within(0.02, work)
    assert ended.wait(60)
