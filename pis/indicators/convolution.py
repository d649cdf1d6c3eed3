"""Convolutions: true output sizes, operation counts and a float64 reference.

The same description serves one and two dimensions. Shapes have the same order for every library:
the filter is (window…, channels, filters), as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod, sqrt


def output_size(size: int, window: int, stride: int, dilation: int, padding: str) -> int:
    """Number of outputs of a convolution along one dimension.

    ``SAME``: ceil(size / stride). ``VALID``: ceil((size − reach + 1) / stride), where the
    window reaches over (window − 1) · dilation + 1 inputs; 0 if it reaches beyond them.
    Source: Dumoulin & Visin 2016 (arXiv:1603.07285), relations 6 and 15.

    For an input of 5, a window of 3 and a stride of 2, ``VALID`` windows start at 0 and 2; ``SAME``
    windows, with a zero on either side, start at −1, 1 and 3.

    >>> output_size(5, 3, 2, 1, "VALID"), output_size(5, 3, 2, 1, "SAME")
    (2, 3)
    >>> output_size(7, 3, 1, 2, "VALID")
    3
    >>> output_size(2, 3, 1, 1, "VALID")
    0
    """
    if padding == "SAME":
        return -(-size // stride)
    return max(0, -(-(size - reach_of(window, dilation) + 1) // stride))


def reach_of(window: int, dilation: int) -> int:
    """Number of inputs that a window spans from its first to its last tap.

    >>> reach_of(3, 1), reach_of(3, 2)
    (3, 5)
    """
    return (window - 1) * dilation + 1


def zeros_around(
    size: int, window: int, stride: int, dilation: int, padding: str
) -> tuple[int, int]:
    """Numbers of zeros before and after one dimension that make ``SAME`` give ceil(size / stride).

    All windows together span (outputs − 1) · stride + reach inputs. Missing inputs are zeros, half
    of them on each side; if their number is odd, the additional zero comes after. Source:
    TensorFlow's "Notes on padding" (``tf.nn``).

    Four windows of 4 with a stride of 1 over an input of 4 span 7: one zero before, two after.

    >>> zeros_around(4, 4, 1, 1, "SAME"), zeros_around(4, 4, 1, 1, "VALID")
    ((1, 2), (0, 0))
    >>> zeros_around(161, 5, 2, 1, "SAME"), zeros_around(700, 20, 2, 1, "SAME")
    ((2, 2), (9, 9))
    """
    if padding != "SAME":
        return (0, 0)
    outputs = output_size(size, window, stride, dilation, padding)
    missing = max(0, (outputs - 1) * stride + reach_of(window, dilation) - size)
    return (missing // 2, missing - missing // 2)


def convolution_operations(outputs: int, taps: int) -> int:
    """Multiplications and additions of a direct convolution: outputs · (2 · taps − 1).

    Each output is a dot product over ``taps`` = window · input channels: ``taps`` multiplications
    and one addition less. Taps on padding count, because libraries without a fast algorithm compute
    them. Algorithms that need fewer operations (Winograd, FFT) are credited with the same number.
    Source: Sze et al. 2017 (arXiv:1703.09039).

    Two outputs of three taps: a·x + b·y + c·z twice, 3 products and 2 sums each.

    >>> convolution_operations(2, 3)
    10
    """
    return outputs * (2 * taps - 1)


@dataclass(frozen=True)
class Convolution:
    """One convolution, in as many dimensions as ``spatial`` has.

    :param spatial: sizes of the input, channels apart
    :param window: sizes of the filter, in the order of ``spatial``
    :param filters: output channels
    :param padding: ``SAME`` or ``VALID``
    :param channels_last: NHWC or NWC; else NCHW or NCW

    The historic two-dimensional convolution has 4 · 350 · 81 · 32 outputs of 20 · 5 · 1 taps:

    >>> historic = Convolution(4, (700, 161), 1, (20, 5), 32, 2, 1, "SAME", True)
    >>> historic.output, historic.operations == 4 * 350 * 81 * 32 * (2 * 100 - 1)
    ((350, 81), True)
    """

    batch: int
    spatial: tuple[int, ...]
    channels: int
    window: tuple[int, ...]
    filters: int
    stride: int
    dilation: int
    padding: str
    channels_last: bool

    @property
    def output(self) -> tuple[int, ...]:
        """Sizes of the output without its channels."""
        return tuple(
            output_size(size, window, self.stride, self.dilation, self.padding)
            for size, window in zip(self.spatial, self.window)
        )

    @property
    def zeros(self) -> tuple[tuple[int, int], ...]:
        """Numbers of zeros before and after each dimension."""
        return tuple(
            zeros_around(size, window, self.stride, self.dilation, self.padding)
            for size, window in zip(self.spatial, self.window)
        )

    @property
    def taps(self) -> int:
        """Number of products in one output."""
        return prod(self.window) * self.channels

    @property
    def operations(self) -> int:
        """Number of operations of one call."""
        return convolution_operations(self.batch * prod(self.output) * self.filters, self.taps)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The sizes in the order that ``channels_last`` selects."""
        if self.channels_last:
            return (self.batch, *self.spatial, self.channels)
        return (self.batch, self.channels, *self.spatial)

    @property
    def filter_shape(self) -> tuple[int, ...]:
        """(window…, channels, filters)."""
        return (*self.window, self.channels, self.filters)

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The sizes in the order that ``channels_last`` selects."""
        if self.channels_last:
            return (self.batch, *self.output, self.filters)
        return (self.batch, self.filters, *self.output)

    def input_index(self, item: int, position: tuple[int, ...], channel: int) -> tuple[int, ...]:
        """Index of a value in the input."""
        if self.channels_last:
            return (item, *position, channel)
        return (item, channel, *position)


def sampled_outputs(convolution: Convolution) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Yield (item, position, filter) of outputs in corners, where padding shows, and the middle.

    >>> list(sampled_outputs(Convolution(2, (5,), 1, (3,), 4, 1, 1, "VALID", True)))
    [(0, (0,), 0), (0, (2,), 3), (1, (1,), 2), (1, (0,), 3), (1, (2,), 0)]
    """
    last = tuple(size - 1 for size in convolution.output)
    first, middle = tuple(0 for _ in last), tuple(size // 2 for size in last)
    item, kernel = convolution.batch - 1, convolution.filters - 1
    yield (0, first, 0)
    yield (0, last, kernel)
    yield (item, middle, convolution.filters // 2)
    yield (item, first, kernel)
    yield (item, last, 0)


def taps_of(
    convolution: Convolution, position: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield (window index, input position) of the taps on the input, not on padding.

    >>> padded = Convolution(1, (4,), 1, (3,), 1, 2, 1, "SAME", True)
    >>> [list(taps_of(padded, (output,))) for output in (0, 1)]
    [[((0,), (0,)), ((1,), (1,)), ((2,), (2,))], [((0,), (2,)), ((1,), (3,))]]
    """
    starts = [
        output * convolution.stride - before
        for output, (before, _) in zip(position, convolution.zeros)
    ]
    for tap in product(*(range(size) for size in convolution.window)):
        place = tuple(start + index * convolution.dilation for start, index in zip(starts, tap))
        if all(0 <= index < size for index, size in zip(place, convolution.spatial)):
            yield tap, place


def convolved(
    convolution: Convolution,
    position: tuple[int, ...],
    input_at: Callable[[tuple[int, ...], int], float],
    filter_at: Callable[[tuple[int, ...], int], float],
) -> tuple[float, float]:
    """One output in float64, and the root of the sum of its squared products.

    Rounding errors are judged relative to the second number.

    :param input_at: the input's value at (position, channel)
    :param filter_at: the filter's value at (window index, channel)

    For inputs 1, 3, 2 and taps 0, 2, the second window gives 3 · 0 + 2 · 2.

    >>> pair = Convolution(1, (3,), 1, (2,), 1, 1, 1, "VALID", True)
    >>> values, weights = [1.0, 3.0, 2.0], [0.0, 2.0]
    >>> convolved(pair, (1,), lambda place, _: values[place[0]], lambda tap, _: weights[tap[0]])
    (4.0, 4.0)
    """
    products = [
        input_at(place, channel) * filter_at(tap, channel)
        for tap, place in taps_of(convolution, position)
        for channel in range(convolution.channels)
    ]
    return sum(products), sqrt(sum(value * value for value in products))
