"""Products of rectangular matrices, of the sizes that occur in training and inference."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pis.indicators.checks import check_gemm
from pis.indicators.deepbench import PRESETS
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.operations import gemm_operations
from pis.indicators.parameters import Parameter
from pis.indicators.products import DTYPES, Product, product_of, threads_of_product

_ONE_SHAPE = r"\s*[1-9]\d{0,6}\s*(,\s*[1-9]\d{0,6}\s*){2},\s*[nt]\s*,?\s*[nt]\s*"
_SHAPES = "|".join((*PRESETS, f"{_ONE_SHAPE}(;{_ONE_SHAPE})*;?"))


def gemm_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Yield one work per shape; its operands are freed before the next operands are made."""
    for m, n, k, transposes in shapes_of(values["shapes"]):
        yield _gemm_work(framework, values, (m, n, k), transposes)


def shapes_of(text: str) -> list[tuple[int, int, int, str]]:
    """The shapes of the preset that ``text`` names, or the shapes that it lists.

    >>> shapes_of("1024,128,512,n,t; 3,2,1,nn")
    [(1024, 128, 512, 'nt'), (3, 2, 1, 'nn')]
    >>> len(shapes_of("deepbench-training"))
    160
    """
    if text in PRESETS:
        return list(PRESETS[text])
    shapes = []
    for one in filter(str.strip, text.split(";")):
        m, n, k, *how = (part.strip() for part in one.split(","))
        shapes.append((int(m), int(n), int(k), "".join("".join(how).split())))
    return shapes


def _gemm_work(
    framework: Framework, values: dict[str, Any], mnk: tuple[int, int, int], transposes: str
) -> Work:
    (m, n, k), dtype = mnk, values["dtype"]
    left = (m, k) if transposes[0] == "n" else (k, m)
    right = (k, n) if transposes[1] == "n" else (n, k)
    product = product_of(framework, left, right, dtype, values["seed"], transposes)
    return Work(
        product.call,
        gemm_operations(m, n, k),
        "OP" if dtype == "int8" else "FLOP",
        {
            "dtype": dtype,
            "m": m,
            "n": n,
            "k": k,
            "transposes": transposes,
            **threads_of_product(framework, dtype),
        },
        partial(_check_product, framework, product, dtype),
    )


def _check_product(framework: Framework, product: Product, dtype: str, output: Any) -> float:
    return check_gemm(framework, product.left, product.right, output, dtype)


INDICATOR = Indicator(
    "gemm",
    "PiGemm",
    "Multiply an m x k by a k x n matrix of random numbers, for each shape of a list.",
    (
        Parameter(
            "shapes", "deepbench-inference-device",
            "a preset (" + ", ".join(PRESETS) + ") or m,n,k,TRANSPOSES;… such as 1024,128,1024,n,t",
            pattern=_SHAPES,
        ),
        Parameter("dtype", "float32", "element type", DTYPES),
    ),
    ("numpy", "torch", "tensorflow"),
    gemm_works,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
