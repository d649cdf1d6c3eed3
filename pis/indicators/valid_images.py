"""The indicator ``vips``: images per second, weighted by how often the networks are right.

AIoT Bench sums accuracy over mean latency for a list of networks (VIPS), and the same with each
network's operations (VOPS). A score is comparable only for the same list. Here, the networks are
small, and learn from images that are made here before they are timed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.learning import (
    LEARNING_STEP,
    Images,
    Learner,
    forward_operations,
    learning_shape,
    made_images,
)
from pis.indicators.long_runs import long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS
from pis.indicators.parameters import Parameter

#: Widths of the networks, which makes the list of workloads.
WIDTHS = (8, 16, 32)

#: Training: until the networks are good but not perfect.
_TRAINING_IMAGES, _EPOCHS = 1024, 3

_SCORES = ("vips", "vops")


@dataclass(frozen=True)
class Workload:
    """A trained network.

    :param accuracy: share of held-out images that it classifies correctly
    :param operations: of a forward pass of one image
    """

    learner: Learner
    accuracy: float
    operations: int


def valid_images_per_second(accuracies: Sequence[float], latencies_s: Sequence[float]) -> float:
    """VIPS: the sum of accuracy over mean latency.

    >>> valid_images_per_second([0.75, 0.70], [0.05, 0.02])
    50.0
    """
    return sum(share / latency for share, latency in zip(accuracies, latencies_s))


def valid_operations_per_second(
    accuracies: Sequence[float], latencies_s: Sequence[float], operations: Sequence[int]
) -> float:
    """VOPS: the sum of accuracy times operations over mean latency.

    >>> valid_operations_per_second([0.75, 0.70], [0.05, 0.02], [100, 10])
    1850.0
    """
    parts = zip(accuracies, latencies_s, operations)
    return sum(share * count / latency for share, latency, count in parts)


def vips_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Both scores of the same networks; a repetition times each network on some images."""
    seed, shapes = values["seed"], [learning_shape(width) for width in WIDTHS]
    images, held_out = made_images(framework, shapes[0], _TRAINING_IMAGES, seed)
    workloads = []
    for shape in shapes:
        learner = Learner(framework, shape, LEARNING_STEP, seed)
        for _ in range(_EPOCHS):
            learner.epoch(images)
        workloads.append(Workload(learner, learner.accuracy(held_out), forward_operations(shape)))
    single = [images.part(index, index + 1) for index in range(values["images"])]
    for score in _SCORES if values["score"] == "all" else (values["score"],):
        # As much as a repetition really does: the time of one image is too short for the clock.
        each = 1 if score == "vips" else sum(workload.operations for workload in workloads)
        amount = each * len(single)
        yield Work(
            call=partial(workloads[0].learner.logits, single[0].pixels),
            per_call=amount,
            unit="images" if score == "vips" else "FLOP",
            parameters={
                "score": score,
                "widths": ",".join(map(str, WIDTHS)),
                "images": values["images"],
            },
            check=partial(check_workloads, workloads),
            kind="none",
            timed=partial(timed_scores, framework, workloads, single, score, amount),
        )


def timed_scores(
    framework: Framework,
    workloads: Sequence[Workload],
    images: Sequence[Images],
    score: str,
    amount: int,
    calls: int,
) -> tuple[float, Any]:
    """Seconds in which ``amount`` is done at the rate of the score, once for each call."""
    total = 0.0
    for _ in range(calls):
        latencies = [mean_latency(framework, workload.learner, images) for workload in workloads]
        accuracies = [workload.accuracy for workload in workloads]
        operations = [workload.operations for workload in workloads]
        if score == "vips":
            rate = valid_images_per_second(accuracies, latencies)
        else:
            rate = valid_operations_per_second(accuracies, latencies, operations)
        total += amount / rate
    return total, None


def mean_latency(framework: Framework, learner: Learner, images: Sequence[Images]) -> float:
    """Mean seconds of a forward pass, for images one after the other."""
    total = 0.0
    for image in images:
        seconds, _ = framework.timed(partial(learner.logits, image.pixels), 1)
        total += seconds
    return total / len(images)


def check_workloads(workloads: Sequence[Workload], output: Any) -> float:
    """The sum of the accuracies.

    :raises WrongResult: if a network has not learned, and guesses
    """
    for width, workload in zip(WIDTHS, workloads):
        if not 0.3 <= workload.accuracy <= 1:
            raise WrongResult(f"the network of width {width} is right in {workload.accuracy:.1%}")
    return sum(workload.accuracy for workload in workloads)


INDICATOR = Indicator(
    name="vips",
    title="PiValidImages",
    summary="Images and operations a second of three networks, weighted by their accuracy.",
    parameters=(
        Parameter("score", "all", "what to sum up", ("all", *_SCORES)),
        Parameter("images", 50, "images that each network classifies in a repetition", high=256),
        *long_run_parameters(9),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=vips_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
