"""Measures a convolution, and checks a few of its outputs against float64."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from pis.indicators.convolution import Convolution, convolved, sampled_outputs, taps_of
from pis.indicators.convolution_calls import convolution_call, output_channels_last
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Work
from pis.indicators.parameters import Parameter
from pis.indicators.products import threads_of_product
from pis.indicators.rounding import heed_cudnn, roundoff_of

#: Rounding errors of a sum of K products grow with √K (Higham & Mary 2019, doi:10.1137/18M1226312);
#: algorithms that use transforms lose a few bits more.
CONVOLUTION_ROUNDINGS = 16

CONVOLUTION_DTYPES = ("float32", "float16", "bfloat16", "float64")


def shared_parameters(channels: int, data_formats: tuple[str, str]) -> tuple[Parameter, ...]:
    """The parameters that convolutions of one and of two dimensions have in common.

    :param channels: default of the input's channels
    :param data_formats: channels last, then channels first
    """
    return (
        Parameter("batch", 4, "inputs in a batch", environment=("BATCH",)),
        Parameter(
            "input_channels", channels, "channels of the input",
            environment=("TENSOR_INPUT_CHANNELS",),
        ),
        Parameter(
            "filter_input_channels", 0, "channels of the filter: the input's, or 0 for them",
            environment=("FILTER_INPUT_CHANNELS",), low=0,
        ),
        Parameter(
            "output_channels", 32, "filters", environment=("FILTER_OUTPUT_CHANNELS",)
        ),
        Parameter("strides", 2, "step of the filter", environment=("FILTER_STRIDES",)),
        Parameter("dilation", 1, "distance between the filter's taps"),
        Parameter(
            "padding", "SAME", "zeros around the input, or none",
            choices=("SAME", "VALID"), environment=("FILTER_PADDING",),
        ),
        Parameter(
            "data_format", data_formats[0], "order of the dimensions in memory",
            choices=data_formats, environment=("CONV_DATA_FORMAT",),
        ),
        Parameter(
            "dtype", "float32", "element type",
            choices=CONVOLUTION_DTYPES, environment=("TENSOR_DTYPE",),
        ),
    )  # fmt: skip


def convolution_of(
    values: dict[str, Any], spatial: Sequence[str], window: Sequence[str]
) -> Convolution:
    """The convolution that the parameter ``values`` describe.

    :param spatial: names of the parameters that hold the input's sizes
    :param window: likewise the filter's
    :raises Unsupported: if the channels differ, or the filter does not fit
    """
    if values["filter_input_channels"] not in (0, values["input_channels"]):
        raise Unsupported(
            f"filter_input_channels {values['filter_input_channels']} must equal "
            f"input_channels {values['input_channels']}: leave it out"
        )
    convolution = Convolution(
        batch=values["batch"],
        spatial=tuple(values[name] for name in spatial),
        channels=values["input_channels"],
        window=tuple(values[name] for name in window),
        filters=values["output_channels"],
        stride=values["strides"],
        dilation=values["dilation"],
        padding=values["padding"],
        channels_last=values["data_format"].endswith("C"),
    )
    if not prod(convolution.output):
        raise Unsupported(
            f"a filter of {convolution.window} does not fit into an input of "
            f"{convolution.spatial} without padding: use --padding SAME, or a smaller filter"
        )
    return convolution


def convolution_work(
    framework: Framework, values: dict[str, Any], convolution: Convolution, names: Sequence[str]
) -> Work:
    """One convolution of random numbers.

    :param names: parameters that define the measurement
    """
    heed_cudnn(framework)
    dtype = values["dtype"]
    images = framework.normal(convolution.input_shape, dtype, values["seed"])
    kernels = framework.normal(convolution.filter_shape, dtype, values["seed"] + 1)
    return Work(
        call=convolution_call(framework, convolution, images, kernels),
        per_call=convolution.operations,
        unit="FLOP",
        parameters={
            **{name: values[name] for name in names},
            **threads_of_product(framework, dtype),
        },
        check=ConvolutionCheck(framework, convolution, dtype, images, kernels),
        # Taps on padding can be skipped, and fast algorithms need fewer multiplications, but at
        # least one an output and channel (Winograd 1980, "Arithmetic Complexity of
        # Computations": m outputs of r taps need m + r - 1).
        gain=prod(convolution.window),
    )


class ConvolutionCheck:
    """Compares a few outputs with their values computed in float64."""

    def __init__(
        self, framework: Framework, convolution: Convolution, dtype: str, images: Any, kernels: Any
    ) -> None:
        self._framework = framework
        self._convolution = convolution
        self._images = images
        self._kernels = kernels
        roundoff = roundoff_of(framework, dtype)
        self._tolerance = CONVOLUTION_ROUNDINGS * roundoff * sqrt(convolution.taps)

    def __call__(self, output: Any) -> float:
        """:returns: sum of the outputs that were compared"""
        return sum(
            self._compared(output, *sampled) for sampled in sampled_outputs(self._convolution)
        )

    def _compared(self, output: Any, item: int, position: tuple[int, ...], kernel: int) -> float:
        wanted, scale = self._reference(item, position, kernel)
        last = output_channels_last(self._framework, self._convolution)
        index = (item, *position, kernel) if last else (item, kernel, *position)
        found = float(self._framework.to_host(output[index]))
        # Written so that a NaN is refused.
        if not abs(found - wanted) <= self._tolerance * scale:
            raise WrongResult(
                f"output {index} of the convolution is {found:.9g}, float64 gives {wanted:.9g}"
            )
        return found

    def _reference(self, item: int, position: tuple[int, ...], kernel: int) -> tuple[float, float]:
        """The output and its scale, from the part of the input that the output's window covers."""
        places = [place for _, place in taps_of(self._convolution, position)]
        lows = [min(along) for along in zip(*places)]
        box = tuple(slice(min(along), max(along) + 1) for along in zip(*places))
        last = self._convolution.channels_last
        part = self._images[(item, *box) if last else (item, slice(None), *box)]
        values = self._framework.to_host(part)
        weights = self._framework.to_host(self._kernels[..., kernel])

        def input_at(place: tuple[int, ...], channel: int) -> float:
            within = tuple(index - low for index, low in zip(place, lows))
            return nested(values, (*within, channel) if last else (channel, *within))

        return convolved(
            self._convolution,
            position,
            input_at,
            lambda tap, channel: nested(weights, (*tap, channel)),
        )


def nested(values: Any, index: Sequence[int]) -> float:
    """The number at an index of nested lists.

    >>> nested([[1.0, 2.0], [3.0, 4.0]], (1, 0))
    3.0
    """
    for number in index:
        values = values[number]
    return float(values)
