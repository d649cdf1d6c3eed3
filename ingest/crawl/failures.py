"""Failures during a crawl: retries, a circuit breaker, and bugs that must not end the crawl."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from model.errors import IndexFault, IndexProblem

T = TypeVar("T")

#: After this number of unanswered requests in a row, the index counts as lost.
LIMIT = 8

#: Faults that count as no answer.
NO_ANSWER = frozenset({IndexFault.UNREACHABLE, IndexFault.TIMEOUT, IndexFault.UNAUTHORIZED})


class IndexLost(Exception):
    """The index stopped answering, so the crawl ends."""

    def __init__(self, problem: IndexProblem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class CircuitBreaker:
    """Counts consecutive requests that an index did not answer.

    A broken answer counts as an answer, because a broken release does not mean that the index is
    unavailable.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._unanswered = 0

    async def ask(self, request: Callable[[], Awaitable[T]]) -> T:
        """Await ``request`` and return its result.

        :raises IndexProblem: if the request fails
        :raises IndexLost: after too many unanswered requests
        """
        try:
            answer = await request()
        except IndexProblem as problem:
            self._unanswered = self._unanswered + 1 if problem.code in NO_ANSWER else 0
            if self._unanswered >= self._limit:
                raise IndexLost(problem) from problem
            raise
        self._unanswered = 0
        return answer


logger = logging.getLogger(__name__)

#: Code of a failure because of a bug in this program.
INTERNAL = "internal"


def bug_message(error: Exception, name: str, version: str | None = None) -> str:
    """Log an unexpected error and return the message for the record.

    A bug that concerns one package must not end the crawl of a thousand others. The bug is logged,
    stored as the state of the package, and leads to exit code 1.
    """
    kind = type(error).__name__
    fields = {"package": name, "version": version, "error": kind}
    logger.error("crawl_met_a_bug", exc_info=error, extra=fields)
    return f"internal error: {kind}; see the traceback in the log"


#: Automatic attempts to read a release; further attempts must be requested.
ATTEMPTS = 5
_FIRST_WAIT = timedelta(minutes=1)
_FACTOR = 5


def pause_after(attempts: int) -> timedelta | None:
    """Return the pause after ``attempts`` failures; ``None`` to give up.

    A pause lasts 1, 5, 25 or 125 minutes, or until the next refresh if that is later.
    """
    if attempts >= ATTEMPTS:
        return None
    return float(_FACTOR ** (attempts - 1)) * _FIRST_WAIT


async def together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run coroutines concurrently; the first error cancels the others and is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as group:
            for coroutine in work:
                group.create_task(coroutine)
    except BaseExceptionGroup as raised:
        raise _first(raised) from None


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
