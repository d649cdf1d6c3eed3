"""A stack of recurrent layers in each library, with given weights.

The shape of inputs is (steps, batch, inputs); the shape of outputs is (steps, batch, hidden). Each
layer's weights are those that ``recurrent_weights`` made on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.recurrent import GATES, Recurrence


def recurrent_weights(
    framework: Framework, recurrence: Recurrence, dtype: str, seed: int
) -> list[tuple[Any, Any, Any]]:
    """Random (kernel, recurrent, bias) of each layer, of variance 1 / hidden, so that states
    neither vanish nor saturate.
    """
    width = GATES[recurrence.cell] * recurrence.hidden_size
    shapes = [
        shape
        for size in recurrence.input_sizes
        for shape in ((size, width), (recurrence.hidden_size, width), (width,))
    ]
    scale = 1 / sqrt(recurrence.hidden_size)
    drawn = [
        framework.normal(shape, dtype, seed + number) * scale for number, shape in enumerate(shapes)
    ]
    return list(zip(drawn[0::3], drawn[1::3], drawn[2::3]))


def recurrent_call(
    framework: Framework, recurrence: Recurrence, inputs: Any, weights: Sequence[Any]
) -> Callable[[], Any]:
    """A call that runs all steps of all layers."""
    if framework.name == "torch":
        return torch_recurrence(framework, recurrence, inputs, weights)
    function = partial(tensorflow_layers, framework.module, recurrence.cell)
    return partial(framework.compiled(function), inputs, weights)


def torch_recurrence(
    framework: Framework, recurrence: Recurrence, inputs: Any, weights: Sequence[Any]
) -> Callable[[], Any]:
    """``torch.nn.RNN``, ``GRU`` or ``LSTM``; its second bias is zero."""
    torch = framework.module
    kind = {"rnn": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[recurrence.cell]
    sizes = (recurrence.input_size, recurrence.hidden_size, recurrence.layers)
    module = kind(*sizes).to(device=inputs.device, dtype=inputs.dtype)
    with torch.no_grad():
        for number, (kernel, recurrent, bias) in enumerate(weights):
            getattr(module, f"weight_ih_l{number}").copy_(kernel.T)
            getattr(module, f"weight_hh_l{number}").copy_(recurrent.T)
            getattr(module, f"bias_ih_l{number}").copy_(bias)
            getattr(module, f"bias_hh_l{number}").zero_()

    def call() -> Any:
        with torch.inference_mode():
            return module(inputs)[0]

    return call


def tensorflow_layers(tf: Any, cell: str, inputs: Any, weights: Sequence[Any]) -> Any:
    """Multiply each layer's inputs in one product, then loop over the steps with ``tf.scan``.

    These are TensorFlow's own operations, because Keras is another package with its own version.
    """
    step = {"rnn": tensorflow_rnn, "gru": tensorflow_gru, "lstm": tensorflow_lstm}[cell]
    for kernel, recurrent, bias in weights:
        given = tf.tensordot(inputs, kernel, 1) + bias
        start = tf.zeros((inputs.shape[1], recurrent.shape[0]), inputs.dtype)
        states = (start, start) if cell == "lstm" else (start,)
        inputs = tf.scan(partial(step, tf, recurrent), given, states)[0]
    return inputs


def tensorflow_rnn(tf: Any, recurrent: Any, state: Any, given: Any) -> Any:
    """One step of a plain recurrent layer."""
    hidden = tf.tanh(given + tf.matmul(state[0], recurrent))
    return (hidden,)


def tensorflow_gru(tf: Any, recurrent: Any, state: Any, given: Any) -> Any:
    """One step of a gated recurrent unit."""
    from_input = tf.split(given, 3, axis=1)
    from_state = tf.split(tf.matmul(state[0], recurrent), 3, axis=1)
    reset = tf.sigmoid(from_input[0] + from_state[0])
    update = tf.sigmoid(from_input[1] + from_state[1])
    fresh = tf.tanh(from_input[2] + reset * from_state[2])
    hidden = update * state[0] + (1 - update) * fresh
    return (hidden,)


def tensorflow_lstm(tf: Any, recurrent: Any, state: Any, given: Any) -> Any:
    """One step of an LSTM."""
    gates = given + tf.matmul(state[0], recurrent)
    enter, forget, fresh, leave = tf.split(gates, 4, axis=1)
    memory = tf.sigmoid(forget) * state[1] + tf.sigmoid(enter) * tf.tanh(fresh)
    return tf.sigmoid(leave) * tf.tanh(memory), memory
