"""Operation counts, and checks that find a wrong product, training or answer."""

import itertools
from typing import Any

import numpy as np
import pytest

from model.measurements import units
from pis.catalogue import indicator_of
from pis.indicators.checks import check_gemm
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.libraries import load_framework
from pis.indicators.networks import network_of
from pis.indicators.operations import gemm_operations, matmul_operations, triad_bytes
from pis.indicators.parameters import values_of
from pis.indicators.products import product_of
from pis.indicators.rounding import root_mean_square, roundoff_of
from pis.indicators.train import STEPS, TrainingCheck
from pis.indicators.transformer import BLOCK, TransformerShape

NUMPY = load_framework("numpy", "cpu", 1, "function")


def operands(dtype: str, *shape: int) -> tuple[Any, Any]:
    return NUMPY.normal(shape, dtype, 1), NUMPY.normal(shape, dtype, 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("transposes", ["nn", "nt", "tn", "tt"])
def test_correct_matrix_product_of_any_type_passes_the_check(dtype: str, transposes: str) -> None:
    left = (5, 7) if transposes[0] == "n" else (7, 5)
    right = (7, 3) if transposes[1] == "n" else (3, 7)
    product = product_of(NUMPY, left, right, dtype, 0, transposes)
    output = product.call()
    assert output.shape == (5, 3)
    assert output.dtype == ("int32" if dtype == "int8" else dtype)
    check_gemm(NUMPY, product.left, product.right, output, dtype)
    wide = product.left.astype("float64") @ product.right.astype("float64")
    np.testing.assert_allclose(output, wide, rtol=1e-2, atol=1e-2)


def test_single_wrong_matrix_product_in_a_batch_is_detected() -> None:
    product = product_of(NUMPY, (4, 8, 8), (4, 8, 8), "float32", 0)
    output = product.call()
    check_gemm(NUMPY, product.left, product.right, output, "float32", 4)
    output[3] = 0
    with pytest.raises(WrongResult):
        check_gemm(NUMPY, product.left, product.right, output, "float32", 4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_wrong_matrix_products_are_detected(dtype: str) -> None:
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


def test_inexact_integer_matrix_product_is_detected() -> None:
    product = product_of(NUMPY, (8, 8), (8, 8), "int8", 0)
    output = product.call().copy()
    output[0, 0] += 1
    with pytest.raises(WrongResult):
        check_gemm(NUMPY, product.left, product.right, output, "int8")


def test_indicator_inputs_are_reproducible_from_the_seed() -> None:
    one, same, other = (NUMPY.normal((4, 4), "float32", seed) for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert np.array_equal(NUMPY.integers((9,), -3, 3, 5), NUMPY.integers((9,), -3, 3, 5))


def test_numpy_reports_unsupported_requests_and_its_build() -> None:
    with pytest.raises(Unsupported, match="bfloat16"):
        product_of(NUMPY, (2, 2), (2, 2), "bfloat16", 0)
    with pytest.raises(Unsupported, match="CPU"):
        load_framework("numpy", "cuda", 1, "function")
    build = NUMPY.build()
    assert build["blas"]["name"]
    assert "/opt/" not in str(build)
    for threads in (2, 1):
        framework = load_framework("numpy", "cpu", threads, "function")
        assert framework.threads() in (threads, None)


def counted(m: int, n: int, k: int) -> int:
    """Multiply by the definition and count."""
    done = 0
    for _ in itertools.product(range(m), range(n)):
        done += 1  # the first product of a sum
        done += 2 * (k - 1)  # each further product, and adding it
    return done


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (2, 3, 4), (4, 1, 7), (5, 5, 5)])
def test_matrix_product_operations_follow_the_definition(m: int, n: int, k: int) -> None:
    assert gemm_operations(m, n, k) == counted(m, n, k)
    assert gemm_operations(m, n, k, batch=3) == 3 * counted(m, n, k)


def test_matmul_operations_and_triad_bytes_follow_their_formulas() -> None:
    for n in (1, 2, 3, 512):
        assert matmul_operations(n) == 2 * n**3 - n**2 == units.matmul_operations(n)
    assert matmul_operations(8, batch=40) == 40 * (2 * 8**3 - 8**2)
    assert triad_bytes(1000, 4) == 12_000


class Descent:
    """Gradient descent on a parabola, in NumPy."""

    def __init__(self, rate: float) -> None:
        self.place, self.rate = np.float32(1), np.float32(rate)

    def __call__(self) -> Any:
        loss = self.place**2
        self.place -= self.rate * 2 * self.place
        return loss


@pytest.mark.parametrize("name", ["train", "infer"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--image-size", "30"), "30 is not divisible by 4"),
        (("--model", "transformer", "--hidden-size", "100", "--heads", "3"), "by 3 heads"),
    ],
)
def test_transformer_sizes_that_do_not_divide_are_refused(
    name: str, flags: tuple[str, ...], message: str
) -> None:
    values = values_of(indicator_of(name).all_parameters(), flags, {}, "")
    with pytest.raises(Unsupported, match=message):
        network_of(NUMPY, values)


def test_transformer_block_weights_equal_the_published_formula() -> None:
    shapes = TransformerShape(8, 2, 16, 4, 100).block_shapes
    assert len(shapes) == BLOCK
    # 12 h² + 13 h: four matrices of h², two of 4 h², their biases and two normalisations
    assert sum(int(np.prod(shape)) for shape in shapes) == 12 * 16**2 + 13 * 16


def test_training_with_a_falling_loss_passes_the_check() -> None:
    step = Descent(0.1)
    check = TrainingCheck(NUMPY, step)
    assert check(step()) == 1.0
    assert check(step()) == 1.0
    step = Descent(0.1)
    TrainingCheck(NUMPY, step)(step())
    assert step.place == pytest.approx(0.8 ** (STEPS + 1), rel=1e-4)


@pytest.mark.parametrize(("rate", "message"), [(0.0, "the loss was 1"), (1e30, "the loss is")])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_constant_or_exploding_loss_is_refused(rate: float, message: str) -> None:
    step = Descent(rate)
    with pytest.raises(WrongResult, match=message):
        TrainingCheck(NUMPY, step)(step())


def test_result_tolerance_is_the_roundoff_of_the_data_type() -> None:
    assert roundoff_of(NUMPY, "float32") == np.finfo(np.float32).eps / 2
    assert roundoff_of(NUMPY, "float16") == np.finfo(np.float16).eps / 2
    assert root_mean_square([1.0, -1.0, 1.0, -1.0]) == 1.0
