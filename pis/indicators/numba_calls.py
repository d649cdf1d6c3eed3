"""The indicator ``numba``: compiling functions, and running them.

- ``compile``: compile a loop over an array for one type, and run it on ten numbers.
- ``mandelbrot``: steps until the points of a grid of 160 × 160 escape from |z| ≤ 2, at most 100.
- ``smooth``: 10 steps of the heat equation on a grid of 256 × 256 (five-point stencil).
"""

from __future__ import annotations

import importlib
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, near, same


def _weighted(values: Any) -> Any:
    total = 0.0
    for index in range(len(values)):
        if values[index] > 0:
            total += values[index] * (index + 1)
    return total


def _escapes(left: float, size: int, most: int) -> int:
    total = 0
    for row in range(size):
        for column in range(size):
            c = complex(left + 3.0 * column / size, -1.5 + 3.0 * row / size)
            z = 0j
            steps = 0
            while steps < most and z.real * z.real + z.imag * z.imag <= 4.0:
                z = z * z + c
                steps += 1
            total += steps
    return total


def _smoothed(grid: Any, steps: int) -> Any:
    for _ in range(steps):
        last = grid.copy()
        for row in range(1, grid.shape[0] - 1):
            for column in range(1, grid.shape[1] - 1):
                around = last[row - 1, column] + last[row + 1, column]
                around += last[row, column - 1] + last[row, column + 1]
                grid[row, column] = 0.5 * last[row, column] + 0.125 * around
    return grid


def compiled(numba: Any, seed: int) -> Made:
    values = importlib.import_module("numpy").random.RandomState(seed).standard_normal(10)
    expected = _weighted(values.tolist())
    call = lambda: numba.njit(_weighted)(values)  # noqa: E731
    return Made(call, lambda output: near(expected, output, 1e-12), {"items": 10})


def mandelbrot(numba: Any, seed: int) -> Made:
    left = -2.25 + 0.1 * (seed % 5)
    function, expected = numba.njit(_escapes), _escapes(left, 160, 100)
    call = lambda: function(left, 160, 100)  # noqa: E731
    return Made(call, lambda output: same(expected, output), {"points": 160 * 160})


def smooth(numba: Any, seed: int) -> Made:
    grid = importlib.import_module("numpy").random.RandomState(seed).standard_normal((256, 256))
    function, expected = numba.njit(_smoothed), grid.copy()
    for _ in range(10):
        last = expected.copy()
        around = last[:-2, 1:-1] + last[2:, 1:-1] + last[1:-1, :-2] + last[1:-1, 2:]
        expected[1:-1, 1:-1] = 0.5 * last[1:-1, 1:-1] + 0.125 * around

    def check(output: Any) -> float:
        return near(0.0, float(abs(output - expected).max()), 1e-12)

    return Made(lambda: function(grid.copy(), 10), check, {"points": 256 * 256})


INDICATOR = library_indicator(
    "numba",
    "PiNumba",
    "Compile functions with Numba and run them.",
    {"compile": compiled, "mandelbrot": mandelbrot, "smooth": smooth},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
