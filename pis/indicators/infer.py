"""The indicator ``infer``: the forward pass of a small network, in images/s or tokens/s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from operator import sub
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.networks import NETWORK_FRAMEWORKS, Network, network_of, network_parameters
from pis.indicators.rounding import root_mean_square, roundoff_of

#: Limit for the logits' errors: their root mean square relative to that of the logits, in units of
#: roundoff.
ANSWER_ROUNDINGS = 64


def infer_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """The network's logits for one batch."""
    network = network_of(framework, values)
    calls = {"torch": torch_answer, "tensorflow": tensorflow_answer}
    yield Work(
        call=calls[framework.name](framework, network),
        per_call=network.items,
        unit=network.unit,
        parameters=network.parameters,
        check=AnswerCheck(framework, network, values["dtype"]),
        kind="none",
    )


def torch_answer(framework: Framework, network: Network) -> Callable[[], Any]:
    """The module in evaluation mode, without gradients."""
    inference_mode = framework.module.inference_mode
    network.model.eval()

    def answer() -> Any:
        with inference_mode():
            return network.logits(network.model, network.inputs)

    return answer


def tensorflow_answer(framework: Framework, network: Network) -> Callable[[], Any]:
    """The network's function; its variables are read at each call."""
    return partial(framework.compiled(partial(network.logits, network.model)), network.inputs)


class AnswerCheck:
    """Compares the logits of the first image or sequence with those of a float64 network."""

    def __init__(self, framework: Framework, network: Network, dtype: str) -> None:
        references = {"torch": _torch_reference, "tensorflow": _tensorflow_reference}
        wanted = references[framework.name](framework, network)
        self._framework = framework
        self._wanted = flat(framework.to_host(wanted[0]))
        scale = root_mean_square(self._wanted)
        self._tolerance = ANSWER_ROUNDINGS * roundoff_of(framework, dtype) * scale

    def __call__(self, output: Any) -> float:
        """:returns: sum of the logits that were compared"""
        found = flat(self._framework.to_host(output[0]))
        error = root_mean_square(list(map(sub, found, self._wanted)))
        # Written so that a NaN is refused.
        if not error <= self._tolerance:
            raise WrongResult(
                f"the logits differ from a float64 network's by {error:.3g}, "
                f"more than {self._tolerance:.3g}"
            )
        return sum(found)


def _torch_reference(framework: Framework, network: Network) -> Any:
    """Logits computed on the CPU; recording gradients avoids the fused fast paths."""
    torch = framework.module
    model = deepcopy(network.model).to(device="cpu", dtype=torch.float64)
    inputs = network.inputs[:1].to("cpu")
    exact = inputs.to(torch.float64) if inputs.is_floating_point() else inputs
    return network.logits(model, exact)


def _tensorflow_reference(framework: Framework, network: Network) -> Any:
    """Logits computed on the CPU, one operation after another."""
    tf = framework.module
    with tf.device("/CPU:0"):
        inputs = network.inputs[:1]
        exact = tf.cast(inputs, tf.float64) if inputs.dtype.is_floating else inputs
        return network.logits([tf.cast(weight, tf.float64) for weight in network.model], exact)


def flat(values: Any) -> list[float]:
    """Numbers of nested lists, in order.

    >>> flat([[1.0, 2.0], [3.0]])
    [1.0, 2.0, 3.0]
    """
    if not isinstance(values, list):
        return [float(values)]
    return [number for part in values for number in flat(part)]


INDICATOR = Indicator(
    name="infer",
    title="PiInfer",
    summary="Ask a small network about synthetic data: images or tokens a second.",
    parameters=network_parameters(("float32", "float16", "bfloat16", "float64")),
    frameworks=NETWORK_FRAMEWORKS,
    works=infer_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
