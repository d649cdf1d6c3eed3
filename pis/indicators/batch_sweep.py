"""The indicator ``batch-sweep``: latency and throughput of a forward pass over batch sizes.

AIIA's DNN benchmark has batches of 1, 2, 4 … 128, and times a batch without what comes before and
after the network.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck, tensorflow_answer, torch_answer
from pis.indicators.networks import NETWORK_FRAMEWORKS, network_of, network_parameters
from pis.indicators.parameters import Parameter


def batch_sizes(most: int) -> list[int]:
    """Powers of two up to ``most``.

    >>> batch_sizes(128)
    [1, 2, 4, 8, 16, 32, 64, 128]
    """
    return [2**power for power in range(most.bit_length())]


def batch_sweep_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One work for each batch size."""
    answers = {"torch": torch_answer, "tensorflow": tensorflow_answer}
    for batch in batch_sizes(values["most"]):
        network = network_of(framework, {**values, "batch": batch})
        yield Work(
            call=answers[framework.name](framework, network),
            per_call=network.items,
            unit=network.unit,
            parameters=network.parameters,
            check=AnswerCheck(framework, network, values["dtype"]),
            kind="none",
        )


INDICATOR = Indicator(
    name="batch-sweep",
    title="PiBatchSweep",
    summary="Forward passes of a network over batch sizes: latency and throughput of each.",
    parameters=(
        Parameter("most", 128, "largest batch; the others are smaller powers of two", high=2**16),
        *(it for it in network_parameters(("float32", "bfloat16")) if it.name != "batch"),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=batch_sweep_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
