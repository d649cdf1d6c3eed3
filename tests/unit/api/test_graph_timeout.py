"""Waiting for what never answers."""

from __future__ import annotations

from threading import Event

import pytest

from api.resources import cypher
from common.errors import StoreUnavailable


def test_questions_that_are_never_answered_hold_nobody() -> None:
    """More of them than there are places for."""
    stuck = Event()
    try:
        for _ in range(cypher._AT_A_TIME + 2):
            with pytest.raises(StoreUnavailable, match="no answer"):
                cypher.answer_within(0.02, stuck.wait)
    finally:
        stuck.set()
    assert cypher.answer_within(60, lambda: 7) == 7


def test_an_error_of_the_question_is_its_own() -> None:
    def broken() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        cypher.answer_within(60, broken)
