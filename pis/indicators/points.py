"""Points around centres, for models that learn which centre a point belongs to."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pis.indicators.errors import WrongResult

_FEATURES = 16
#: Share of new points on which a model has to agree with the best rule.
_AGREEMENT = 0.85
#: Number of new points.
_NEW = 1_000


def clustered_points(seed: int, count: int, kinds: int) -> tuple[Any, Any, Callable[[Any], float]]:
    """Points of 16 numbers in float64, which centre each belongs to, and a check of a model.

    The points scatter around random centres by one standard deviation, so they overlap. No rule is
    better than choosing the nearest centre. The check takes the classes that a model gives to the
    new points, which are the last 1,000 of the points.

    :returns: ``count`` + 1,000 points, ``count`` + 1,000 classes, and the check
    """
    numpy = importlib.import_module("numpy")
    random = numpy.random.RandomState(seed)
    centres = random.uniform(-2.0, 2.0, (kinds, _FEATURES))
    classes = random.randint(0, kinds, count + _NEW)
    points = centres[classes] + random.standard_normal((count + _NEW, _FEATURES))
    distances = ((points[-_NEW:, None, :] - centres) ** 2).sum(axis=2)
    nearest = distances.argmin(axis=1).tolist()

    def check(found: Any) -> float:
        share = sum(map(int.__eq__, nearest, map(int, found))) / _NEW
        if len(found) != _NEW or not share >= _AGREEMENT:
            raise WrongResult(f"only {share:.1%} of new points are classified by nearest centre")
        return share

    return points, classes, check
