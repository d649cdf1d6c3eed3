"""Operation counts against counting."""

from __future__ import annotations

import itertools

import pytest

from model.measurements import units
from pis.indicators.operations import gemm_operations, matmul_operations, triad_bytes


def counted(m: int, n: int, k: int) -> int:
    """Multiply by the definition and count."""
    done = 0
    for _ in itertools.product(range(m), range(n)):
        done += 1  # the first product of a sum
        done += 2 * (k - 1)  # each further product, and adding it
    return done


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 3, 4), (4, 1, 7), (5, 5, 5)])
def test_a_product_takes_what_its_definition_does(m: int, n: int, k: int) -> None:
    assert gemm_operations(m, n, k) == counted(m, n, k)
    assert gemm_operations(m, n, k, batch=3) == 3 * counted(m, n, k)


def test_square_matrices_take_two_n_cubed_less_n_squared() -> None:
    for n in (1, 2, 3, 512):
        assert matmul_operations(n) == 2 * n**3 - n**2 == units.matmul_operations(n)
    assert matmul_operations(8, batch=40) == 40 * (2 * 8**3 - 8**2)


def test_the_triad_moves_three_arrays() -> None:
    assert triad_bytes(1000, 4) == 12_000
