"""The indicator ``scikit-learn``: training of models on points of 16 numbers.

- ``forest``: fit of a random forest of 10 trees to 1,000 points in 4 classes.
- ``logistic``: fit of a logistic regression to 5,000 points in 4 classes.
- ``kmeans``: ten iterations of k-means with 8 centres on 20,000 points, from the first 8 of them;
  checked against Lloyd's algorithm in NumPy.
"""

from __future__ import annotations

import importlib
from typing import Any

from pis.indicators.harness import main
from pis.indicators.library_calls import Made, library_indicator, near
from pis.indicators.points import clustered_points


def _fit(model: Any, seed: int, count: int) -> Made:
    points, classes, check = clustered_points(seed, count, 4)
    call = lambda: model.fit(points[:count], classes[:count])  # noqa: E731
    return Made(call, lambda fitted: check(fitted.predict(points[count:])), {"points": count})


def forest(sklearn: Any, seed: int) -> Made:
    ensemble = importlib.import_module("sklearn.ensemble")
    return _fit(ensemble.RandomForestClassifier(10, random_state=0, n_jobs=1), seed, 1_000)


def logistic(sklearn: Any, seed: int) -> Made:
    linear = importlib.import_module("sklearn.linear_model")
    return _fit(linear.LogisticRegression(max_iter=200), seed, 5_000)


def kmeans(sklearn: Any, seed: int) -> Made:
    numpy, cluster = map(importlib.import_module, ("numpy", "sklearn.cluster"))
    points = clustered_points(seed, 19_000, 3)[0]
    expected = points[:8]
    for _ in range(10):
        products = points @ expected.T
        nearest = ((expected**2).sum(axis=1) - 2 * products).argmin(axis=1)
        expected = numpy.array([points[nearest == kind].mean(axis=0) for kind in range(8)])
    model = cluster.KMeans(8, init=points[:8], n_init=1, max_iter=10, tol=0)

    def check(fitted: Any) -> float:
        return near(0.0, float(abs(fitted.cluster_centers_ - expected).max()), 1e-6)

    return Made(lambda: model.fit(points), check, {"points": 20_000, "iterations": 10})


INDICATOR = library_indicator(
    "scikit-learn",
    "PiScikitLearn",
    "Train a forest, a logistic regression and k-means with scikit-learn.",
    {"forest": forest, "logistic": logistic, "kmeans": kmeans},
    {"scikit-learn": "sklearn"},
)

if __name__ == "__main__":
    raise SystemExit(main(INDICATOR))
