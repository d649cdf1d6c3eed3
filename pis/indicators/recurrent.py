"""Recurrent layers: operation counts, and their equations in float64.

The gates are in PyTorch's order: input, forget, cell, output (lstm); reset, update, new (gru). The
shape of ``kernel`` is (inputs, gates · hidden); the shape of ``recurrent`` is (hidden, gates ·
hidden). Each gate has one bias, which is added to the product with the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, tanh
from operator import mul

#: Number of gates of a cell, including its new value.
GATES = {"rnn": 1, "gru": 3, "lstm": 4}

#: Multiplications that the float64 reference may cost: about a second in pure Python.
REFERENCE_PRODUCTS = 20_000_000


def cell_operations(cell: str, input_size: int, hidden_size: int) -> int:
    """Operations of one layer in one step on one sequence.

    Each gate of each hidden unit is a dot product of its weights with the inputs and the
    hidden state: gates · hidden · (2 · (inputs + hidden) − 1). Biases, activations and the
    products between gates are left out: they grow with the hidden size, not with its square.
    Source: Elman 1990 (doi:10.1207/s15516709cog1402_1), Hochreiter & Schmidhuber 1997
    (doi:10.1162/neco.1997.9.8.1735), Cho et al. 2014 (arXiv:1406.1078).

    One unit with two inputs computes w₁x₁ + w₂x₂ + uh: 3 products and 2 sums. An LSTM needs four
    times as many operations.

    >>> cell_operations("rnn", 2, 1), cell_operations("gru", 2, 1), cell_operations("lstm", 2, 1)
    (5, 15, 20)
    """
    return GATES[cell] * hidden_size * (2 * (input_size + hidden_size) - 1)


@dataclass(frozen=True)
class Recurrence:
    """A stack of recurrent layers that runs over a batch of sequences.

    :param cell: ``rnn`` (tanh), ``gru`` (reset after the product, as in cuDNN) or ``lstm``
    :param steps: length of each sequence

    For two layers of one unit, one input, three steps and a batch of two, each of the 12 cells has
    3 operations.

    >>> Recurrence("rnn", 2, 1, 1, 3, 2).operations
    36
    """

    cell: str
    layers: int
    input_size: int
    hidden_size: int
    steps: int
    batch: int

    @property
    def input_sizes(self) -> list[int]:
        """The number of inputs of each layer; for all but the first layer, the hidden size."""
        return [self.input_size] + [self.hidden_size] * (self.layers - 1)

    @property
    def operations(self) -> int:
        """Number of operations of one call, over all layers, steps and sequences."""
        layers = (cell_operations(self.cell, size, self.hidden_size) for size in self.input_sizes)
        return self.batch * self.steps * sum(layers)

    @property
    def reference_steps(self) -> int:
        """Number of first steps that the reference can afford; at least two, because the second
        step is the first that has a state.
        """
        width = GATES[self.cell] * self.hidden_size
        products = sum(width * (size + self.hidden_size) for size in self.input_sizes)
        return min(self.steps, max(2, REFERENCE_PRODUCTS // products))


@dataclass(frozen=True)
class LayerWeights:
    """One layer's weights on the host, one sequence per gate unit.

    :param kernel: for each of gates · hidden units its weights of the inputs
    :param recurrent: likewise of the hidden state
    """

    kernel: Sequence[Sequence[float]]
    recurrent: Sequence[Sequence[float]]
    bias: Sequence[float]


def recurrent_outputs(
    cell: str, layers: Sequence[LayerWeights], sequence: Sequence[Sequence[float]]
) -> list[list[float]]:
    """The top layer's hidden states for one sequence, in float64.

    :param sequence: the inputs, one a step

    A unit that adds its input to its state and squashes the sum:

    >>> adder = LayerWeights([[1.0]], [[1.0]], [0.0])
    >>> recurrent_outputs("rnn", [adder], [[0.5], [0.0]]) == [[tanh(0.5)], [tanh(tanh(0.5))]]
    True
    """
    outputs = [list(inputs) for inputs in sequence]
    for layer in layers:
        hidden = [0.0] * (len(layer.bias) // GATES[cell])
        memory = hidden
        for step, inputs in enumerate(outputs):
            hidden, memory = cell_step(cell, layer, inputs, hidden, memory)
            outputs[step] = hidden
    return outputs


def cell_step(
    cell: str,
    layer: LayerWeights,
    inputs: Sequence[float],
    hidden: Sequence[float],
    memory: Sequence[float],
) -> tuple[list[float], list[float]]:
    """The next hidden state and memory; in cells without memory, both are the hidden state.

    An LSTM with all weights zero halves its memory, as sigmoid(0) = 1/2:

    >>> nothing = LayerWeights([[0.0]] * 4, [[0.0]] * 4, [0.0] * 4)
    >>> cell_step("lstm", nothing, [1.0], [0.0], [2.0]) == ([0.5 * tanh(1.0)], [1.0])
    True

    A GRU with all weights zero goes half of the way to its new value, which is tanh(0):

    >>> nothing = LayerWeights([[0.0]] * 3, [[0.0]] * 3, [0.0] * 3)
    >>> cell_step("gru", nothing, [1.0], [0.5], [0.5])[0]
    [0.25]
    """
    given = [
        sum(map(mul, weights, inputs)) + bias for weights, bias in zip(layer.kernel, layer.bias)
    ]
    kept = [sum(map(mul, weights, hidden)) for weights in layer.recurrent]
    following = {"rnn": _rnn_step, "gru": _gru_step, "lstm": _lstm_step}[cell]
    return following(_by_gate(given, len(hidden)), _by_gate(kept, len(hidden)), hidden, memory)


def _by_gate(values: Sequence[float], hidden: int) -> list[Sequence[float]]:
    return [values[start : start + hidden] for start in range(0, len(values), hidden)]


def _sigmoid(value: float) -> float:
    return 1 / (1 + exp(-value)) if value >= 0 else exp(value) / (1 + exp(value))


def _rnn_step(
    given: Sequence[Sequence[float]],
    kept: Sequence[Sequence[float]],
    hidden: Sequence[float],
    memory: Sequence[float],
) -> tuple[list[float], list[float]]:
    following = [tanh(one + other) for one, other in zip(given[0], kept[0])]
    return following, following


def _gru_step(
    given: Sequence[Sequence[float]],
    kept: Sequence[Sequence[float]],
    hidden: Sequence[float],
    memory: Sequence[float],
) -> tuple[list[float], list[float]]:
    reset, update = (
        [_sigmoid(one + other) for one, other in zip(given[gate], kept[gate])] for gate in (0, 1)
    )
    fresh = [tanh(one + part * other) for one, part, other in zip(given[2], reset, kept[2])]
    following = [part * old + (1 - part) * new for part, old, new in zip(update, hidden, fresh)]
    return following, following


def _lstm_step(
    given: Sequence[Sequence[float]],
    kept: Sequence[Sequence[float]],
    hidden: Sequence[float],
    memory: Sequence[float],
) -> tuple[list[float], list[float]]:
    sums = [[one + other for one, other in zip(given[gate], kept[gate])] for gate in range(4)]
    enter, forget, leave = ([_sigmoid(value) for value in sums[gate]] for gate in (0, 1, 3))
    carried = [
        keep * old + take * tanh(new)
        for keep, old, take, new in zip(forget, memory, enter, sums[2])
    ]
    return [out * tanh(value) for out, value in zip(leave, carried)], carried
