"""The indicator ``cnn-throughput``: steps of a network, timed one by one.

These are the quantities of tf_cnn_benchmarks: all images over all time, the uncertainty of the mean
and the jitter between steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck, tensorflow_answer, torch_answer
from pis.indicators.long_runs import long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS, network_of, network_parameters
from pis.indicators.parameters import Parameter
from pis.indicators.train import TrainingCheck, tensorflow_step, torch_step

#: Steps after the warm-up, as in tf_cnn_benchmarks.
_STEPS = 100


def cnn_throughput_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Training steps or forward passes; each step is a repetition."""
    network = network_of(framework, values)
    check: Any
    if values["phase"] == "training":
        steps = {"torch": torch_step, "tensorflow": tensorflow_step}
        call = steps[framework.name](framework, network)
        check = TrainingCheck(framework, call)
    else:
        answers = {"torch": torch_answer, "tensorflow": tensorflow_answer}
        call = answers[framework.name](framework, network)
        check = AnswerCheck(framework, network, values["dtype"])
    parameters = {"phase": values["phase"], **network.parameters}
    yield Work(call, network.items, network.unit, parameters, check, "none")


INDICATOR = Indicator(
    name="cnn-throughput",
    title="PiCnnThroughput",
    summary="Steps of a network, timed one by one: images a second, with uncertainty and jitter.",
    parameters=(
        Parameter("phase", "training", "what a step is", ("training", "forward")),
        *network_parameters(("float32", "bfloat16")),
        *long_run_parameters(_STEPS),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=cnn_throughput_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
