"""Small networks: sizes, and checks that find a training or an answer that went wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pis.catalogue import indicator_of
from pis.indicators.errors import Unsupported, WrongResult
from pis.indicators.networks import network_of
from pis.indicators.numpy_framework import NumpyFramework
from pis.indicators.parameters import values_of
from pis.indicators.rounding import root_mean_square, roundoff_of
from pis.indicators.train import STEPS, TrainingCheck
from pis.indicators.transformer import BLOCK, TransformerShape

NUMPY = NumpyFramework("cpu", 1, "function")


class Descent:
    """Gradient descent on a parabola, in NumPy."""

    def __init__(self, rate: float) -> None:
        self.place, self.rate = np.float32(1), np.float32(rate)

    def __call__(self) -> Any:
        loss = self.place**2
        self.place -= self.rate * 2 * self.place
        return loss


@pytest.mark.parametrize("name", ["train", "infer"])
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--image-size", "30"), "30 is not divisible by 4"),
        (("--model", "transformer", "--hidden-size", "100", "--heads", "3"), "by 3 heads"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(
    name: str, flags: tuple[str, ...], message: str
) -> None:
    values = values_of(indicator_of(name).all_parameters(), flags, {}, "")
    with pytest.raises(Unsupported, match=message):
        network_of(NUMPY, values)


def test_a_block_of_the_transformer_has_as_many_weights_as_are_read() -> None:
    shapes = TransformerShape(8, 2, 16, 4, 100).block_shapes
    assert len(shapes) == BLOCK
    # 12 h² + 13 h: four matrices of h², two of 4 h², their biases and two normalisations
    assert sum(int(np.prod(shape)) for shape in shapes) == 12 * 16**2 + 13 * 16


def test_a_training_whose_loss_falls_passes_and_names_its_first_loss() -> None:
    step = Descent(0.1)
    check = TrainingCheck(NUMPY, step)
    assert check(step()) == 1.0
    assert check(step()) == 1.0


def test_the_first_check_trains_for_some_steps_before_it_judges() -> None:
    step = Descent(0.1)
    TrainingCheck(NUMPY, step)(step())
    assert step.place == pytest.approx(0.8 ** (STEPS + 1), rel=1e-4)


@pytest.mark.parametrize(("rate", "message"), [(0.0, "the loss was 1"), (1e30, "the loss is")])
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_a_training_that_stands_still_or_explodes_is_refused(rate: float, message: str) -> None:
    step = Descent(rate)
    with pytest.raises(WrongResult, match=message):
        TrainingCheck(NUMPY, step)(step())


def test_the_tolerance_is_the_roundoff_of_the_type() -> None:
    assert roundoff_of(NUMPY, "float32") == np.finfo(np.float32).eps / 2
    assert roundoff_of(NUMPY, "float16") == np.finfo(np.float16).eps / 2
    assert root_mean_square([1.0, -1.0, 1.0, -1.0]) == 1.0
