"""The indicator ``deepbench-conv``: convolutions and their gradients, for each shape of a list.

Shapes and operation counts are those of DeepBench, so that times and rates can stand beside its
published results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod, sqrt
from typing import Any

from pis.indicators.deepbench_shapes import CONVOLUTION_PRESETS
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter
from pis.indicators.rounding import heed_cudnn, roundoff_of

#: Sizes of a shape, in DeepBench's order and by its names.
SIZES = (
    "w", "h", "c", "n", "k", "s", "r", "pad_w", "pad_h", "horizontal_stride", "vertical_stride",
)  # fmt: skip
PASSES = ("forward", "backward_inputs", "backward_weights")

_ONE_SHAPE = r"\s*\d{1,6}\s*(,\s*\d{1,6}\s*){10}"
_SHAPES = "|".join((*CONVOLUTION_PRESETS, f"{_ONE_SHAPE}(;{_ONE_SHAPE})*;?"))

#: Rounding errors of a sum of K products grow with √K (Higham & Mary 2019, doi:10.1137/18M1226312);
#: fast algorithms and long sums of products lose a few bits more.
_ROUNDINGS = 64


@dataclass(frozen=True)
class PaddedConvolution:
    """A convolution of images with a padding and a stride for each dimension.

    :param w: width of the input, of which a filter covers ``s``
    :param h: height of the input, of which a filter covers ``r``
    :param c: input channels
    :param n: images in the batch
    :param k: filters
    """

    w: int
    h: int
    c: int
    n: int
    k: int
    s: int
    r: int
    pad_w: int
    pad_h: int
    horizontal_stride: int
    vertical_stride: int

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of the output.

        >>> shape = PaddedConvolution(151, 40, 1, 1, 32, 20, 5, 8, 8, 8, 2)
        >>> shape.output  # 1 + (40 - 5 + 16) // 2, 1 + (151 - 20 + 16) // 8
        (26, 19)
        """
        high = 1 + (self.h - self.r + 2 * self.pad_h) // self.vertical_stride
        wide = 1 + (self.w - self.s + 2 * self.pad_w) // self.horizontal_stride
        return high, wide

    @property
    def operations(self) -> int:
        """2 P Q K C N R S, for outputs of P × Q: the count in DeepBench's workbooks.

        The forward pass and both gradients have the same count.

        >>> PaddedConvolution(3, 3, 1, 1, 1, 3, 3, 0, 0, 1, 1).operations  # one output of 9 taps
        18
        >>> PaddedConvolution(4, 3, 2, 5, 7, 3, 3, 0, 0, 1, 1).operations  # 2 outputs of 18 taps
        2520
        """
        return 2 * prod(self.output) * self.k * self.c * self.n * self.r * self.s


def convolution_shapes(text: str) -> list[PaddedConvolution]:
    """The shapes of the preset that ``text`` names, or the shapes that it lists.

    :raises Unsupported: if a filter does not fit, or a size is zero

    >>> convolution_shapes("5,5,1,1,1,3,3,0,0,1,1; 6,6,1,1,1,3,3,1,1,2,2;")[1].output
    (3, 3)
    """
    listed = CONVOLUTION_PRESETS.get(text) or [
        tuple(int(size) for size in shape.split(","))
        for shape in filter(str.strip, text.split(";"))
    ]
    shapes = [PaddedConvolution(*sizes) for sizes in listed]
    for shape, sizes in zip(shapes, listed):
        fits = shape.s <= shape.w + 2 * shape.pad_w and shape.r <= shape.h + 2 * shape.pad_h
        if not fits or not all((*sizes[:7], *sizes[9:])):
            raise Unsupported(f"--shapes {','.join(map(str, sizes))}: the filter does not fit")
    return shapes


