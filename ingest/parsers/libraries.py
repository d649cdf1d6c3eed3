"""What a script printed of the library that it measured: its threads and its BLAS.

A script may print anything; what does not read as expected is left out and refuses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from common.formats.fields import Record

_LONGEST = 100
_MOST_THREADS = 2**20


@dataclass(frozen=True, slots=True)
class Library:
    """What computed.

    :param threads: that the library used; those asked for where it does not tell
    :param blas: name and version of the linear algebra library, and the kernels that it chose
    """

    threads: int | None = None
    blas: str | None = None


def library_of(stdout: Any) -> Library:
    """What standard output says of the library.

    >>> library_of({"threads": {"requested": 2, "used": None}, "build": {"blas": "mkl"}})
    Library(threads=2, blas='mkl')
    """
    threads, build = _record(stdout, "threads"), _record(stdout, "build")
    counts = (threads.get("used"), threads.get("requested"))
    used = next((it for it in counts if type(it) is int and 0 < it <= _MOST_THREADS), None)
    return Library(used, _blas(build))


def _blas(build: Record) -> str | None:
    """A library that was asked while it ran tells more than what it was built with."""
    running = build.get("blas_runtime")
    if isinstance(running, list) and running and isinstance(running[0], dict):
        # "OpenBLAS 0.3.21  USE64BITINT DYNAMIC_ARCH …": name and version, then how it was built.
        words = [*_text(running[0], "configuration").split()[:2], _text(running[0], "kernels")]
    elif isinstance(blas := build.get("blas"), dict):
        words = [_text(blas, "name"), _text(blas, "version")]
    else:
        words = [_text(build, "blas")]
    return " ".join(filter(None, words))[:_LONGEST] or None


def _record(value: Any, key: str) -> Record:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""
