"""Failures during a crawl: retries, a circuit breaker for an index that does not answer, and
errors of this program that must not end the crawl.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from common.errors import IndexFault, IndexProblem

T = TypeVar("T")

#: Questions in a row without an answer.
LIMIT = 8

#: What it is to be without one.
NO_ANSWER = frozenset({IndexFault.UNREACHABLE, IndexFault.TIMEOUT, IndexFault.UNAUTHORIZED})


class IndexLost(Exception):
    """The index answers no more."""

    def __init__(self, problem: IndexProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class CircuitBreaker:
    """Counts questions in a row that an index did not answer.

    An answer that is wrong is one: a release that is broken says nothing about the index.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._unanswered = 0

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """The answer to ``question``.

        :raises IndexProblem: if there is none
        :raises IndexLost: if there was none too often
        """
        try:
            answer = await question()
        except IndexProblem as problem:
            self._unanswered = self._unanswered + 1 if problem.code in NO_ANSWER else 0
            if self._unanswered >= self._limit:
                raise IndexLost(problem) from problem
            raise
        self._unanswered = 0
        return answer


logger = logging.getLogger(__name__)

#: The code of what failed by an error of this program, and not by one of the index.
INTERNAL = "internal"


def bug_words(error: Exception, name: str, version: str | None = None) -> str:
    """Log an error that nobody foresaw, and say for the record that it is ours.

    One package of a thousand must not cost the others, and no bug passes unseen: it is an
    error in the log, a state of the package, and a reason for exit code 1.
    """
    kind = type(error).__name__
    fields = {"package": name, "version": version, "error": kind}
    logger.error("crawl_met_a_bug", exc_info=error, extra=fields)
    return f"an error of this program: {kind}; the log has its traceback"


#: Tries before a release is given up until a person asks for it again.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(minutes=1)
_FACTOR = 5


def retry_at(attempts: int, now: datetime) -> datetime | None:
    """When to try again after so many failures; ``None`` to give up.

    Waits are 1, 5, 25 and 125 minutes: with a nightly refresh the last tries are days apart.
    """
    if attempts >= ATTEMPTS:
        return None
    return now + float(_FACTOR ** (attempts - 1)) * _FIRST_WAIT


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run everything at once; the first error ends the rest and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
