"""In which order jobs run: blocks of one job a stack, forwards and backwards in turn (ABBA).

A drift of the machine that is linear over two blocks then falls on all stacks alike, and
jobs of one block are so close in time that their difference is the stacks' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pis.amun.launchers import Job


@dataclass(frozen=True, slots=True)
class Plan:
    """What is still to be done for one inspection.

    :param missing: numbers of the jobs that have no result yet
    """

    inspection_id: str
    missing: tuple[int, ...]


def blocks(
    plans: Sequence[Plan], run: str, *, interleaved: bool, slots: int = 1
) -> list[tuple[Job, ...]]:
    """The jobs in the order in which they run; jobs of a block run one after another.

    :param run: identifier of this invocation, which every job carries
    :param interleaved: else inspection after inspection, every job a block of its own
    :param slots: blocks that may run at a time; each slot's own blocks alternate

    >>> plans = [Plan("a", (0, 1)), Plan("b", (0, 1))]
    >>> [[job.inspection_id for job in block] for block in blocks(plans, "r", interleaved=True)]
    [['a', 'b'], ['b', 'a']]
    """
    grouped = _interleaved(plans, slots) if interleaved else _one_by_one(plans)
    return [
        tuple(
            Job(inspection_id, number, run, number, turn, interleaved, place % slots)
            for turn, (inspection_id, number) in enumerate(block, start=1)
        )
        for place, block in enumerate(grouped)
    ]


def _one_by_one(plans: Sequence[Plan]) -> list[list[tuple[str, int]]]:
    return [[(plan.inspection_id, number)] for plan in plans for number in plan.missing]


def _interleaved(plans: Sequence[Plan], slots: int) -> list[list[tuple[str, int]]]:
    """The direction turns with a block's place, so that a resumed run alternates too."""
    numbers = sorted({number for plan in plans for number in plan.missing})
    made = []
    for place, number in enumerate(numbers):
        block = [(plan.inspection_id, number) for plan in plans if number in plan.missing]
        made.append(block if place // slots % 2 == 0 else block[::-1])
    return made
