"""A wrong product is found, a right one is not refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pis.indicators.checks import check_gemm
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.libraries import load_framework
from pis.indicators.products import product_of

NUMPY = load_framework("numpy", "cpu", 1, "function")


def operands(dtype: str, *shape: int) -> tuple[Any, Any]:
    return NUMPY.normal(shape, dtype, 1), NUMPY.normal(shape, dtype, 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("transposes", ["nn", "nt", "tn", "tt"])
def test_numpys_products_are_right(dtype: str, transposes: str) -> None:
    left = (5, 7) if transposes[0] == "n" else (7, 5)
    right = (7, 3) if transposes[1] == "n" else (3, 7)
    product = product_of(NUMPY, left, right, dtype, 0, transposes)
    output = product.call()
    assert output.shape == (5, 3)
    assert output.dtype == ("int32" if dtype == "int8" else dtype)
    check_gemm(NUMPY, product.left, product.right, output, dtype)
    wide = product.left.astype("float64") @ product.right.astype("float64")
    np.testing.assert_allclose(output, wide, rtol=1e-2, atol=1e-2)


def test_a_batch_is_checked_too() -> None:
    product = product_of(NUMPY, (4, 8, 8), (4, 8, 8), "float32", 0)
    output = product.call()
    check_gemm(NUMPY, product.left, product.right, output, "float32", 4)
    output[3] = 0
    with pytest.raises(WrongResult):
        check_gemm(NUMPY, product.left, product.right, output, "float32", 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_wrong_products_are_found(dtype: str) -> None:
    a, b = operands(dtype, 64, 64)
    right = a @ b
    wrong = {
        "scaled": right * np.float32(1.1).astype(dtype),
        "transposed": right.T.copy(),
        "of the wrong operand": b @ a,
        "not computed": np.zeros_like(right),
        "cut short": a[:, :48] @ b[:48],
        "no number": np.full_like(right, np.nan),
    }
    check_gemm(NUMPY, a, b, right, dtype)
    for output in wrong.values():
        with pytest.raises(WrongResult, match=r"element \[\d+, \d+\]"):
            check_gemm(NUMPY, a, b, output, dtype)


def test_an_integer_product_is_exact_or_wrong() -> None:
    product = product_of(NUMPY, (8, 8), (8, 8), "int8", 0)
    output = product.call().copy()
    output[0, 0] += 1
    with pytest.raises(WrongResult):
        check_gemm(NUMPY, product.left, product.right, output, "int8")


def test_the_same_seed_gives_the_same_inputs() -> None:
    one, same, other = (NUMPY.normal((4, 4), "float32", seed) for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.array_equal(NUMPY.integers((9,), -3, 3, 5), NUMPY.integers((9,), -3, 3, 5))


def test_numpy_says_what_it_cannot_do() -> None:
    with pytest.raises(Unsupported, match="bfloat16"):
        product_of(NUMPY, (2, 2), (2, 2), "bfloat16", 0)
    with pytest.raises(Unsupported, match="CPU"):
        load_framework("numpy", "cuda", 1, "function")


def test_numpys_build_tells_no_paths_of_the_machine_that_built_it() -> None:
    build = NUMPY.build()
    assert build["blas"]["name"]
    assert "/opt/" not in str(build)


def test_numpys_threads_are_set_and_read_back() -> None:
    for threads in (2, 1):
        framework = load_framework("numpy", "cpu", threads, "function")
        assert framework.threads() in (threads, None)
