"""Keys that a process remembers for some time."""

from __future__ import annotations

import time
from collections import OrderedDict
from threading import Lock

#: Number of keys that are remembered; the oldest go first.
_MOST = 4096


class RememberedKeys:
    """Keys with the time at which each is forgotten; threads share it."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def add(self, key: str, seconds: float) -> None:
        """Remember a key for as many seconds from now."""
        with self._lock:
            self._ends[key] = time.monotonic() + seconds
            self._ends.move_to_end(key)
            if len(self._ends) > _MOST:
                self._ends.popitem(last=False)

    def left_s(self, key: str) -> float:
        """Seconds until a key is forgotten; 0 if it is not remembered.

        >>> keys = RememberedKeys()
        >>> keys.add("a", 60)
        >>> 59 < keys.left_s("a") <= 60, keys.left_s("b")
        (True, 0.0)
        """
        with self._lock:
            return max(0.0, self._ends.get(key, 0.0) - time.monotonic())
