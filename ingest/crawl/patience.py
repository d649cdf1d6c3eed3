"""When an index counts as lost, so that a crawl does not ask hundreds of times in vain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

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


class Patience:
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
