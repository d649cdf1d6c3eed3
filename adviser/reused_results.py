"""Results by package that are used again as long as their inputs stay the same."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class ReusedResults(Generic[T]):
    """The last result for each key.

    >>> lengths = ReusedResults[int]()
    >>> lengths.get("numpy", ("2.0",), lambda: len("2.0"))
    3
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[tuple[Any, ...], T]] = {}

    def get(self, key: Hashable, inputs: tuple[Any, ...], compute: Callable[[], T]) -> T:
        """The result of ``compute``, or the last result for ``key`` if its inputs were equal.

        :param inputs: everything that the result depends on; comparing the same objects is fast
        """
        known = self._known.get(key)
        if known is not None and known[0] == inputs:
            return known[1]
        result = compute()
        self._known[key] = inputs, result
        return result
