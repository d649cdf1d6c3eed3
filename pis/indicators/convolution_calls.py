"""One convolution in each library, as a function to call repeatedly.

All libraries give TensorFlow's result: if ``SAME`` needs more zeros after the input than before it,
the zeros are added explicitly. The input has the shape ``Convolution.input_shape``, and the filter
has the shape ``Convolution.filter_shape``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

from pis.indicators.convolution import Convolution
from pis.indicators.frameworks import Framework


def convolution_call(
    framework: Framework, convolution: Convolution, images: Any, kernels: Any
) -> Callable[[], Any]:
    """Make a call of ``framework``'s convolution on arrays that are already on the device."""
    builders: dict[str, Callable[..., Callable[[], Any]]] = {
        "numpy": numpy_convolution,
        "torch": torch_convolution,
        "tensorflow": tensorflow_convolution,
    }
    return builders[framework.name](framework, convolution, images, kernels)


def output_channels_last(framework: Framework, convolution: Convolution) -> bool:
    """Whether the output's last index is the channel, which it never is in PyTorch."""
    return convolution.channels_last and framework.name != "torch"


def tensorflow_convolution(
    framework: Framework, convolution: Convolution, images: Any, kernels: Any
) -> Callable[[], Any]:
    """``tf.nn.conv1d`` or ``tf.nn.conv2d``."""
    spatial = "HW"[-len(convolution.spatial) :]
    options = {
        "padding": convolution.padding,
        "data_format": f"N{spatial}C" if convolution.channels_last else f"NC{spatial}",
        "dilations": convolution.dilation,
    }
    neural = framework.module.nn
    if len(convolution.spatial) == 1:
        function = partial(neural.conv1d, stride=convolution.stride, **options)
    else:
        function = partial(neural.conv2d, strides=convolution.stride, **options)
    return partial(framework.compiled(function), images, kernels)


def torch_convolution(
    framework: Framework, convolution: Convolution, images: Any, kernels: Any
) -> Callable[[], Any]:
    """``conv1d`` or ``conv2d`` of ``torch.nn.functional``.

    PyTorch's shapes have channels first. If channels are last in memory, the shape is another view
    of the same values (PyTorch's "channels last" format), not a copy.
    """
    functional = framework.module.nn.functional
    dimensions = len(convolution.spatial)
    function = functional.conv1d if dimensions == 1 else functional.conv2d
    weights = kernels.permute(dimensions + 1, dimensions, *range(dimensions)).contiguous()
    if convolution.channels_last:
        images = images.permute(0, dimensions + 1, *range(1, dimensions + 1))
        if dimensions == 2:
            weights = weights.contiguous(memory_format=framework.module.channels_last)
    options = {"stride": convolution.stride, "dilation": convolution.dilation}
    if all(before == after for before, after in convolution.zeros):
        padding = tuple(before for before, _ in convolution.zeros)
        return partial(function, images, weights, padding=padding, **options)
    sides = [side for pair in reversed(convolution.zeros) for side in pair]

    def padded() -> Any:
        return function(functional.pad(images, sides), weights, **options)

    return padded


def numpy_convolution(
    framework: Framework, convolution: Convolution, images: Any, kernels: Any
) -> Callable[[], Any]:
    """Copy the windows beside each other (im2col), then compute one matrix product.

    NumPy has no convolution of images, so its users write one like this. The buffers are made once,
    but copying into them is part of the call. Source: Chellapilla, Puri & Simard 2006, "High
    Performance Convolutional Neural Networks for Document Processing".
    """
    numpy = framework.module
    padded, inside = _room_around(numpy, convolution, images)
    windows = _windows(numpy, convolution, padded)
    columns = numpy.empty(windows.shape, windows.dtype)
    result = numpy.empty(convolution.output_shape, windows.dtype)
    operands = _as_matrices(convolution, columns, kernels)
    product = result.reshape(_product_shape(convolution))

    def call() -> Any:
        if inside is not None:
            numpy.copyto(inside, images)
        numpy.copyto(columns, windows)
        numpy.matmul(*operands, out=product)
        return result

    return call


def _room_around(numpy: Any, convolution: Convolution, images: Any) -> tuple[Any, Any]:
    """An array with zeros around the input, and the view of it that receives the input.

    Without padding, the array is the input itself, and the view is ``None``.
    """
    if not any(map(any, convolution.zeros)):
        return images, None
    axes = [(0, 0), *convolution.zeros]
    axes.insert(len(axes) if convolution.channels_last else 1, (0, 0))
    sizes = [size + sum(zeros) for size, zeros in zip(images.shape, axes)]
    padded = numpy.zeros(sizes, images.dtype)
    inside = tuple(slice(before, before + size) for size, (before, _) in zip(images.shape, axes))
    return padded, padded[inside]


def _windows(numpy: Any, convolution: Convolution, padded: Any) -> Any:
    """A view of all windows: (batch, output…, window…, channels), or channels first
    (batch, channels, window…, output…).
    """
    batch, *strides = padded.strides
    channel = strides.pop(-1 if convolution.channels_last else 0)
    steps = [stride * convolution.stride for stride in strides]
    taps = [stride * convolution.dilation for stride in strides]
    output, window = list(convolution.output), list(convolution.window)
    if convolution.channels_last:
        sizes = [convolution.batch, *output, *window, convolution.channels]
        moves = [batch, *steps, *taps, channel]
    else:
        sizes = [convolution.batch, convolution.channels, *window, *output]
        moves = [batch, channel, *taps, *steps]
    return numpy.lib.stride_tricks.as_strided(padded, sizes, moves, writeable=False)


def _as_matrices(convolution: Convolution, columns: Any, kernels: Any) -> tuple[Any, Any]:
    """The two factors: windows · filters or, with channels first, filters · windows."""
    if convolution.channels_last:
        rows = columns.reshape(-1, convolution.taps)
        return rows, kernels.reshape(convolution.taps, convolution.filters)
    dimensions = len(convolution.window)
    weights = kernels.transpose(dimensions + 1, dimensions, *range(dimensions))
    stacked = columns.reshape(convolution.batch, convolution.taps, -1)
    return weights.reshape(convolution.filters, convolution.taps), stacked


def _product_shape(convolution: Convolution) -> tuple[int, ...]:
    positions = prod(convolution.output)
    if convolution.channels_last:
        return (convolution.batch * positions, convolution.filters)
    return (convolution.batch, convolution.filters, positions)
