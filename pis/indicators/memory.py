"""Measures the bandwidth of the memory by the triad of STREAM."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pis.indicators.caches import cpu_cache_bytes
from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import DTYPE_BYTES, ROUNDOFF, Framework
from pis.indicators.gpu import gpu_of_cuda
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.operations import triad_bytes
from pis.indicators.parameters import Parameter

_SCALAR = 3.0
#: NumPy has no fused triad, so it works on blocks that stay in a core's own cache between its two
#: passes, and only the three arrays reach memory.
_BLOCK_BYTES = 128 * 1024
#: STREAM's rule: each array is at least four times as large as the last cache.
_CACHE_TIMES = 4


def memory_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    dtype, array_bytes = values["dtype"], values["array_mib"] * 2**20
    cached = _in_cache(framework, array_bytes, quiet=values["quiet"])
    elements = array_bytes // DTYPE_BYTES[dtype]
    b = framework.normal((elements,), dtype, values["seed"])
    c = framework.normal((elements,), dtype, values["seed"] + 1)
    make = {"numpy": _numpy_triad, "torch": _torch_triad, "tensorflow": _tensorflow_triad}
    one_thread = {"threads": 1} if framework.name == "numpy" else {}
    yield Work(
        make[framework.name](framework, b, c, dtype),
        triad_bytes(elements, DTYPE_BYTES[dtype]),
        "B",
        {"dtype": dtype, "array_mib": values["array_mib"], **one_thread},
        partial(_check_triad, framework, b, c, dtype),
        # What lies in a GPU's cache is faster than its memory can be.
        "none" if cached and framework.device == "cuda" else "memory",
    )


def _in_cache(framework: Framework, array_bytes: int, quiet: bool) -> bool:
    """Whether the last-level cache affects the result; warns if it does."""
    gpu = gpu_of_cuda() if framework.device == "cuda" else None
    cache = cpu_cache_bytes() if gpu is None else gpu.cache_bytes
    cached = array_bytes < _CACHE_TIMES * cache
    if cached and not quiet:
        enough = -(-_CACHE_TIMES * cache // 2**20)
        sys.stderr.write(
            f"warning: the last cache has {cache / 2**20:g} MiB: with less than "
            f"--array-mib {enough} it takes part in the result\n"
        )
    return cached


def _numpy_triad(framework: Framework, b: Any, c: Any, dtype: str) -> Callable[[], Any]:
    np = framework.module
    a = framework.empty(b.shape, dtype)
    step = _BLOCK_BYTES // DTYPE_BYTES[dtype]
    blocks = [
        (a[at : at + step], b[at : at + step], c[at : at + step]) for at in range(0, len(a), step)
    ]
    scalar = framework.dtype(dtype)(_SCALAR)

    def triad() -> Any:
        multiply, add = np.multiply, np.add
        for a_block, b_block, c_block in blocks:
            multiply(c_block, scalar, a_block)
            add(a_block, b_block, a_block)
        return a

    return triad


def _torch_triad(framework: Framework, b: Any, c: Any, dtype: str) -> Callable[[], Any]:
    a = framework.empty(b.shape, dtype)
    return partial(framework.module.add, b, c, alpha=_SCALAR, out=a)


def _tensorflow_triad(framework: Framework, b: Any, c: Any, dtype: str) -> Callable[[], Any]:
    # XLA makes one pass of it; eager TensorFlow writes and reads an array in between.
    scalar = framework.module.constant(_SCALAR, framework.dtype(dtype))
    return partial(framework.compiled(_triad, fused=True), b, c, scalar)


def _triad(b: Any, c: Any, scalar: Any) -> Any:
    return b + scalar * c


def _check_triad(framework: Framework, b: Any, c: Any, dtype: str, output: Any) -> float:
    """Compare the first, the middle and the last element, and return their sum."""
    length, total = int(output.shape[0]), 0.0
    for at in (0, length // 2, length - 1):
        found, first, second = (float(framework.to_host(it[at])) for it in (output, b, c))
        wanted = first + _SCALAR * second
        # Two roundings, each relative to what it rounds.
        allowed = 2 * ROUNDOFF[dtype] * (abs(first) + 2 * _SCALAR * abs(second))
        if not abs(found - wanted) <= allowed:
            raise WrongResult(f"element {at} of the triad is {found:g}, it should be {wanted:g}")
        total += found
    return total


INDICATOR = Indicator(
    "memory",
    "PiMemory",
    "Add a scaled array to another, larger than the caches (the triad of STREAM).",
    (
        Parameter("array_mib", 256, "size of each of the three arrays, MiB", high=2**16),
        Parameter(
            "dtype", "float64", "element type", ("float16", "bfloat16", "float32", "float64")
        ),
    ),
    ("numpy", "torch", "tensorflow"),
    memory_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
