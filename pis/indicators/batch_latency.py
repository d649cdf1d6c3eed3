"""The indicator ``batch-latency``: time of a batch, split into copies and inference.

These are the quantities of the library pytorch-benchmark: on a GPU, the copy to the device, the
inference, the copy back and their total, for single images and for a batch; on a CPU, the
inference alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck
from pis.indicators.long_runs import long_run_parameters
from pis.indicators.networks import Network, network_of, network_parameters

#: Runs of each batch, as in pytorch-benchmark.
_RUNS = 100

PARTS = ("cpu_to_gpu", "on_device_inference", "gpu_to_cpu", "total")


def batch_latency_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """One work for each batch size and part; a repetition is one batch."""
    parts = PARTS if framework.device == "cuda" else ("on_device_inference",)
    for batch in sorted({1, values["batch"]}):
        network = network_of(framework, {**values, "batch": batch})
        network.model.eval()
        check = AnswerCheck(framework, network, values["dtype"])
        for part in parts:
            yield Work(
                call=part_of(framework, network, part),
                per_call=network.items,
                unit=network.unit,
                parameters={"part": part, **network.parameters},
                check=partial(_check_part, framework, network, check, part),
                kind="none",
            )


def part_of(framework: Framework, network: Network, part: str) -> Callable[[], Any]:
    """A call that does one part of a batch."""
    inference_mode, device = framework.module.inference_mode, network.inputs.device
    on_host = network.inputs.cpu()
    with inference_mode():
        logits = network.logits(network.model, network.inputs)

    def total() -> Any:
        with inference_mode():
            return network.logits(network.model, on_host.to(device)).cpu()

    def inference() -> Any:
        with inference_mode():
            return network.logits(network.model, network.inputs)

    calls: dict[str, Callable[[], Any]] = {
        "cpu_to_gpu": partial(on_host.to, device),
        "on_device_inference": inference,
        "gpu_to_cpu": logits.cpu,
        "total": total,
    }
    return calls[part]


def _check_part(
    framework: Framework, network: Network, check: AnswerCheck, part: str, output: Any
) -> float:
    if part == "cpu_to_gpu":
        with framework.module.inference_mode():
            output = network.logits(network.model, output)
    return check(output)


INDICATOR = Indicator(
    name="batch-latency",
    title="PiBatchLatency",
    summary="Forward passes of single images and of a batch: copies, inference and their total.",
    parameters=(
        *network_parameters(("float32", "float16", "bfloat16")),
        *long_run_parameters(_RUNS),
    ),
    frameworks=("torch",),
    works=batch_latency_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
