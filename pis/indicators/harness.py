"""Runs an indicator, from its flags to the result on standard output."""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pis.indicators.clock import clock_of
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.libraries import load_framework
from pis.indicators.parameters import Parameter, all_parameters, values_of
from pis.indicators.peak import peak_of
from pis.indicators.results import document_of, result_of
from pis.indicators.threads import set_threads
from pis.indicators.timing import Plan, Timed, time_work

_FAILED, _UNUSABLE = 1, 2

_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|\bOOM\b", re.IGNORECASE)


@dataclass(frozen=True)
class Work:
    """One thing to measure.

    :param call: one call; returns its output, or the array that it wrote into
    :param per_call: how much a call does, in ``unit``
    :param unit: FLOP, OP (of integers), B (byte), images, tokens or imports
    :param parameters: those that define the measurement, except device, threads, seed and mode,
        which the harness adds; if ``threads`` is among them, the work never uses more
    :param check: raises :class:`WrongResult` unless the output is right; returns its checksum
    :param kind: which peak bounds the rate: ``compute``, ``memory`` or ``none``
    :param timed: function of a number of calls that returns their seconds and the last output; set
        if ``call`` cannot be timed from outside
    :param gain: how many times fewer operations than ``per_call`` the best algorithm may need
    """

    call: Callable[[], Any]
    per_call: int
    unit: str
    parameters: dict[str, Any]
    check: Callable[[Any], float]
    kind: str = "compute"
    timed: Timed | None = None
    gain: int = 1


@dataclass(frozen=True)
class Indicator:
    """A performance indicator.

    :param name: on the command line
    :param title: in documents
    :param frameworks: the frameworks that it can measure, the default first
    :param works: yields what to measure, so that the memory of one work is free before the next is
        made
    :param historic: environment variables that set common parameters, by parameter name
    """

    name: str
    title: str
    summary: str
    parameters: tuple[Parameter, ...]
    frameworks: tuple[str, ...]
    works: Callable[[Framework, dict[str, Any]], Iterable[Work]]
    historic: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def all_parameters(self) -> tuple[Parameter, ...]:
        """The indicator's own parameters, and those of all indicators."""
        return all_parameters(self.parameters, self.frameworks, self.historic)


def main(indicator: Indicator, argv: Sequence[str] | None = None) -> int:
    """Measure and print the result document.

    :param argv: the process's own if unset
    :returns: exit code: 0 measured, 1 a result that cannot be right, 2 not possible here
    """
    try:
        values = values_of(indicator.all_parameters(), argv, os.environ, indicator.summary)
        with _quiet_stdout():
            document = measure(indicator, values)
    except Unsupported as error:
        return _ended(_UNUSABLE, error)
    except WrongResult as error:
        return _ended(_FAILED, error)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        return _ended(_FAILED, f"not enough memory: {error}")
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")
    sys.stdout.flush()
    return 0


def _is_out_of_memory(error: Exception) -> bool:
    """Whether memory ran out; libraries have messages for this, but not all have an error type."""
    return isinstance(error, MemoryError) or bool(_OUT_OF_MEMORY.search(str(error)))


def _ended(code: int, error: object) -> int:
    sys.stderr.write("error: " + " ".join(str(error).split()) + "\n")
    return code


@contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Redirect output of libraries to standard error, because standard output is for the result."""
    sys.stdout.flush()
    kept, shown = os.dup(1), sys.stdout
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = shown
        # Otherwise, output in C's own buffers would appear at the end of the process.
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def measure(indicator: Indicator, values: dict[str, Any]) -> dict[str, Any]:
    """Run ``indicator`` with these parameter values, and return the result document.

    :raises Unsupported: if library, device or machine cannot do it
    :raises WrongResult: if an output or a rate cannot be true
    """
    say = _silent if values["quiet"] else partial(_say, indicator.name)
    threads = set_threads(values["threads"], os.environ)
    say(f"importing {values['framework']}")
    framework = load_framework(values["framework"], values["device"], threads, values["mode"])
    values = {**values, "threads": threads}
    plan = Plan(values["min_time"], values["reps"], values["mini_batch"], clock_of(framework.clock))
    with framework.device_scope():
        results = []
        for work in indicator.works(framework, values):
            results.append(_measured(work, framework, values, plan, say))
            del work  # the next one is built before the loop would let go of it
    return document_of(indicator.title, framework, threads, plan.clock, results)


def _say(name: str, text: str) -> None:
    sys.stderr.write(f"{name}: {text}\n")
    sys.stderr.flush()


def _silent(text: str) -> None:
    """Say nothing."""


def _measured(
    work: Work,
    framework: Framework,
    values: dict[str, Any],
    plan: Plan,
    say: Callable[[str], None],
) -> dict[str, Any]:
    parameters = _defining(work, framework, values)
    say("measuring " + ", ".join(f"{name} {value}" for name, value in parameters.items()))
    timed = work.timed or partial(framework.timed, work.call)
    work.check(_first(timed, framework))
    timing = time_work(timed, plan)
    checksum = work.check(timing.output)
    peak = peak_of(work.kind, parameters, framework)
    peak = peak and peak.times(work.gain)
    result = result_of(timing, work.per_call, work.unit, checksum, peak)
    say(f"{result['rate']:.6g} {result['unit']}, {len(result['repetitions'])} repetitions")
    return {"@parameters": parameters, "@result": result}


def _defining(work: Work, framework: Framework, values: dict[str, Any]) -> dict[str, Any]:
    """The parameters that define a measurement, which are equal in compared measurements."""
    shared = {name: values[name] for name in ("device", "threads", "seed")}
    if framework.name == "tensorflow":
        shared["mode"] = framework.mode
    return {**shared, **work.parameters}


def _first(timed: Timed, framework: Framework) -> Any:
    """Output of the first call, in which a library reports what it does not support."""
    try:
        return timed(1)[1]
    except Exception as error:
        if framework.refuses(error):
            raise Unsupported(
                f"{framework.name} {framework.version} cannot do this on {framework.device}: "
                f"{_reason(error)}"
            ) from error
        raise


def _reason(error: Exception) -> str:
    """The first informative line of an error; TensorFlow's begin with a heading and a location."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = (line for line in lines if line and not line.endswith(":") and line[0] != "<")
    return next(telling, type(error).__name__)
