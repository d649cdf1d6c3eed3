"""How much the jobs of each stack vary within turns: what is left without the turn they shared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import FloatArray
from adviser.scoring.jobs import MIN_JOBS, Place
from adviser.scoring.spread import Variance

#: Sweeps of the two-way fit; complete turns need one.
_SWEEPS = 25


def turn_variances(
    jobs: Mapping[str, Iterable[tuple[Place, float]]],
) -> dict[str, dict[str, Variance]]:
    """The variance of one job of each stack on each host, turns and stacks fitted out.

    Additive two-way fit by alternating means; a residual is scaled by what the stack itself
    contributed to the mean of its turn. Turns with a single stack, and stacks with fewer than
    five turns, say nothing.

    :param jobs: by stack, the place and the log rate of each job, in a fixed order
    :returns: by host and stack
    """
    cells: dict[str, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for stack, placed in jobs.items():
        for place, log_rate in placed:
            if place.host is not None and place.block is not None:
                cells[place.host][stack, place.block].append(log_rate)
    return {host: _of_host(cells[host]) for host in sorted(cells)}


def _of_host(cells: Mapping[tuple[str, str], Sequence[float]]) -> dict[str, Variance]:
    in_turn: dict[str, int] = defaultdict(int)
    for _, block in cells:
        in_turn[block] += 1
    shared = sorted(key for key in cells if in_turn[key[1]] > 1)
    stacks = {stack: place for place, stack in enumerate(sorted({key[0] for key in shared}))}
    blocks = {block: place for place, block in enumerate(sorted({key[1] for key in shared}))}
    if not shared:
        return {}
    stack_of = np.array([stacks[key[0]] for key in shared])
    block_of = np.array([blocks[key[1]] for key in shared])
    weight = np.array([float(len(cells[key])) for key in shared])
    mean = np.array([math.fsum(cells[key]) / len(cells[key]) for key in shared])
    residual = _residuals(mean, weight, stack_of, block_of)
    total = np.bincount(block_of, weight)[block_of]
    # Without its own share in the mean of the turn, and scaled to one job.
    squares = np.bincount(stack_of, residual**2 * total * weight / (total - weight))
    turns = np.bincount(stack_of)
    return {
        digest: Variance(float(squares[place] / (turns[place] - 1)), int(turns[place] - 1))
        for digest, place in stacks.items()
        if turns[place] >= MIN_JOBS
    }


def _residuals(
    values: FloatArray, weight: FloatArray, stack: NDArray[np.int64], block: NDArray[np.int64]
) -> FloatArray:
    per_stack, per_block = np.bincount(stack, weight), np.bincount(block, weight)
    left = values
    for _ in range(_SWEEPS):
        left = left - (np.bincount(block, weight * left) / per_block)[block]
        shift = np.bincount(stack, weight * left) / per_stack
        left = left - shift[stack]
        if float(np.abs(shift).max()) < 1e-12:
            break
    return left
