"""Numbers of operations, each with its formula, its source and an example worked by hand.

An addition and a multiplication are one operation each, even if hardware fuses them. Loads, stores
and conversions do not count (as in LINPACK, Dongarra 1992).
"""

from __future__ import annotations


def gemm_operations(m: int, n: int, k: int, batch: int = 1) -> int:
    """Operations of ``batch`` products of an m × k by a k × n matrix: batch·mn(2k − 1).

    Each of the mn results is the sum of k products: k multiplications and k − 1 additions (as in
    Golub & Van Loan, "Matrix Computations", 4th ed., section 1.1.11).

    >>> gemm_operations(1, 1, 3)  # 3 multiplications, 2 additions
    5
    >>> gemm_operations(2, 3, 4, batch=5)  # 5 · 6 results of 4 + 3 operations
    210
    """
    return batch * m * n * (2 * k - 1)


def matmul_operations(size: int, batch: int = 1) -> int:
    """Operations of ``batch`` products of square matrices of order n: batch·(2n³ − n²).

    >>> matmul_operations(2)  # 4 results of 2 multiplications and 1 addition
    12
    >>> matmul_operations(512)
    268173312
    """
    return gemm_operations(size, size, size, batch)


def triad_bytes(elements: int, bytes_per_element: int) -> int:
    """Bytes that a[i] = b[i] + s·c[i] moves: two arrays read, one written.

    Lines that a cache reads before writing to them do not count, as in STREAM (McCalpin 1995).

    >>> triad_bytes(10, 8)
    240
    """
    return 3 * elements * bytes_per_element
