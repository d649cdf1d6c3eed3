"""The indicator ``frame-latency``: time of single frames, with the tail of its distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.infer import AnswerCheck, tensorflow_answer, torch_answer
from pis.indicators.long_runs import long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS, network_of, network_parameters
from pis.indicators.parameters import Parameter
from pis.indicators.tails import percentile

#: Frames of a tail: its 99th percentile is the longest of them.
_FRAMES = 100

_FORMS = ("frame", "tail")


def frame_latency_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Frames one by one, and the 99th percentile of groups of frames.

    A repetition is one frame, or one group.
    """
    network = network_of(framework, {**values, "batch": 1})
    answers = {"torch": torch_answer, "tensorflow": tensorflow_answer}
    frame = answers[framework.name](framework, network)
    check = AnswerCheck(framework, network, values["dtype"])
    for form in _FORMS if values["form"] == "all" else (values["form"],):
        timed = partial(timed_tails, framework, frame, values["frames"])
        tail = {"frames": values["frames"]} if form == "tail" else {}
        yield Work(
            call=frame,
            per_call=network.items,
            unit=network.unit,
            parameters={"form": form, **tail, **network.parameters},
            check=check,
            kind="none",
            timed=timed if form == "tail" else None,
        )


def timed_tails(
    framework: Framework, frame: Callable[[], Any], frames: int, calls: int
) -> tuple[float, Any]:
    """The sum of the 99th percentiles of ``calls`` groups of frames, and the last output."""
    total, output = 0.0, None
    for _ in range(calls):
        seconds = []
        for _ in range(frames):
            latency, output = framework.timed(frame, 1)
            seconds.append(latency)
        total += percentile(seconds, 99)
    return total, output


INDICATOR = Indicator(
    name="frame-latency",
    title="PiFrameLatency",
    summary="Single frames through a network: their latency, and the tail of its distribution.",
    parameters=(
        Parameter("form", "all", "single frames, tails of groups, or both", ("all", *_FORMS)),
        Parameter("frames", _FRAMES, "tail: frames of a group", low=2, high=10**6),
        *(it for it in network_parameters(("float32", "bfloat16")) if it.name != "batch"),
        *long_run_parameters(300),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=frame_latency_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
