"""The result document (``docs/reference/indicator-result.schema.json``)."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict
from statistics import mean, median, stdev
from typing import Any

from pis.indicators.clock import Clock
from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.gpu import gpu_of_cuda
from pis.indicators.peak import Peak
from pis.indicators.timing import Timing

SCHEMA_VERSION = "indicator-result-1"

#: By the unit of an amount: the unit of its rate, and its factor.
RATE_UNITS = {
    "FLOP": ("GFLOPS", 1e9),
    "OP": ("GOPS", 1e9),
    "B": ("GB/s", 1e9),
    "images": ("images/s", 1.0),
    "tokens": ("tokens/s", 1.0),
    "imports": ("imports/s", 1.0),
}

#: Makes the median absolute deviation estimate a normal standard deviation.
_MAD_FACTOR = 1.4826


def result_of(
    timing: Timing, per_call: int, unit: str, checksum: float, peak: Peak | None
) -> dict[str, Any]:
    """The ``@result`` object; durations are in milliseconds per call.

    :param per_call: how much one call does, in ``unit``
    :raises WrongResult: if the rate lies above the peak, or the checksum is not a number
    """
    shown, scale = RATE_UNITS[unit]
    repetitions_ms = [_rounded(seconds * 1e3) for seconds in timing.repetitions_s]
    elapsed_ms = median(repetitions_ms)
    per_ms = per_call / scale * 1e3
    rates = [per_ms / elapsed for elapsed in repetitions_ms]
    rate = per_ms / elapsed_ms
    if peak is not None and rate > peak.rate / scale:
        raise WrongResult(
            f"a rate of {rate:g} {shown} lies above the peak of {peak.rate / scale:g} {shown} "
            f"({peak.source}): clock or count is wrong"
        )
    if not math.isfinite(checksum):
        raise WrongResult(f"the checksum is {checksum}")
    return {
        "elapsed": elapsed_ms,
        "rate": rate,
        "unit": shown,
        "repetitions": repetitions_ms,
        "calls_per_repetition": timing.calls,
        "per_call": {"amount": per_call, "unit": unit},
        "warm_up": {
            "repetitions": timing.warm_up_repetitions,
            "seconds": timing.warm_up_s,
            "settled": timing.settled,
        },
        "mean": mean(rates),
        "standard_error": standard_error(rates),
        "jitter": jitter(rates),
        "checksum": checksum,
        "peak": peak and {"rate": peak.rate / scale, "unit": shown, "source": peak.source},
    }


def _rounded(number: float) -> float:
    """Round to nine digits, which is more than a clock has and less than a float prints.

    >>> _rounded(1.2362517500024397)
    1.23625175
    """
    return float(f"{number:.9g}")


def standard_error(rates: Sequence[float]) -> float | None:
    """Standard error of the mean, s/√n; ``None`` for a single rate.

    >>> standard_error([1.0, 2.0, 3.0, 4.0, 5.0])  # sqrt(2.5) / sqrt(5)
    0.7071067811865476
    """
    return stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else None


def jitter(rates: Sequence[float]) -> float:
    """Spread between repetitions: 1.4826 × median absolute deviation, in the rate's unit.

    >>> jitter([1.0, 2.0, 3.0, 4.0, 50.0])
    1.4826
    """
    middle = median(rates)
    return _MAD_FACTOR * median(abs(rate - middle) for rate in rates)


def document_of(
    title: str,
    framework: Framework,
    threads: int,
    clock: Clock,
    results: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """The whole document: a single result as fields, or several results as ``@results``."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": title,
        "component": framework.component,
        "component_version": framework.version,
        **(results[0] if len(results) == 1 else {"@results": list(results)}),
        "threads": {"requested": threads, "used": framework.threads()},
        "clock": asdict(clock),
        "build": framework.build(),
        "gpu": _gpu_build(framework),
        "python": platform.python_version(),
    }


def _gpu_build(framework: Framework) -> dict[str, Any] | None:
    gpu = gpu_of_cuda() if framework.device == "cuda" else None
    return None if gpu is None else asdict(gpu)
