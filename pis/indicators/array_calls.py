"""The indicator ``arrays``: what NumPy does beside products of matrices.

- ``sort``: 200,000 random numbers in float64.
- ``random``: a million uniform numbers of PCG64, whose definition is short enough to check them.
- ``fft``: transform of 2¹⁶ complex numbers; some frequencies are summed up term by term.
- ``einsum``: products of 16 pairs of matrices of order 64 (``bij,bkj->bik``), checked by row sums.
- ``small``: 1,000 times the sum of two arrays of 8 numbers, and the sum of its elements.
"""

from __future__ import annotations

import cmath
import math
import random
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, near, same


def sort(numpy: Any, seed: int) -> Made:
    values = numpy.random.RandomState(seed).standard_normal(200_000)
    expected = sorted(values.tolist())
    call = lambda: numpy.sort(values)  # noqa: E731
    return Made(call, lambda output: same(expected, output.tolist()), {"items": 200_000})


def uniform(numpy: Any, seed: int) -> Made:
    """PCG XSL RR 128/64 (O'Neill 2014); the upper 53 bits make a number of [0, 1)."""
    start = numpy.random.PCG64(seed).state["state"]
    state, expected = start["state"], []
    for _ in range(1_000):
        state = (state * 0x2360ED051FC65DA44385DF649FCCF645 + start["inc"]) % 2**128
        mixed, turn = (state >> 64) ^ (state % 2**64), state >> 122
        expected.append((((mixed >> turn) | (mixed << (64 - turn))) % 2**64 >> 11) / 2**53)
    call = lambda: numpy.random.Generator(numpy.random.PCG64(seed)).random(10**6)  # noqa: E731
    return Made(call, lambda output: same(expected, output[:1_000].tolist()), {"items": 10**6})


def fft(numpy: Any, seed: int) -> Made:
    parts = numpy.random.RandomState(seed).standard_normal((2, 2**16))
    signal = parts[0] + 1j * parts[1]
    terms = signal.tolist()
    expected = {}
    for frequency in (0, 1, 777, 2**15):
        turns = (cmath.exp(-2j * math.pi * (frequency * n % 2**16) / 2**16) for n in range(2**16))
        expected[frequency] = sum(term * turn for term, turn in zip(terms, turns))

    def check(output: Any) -> float:
        return near(0.0, max(abs(output[at] - value) for at, value in expected.items()), 1e-8)

    return Made(lambda: numpy.fft.fft(signal), check, {"points": 2**16})


def einsum(numpy: Any, seed: int) -> Made:
    whole = numpy.random.RandomState(seed).randint(-9, 10, (2, 16, 64, 64))
    left, right = whole.astype("float64")
    sums = right.sum(axis=1)
    expected = [[(row * total).sum() for row in each] for each, total in zip(left, sums)]
    call = lambda: numpy.einsum("bij,bkj->bik", left, right)  # noqa: E731
    sizes = {"batch": 16, "order": 64}
    return Made(call, lambda output: same(expected, output.sum(axis=2).tolist()), sizes)


def small(numpy: Any, seed: int) -> Made:
    draw = random.Random(seed).random  # noqa: S311
    left, right = ([round(1000 * draw()) for _ in range(8)] for _ in range(2))
    arrays = numpy.array(left, "float64"), numpy.array(right, "float64")

    def call() -> Any:
        total = 0.0
        for _ in range(1_000):
            total += (arrays[0] + arrays[1]).sum()
        return total

    expected = 1_000 * (sum(left) + sum(right))
    return Made(call, lambda output: same(expected, output), {"items": 8})


INDICATOR = library_indicator(
    "arrays",
    "PiArrays",
    "Sort, draw, transform and contract arrays with NumPy.",
    {"sort": sort, "random": uniform, "fft": fft, "einsum": einsum, "small": small},
    {"numpy": "numpy"},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
