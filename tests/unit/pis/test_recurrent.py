"""Recurrent layers: counts, and the reference against equations over whole batches."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pis.indicators.errors import WrongResult
from pis.indicators.numpy_framework import NumpyFramework
from pis.indicators.recurrent import GATES, LayerWeights, Recurrence, cell_step
from pis.indicators.recurrent_calls import recurrent_weights
from pis.indicators.recurrent_work import RecurrentCheck
from tests.effort import examples

NUMPY = NumpyFramework("cpu", 1, "function")
sizes = st.integers(1, 5)
recurrences = st.builds(
    Recurrence, st.sampled_from(sorted(GATES)), st.integers(1, 3), sizes, sizes, sizes, sizes
)


def sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


def outputs_of(cell: str, inputs: Any, weights: Any) -> Any:
    """All states of all sequences, by arrays."""
    for kernel, recurrent, bias in weights:
        given_, hidden = inputs @ kernel + bias, np.zeros((inputs.shape[1], len(recurrent)))
        memory, states = hidden, []
        for step in given_:
            kept = hidden @ recurrent
            one, two = (np.split(part, GATES[cell], axis=1) for part in (step, kept))
            if cell == "rnn":
                hidden = np.tanh(one[0] + two[0])
            elif cell == "gru":
                update = sigmoid(one[1] + two[1])
                fresh = np.tanh(one[2] + sigmoid(one[0] + two[0]) * two[2])
                hidden = update * hidden + (1 - update) * fresh
            else:
                enter, forget, fresh, leave = (a + b for a, b in zip(one, two, strict=True))
                memory = sigmoid(forget) * memory + sigmoid(enter) * np.tanh(fresh)
                hidden = sigmoid(leave) * np.tanh(memory)
            states.append(hidden)
        inputs = np.array(states)
    return inputs


@settings(max_examples=examples(40))
@given(recurrences)
def test_recurrent_check_accepts_only_the_defined_equations(recurrence: Recurrence) -> None:
    inputs = NUMPY.normal((recurrence.steps, recurrence.batch, recurrence.input_size), "float64", 1)
    weights = recurrent_weights(NUMPY, recurrence, "float64", 2)
    check = RecurrentCheck(NUMPY, recurrence, "float64", inputs, weights)
    output = outputs_of(recurrence.cell, inputs, weights)
    assert check(output) == pytest.approx(output[-1, 0].sum())
    for wrong in (output + 1e-6, output * np.nan):
        with pytest.raises(WrongResult, match="states"):
            check(wrong)


@given(recurrences)
def test_recurrent_operations_are_the_sum_of_gate_products(recurrence: Recurrence) -> None:
    counted = 0
    for layer in range(recurrence.layers):
        entering = recurrence.hidden_size if layer else recurrence.input_size
        for _ in range(GATES[recurrence.cell] * recurrence.hidden_size):
            products = entering + recurrence.hidden_size
            counted += products + (products - 1)
    assert recurrence.operations == counted * recurrence.steps * recurrence.batch


def test_upper_recurrent_layers_take_hidden_states_as_input() -> None:
    assert Recurrence("gru", 3, 7, 5, 1, 1).input_sizes == [7, 5, 5]


def test_large_recurrent_networks_are_checked_at_two_steps() -> None:
    assert Recurrence("lstm", 1, 20, 20, 30, 8).reference_steps == 30
    assert Recurrence("lstm", 1, 4096, 4096, 30, 8).reference_steps == 2


def test_lstm_forget_gate_keeps_memory_if_open_and_drops_it_if_closed() -> None:
    for bias, wanted in ((1e3, 0.75), (-1e3, 0.0)):
        layer = LayerWeights([[0.0]] * 4, [[0.0]] * 4, [-1e3, bias, 0.0, 0.0])
        assert cell_step("lstm", layer, [1.0], [0.0], [0.75])[1] == [wanted]
