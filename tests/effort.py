"""How thorough a run of the tests is: ``make test``, or the whole of ``make test-all``.

``pytest --thorough`` tries a quarter of the examples of a property, and installs the large
frameworks to measure them. Without it a property is tried with a sixteenth of its examples, and one
job of a framework is run where an earlier thorough run has installed it. ``--all-examples`` tries
all.
"""

import math
from collections.abc import Iterable
from typing import Any

import pytest

_options = {"thorough": False, "examples": 1 / 16}


def set_effort(*, thorough: bool, all_examples: bool) -> None:
    """Called before the test modules are imported, which ask for :func:`examples`."""
    _options.update(
        thorough=thorough, examples=1 if all_examples else 1 / 4 if thorough else 1 / 16
    )


def is_thorough() -> bool:
    """Whether this is a thorough run."""
    return bool(_options["thorough"])


def examples(number: int) -> int:
    """How many of a property's ``number`` of examples to try."""
    return math.ceil(number * _options["examples"])


def slow(values: Iterable[Any]) -> list[Any]:
    """Values for ``parametrize`` that only a thorough run tries."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]
