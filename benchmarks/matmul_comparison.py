"""The matmul indicator beside another tool, within one process of the measured environment.

Run as ``python -m benchmarks.matmul_comparison FRAMEWORK SIZE…`` with the project on
``PYTHONPATH``; it prints one JSON object a size. The environment holds the measured library and
nothing of ours. One thread, because two that wait for each other measure whatever else the machine
does.
"""

import json
import sys
import timeit
from functools import partial
from statistics import median
from typing import Any

from pis.indicators.harness import measure
from pis.indicators.matmul import INDICATOR
from pis.indicators.operations import matmul_operations
from pis.indicators.parameters import values_of

ROUNDS = 15
MIN_TIME_S = 0.2


def main() -> None:
    """Print one line a size."""
    framework, *sizes = sys.argv[1:]
    for size in map(int, sizes):
        print(json.dumps(_compared(framework, size)), flush=True)


def _compared(framework: str, size: int) -> dict[str, float]:
    """Both rates in GFLOPS, and the median of their ratios, measured by turns."""
    flags = [f"--framework={framework}", f"--matrix-size={size}", f"--min-time={MIN_TIME_S}",
             "--threads=1", "--quiet"]  # fmt: skip
    values = values_of(INDICATOR.all_parameters(), flags, {}, "")
    ours: list[float] = []
    theirs: list[float] = []
    turns = [(ours, partial(_ours, values)), (theirs, partial(_theirs, framework, size))]
    for number in range(ROUNDS):
        for rates, measured in turns if number % 2 else reversed(turns):
            rates.append(measured())
    ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
    return {"size": size, "ours": median(ours), "reference": median(theirs), "ratio": ratio}


def _ours(values: dict[str, Any]) -> float:
    return float(measure(INDICATOR, values)["@result"]["rate"])


def _theirs(framework: str, size: int) -> float:
    """GFLOPS by the library's own benchmark tool, else by ``timeit``."""
    seconds = _torch_seconds(size) if framework == "torch" else _numpy_seconds(size)
    return matmul_operations(size) / seconds / 1e9


def _torch_seconds(size: int) -> float:
    import torch
    from torch.utils.benchmark import Timer

    a, b, c = (torch.randn(size, size) for _ in range(3))
    timer = Timer("call()", globals={"call": partial(torch.matmul, a, b, out=c)}, num_threads=1)
    return float(timer.blocked_autorange(min_run_time=MIN_TIME_S).median)


def _numpy_seconds(size: int) -> float:
    import numpy

    random = numpy.random.default_rng(0)
    a, b = (random.standard_normal((size, size), dtype="float32") for _ in range(2))
    call = partial(numpy.matmul, a, b, out=numpy.empty_like(a))
    timer = timeit.Timer("call()", globals={"call": call})
    calls = max(1, timer.autorange()[0] // 10)  # a fiftieth of a second or so, as the indicator
    timer.timeit(calls)
    return median(timer.repeat(repeat=9, number=calls)) / calls


if __name__ == "__main__":
    main()
