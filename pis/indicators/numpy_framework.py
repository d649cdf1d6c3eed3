"""NumPy, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pis.indicators.blas import blas_build, blas_threads, set_blas_threads
from pis.indicators.errors import Unsupported
from pis.indicators.frameworks import Framework


class NumpyFramework(Framework):
    """NumPy, whose threads are those of its BLAS."""

    name = "numpy"

    def _set_up(self, threads: int) -> None:
        if self.device != "cpu":
            raise Unsupported("numpy computes on the CPU only: use --device cpu")
        set_blas_threads(threads)

    def dtype(self, name: str) -> Any:
        if name == "bfloat16":
            raise Unsupported("numpy has no bfloat16: choose float32, or torch or tensorflow")
        return super().dtype(name)

    def normal(self, shape: Sequence[int], dtype: str, seed: int) -> Any:
        # RandomState keeps its stream from one NumPy to the next, Generator does not (NEP 19).
        values = self.module.random.RandomState(seed).standard_normal(tuple(shape))
        return values.astype(self.dtype(dtype))

    def integers(
        self, shape: Sequence[int], low: int, high: int, seed: int, dtype: str = "int64"
    ) -> Any:
        values = self.module.random.RandomState(seed).randint(low, high, tuple(shape))
        return values.astype(self.dtype(dtype))

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        return self.module.zeros(tuple(shape), dtype=self.dtype(dtype))

    def to_host(self, value: Any) -> Any:
        array = self.module.asarray(value)
        kind = "int64" if array.dtype.kind in "iub" else "float64"
        return array.astype(kind).tolist()

    def threads(self) -> int | None:
        return blas_threads()

    def refuses(self, error: Exception) -> bool:
        # "ufunc 'matmul' did not contain a loop with signature matching types"
        return super().refuses(error) or (isinstance(error, TypeError) and "loop" in str(error))

    def build(self) -> dict[str, Any]:
        return {**numpy_build(self.module), "blas_runtime": blas_build()}


def numpy_build(numpy: Any) -> dict[str, Any]:
    """What NumPy reports about its build, without paths of the machine that built it."""
    try:
        told = numpy.show_config(mode="dicts")  # since 1.25
    except (TypeError, AttributeError):
        return {}
    blas = told.get("Build Dependencies", {}).get("blas", {})
    compiler = told.get("Compilers", {}).get("c", {})
    shown = ("name", "version", "openblas configuration")
    return {
        "blas": {key: blas[key] for key in shown if key in blas},
        "compiler": " ".join(str(compiler[key]) for key in ("name", "version") if key in compiler),
        "compile_flags": compiler.get("args", ""),
        "simd": told.get("SIMD Extensions", {}),
    }
