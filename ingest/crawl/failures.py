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

#: Requests in a row without an answer after which the index counts as lost.
LIMIT = 8

#: Faults that count as no answer.
NO_ANSWER = frozenset({IndexFault.UNREACHABLE, IndexFault.TIMEOUT, IndexFault.UNAUTHORIZED})


class IndexLost(Exception):
    """The index does not answer any more; the crawl ends."""

    def __init__(self, problem: IndexProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class CircuitBreaker:
    """Counts requests in a row that an index did not answer.

    A broken answer counts as an answer: a broken release says nothing about the index.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._unanswered = 0

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Await ``question`` and return its answer.

        :raises IndexProblem: if there is no answer
        :raises IndexLost: after too many requests without an answer
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

#: Code of a failure that an error of this program caused.
INTERNAL = "internal"


def bug_message(error: Exception, name: str, version: str | None = None) -> str:
    """Log an unexpected error and return the message for the record.

    A bug in the reading of one package must not end the crawl of a thousand, and must not stay
    unnoticed: it is logged, stored as the state of the package, and leads to exit code 1.
    """
    kind = type(error).__name__
    fields = {"package": name, "version": version, "error": kind}
    logger.error("crawl_met_a_bug", exc_info=error, extra=fields)
    return f"an error of this program: {kind}; the log has its traceback"


#: Attempts to read a release; after them only a person starts new ones.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(minutes=1)
_FACTOR = 5


def retry_at(attempts: int, now: datetime) -> datetime | None:
    """Return when to try again after ``attempts`` failures; ``None`` to give up.

    Waits are 1, 5, 25 and 125 minutes. With a nightly refresh the last attempts are days apart.
    """
    if attempts >= ATTEMPTS:
        return None
    return now + float(_FACTOR ** (attempts - 1)) * _FIRST_WAIT


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently; the first error cancels the others and is raised itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(one)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