def deepbench_conv_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One work for each shape and pass."""
    heed_cudnn(framework)
    passes = PASSES if values["pass"] == "all" else (values["pass"],)  # noqa: S105
    for shape, name in product(convolution_shapes(values["shapes"]), passes):
        yield _work(framework, values, shape, name)


def _work(
    framework: Framework, values: dict[str, Any], shape: PaddedConvolution, name: str
) -> Work:
    dtype, seed = values["dtype"], values["seed"]
    calls = {"torch": torch_passes, "tensorflow": tensorflow_passes}[framework.name]
    images, kernels, gradients, passes = calls(framework, shape, dtype, seed)
    return Work(
        call=passes[name],
        per_call=shape.operations,
        unit="FLOP",
        parameters={
            "pass": name,
            **{size: getattr(shape, size) for size in SIZES},
            "dtype": dtype,
        },
        check=AdjointCheck(framework, shape, dtype, (images, kernels, gradients), passes, name),
        gain=shape.r * shape.s,
    )


def torch_passes(
    framework: Framework, shape: PaddedConvolution, dtype: str, seed: int
) -> tuple[Any, Any, Any, dict[str, Callable[[], Any]]]:
    """Images, kernels, gradients of the output, and a call for each pass."""
    torch = framework.module
    images = framework.normal((shape.n, shape.c, shape.h, shape.w), dtype, seed)
    kernels = framework.normal((shape.k, shape.c, shape.r, shape.s), dtype, seed + 1)
    gradients = framework.normal((shape.n, shape.k, *shape.output), dtype, seed + 2)
    options = {
        "stride": (shape.vertical_stride, shape.horizontal_stride),
        "padding": (shape.pad_h, shape.pad_w),
    }
    slopes = torch.nn.grad
    calls: dict[str, Callable[[], Any]] = {
        "forward": partial(torch.nn.functional.conv2d, images, kernels, **options),
        "backward_inputs": partial(
            slopes.conv2d_input, images.shape, kernels, gradients, **options
        ),
        "backward_weights": partial(
            slopes.conv2d_weight, images, kernels.shape, gradients, **options
        ),
    }
    return images, kernels, gradients, calls


def tensorflow_passes(
    framework: Framework, shape: PaddedConvolution, dtype: str, seed: int
) -> tuple[Any, Any, Any, dict[str, Callable[[], Any]]]:
    """Images, kernels, gradients of the output, and a call for each pass."""
    tf = framework.module
    images = framework.normal((shape.n, shape.h, shape.w, shape.c), dtype, seed)
    kernels = framework.normal((shape.r, shape.s, shape.c, shape.k), dtype, seed + 1)
    gradients = framework.normal((shape.n, *shape.output, shape.k), dtype, seed + 2)
    options = {
        "strides": [1, shape.vertical_stride, shape.horizontal_stride, 1],
        "padding": "EXPLICIT",
        "explicit_paddings": [
            *(0, 0), *(shape.pad_h, shape.pad_h), *(shape.pad_w, shape.pad_w), *(0, 0)
        ],
    }  # fmt: skip

    def forward(images: Any, kernels: Any) -> Any:
        return tf.raw_ops.Conv2D(input=images, filter=kernels, **options)

    def inputs(kernels: Any, gradients: Any) -> Any:
        return tf.raw_ops.Conv2DBackpropInput(
            input_sizes=images.shape, filter=kernels, out_backprop=gradients, **options
        )

    def weights(images: Any, gradients: Any) -> Any:
        return tf.raw_ops.Conv2DBackpropFilter(
            input=images, filter_sizes=kernels.shape, out_backprop=gradients, **options
        )

    calls: dict[str, Callable[[], Any]] = {
        "forward": partial(framework.compiled(forward), images, kernels),
        "backward_inputs": partial(framework.compiled(inputs), kernels, gradients),
        "backward_weights": partial(framework.compiled(weights), images, gradients),
    }
    return images, kernels, gradients, calls


class AdjointCheck:
    """Compares a few outputs with float64, and a gradient with the forward pass.

    A convolution is linear in its images and in its kernels. Therefore, the products of its output
    with given gradients, of its images with their gradient, and of its kernels with theirs have
    the same sum.
    """

    def __init__(
        self,
        framework: Framework,
        shape: PaddedConvolution,
        dtype: str,
        arrays: tuple[Any, Any, Any],
        passes: dict[str, Callable[[], Any]],
        name: str,
    ) -> None:
        self._framework = framework
        self._shape = shape
        self._arrays = arrays
        self._passes = passes
        self._name = name
        self._roundoff = _ROUNDINGS * roundoff_of(framework, dtype)
        self._terms = shape.r * shape.s * shape.c

    def __call__(self, output: Any) -> float:
        """:returns: the sum of products, or of the compared outputs in the forward pass"""
        if self._name == "forward":
            return sum(self._compared(output, index) for index in self._samples())
        images, kernels, gradients = self._arrays
        factor = images if self._name == "backward_inputs" else kernels
        forward = self._passes["forward"]()
        expected, scale = self._dot(forward, gradients)
        computed, _ = self._dot(output, factor)
        # Written so that a NaN is refused.
        if not abs(computed - expected) <= self._roundoff * sqrt(self._terms) * scale:
            raise WrongResult(
                f"{self._name}: the gradient gives {computed:.9g}, the output {expected:.9g}"
            )
        return computed

    def _dot(self, left: Any, right: Any) -> tuple[float, float]:
        """Sum of the products in float64, and the root of the sum of their squares."""
        module = self._framework.module
        if self._framework.name == "torch":
            products = left.double() * right.double()
            return float(products.sum()), float(products.square().sum().sqrt())
        products = module.cast(left, module.float64) * module.cast(right, module.float64)
        squares = module.reduce_sum(module.square(products))
        return float(module.reduce_sum(products)), float(module.sqrt(squares))

    def _samples(self) -> list[tuple[int, int, int, int]]:
        """(image, row, column, filter) of outputs in corners and in the middle."""
        (high, wide), shape = self._shape.output, self._shape
        return [
            (0, 0, 0, 0),
            (shape.n - 1, high - 1, wide - 1, shape.k - 1),
            (shape.n // 2, high // 2, wide // 2, shape.k // 2),
            (shape.n - 1, 0, wide - 1, 0),
        ]

    def _compared(self, output: Any, index: tuple[int, int, int, int]) -> float:
        image, row, column, kernel = index
        first = self._framework.name == "torch"
        at = (image, kernel, row, column) if first else index
        computed = float(self._framework.to_host(output[at]))
        terms = self._products(image, row, column, kernel, first)
        scale = sqrt(sum(term * term for term in terms))
        if not abs(computed - sum(terms)) <= self._roundoff * sqrt(len(terms) or 1) * scale:
            raise WrongResult(
                f"output {at} of the convolution is {computed:.9g}, float64 gives {sum(terms):.9g}"
            )
        return computed

    def _products(
        self, image: int, row: int, column: int, kernel: int, channels_first: bool
    ) -> list[float]:
        """The products that one output sums up, in float64."""
        shape = self._shape
        top = row * shape.vertical_stride - shape.pad_h
        left = column * shape.horizontal_stride - shape.pad_w
        rows = range(max(0, -top), min(shape.r, shape.h - top))
        columns = range(max(0, -left), min(shape.s, shape.w - left))
        if not rows or not columns:
            return []
        down = slice(top + rows[0], top + rows[-1] + 1)
        along = slice(left + columns[0], left + columns[-1] + 1)
        under, beside = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        images, kernels, _ = self._arrays
        if channels_first:
            window, weights = images[image, :, down, along], kernels[kernel, :, under, beside]
        else:
            window, weights = images[image, down, along, :], kernels[under, beside, :, kernel]
        to_host = self._framework.to_host
        return [
            value * weight
            for values_of_plane, plane in zip(to_host(window), to_host(weights))
            for values_of_line, line in zip(values_of_plane, plane)
            for value, weight in zip(values_of_line, line)
        ]


INDICATOR = Indicator(
    name="deepbench-conv",
    title="PiDeepBenchConv",
    summary="Convolutions and their gradients, for each shape of a list, as DeepBench counts them.",
    parameters=(
        Parameter(
            "shapes", "deepbench-inference-device",
            "a preset (" + ", ".join(CONVOLUTION_PRESETS) + ") or " + ",".join(SIZES) + ";…",
            pattern=_SHAPES,
        ),
        Parameter("pass", "forward", "what to compute", (*PASSES, "all")),
        Parameter("dtype", "float32", "element type", ("float32", "float16", "bfloat16")),
    ),
    frameworks=("torch", "tensorflow"),
    works=deepbench_conv_works,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
