"""Values of metrics in files that processes share, or in memory while the disk is full.

The Prometheus client maps sparse files into memory. If the disk fills up, the first write to a new
page kills the process with SIGBUS. Here, the blocks of a file are allocated before they are mapped.
While that fails, values are kept in memory, where other processes do not see them.
"""

from __future__ import annotations

import logging
import mmap
import os
import time
from contextlib import suppress
from pathlib import Path

from prometheus_client import values
from prometheus_client.mmap_dict import MmapedDict

#: Initial size of a file; the client writes the format that it reads.
_FIRST_BYTES = 1 << 16
#: Pause before a value that is kept in memory is tried to be written to its file again, s.
RETRY_S = 5.0

_LOG = logging.getLogger(__name__)


class AllocatedValues(MmapedDict):
    """Values of one kind of metric of this process."""

    def __init__(self, filename: str, read_mode: bool = False) -> None:
        """Continue an existing file."""
        if read_mode:
            super().__init__(filename, read_mode)  # type: ignore[no-untyped-call]
            return
        self._fname = filename
        self._in_file = False
        self._retry_at = 0.0
        self._positions: dict[str, int] = {}
        path = Path(filename)
        content = path.read_bytes() if path.exists() else b""
        self._capacity = max(_FIRST_BYTES, len(content))
        self._m = mmap.mmap(-1, self._capacity)
        self._m[: len(content)] = content
        self._used = int.from_bytes(self._m[:4], "little") or 8
        self._m[:4] = self._used.to_bytes(4, "little")
        for key, _, _, position in self._read_all_values():  # type: ignore[no-untyped-call]
            self._positions[key] = position
        self._to_file()

    def _init_value(self, key: str) -> None:
        needed = self._used + len(key.encode()) + 32  # length, padding and two numbers
        if needed > self._capacity:
            content = self._m[: self._used]
            self._m.close()
            self._in_file = False
            self._capacity *= 2
            self._m = mmap.mmap(-1, self._capacity)
            self._m[: len(content)] = content
            self._to_file()
        super()._init_value(key)  # type: ignore[no-untyped-call]

    def write_value(self, key: str, value: float, timestamp: float) -> None:
        """Write a value, and first move all values to the file if there is space again."""
        if not self._in_file and time.monotonic() > self._retry_at:
            self._to_file()
        super().write_value(key, value, timestamp)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Release the memory."""
        self._m.close()

    def _to_file(self) -> None:
        """Map the file instead of memory, if the disk has space for it."""
        path = Path(self._fname)
        try:
            with path.open("a+b") as file:
                os.posix_fallocate(file.fileno(), 0, self._capacity)
                mapped = mmap.mmap(file.fileno(), self._capacity)
        except OSError as error:
            # Other processes could not read an empty file.
            with suppress(OSError):
                path.unlink()
            self._retry_at = time.monotonic() + RETRY_S
            _LOG.warning("metrics_in_memory", extra={"error": error.strerror})
            return
        mapped[:] = self._m[:]
        self._m.close()
        self._m, self._in_file = mapped, True


def use_allocated_values() -> None:
    """Make the Prometheus client keep values of several processes here."""
    values.MmapedDict = AllocatedValues  # type: ignore[attr-defined]
