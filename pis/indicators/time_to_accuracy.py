"""The indicator ``time-to-accuracy``: seconds until a network classifies well enough.

This is the measure of DAWNBench and MLPerf Training in miniature, on images that are made here.
The time ends with the first epoch whose accuracy on held-out images reaches the target, and
includes the evaluations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from pis.indicators.cnn import CnnShape
from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.learning import LEARNING_STEP, Images, Learner, learning_shape, made_images
from pis.indicators.long_runs import RUNS, LongRuns, long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS
from pis.indicators.parameters import Parameter


def time_to_accuracy_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Whole trainings, each with the same weights at the start and the same images."""
    shape = learning_shape(values["width"])
    images = made_images(framework, shape, values["images"], values["seed"])
    names = ("width", "images", "target", "epochs")
    run = partial(trained, framework, shape, images, values)
    yield Work(
        call=run,
        per_call=1,
        unit=RUNS,
        parameters={name: values[name] for name in names},
        check=partial(check_epochs, values["target"]),
        kind="none",
        timed=LongRuns(run),
    )


def trained(
    framework: Framework, shape: CnnShape, images: tuple[Images, Images], values: dict[str, Any]
) -> tuple[float, tuple[int, float]]:
    """Train until the target is reached.

    :param images: those to learn from, and those that are held out
    :returns: seconds, and the number of epochs with the last accuracy
    """
    learner = Learner(framework, shape, LEARNING_STEP, values["seed"])
    training, held_out = images
    epoch, accuracy = 0, 0.0
    framework.synchronize()
    began = time.perf_counter()
    while accuracy < values["target"] and epoch < values["epochs"]:
        learner.epoch(training)
        accuracy = learner.accuracy(held_out)
        epoch += 1
    return time.perf_counter() - began, (epoch, accuracy)


def check_epochs(target: float, output: tuple[int, float]) -> float:
    """The number of epochs.

    :raises WrongResult: if the accuracy stays below the target
    """
    epochs, accuracy = output
    if not accuracy >= target:
        raise WrongResult(
            f"after {epochs} epochs, {accuracy:.1%} of the images are right, not {target:.1%}"
        )
    return float(epochs)


INDICATOR = Indicator(
    name="time-to-accuracy",
    title="PiTimeToAccuracy",
    summary="Train a network until it classifies well enough: time of the whole training.",
    parameters=(
        Parameter("target", 0.95, "share of held-out images to get right", low=0.1, high=1.0),
        Parameter("width", 16, "channels after the first convolution"),
        Parameter("images", 1024, "images to learn from", low=32, high=10**6),
        Parameter("epochs", 50, "epochs at most", high=10**4),
        *long_run_parameters(3),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=time_to_accuracy_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
