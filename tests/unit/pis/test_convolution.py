"""Convolutions: counts, sizes and NumPy's results against definitions written another way."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.signal import correlate

from pis.catalogue import indicator_of
from pis.indicators.convolution import Convolution, output_size, zeros_around
from pis.indicators.convolution_calls import convolution_call
from pis.indicators.convolution_work import ConvolutionCheck, convolution_of
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.harness import Work
from pis.indicators.numpy_framework import NumpyFramework
from pis.indicators.parameters import values_of

NUMPY = NumpyFramework("cpu", 1, "function")
small = st.integers(1, 4)


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    dimensions = draw(st.integers(1, 2))
    convolution = Convolution(
        batch=draw(st.integers(1, 2)),
        spatial=tuple(draw(st.integers(1, 9)) for _ in range(dimensions)),
        channels=draw(st.integers(1, 3)),
        window=tuple(draw(small) for _ in range(dimensions)),
        filters=draw(st.integers(1, 3)),
        stride=draw(small),
        dilation=draw(st.integers(1, 3)),
        padding=draw(st.sampled_from(["SAME", "VALID"])),
        channels_last=draw(st.booleans()),
    )
    assume(all(convolution.output))
    return convolution


def operands(convolution: Convolution) -> tuple[Any, Any]:
    """Small whole numbers: their sums are exact."""
    images = NUMPY.integers(convolution.input_shape, -9, 10, 1).astype(float)
    kernels = NUMPY.integers(convolution.filter_shape, -9, 10, 2).astype(float)
    return images, kernels


def by_scipy(convolution: Convolution, images: Any, kernels: Any) -> Any:
    """Correlate at every position with a filter that has its gaps filled, then thin out."""
    dimensions = len(convolution.window)
    first = images if not convolution.channels_last else np.moveaxis(images, -1, 1)
    padded = np.pad(first, [(0, 0), (0, 0), *convolution.zeros])
    reaches = [(size - 1) * convolution.dilation + 1 for size in convolution.window]
    thin = (slice(None, None, convolution.stride),) * dimensions
    gaps = (slice(None, None, convolution.dilation),) * dimensions
    result = np.zeros((convolution.batch, convolution.filters, *convolution.output))
    for kernel in range(convolution.filters):
        spread = np.zeros((convolution.channels, *reaches))
        spread[(slice(None), *gaps)] = np.moveaxis(kernels[..., kernel], -1, 0)
        for item in range(convolution.batch):
            everywhere = correlate(padded[item], spread, mode="valid", method="direct")[0]
            result[item, kernel] = everywhere[thin]
    return np.moveaxis(result, 1, -1) if convolution.channels_last else result


def values_for(name: str, *flags: str, **variables: str) -> dict[str, Any]:
    return values_of(indicator_of(name).all_parameters(), flags, variables, "")


def work_of(name: str, *flags: str, **variables: str) -> Work:
    values = values_for(name, *flags, **variables)
    (work,) = indicator_of(name).works(NUMPY, values)
    return work


@given(convolutions())
def test_numpy_convolution_equals_scipy_convolution(convolution: Convolution) -> None:
    images, kernels = operands(convolution)
    found = convolution_call(NUMPY, convolution, images, kernels)()
    assert found.shape == convolution.output_shape
    assert np.array_equal(found, by_scipy(convolution, images, kernels))


@given(convolutions())
def test_shifted_convolution_fails_the_check(convolution: Convolution) -> None:
    images, kernels = operands(convolution)
    check = ConvolutionCheck(NUMPY, convolution, "float64", images, kernels)
    output = by_scipy(convolution, images, kernels)
    check(output)
    with pytest.raises(WrongResult, match="float64 gives"):
        check(output + 1)
    with pytest.raises(WrongResult):
        check(output * np.nan)


@given(st.integers(1, 40), small, small, st.integers(1, 3))
def test_convolution_output_size_is_the_number_of_windows(
    size: int, window: int, stride: int, dilation: int
) -> None:
    def fits(start: int, length: int) -> bool:
        return start + (window - 1) * dilation < length

    valid = sum(fits(start, size) for start in range(0, size, stride))
    assert output_size(size, window, stride, dilation, "VALID") == valid
    before, after = zeros_around(size, window, stride, dilation, "SAME")
    padded = size + before + after
    same = sum(fits(start, padded) for start in range(0, padded, stride))
    assert output_size(size, window, stride, dilation, "SAME") == same == -(-size // stride)
    assert after - before in (0, 1)


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        # 4 · 81 positions, 32 filters of 5 · 5 taps
        ("conv1d", 4 * 81 * 32 * (2 * 25 - 1)),
        # 4 · 350 · 81 positions, 32 filters of 20 · 5 · 1 taps
        ("conv2d", 4 * 350 * 81 * 32 * (2 * 100 - 1)),
    ],
)
def test_historic_default_convolutions_have_known_operation_counts(
    name: str, operations: int
) -> None:
    assert work_of(name).per_call == operations


def test_convolution_without_padding_counts_fewer_windows() -> None:
    # (161 − 5) / 2 + 1 = 79 positions
    assert work_of("conv1d", "--padding", "VALID").per_call == 4 * 79 * 32 * 49


def test_historic_variables_set_the_convolution_shape() -> None:
    work = work_of(
        "conv2d", BATCH="2", TENSOR_INPUT_HEIGHT="8", TENSOR_INPUT_WIDTH="7",
        TENSOR_INPUT_CHANNELS="3", FILTER_INPUT_HEIGHT="4", FILTER_INPUT_WIDTH="2",
        FILTER_INPUT_CHANNELS="3", FILTER_OUTPUT_CHANNELS="6", FILTER_STRIDES="1",
        FILTER_PADDING="VALID", CONV_DATA_FORMAT="NCHW", TENSOR_DTYPE="float64",
    )  # fmt: skip
    assert work.parameters == {
        "batch": 2, "input_height": 8, "input_width": 7, "input_channels": 3,
        "filter_height": 4, "filter_width": 2, "output_channels": 6, "strides": 1, "dilation": 1,
        "padding": "VALID", "data_format": "NCHW", "dtype": "float64",
    }  # fmt: skip
    assert work.call().shape == (2, 6, 5, 6)
    assert work.check(work.call()) == work.check(work.call())


def test_historic_variables_set_device_and_repetitions() -> None:
    values = values_for("conv1d", CONV1D_DEVICE="gpu", CONV_REPS="7", MINI_BATCH="3")
    assert (values["device"], values["reps"], values["mini_batch"]) == ("cuda", 7, 3)


def test_convolution_filter_that_does_not_fit_the_input_is_refused() -> None:
    values = values_for("conv1d", FILTER_INPUT_CHANNELS="3")
    with pytest.raises(Unsupported, match="filter_input_channels"):
        convolution_of(values, ("input_width",), ("filter_width",))
    with pytest.raises(Unsupported, match="does not fit"):
        work_of("conv1d", "--padding", "VALID", "--filter-width", "200")


def test_numpy_convolution_of_float16_reports_one_thread() -> None:
    assert work_of("conv1d", "--dtype", "float16").parameters["threads"] == 1
    assert "threads" not in work_of("conv1d").parameters
