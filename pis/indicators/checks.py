"""Checks a product of matrices: compares a few elements with a float64 reference."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import ROUNDOFF, ROUNDOFF_TF32, Framework

#: Rows and columns to compare: the corners and the middle reveal a truncated, transposed or
#: shifted product.
_LOOKS = 3


def check_gemm(
    framework: Framework, left: Any, right: Any, output: Any, dtype: str, batch: int = 1
) -> float:
    """Compare some elements of ``output`` with those of ``left`` @ ``right``.

    :param left: m × k, or a batch of such
    :returns: sum of the elements that were compared
    :raises WrongResult: naming the element, its value and the expected value

    An element may differ by a constant times the roundoffs of the stored type and of the running
    sum. With random signs, errors grow with the norms of row and column, not with k (Higham,
    "Accuracy and Stability of Numerical Algorithms", 2nd ed., sections 2.8 and 3.1).
    """
    last = batch - 1
    if batch > 1:
        left, right, output = left[last], right[last], output[last]
    rows, columns = looks(output.shape[0]), looks(output.shape[1])
    lines = {i: framework.to_host(left[i, :]) for i in rows}
    stacks = {j: framework.to_host(right[:, j]) for j in columns}
    total = 0.0
    for i in rows:
        for j in columns:
            found = float(framework.to_host(output[i, j]))
            compare(found, lines[i], stacks[j], _roundoffs(dtype, framework), f"[{i}, {j}]")
            total += found
    return total


def looks(length: int) -> list[int]:
    """
    >>> looks(512), looks(1)
    ([0, 255, 511], [0])
    """
    return sorted({(length - 1) * step // (_LOOKS - 1) for step in range(_LOOKS)})


def compare(
    found: float,
    row: Sequence[float],
    column: Sequence[float],
    roundoffs: tuple[float, float],
    where: str,
) -> None:
    """Check that ``found`` is ``row`` · ``column`` within rounding errors.

    :param roundoffs: unit roundoff of the stored type and of the running sum; zero means equality
    """
    wanted = math.fsum(map(_product, row, column))
    norms = math.sqrt(math.fsum(it * it for it in row) * math.fsum(it * it for it in column))
    stored, summed = roundoffs
    allowed = 8 * summed * norms + 8 * stored * (abs(wanted) + norms / math.sqrt(len(row)))
    if not abs(found - wanted) <= allowed:
        raise WrongResult(f"element {where} of the result is {found:g}, it should be {wanted:g}")


def _product(left: float, right: float) -> float:
    return left * right


def _roundoffs(dtype: str, framework: Framework) -> tuple[float, float]:
    if dtype == "int8":
        return 0.0, 0.0
    if dtype == "float32" and framework.tf32:
        return ROUNDOFF_TF32, ROUNDOFF["float32"]
    # Libraries sum bfloat16 in float32; some sum float16 as it is.
    return ROUNDOFF[dtype], ROUNDOFF["float32" if dtype == "bfloat16" else dtype]
