"""The matrix product of each library, as one function to call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pis.indicators.errors import Unsupported
from pis.indicators.frameworks import Framework

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8")

#: Random integers of 8 bits: all that fit.
_INT8_LOW, _INT8_HIGH = -128, 128


@dataclass(frozen=True)
class Product:
    """Operands in mathematical order (m × k, k × n), and the call that multiplies them."""

    left: Any
    right: Any
    call: Callable[[], Any]


def product_of(
    framework: Framework,
    left: Sequence[int],
    right: Sequence[int],
    dtype: str,
    seed: int,
    transposes: str = "nn",
) -> Product:
    """Random operands on the device, and the library's product of them.

    Products of int8 give sums of 32 bits, so that nothing overflows.

    :param left: shape of the left operand as it is stored
    :param transposes: ``n`` or ``t`` for each operand: ``t`` is stored transposed
    :raises Unsupported: if the library has no such product
    """
    a, b = (
        _operand(framework, shape, dtype, seed + number)
        for number, shape in enumerate((left, right))
    )
    make = {"numpy": _numpy_product, "torch": _torch_product, "tensorflow": _tensorflow_product}
    return make[framework.name](framework, a, b, dtype, transposes)


def threads_of_product(framework: Framework, dtype: str) -> dict[str, int]:
    """NumPy has BLAS for two types, and multiplies other types on one thread."""
    if framework.name == "numpy" and dtype not in ("float32", "float64"):
        return {"threads": 1}
    return {}


def _operand(framework: Framework, shape: Sequence[int], dtype: str, seed: int) -> Any:
    if dtype == "int8":
        return framework.integers(shape, _INT8_LOW, _INT8_HIGH, seed, "int8")
    return framework.normal(shape, dtype, seed)


def _turned(array: Any, how: str) -> Any:
    """A view of ``array`` as the product uses it, without a copy."""
    return array.T if how == "t" else array


def _result_shape(a: Any, b: Any) -> tuple[int, ...]:
    return (*a.shape[:-1], b.shape[-1])


def _numpy_product(framework: Framework, a: Any, b: Any, dtype: str, transposes: str) -> Product:
    a, b = _turned(a, transposes[0]), _turned(b, transposes[1])
    kind = "int32" if dtype == "int8" else dtype
    out = framework.empty(_result_shape(a, b), kind)
    options = {"out": out, "dtype": framework.dtype(kind)} if dtype == "int8" else {"out": out}
    return Product(a, b, partial(framework.module.matmul, a, b, **options))


def _torch_product(framework: Framework, a: Any, b: Any, dtype: str, transposes: str) -> Product:
    a, b = _turned(a, transposes[0]), _turned(b, transposes[1])
    if dtype != "int8":
        out = framework.empty(_result_shape(a, b), dtype)
        return Product(a, b, partial(framework.module.matmul, a, b, out=out))
    multiply = getattr(framework.module, "_int_mm", None)
    if multiply is None or a.dim() > 2:
        raise Unsupported(
            f"torch {framework.version} multiplies int8 matrices one pair at a time, since 2.0: "
            "use --batch 1, or another --dtype"
        )
    out = framework.empty(_result_shape(a, b), "int32")
    return Product(a, b, partial(multiply, a, b, out=out))


def _tensorflow_product(
    framework: Framework, a: Any, b: Any, dtype: str, transposes: str
) -> Product:
    tf = framework.module
    options = {"transpose_a": transposes[0] == "t", "transpose_b": transposes[1] == "t"}
    if dtype == "int8":
        options["output_type"] = tf.int32
    multiply = framework.compiled(partial(tf.matmul, **options))
    seen = [tf.transpose(it) if how == "t" else it for it, how in zip((a, b), transposes)]
    return Product(seen[0], seen[1], partial(multiply, a, b))
