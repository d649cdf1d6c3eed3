"""Values that are kept until their inputs change."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import inf
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class VersionedCache(Generic[K, V]):
    """The last value of each key, valid for one version of its inputs.

    A version is an object that stays equal as long as the value is valid: the position of the
    record, or the inputs themselves, since comparing the same objects is fast. Threads may share a
    cache; two of them may compute the same value.

    :param limit: maximum sum of the sizes of all values; beyond it, the least recently used values
        are forgotten, except the last value
    :param size: size of a value

    >>> lengths = VersionedCache[str, int]()
    >>> lengths.get("numpy", ("2.0",), lambda: len("2.0"))
    3
    """

    def __init__(self, limit: float = inf, size: Callable[[V], int] = lambda _value: 1) -> None:
        self._limit, self._size, self._sum = limit, size, 0
        #: Version, value and size by key.
        self._kept: OrderedDict[K, tuple[object, V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K, version: object, compute: Callable[[], V]) -> V:
        """The value of a key; computed unless it is kept for this version."""
        value = self.kept(key, version)
        if value is None:
            value = compute()
            self.put(key, version, value)
        return value

    def kept(self, key: K, version: object) -> V | None:
        """The value of a key for this version; ``None`` if it is not kept."""
        kept = self._kept.get(key)
        if kept is None or kept[0] != version:
            return None
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
        return kept[1]

    def last(self, key: K) -> V | None:
        """The value of a key for any version."""
        kept = self._kept.get(key)
        return None if kept is None else kept[1]

    def put(self, key: K, version: object, value: V) -> bool:
        """Keep a value; returns whether other values were forgotten."""
        size = self._size(value)
        with self._lock:
            _, _, before = self._kept.pop(key, (None, None, 0))
            self._kept[key] = version, value, size
            self._sum += size - before
            is_full = False
            while self._sum > self._limit and len(self._kept) > 1:
                self._sum -= self._kept.popitem(last=False)[1][2]
                is_full = True
        return is_full

    def pop(self, key: K) -> V | None:
        """Remove and return a value."""
        with self._lock:
            kept = self._kept.pop(key, None)
            self._sum -= 0 if kept is None else kept[2]
        return None if kept is None else kept[1]

    def keys(self) -> list[K]:
        """The keys of all values, the least recently used first."""
        with self._lock:
            return list(self._kept)
