"""Products of square matrices."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pis.indicators.checks import check_gemm
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.operations import matmul_operations
from pis.indicators.parameters import Parameter
from pis.indicators.products import DTYPES, product_of, threads_of_product


def matmul_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    size, dtype, batch = values["matrix_size"], values["dtype"], values["batch"]
    shape = (size, size) if batch == 1 else (batch, size, size)
    product = product_of(framework, shape, shape, dtype, values["seed"])
    yield Work(
        product.call,
        matmul_operations(size, batch),
        "OP" if dtype == "int8" else "FLOP",
        {
            "dtype": dtype,
            "matrix_size": size,
            "batch": batch,
            **threads_of_product(framework, dtype),
        },
        partial(_check_matmul, framework, product, dtype, batch),
    )


def _check_matmul(framework: Framework, product: Any, dtype: str, batch: int, output: Any) -> float:
    return check_gemm(framework, product.left, product.right, output, dtype, batch)


INDICATOR = Indicator(
    "matmul",
    "PiMatmul",
    "Multiply two square matrices, or a batch of pairs, of random numbers.",
    (
        Parameter(
            "matrix_size", 512, "order of the matrices",
            environment=("MATMUL_MATRIX_SIZE",), high=2**17,
        ),
        Parameter("dtype", "float32", "element type", DTYPES, ("MATMUL_DTYPE",)),
        Parameter("batch", 1, "pairs multiplied by one call", high=2**16),
    ),
    ("numpy", "torch", "tensorflow"),
    matmul_works,
    {"reps": ("MATMUL_REPS",), "device": ("MATMUL_DEVICE",)},
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
