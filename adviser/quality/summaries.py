"""Summaries of the jobs of one stack, and their outliers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from model.declared_fields import Field
from model.measurements.job_stability import MAD_TO_SD

#: Modified z-score from which a value is an outlier (Iglewicz & Hoaglin 1993, "How to Detect and
#: Handle Outliers").
OUTLIER_SCORE = 3.5


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """Summary of some values in their own unit."""

    n: Annotated[int, Field("Number of jobs.", 10)]
    median: Annotated[float, Field("Median.", 9.4e10)]
    mean: Annotated[float, Field("Mean.", 9.3e10)]
    sd: Annotated[float | None, Field("Standard deviation (n − 1); null below two values.", 2e9)]
    mad: Annotated[float, Field("Median absolute deviation, unscaled.", 1e9)]
    lower_quartile: Annotated[float, Field("Lower quartile, by linear interpolation.", 9.2e10)]
    upper_quartile: Annotated[float, Field("Upper quartile.", 9.5e10)]
    minimum: Annotated[float, Field("Smallest value.", 9e10)]
    maximum: Annotated[float, Field("Largest value.", 9.7e10)]
    cv: Annotated[float | None, Field("Standard deviation / mean; null below two values.", 0.02)]


def summary_of(values: Sequence[float]) -> ValueSummary:
    """Summarise positive values; the order does not matter, not even in the last bit.

    :param values: at least one

    >>> summary_of([1.0, 2.0, 3.0, 4.0]).lower_quartile
    1.75
    """
    ordered = sorted(values)
    mean = math.fsum(ordered) / len(ordered)
    sd = None
    if len(ordered) > 1:
        sd = math.sqrt(math.fsum((it - mean) ** 2 for it in ordered) / (len(ordered) - 1))
    middle = median(ordered)
    return ValueSummary(
        n=len(ordered),
        median=middle,
        mean=mean,
        sd=sd,
        mad=median(abs(it - middle) for it in ordered),
        lower_quartile=quantile(ordered, 0.25),
        upper_quartile=quantile(ordered, 0.75),
        minimum=ordered[0],
        maximum=ordered[-1],
        cv=None if sd is None else sd / mean,
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The quantile of sorted values, by linear interpolation (Hyndman & Fan 1996, type 7).

    :param ordered: ascending, at least one
    """
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def outliers(values: Sequence[float]) -> list[int]:
    """Indexes of the values whose modified z-score exceeds :data:`OUTLIER_SCORE`.

    Outliers are shown, never excluded: a rule that looks at the speed of a job could favour a
    stack. Without any deviation from the median, there is no outlier.

    >>> outliers([1.0, 1.1, 0.9, 1.05, 3.0])
    [4]
    """
    if len(values) < 3:
        return []
    middle = median(values)
    scale = MAD_TO_SD * median(abs(it - middle) for it in values)
    if scale == 0:
        return []
    return [i for i, it in enumerate(values) if abs(it - middle) / scale > OUTLIER_SCORE]
