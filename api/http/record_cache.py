"""Values that depend on the record only, computed again only after the record has changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

from sqlalchemy import Connection

from graph.record.freshness import changes

T = TypeVar("T")

#: Maximum number of kept values; the largest, a page of series, takes some 100 kB.
_MOST = 100


class RecordCache:
    """Keeps the last values, each for one state of the record.

    Use it for queries whose time grows with the record.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: OrderedDict[Hashable, object] = OrderedDict()
        self._position = -1

    def value(self, connection: Connection, key: Hashable, compute: Callable[[], T]) -> T:
        """The value of a key; callers must not change it.

        :param key: name of the value and everything that it depends on beside the record
        """
        position = changes(connection)
        with self._lock:
            if position > self._position:
                self._values.clear()
                self._position = position
            if position == self._position and key in self._values:
                self._values.move_to_end(key)
                return self._values[key]  # type: ignore[return-value]
        value = compute()
        with self._lock:
            # Another transaction may have seen a newer state meanwhile.
            if position == self._position:
                self._values[key] = value
                while len(self._values) > _MOST:
                    self._values.popitem(last=False)
        return value
