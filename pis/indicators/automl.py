"""The indicator ``automl``: operations per second of a search for a network.

This is the score of AIPerf in miniature: the operations of all training and evaluation in all
trials, over the time of the search. The search trains a list of candidates and keeps the best.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

from pis.indicators.cnn import CnnShape
from pis.indicators.errors import WrongResult
from pis.indicators.frameworks import Framework
from pis.indicators.harness import Indicator, Work, main
from pis.indicators.learning import (
    HELD_OUT,
    STEP_IMAGES,
    Images,
    Learner,
    forward_operations,
    learning_shape,
    made_images,
    training_operations,
)
from pis.indicators.long_runs import LongRuns, long_run_parameters
from pis.indicators.networks import NETWORK_FRAMEWORKS
from pis.indicators.parameters import Parameter

#: Candidates: widths and steps of the descent.
_WIDTHS, _RATES = (8, 16, 32), (0.02, 0.05)


@dataclass(frozen=True)
class Trial:
    """A candidate.

    :param rate: step of the descent
    """

    shape: CnnShape
    rate: float


def search_operations(
    trials: list[Trial], training_images: int, evaluated_images: int, epochs: int
) -> int:
    """Operations of all trials: each epoch trains on all images, and evaluates the held-out ones.

    One trial with 2 epochs of 10 images to learn from and 5 held out, at 1242 operations
    to learn from an image and 414 to classify one: 2 · (10 · 1242 + 5 · 414).

    >>> search_operations([Trial(CnnShape(4, 1, 1, 2), 0.1)], 10, 5, 2)
    28980
    """
    return epochs * sum(
        training_images * training_operations(trial.shape)
        + evaluated_images * forward_operations(trial.shape)
        for trial in trials
    )


def automl_works(framework: Framework, values: dict[str, Any]) -> Iterator[Work]:
    """Whole searches."""
    trials = [Trial(learning_shape(width), rate) for width, rate in product(_WIDTHS, _RATES)]
    count, epochs = values["images"], values["epochs"]
    images = made_images(framework, trials[0].shape, count, values["seed"])
    run = partial(searched, framework, trials, images, values)
    yield Work(
        call=run,
        per_call=search_operations(trials, count // STEP_IMAGES * STEP_IMAGES, HELD_OUT, epochs),
        unit="FLOP",
        parameters={"trials": len(trials), "images": count, "epochs": epochs},
        check=check_best,
        timed=LongRuns(run),
    )


def searched(
    framework: Framework, trials: list[Trial], images: tuple[Images, Images], values: dict[str, Any]
) -> tuple[float, float]:
    """Train and evaluate every candidate.

    :returns: seconds, and the best accuracy
    """
    training, held_out = images
    best = 0.0
    framework.synchronize()
    began = time.perf_counter()
    for trial in trials:
        learner = Learner(framework, trial.shape, trial.rate, values["seed"])
        for _ in range(values["epochs"]):
            learner.epoch(training)
            best = max(best, learner.accuracy(held_out))
    return time.perf_counter() - began, best


def check_best(output: float) -> float:
    """The best accuracy.

    :raises WrongResult: if no candidate has learned; classes are guessed right in one of ten cases
    """
    if not 0.3 <= output <= 1:
        raise WrongResult(f"the best candidate is right in {output:.1%}: none has learned")
    return output


INDICATOR = Indicator(
    name="automl",
    title="PiAutoml",
    summary="Search for a network among candidates: operations of all training a second.",
    parameters=(
        Parameter("images", 512, "images to learn from", low=STEP_IMAGES, high=10**6),
        Parameter("epochs", 2, "epochs of each candidate", high=10**4),
        *long_run_parameters(3),
    ),
    frameworks=NETWORK_FRAMEWORKS,
    works=automl_works,
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
