"""The order of jobs: blocks with one job per stack, alternately forwards and backwards (ABBA).

A linear drift of the machine over two blocks then affects all stacks equally. The jobs of one block
run close together, so that only their stacks differ. All other stacks are compared with the
reference. The reference may run several times per block, because its error enters every comparison.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pis.amun.launchers import Job


@dataclass(frozen=True, slots=True)
class MissingJobs:
    """The jobs of one inspection that have no result yet.

    :param missing: their numbers
    :param per_block: jobs of the inspection in a block
    """

    inspection_id: str
    missing: tuple[int, ...]
    per_block: int = 1

    def of_block(self, number: int) -> list[tuple[str, int]]:
        """Return the missing jobs of block ``number``."""
        return [
            (self.inspection_id, job) for job in self.missing if job // self.per_block == number
        ]


def reference_jobs(others: int) -> int:
    """Return the number of reference jobs per block that makes the comparisons most precise.

    The number is about √k for k ``others`` (Dunnett 1955, doi:10.1080/01621459.1955.10501294). For
    one or two others, the number is 1, because further jobs would cost more than they gain.

    >>> [reference_jobs(others) for others in (1, 2, 3, 5, 20)]
    [1, 1, 2, 3, 5]
    """
    return math.ceil(math.sqrt(others)) if others > 2 else 1


def blocks(
    plans: Sequence[MissingJobs], run: str, *, interleaved: bool, slots: int = 1
) -> list[tuple[Job, ...]]:
    """Return all jobs in the order in which they run, grouped into blocks.

    :param run: identifier of this invocation, which every job records
    :param interleaved: if false, inspections run one after another, and each job is a block
    :param slots: number of blocks that may run concurrently; blocks alternate within each slot

    >>> plans = [MissingJobs("a", (0, 1)), MissingJobs("b", (0, 1))]
    >>> [[job.inspection_id for job in block] for block in blocks(plans, "r", interleaved=True)]
    [['a', 'b'], ['b', 'a']]
    """
    grouped = _interleaved(plans, slots) if interleaved else _one_by_one(plans)
    return [
        tuple(
            Job(inspection_id, number, run, name, turn, interleaved, position % slots)
            for turn, (inspection_id, number) in enumerate(block, start=1)
        )
        for position, (name, block) in enumerate(grouped)
    ]


#: Number of a block and its jobs in order, each as inspection and number.
_Block = tuple[int, list[tuple[str, int]]]


def _one_by_one(plans: Sequence[MissingJobs]) -> list[_Block]:
    return [(number, [(plan.inspection_id, number)]) for plan in plans for number in plan.missing]


def _interleaved(plans: Sequence[MissingJobs], slots: int) -> list[_Block]:
    """Alternate by a block's position, not by its number, so that a resumed run alternates too."""
    names = sorted({number // plan.per_block for plan in plans for number in plan.missing})
    interleaved = []
    for position, name in enumerate(names):
        block = _spread([plan.of_block(name) for plan in plans])
        interleaved.append((name, block if position // slots % 2 == 0 else block[::-1]))
    return interleaved


def _spread(jobs_by_stack: Sequence[list[tuple[str, int]]]) -> list[tuple[str, int]]:
    """Return the jobs of one block; jobs of the same stack are spread evenly among the others."""
    single = [jobs[0] for jobs in jobs_by_stack if len(jobs) == 1]
    groups = [single, *(jobs for jobs in jobs_by_stack if len(jobs) > 1)]
    placed = [((n + 0.5) / len(jobs), job) for jobs in groups for n, job in enumerate(jobs)]
    return [job for _, job in sorted(placed, key=lambda pair: pair[0])]
