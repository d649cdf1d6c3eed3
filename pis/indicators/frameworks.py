"""The interface between indicators and the libraries that they measure."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pis.indicators.errors import Unsupported

#: How each element type is stored, in bytes.
DTYPE_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1}

#: Unit roundoff: half the distance from 1 to the next number (IEEE 754; bfloat16 has 8 bits).
ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}

#: Unit roundoff of TensorFloat-32, in which GPUs may multiply float32 (10 bits stored).
ROUNDOFF_TF32 = 2.0**-11


class Framework:
    """A library that is ready to compute on one device with a number of threads.

    :param device: ``cpu`` or ``cuda``
    :param threads: CPU threads to use
    :param mode: ``eager`` or ``function``; matters to TensorFlow alone
    """

    name = ""
    #: Clock that :meth:`timed` reads.
    clock = "perf_counter"
    #: Whether float32 products may be rounded to TensorFloat-32.
    tf32 = False

    def __init__(self, device: str, threads: int, mode: str) -> None:
        self.device = device
        self.mode = mode
        self.module = self._imported()
        self._set_up(threads)

    @property
    def component(self) -> str:
        """Name of the library's package."""
        return self.name

    @property
    def version(self) -> str:
        return str(self.module.__version__)

    def _imported(self) -> Any:
        try:
            return importlib.import_module(self.name)
        except ImportError as error:
            raise Unsupported(f"{self.name} cannot be imported here: {error}") from None

    def _set_up(self, threads: int) -> None:
        """Choose device and threads; :class:`Unsupported` if the device is not there."""
        raise NotImplementedError

    def dtype(self, name: str) -> Any:
        """The library's own element type called ``name``; :class:`Unsupported` if it has none."""
        native = getattr(self.module, name, None)
        if native is None:
            raise Unsupported(f"{self.name} {self.version} has no {name}: choose another --dtype")
        return native

    def normal(self, shape: Sequence[int], dtype: str, seed: int) -> Any:
        """Standard normal numbers on the device; the same for the same seed."""
        raise NotImplementedError

    def integers(
        self, shape: Sequence[int], low: int, high: int, seed: int, dtype: str = "int64"
    ) -> Any:
        """Uniform integers of ``[low, high)`` on the device; the same for the same seed."""
        raise NotImplementedError

    def empty(self, shape: Sequence[int], dtype: str) -> Any:
        """Room for a result, where the library writes into given arrays."""
        raise NotImplementedError

    def compiled(self, function: Callable[..., Any], fused: bool = False) -> Callable[..., Any]:
        """``function`` as the mode runs it.

        :param fused: into one kernel, where the library has a compiler for that
        """
        return function

    def synchronize(self, output: Any = None) -> None:
        """Wait until the device has done everything, ``output`` among it."""

    def to_host(self, value: Any) -> Any:
        """A small array as nested lists of Python numbers, a scalar as a number."""
        raise NotImplementedError

    def device_scope(self) -> AbstractContextManager[Any]:
        """Context in which arrays are made and computed on the device."""
        return contextlib.nullcontext()

    def threads(self) -> int | None:
        """CPU threads that the library says it uses, ``None`` if it does not say."""
        return None

    def build(self) -> dict[str, Any]:
        """How the library was built and what it computes with."""
        raise NotImplementedError

    def refuses(self, error: Exception) -> bool:
        """Whether ``error`` says that the library lacks this operation for this type or device."""
        return isinstance(error, NotImplementedError)

    def timed(self, call: Callable[[], Any], calls: int) -> tuple[float, Any]:
        """Seconds that ``calls`` calls take on the device, and the last one's output."""
        self.synchronize()
        began = time.perf_counter()
        output = repeated(call, calls)
        self.synchronize(output)
        return time.perf_counter() - began, output


def repeated(call: Callable[[], Any], calls: int) -> Any:
    """Call ``calls`` times, with nothing else in the loop, and return the last output.

    Earlier outputs are dropped at once, so that the library can use their memory again.
    """
    for _ in itertools.repeat(None, calls - 1):
        call()
    return call()
