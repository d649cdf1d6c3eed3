"""The indicator ``conv1d``: convolution of sequences, in FLOP/s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.convolution_work import convolution_of, convolution_work, shared_parameters
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.parameters import Parameter

NAMES = (
    "batch", "input_width", "input_channels", "filter_width", "output_channels",
    "strides", "dilation", "padding", "data_format", "dtype",
)  # fmt: skip


def conv1d_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One convolution."""
    convolution = convolution_of(values, ("input_width",), ("filter_width",))
    yield convolution_work(framework, values, convolution, NAMES)


INDICATOR = Indicator(
    name="conv1d",
    title="PiConv1D",
    summary="Convolution of sequences: rate of its operations.",
    parameters=(
        Parameter("input_width", 161, "length of the input", environment=("TENSOR_INPUT_WIDTH",)),
        Parameter("filter_width", 5, "length of the filter", environment=("FILTER_INPUT_WIDTH",)),
        *shared_parameters(5, ("NWC", "NCW")),
    ),
    frameworks=("numpy", "torch", "tensorflow"),
    works=conv1d_works,
    historic={"device": ("CONV1D_DEVICE",), "reps": ("CONV_REPS",)},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
