"""The stacks that a search compares: releases of a package, or a path between two locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StackSeries:
    """The stacks that a search measures, in order.

    :param labels: name of each stack for people
    :param specification_of: returns the specification of a stack, or ``None`` and the reason
    :param package: the only package whose releases differ; ``None`` between two locks
    :param moves: between two locks, what differs from the stack before, such as ``numpy 2.0 → 2.1``
    """

    name: str
    labels: Sequence[str]
    specification_of: Callable[[int], tuple[dict[str, Any] | None, str]]
    package: str | None = None
    moves: Sequence[str] = ()

    def step_label(self, before: int, after: int) -> str:
        """What differs between two stacks, for people."""
        if self.moves:
            return ", ".join(self.moves[before + 1 : after + 1])
        return f"{self.labels[before]} → {self.labels[after]}"
