"""The indicator ``scipy``: transforms, sparse systems and decompositions.

- ``fft``: transform of 2¹⁸ complex numbers, compared with NumPy's.
- ``sparse_solve``: Poisson's equation on a grid of 64 × 64 points by sparse LU; the solution is
  known, because the right-hand side is made from it.
- ``svd``: singular values of a matrix of order 256, whose squares add up to its squared elements.
"""

from __future__ import annotations

import importlib
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, near


def _numpy(seed: int) -> tuple[Any, Any]:
    numpy = importlib.import_module("numpy")
    return numpy, numpy.random.RandomState(seed)


def fft(scipy: Any, seed: int) -> Made:
    numpy, random = _numpy(seed)
    functions = importlib.import_module("scipy.fft")
    signal = random.standard_normal(2**18) + 1j * random.standard_normal(2**18)

    expected = numpy.fft.fft(signal)

    def check(output: Any) -> float:
        return near(0.0, float(numpy.abs(output - expected).max()), 1e-8)

    return Made(lambda: functions.fft(signal), check, {"points": 2**18})


def sparse_solve(scipy: Any, seed: int) -> Made:
    numpy, random = _numpy(seed)
    sparse, linalg = map(importlib.import_module, ("scipy.sparse", "scipy.sparse.linalg"))
    line = sparse.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(64, 64))
    matrix = sparse.kronsum(line, line).tocsc()
    solution = random.standard_normal(64 * 64)
    right = matrix @ solution

    def check(output: Any) -> float:
        return near(0.0, float(numpy.abs(output - solution).max()), 1e-9)

    return Made(lambda: linalg.spsolve(matrix, right), check, {"unknowns": 64 * 64})


def svd(scipy: Any, seed: int) -> Made:
    linalg = importlib.import_module("scipy.linalg")
    matrix = _numpy(seed)[1].standard_normal((256, 256))
    squares = sum(value * value for row in matrix.tolist() for value in row)

    def check(output: Any) -> float:
        return near(squares, sum(value * value for value in output.tolist()), 1e-10)

    return Made(lambda: linalg.svd(matrix, compute_uv=False), check, {"order": 256})


INDICATOR = library_indicator(
    "scipy",
    "PiScipy",
    "Transform signals, solve sparse systems and decompose matrices with SciPy.",
    {"fft": fft, "sparse_solve": sparse_solve, "svd": svd},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
