"""The indicator ``train``: gradient descent on a small network, in images/s or tokens/s."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.networks import NETWORK_FRAMEWORKS, Network, network_of, network_parameters

#: Step of the descent: small enough for both networks, large enough to see the loss fall.
LEARNING_RATE = 0.05

#: Steps after which the loss must have fallen.
STEPS = 20


def train_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Repeated training steps on one batch: forward, backward, update."""
    network = network_of(framework, values)
    steps = {"torch": torch_step, "tensorflow": tensorflow_step}
    step = steps[framework.name](framework, network)
    yield Work(
        call=step,
        per_call=network.items,
        unit=network.unit,
        parameters=network.parameters,
        check=TrainingCheck(framework, step),
        kind="none",
    )


def torch_step(framework: Framework, network: Network) -> Callable[[], Any]:
    """One step; it returns the loss before the step."""
    torch = framework.module
    network.model.train()
    optimizer = torch.optim.SGD(network.model.parameters(), lr=LEARNING_RATE)
    targets = network.targets.flatten()

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        logits = network.logits(network.model, network.inputs).flatten(0, -2)
        loss = torch.nn.functional.cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def tensorflow_step(framework: Framework, network: Network) -> Callable[[], Any]:
    """One step; it returns the loss before the step."""
    tf, variables = framework.module, network.model

    def step(inputs: Any, targets: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = network.logits(variables, inputs)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
            loss = tf.reduce_mean(losses)
        # The gradient of looked-up rows is sparse; it is made dense, as in PyTorch.
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, variables))
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    return partial(framework.compiled(step), network.inputs, network.targets)


class TrainingCheck:
    """Rejects a training whose loss is NaN or does not fall below the first loss."""

    def __init__(self, framework: Framework, step: Callable[[], Any]) -> None:
        self._framework = framework
        self._step = step
        self._first: float | None = None

    def __call__(self, output: Any) -> float:
        """:returns: the first loss, which depends on the seed alone"""
        loss = self._number(output)
        if self._first is None:
            self._first = loss
            for _ in range(STEPS):
                output = self._step()
            loss = self._number(output)
        if not loss < self._first:
            raise WrongResult(
                f"the loss was {self._first:.6g} at first and is {loss:.6g} after training"
            )
        return self._first

    def _number(self, output: Any) -> float:
        loss = float(self._framework.to_host(output))
        if not isfinite(loss):
            raise WrongResult(f"the loss is {loss}")
        return loss


INDICATOR = Indicator(
    name="train",
    title="PiTrain",
    summary="Train a small network on synthetic data: images or tokens a second.",
    parameters=network_parameters(("float32", "bfloat16", "float64")),
    frameworks=NETWORK_FRAMEWORKS,
    works=train_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
