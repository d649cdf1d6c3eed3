"""Measures recurrent layers, and checks them against their equations in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from operator import sub
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Work
from pis.indicators.parameters import Parameter
from pis.indicators.recurrent import LayerWeights, Recurrence, recurrent_outputs
from pis.indicators.recurrent_calls import recurrent_call, recurrent_weights
from pis.indicators.rounding import heed_cudnn, root_mean_square, roundoff_of

#: Limit for the root mean square of one step's errors, in units of roundoff: states are within ±1,
#: and squashing keeps errors of earlier steps from growing.
STATE_ROUNDINGS = 32

RECURRENT_PARAMETERS = (
    Parameter("layers", 1, "recurrent layers on top of each other", high=1000),
    Parameter("hidden_size", 256, "hidden units a layer"),
    Parameter("input_size", 256, "numbers that go in at each step"),
    Parameter("sequence_length", 50, "steps"),
    Parameter("batch", 16, "sequences in a batch"),
    Parameter(
        "dtype", "float32", "element type", ("float32", "float16", "bfloat16", "float64")
    ),
)  # fmt: skip

RECURRENT_FRAMEWORKS = ("torch", "tensorflow")


def recurrent_works(framework: Framework, values: dict[str, Any], cell: str) -> Iterator[Work]:
    """One pass over all steps of a batch of random sequences."""
    heed_cudnn(framework)
    recurrence = Recurrence(
        cell=cell,
        layers=values["layers"],
        input_size=values["input_size"],
        hidden_size=values["hidden_size"],
        steps=values["sequence_length"],
        batch=values["batch"],
    )
    seed, dtype = values["seed"], values["dtype"]
    shape = (recurrence.steps, recurrence.batch, recurrence.input_size)
    inputs = framework.normal(shape, dtype, seed)
    weights = recurrent_weights(framework, recurrence, dtype, seed + 1)
    named = {parameter.name: values[parameter.name] for parameter in RECURRENT_PARAMETERS}
    yield Work(
        call=recurrent_call(framework, recurrence, inputs, weights),
        per_call=recurrence.operations,
        unit="FLOP",
        parameters={"cell": cell, **named},
        check=RecurrentCheck(framework, recurrence, dtype, inputs, weights),
    )


class RecurrentCheck:
    """Compares the first steps of the batch's first sequence with float64.

    As many steps are compared as the reference can afford. The last step must not contain NaN.
    """

    def __init__(
        self,
        framework: Framework,
        recurrence: Recurrence,
        dtype: str,
        inputs: Any,
        weights: Sequence[Any],
    ) -> None:
        self._framework = framework
        self._steps = recurrence.reference_steps
        self._tolerance = STATE_ROUNDINGS * roundoff_of(framework, dtype)
        layers = [self._on_host(*layer) for layer in weights]
        sequence = framework.to_host(inputs[: self._steps, 0])
        self._wanted = recurrent_outputs(recurrence.cell, layers, sequence)

    def _on_host(self, kernel: Any, recurrent: Any, bias: Any) -> LayerWeights:
        to_host = self._framework.to_host
        return LayerWeights(
            kernel=list(zip(*to_host(kernel))),
            recurrent=list(zip(*to_host(recurrent))),
            bias=to_host(bias),
        )

    def __call__(self, output: Any) -> float:
        """:returns: sum of the first sequence's states after the last step"""
        found = self._framework.to_host(output[: self._steps, 0])
        for step, (states, wanted) in enumerate(zip(found, self._wanted)):
            error = root_mean_square(list(map(sub, states, wanted)))
            # Written so that a NaN is refused.
            if not error <= self._tolerance:
                raise WrongResult(
                    f"states after step {step + 1} differ from float64 by {error:.3g}, "
                    f"more than {self._tolerance:.3g}"
                )
        last = sum(self._framework.to_host(output[-1, 0]))
        if not isfinite(last):
            raise WrongResult("the states after the last step are not finite")
        return float(last)
