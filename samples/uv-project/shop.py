"""Counts the orders of a shop and prints a report."""

from __future__ import annotations

from collections.abc import Mapping

import jinja2
import numpy as np
from numpy.typing import NDArray

_REPORT = jinja2.Template(
    "{% for customer, orders in rows %}{{ customer }}: {{ orders }} orders\n{% endfor %}"
)


def customers_of_both(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The customers who ordered in both periods, sorted; each order is the number of a customer."""
    return np.intersect1d(np.unique(one), np.unique(other), assume_unique=True)


def report(orders: Mapping[str, int]) -> str:
    """A line for each customer."""
    return _REPORT.render(rows=orders.items())
