"""Indicators that measure whole operations of a Python library, such as a join of two tables.

A unit and the libraries are added here, because a change of the modules of other indicators would
change the digests of their scripts.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import metadata
from typing import Any, NamedTuple, Protocol

from pis.indicators.blas import blas_build, blas_threads, set_blas_threads
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work
from pis.indicators.libraries import _LIBRARIES
from pis.indicators.long_runs import RUNS
from pis.indicators.parameters import Parameter
from pis.indicators.threads import THREAD_VARIABLES

_ALL = "all"

#: Variables that some libraries read when they are imported, beside the common ones.
_MORE_VARIABLES = ("POLARS_MAX_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS")

#: What a release raises that lacks a function, a parameter of it, or a module.
_LACKS = (AttributeError, ImportError, NotImplementedError, TypeError, Unsupported)


class LibraryFramework(Framework):
    """A Python library on the CPU.

    ``name`` is the distribution's, ``imported`` the module's.
    """

    imported = ""

    @property
    def version(self) -> str:
        try:
            return metadata.version(self.name)
        except metadata.PackageNotFoundError:
            return super().version

    def _imported(self) -> Any:
        for variable in _MORE_VARIABLES:
            os.environ[variable] = os.environ.get(THREAD_VARIABLES[0], "1")
        try:
            return importlib.import_module(self.imported)
        except ImportError as error:
            raise Unsupported(f"{self.name} cannot be imported here: {error}") from None

    def _set_up(self, threads: int) -> None:
        if self.device != "cpu":
            raise Unsupported(f"{self.name} is measured on the CPU only: use --device cpu")
        set_blas_threads(threads)

    def threads(self) -> int | None:
        return blas_threads()

    def build(self) -> dict[str, Any]:
        blas = blas_build()
        return {"blas_runtime": blas} if blas else {}


class Made(NamedTuple):
    """An operation that is ready to be measured.

    :param check: of the output; raises :class:`WrongResult`, or returns a checksum
    :param sizes: what defines the input, beside the seed
    """

    call: Callable[[], Any]
    check: Callable[[Any], float]
    sizes: Mapping[str, Any]


class Operation(Protocol):
    """Prepares an operation of a library."""

    def __call__(self, module: Any, seed: int, /) -> Made:
        """The operation on an input that follows from ``seed``.

        It raises :class:`Unsupported`, or what Python raises for a missing module, function or
        parameter, if the release cannot do it.
        """


def library_indicator(
    name: str,
    title: str,
    summary: str,
    operations: Mapping[str, Operation],
    libraries: Mapping[str, str] | None = None,
) -> Indicator:
    """An indicator whose measurements are ``operations``, one call of which is a run.

    :param libraries: modules of the measured libraries by distribution; ``name`` if unset
    """
    libraries = libraries or {name: name}
    kinds: dict[str, Any] = {
        library: type("Library", (LibraryFramework,), {"name": library, "imported": module})
        for library, module in libraries.items()
        if library not in _LIBRARIES
    }
    _LIBRARIES.update(kinds)
    choice = Parameter("operation", _ALL, "what to measure", (_ALL, *operations))
    shortest = Parameter("min_time", 0.5, "seconds to measure each at least", low=0, high=3600)
    works = partial(library_works, operations)
    return Indicator(name, title, summary, (choice, shortest), tuple(libraries), works)


def library_works(
    operations: Mapping[str, Operation], framework: Framework, values: dict[str, Any]
) -> Iterator[Work]:
    """The chosen operations; those that this release lacks are left out.

    :raises Unsupported: if it has none of them
    """
    lacking, measured = [], 0
    release = f"{framework.name} {framework.version}"
    for name, operation in operations.items():
        if values["operation"] not in (name, _ALL):
            continue
        try:
            made = operation(framework.module, values["seed"])
            made.call()
        except _LACKS as error:
            lacking.append(f"{name}: {' '.join(str(error).split()) or type(error).__name__}")
            sys.stderr.write(f"not available in {release}: {lacking[-1]}\n")
            continue
        measured += 1
        yield Work(made.call, 1, RUNS, {"operation": name, **made.sizes}, made.check, "none")
    if not measured:
        raise Unsupported(f"not available in {release}: {'; '.join(lacking)}")


def same(expected: Any, got: Any) -> float:
    """Compare an output with the expected one exactly.

    :returns: 0, for a checksum
    :raises WrongResult: if they differ
    """
    if got != expected:
        raise WrongResult(f"the result is {str(got)[:200]}, not {str(expected)[:200]}")
    return 0.0


def near(expected: float, got: float, tolerance: float) -> float:
    """Compare a number with the expected one, relative to the larger of that and 1.

    :returns: the number, for a checksum
    :raises WrongResult: if they differ by more than ``tolerance``
    """
    if not abs(got - expected) <= tolerance * max(1.0, abs(expected)):
        raise WrongResult(f"the result is {got}, not {expected} within {tolerance:g}")
    return float(got)
