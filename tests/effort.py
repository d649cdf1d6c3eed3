"""How thorough a run of the tests is: ``make test``, or the whole of ``make test-all``.

``pytest --thorough`` tries all examples of a property, and installs the large frameworks to measure
them. Without it a property is tried with an eighth of its examples, and one job of a framework is
run where an earlier thorough run has installed it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

_SHARE = 8

_options = {"thorough": False}


def be_thorough() -> None:
    """Called before the test modules are imported, which ask for :func:`examples`."""
    _options["thorough"] = True


def is_thorough() -> bool:
    """Whether this is a thorough run."""
    return _options["thorough"]


def examples(number: int) -> int:
    """How many examples to try of a property that a thorough run tries ``number`` of."""
    return number if is_thorough() else -(-number // _SHARE)


def slow(values: Iterable[Any]) -> list[Any]:
    """Values for ``parametrize`` that only a thorough run tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
