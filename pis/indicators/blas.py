"""Threads and builds of the linear algebra (BLAS) libraries in this process, by ctypes."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LIBRARY = re.compile(r"openblas|mkl_rt|blis|libarmpl", re.IGNORECASE)

#: NumPy's wheels add a prefix to the names, builds with 64-bit integers a suffix.
_SPELLINGS = tuple(itertools.product(("scipy_", ""), ("64_", "_64", "")))


def _loaded_libraries() -> list[ctypes.CDLL]:
    """BLAS libraries that this process has loaded; none without ``/proc``."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    mapped = {Path(line.split(None, 5)[-1]) for line in maps.splitlines() if ".so" in line}
    named = sorted(path for path in mapped if _LIBRARY.search(path.name))
    return [ctypes.CDLL(str(path)) for path in named if path.exists()]


def _functions(name: str) -> Iterator[Any]:
    """The function ``openblas_<name>`` of each loaded OpenBLAS, with any prefix or suffix."""
    for library in _loaded_libraries():
        for prefix, suffix in _SPELLINGS:
            function = getattr(library, f"{prefix}openblas_{name}{suffix}", None)
            if function is not None:
                yield function
                break


def _mkl_function(name: str) -> Any:
    for library in _loaded_libraries():
        if hasattr(library, name):
            return getattr(library, name)
    return None


def set_blas_threads(threads: int) -> None:
    """Set the number of threads, even if the library was loaded before the environment was set."""
    for function in _functions("set_num_threads"):
        function(ctypes.c_int(threads))
    mkl = _mkl_function("MKL_Set_Num_Threads")
    if mkl is not None:
        mkl(ctypes.c_int(threads))


def blas_threads() -> int | None:
    """Number of threads of the loaded BLAS; the largest of several; ``None`` if unknown."""
    told = [int(function()) for function in _functions("get_num_threads")]
    mkl = _mkl_function("MKL_Get_Max_Threads")
    if mkl is not None:
        told.append(int(mkl()))
    return max(told) if told else None


def blas_build() -> list[dict[str, str]]:
    """Configuration of each loaded OpenBLAS, with the kernels that it chose for this CPU."""
    return [
        {"configuration": config, "kernels": core}
        for config, core in zip(map(_text, _functions("get_config")), _core_names())
    ]


def _core_names() -> list[str]:
    return [_text(function) for function in _functions("get_corename")]


def _text(function: Any) -> str:
    function.restype = ctypes.c_char_p
    return (function() or b"").decode("ascii", "replace").strip()
