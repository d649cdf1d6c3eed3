"""In which order jobs run: blocks of one job a stack, forwards and backwards in turn (ABBA).

A drift of the machine that is linear over two blocks then falls on all stacks alike, and
jobs of one block are so close in time that their difference is the stacks' own. The reference, with
which all others are compared, may run several times a block: its error is in every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pis.amun.launchers import Job


@dataclass(frozen=True, slots=True)
class MissingJobs:
    """What is still to be done for one inspection.

    :param missing: numbers of the jobs that have no result yet
    :param per_block: jobs in a block
    """

    inspection_id: str
    missing: tuple[int, ...]
    per_block: int = 1

    def of_block(self, number: int) -> list[tuple[str, int]]:
        """The missing jobs of one block."""
        return [(self.inspection_id, it) for it in self.missing if it // self.per_block == number]


def reference_jobs(others: int) -> int:
    """Jobs of the reference in a block that make ``others`` comparisons with it most precise.

    About √k for k others (Dunnett 1955, doi:10.1080/01621459.1955.10501294); 1 for one or two,
    where more would cost more than they gain.

    >>> [reference_jobs(others) for others in (1, 2, 3, 5, 20)]
    [1, 1, 2, 3, 5]
    """
    return math.ceil(math.sqrt(others)) if others > 2 else 1


def blocks(
    plans: Sequence[MissingJobs], run: str, *, interleaved: bool, slots: int = 1
) -> list[tuple[Job, ...]]:
    """The jobs in the order in which they run; jobs of a block run one after another.

    :param run: identifier of this invocation, which every job carries
    :param interleaved: else inspection after inspection, every job a block of its own
    :param slots: blocks that may run at a time; each slot's own blocks alternate

    >>> plans = [MissingJobs("a", (0, 1)), MissingJobs("b", (0, 1))]
    >>> [[job.inspection_id for job in block] for block in blocks(plans, "r", interleaved=True)]
    [['a', 'b'], ['b', 'a']]
    """
    grouped = _interleaved(plans, slots) if interleaved else _one_by_one(plans)
    return [
        tuple(
            Job(inspection_id, number, run, name, turn, interleaved, place % slots)
            for turn, (inspection_id, number) in enumerate(block, start=1)
        )
        for place, (name, block) in enumerate(grouped)
    ]


#: The number of a block, and its jobs in their order: inspection and number.
_Block = tuple[int, list[tuple[str, int]]]


def _one_by_one(plans: Sequence[MissingJobs]) -> list[_Block]:
    return [(number, [(plan.inspection_id, number)]) for plan in plans for number in plan.missing]


def _interleaved(plans: Sequence[MissingJobs], slots: int) -> list[_Block]:
    """The direction turns with a block's place, so that a resumed run alternates too."""
    names = sorted({number // plan.per_block for plan in plans for number in plan.missing})
    made = []
    for place, name in enumerate(names):
        block = _spread([plan.of_block(name) for plan in plans])
        made.append((name, block if place // slots % 2 == 0 else block[::-1]))
    return made


def _spread(jobs: Sequence[list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """The jobs of one block: those of stacks with several are spread evenly among the others."""
    single = [one for several in jobs if len(several) == 1 for one in several]
    placed = [((n + 0.5) / len(single), one) for n, one in enumerate(single)]
    for several in jobs:
        if len(several) > 1:
            placed += [((n + 0.5) / len(several), one) for n, one in enumerate(several)]
    return [one for _, one in sorted(placed, key=lambda it: it[0])]
