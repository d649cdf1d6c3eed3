"""The indicator ``conv2d``: convolution of images, in FLOP/s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.convolution_work import convolution_of, convolution_work, shared_parameters
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter

NAMES = (
    "batch", "input_height", "input_width", "input_channels", "filter_height", "filter_width",
    "output_channels", "strides", "dilation", "padding", "data_format", "dtype",
)  # fmt: skip


def conv2d_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One convolution."""
    sizes = ("input_height", "input_width")
    convolution = convolution_of(values, sizes, ("filter_height", "filter_width"))
    yield convolution_work(framework, values, convolution, NAMES)


INDICATOR = Indicator(
    name="conv2d",
    title="PiConv2D",
    summary="Convolution of images: rate of its operations.",
    parameters=(
        Parameter("input_height", 700, "height of the input", environment=("TENSOR_INPUT_HEIGHT",)),
        Parameter("input_width", 161, "width of the input", environment=("TENSOR_INPUT_WIDTH",)),
        Parameter(
            "filter_height", 20, "height of the filter", environment=("FILTER_INPUT_HEIGHT",)
        ),
        Parameter("filter_width", 5, "width of the filter", environment=("FILTER_INPUT_WIDTH",)),
        *shared_parameters(1, ("NHWC", "NCHW")),
    ),
    frameworks=("numpy", "torch", "tensorflow"),
    works=conv2d_works,
    historic={"device": ("CONV2D_DEVICE",), "reps": ("CONV_REPS",)},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
