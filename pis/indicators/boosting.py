"""The indicator ``boosting``: gradient-boosted trees with XGBoost or LightGBM.

- ``train``: 10 rounds of trees of depth 6 on histograms, for 10,000 points of 16 numbers in 2
  classes; the conversion of the points is part of it.
- ``predict``: the classes of 1,000 points by the trees of such a training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator
from pis.indicators.points import clustered_points

_COUNT, _ROUNDS = 10_000, 10
_SIZES = {"points": _COUNT, "rounds": _ROUNDS}

_XGBOOST = {
    "objective": "binary:logistic", "tree_method": "hist", "max_depth": 6, "eta": 0.3,
    "verbosity": 0, "seed": 0,
}  # fmt: skip
_LIGHTGBM = {
    "objective": "binary", "max_depth": 6, "num_leaves": 63, "learning_rate": 0.3,
    "verbosity": -1, "seed": 0, "deterministic": True, "force_row_wise": True,
}  # fmt: skip


def _trained(module: Any, points: Any, classes: Any) -> Callable[[Any], Any]:
    """Train, and return a function that gives the probabilities of points."""
    if module.__name__ == "xgboost":
        data = module.DMatrix(points, classes)
        model = module.train(_XGBOOST, data, num_boost_round=_ROUNDS)
        return lambda others: model.predict(module.DMatrix(others))
    data = module.Dataset(points, classes)
    predict: Callable[[Any], Any] = module.train(_LIGHTGBM, data, _ROUNDS).predict
    return predict


def train(module: Any, seed: int) -> Made:
    points, classes, check = clustered_points(seed, _COUNT, 2)
    call = lambda: _trained(module, points[:_COUNT], classes[:_COUNT])  # noqa: E731
    return Made(call, lambda trained: check(trained(points[_COUNT:]) > 0.5), _SIZES)


def predict(module: Any, seed: int) -> Made:
    points, classes, check = clustered_points(seed, _COUNT, 2)
    trained = _trained(module, points[:_COUNT], classes[:_COUNT])
    return Made(lambda: trained(points[_COUNT:]), lambda output: check(output > 0.5), _SIZES)


INDICATOR = library_indicator(
    "boosting",
    "PiBoosting",
    "Train and apply gradient-boosted trees with XGBoost or LightGBM.",
    {"train": train, "predict": predict},
    {"xgboost": "xgboost", "lightgbm": "lightgbm"},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
