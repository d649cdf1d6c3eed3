"""Simulated comparisons by ``thoth compare``: claims, jobs, and intervals that hold."""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from adviser.planned_comparison import LOOK_BLOCKS
from adviser.scoring.verdicts import Verdict
from tests.factories.compared_jobs import settled_look

COMPARISONS, LOOKS, SEED = 200, 8, 7
#: Standard deviation of what all jobs of a block share, natural log, a step a block.
_DRIFT = 0.01

Noise = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]


def _two_modes(draw: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return draw.normal(0, 0.033, shape) - (draw.random(shape) < 0.25) * 0.2


#: True difference and noise, by name.
_CASES: dict[str, tuple[float, Noise]] = {
    "10 %, jobs vary by 3 %": (0.1, lambda draw, shape: draw.normal(0, 0.03, shape)),
    "10 %, jobs vary by 5 %": (0.1, lambda draw, shape: draw.normal(0, 0.05, shape)),
    "5 %, jobs vary by 2 %": (0.05, lambda draw, shape: draw.normal(0, 0.02, shape)),
    "none, jobs vary by 3 %": (0.0, lambda draw, shape: draw.normal(0, 0.03, shape)),
    "none, 8 %, heavy tails": (0.0, lambda draw, shape: draw.standard_t(3, shape) * 0.046),
    "none, 8 %, skewed": (0.0, lambda draw, shape: -draw.gamma(1.0, 0.08, shape)),
    "none, 10 %, two modes": (0.0, _two_modes),
}


def main(arguments: Sequence[str] = ()) -> None:
    """Print verdicts, jobs of both stacks, and the share of 95 % intervals that hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks compare")
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help="of each case")
    count: int = parser.parse_args(arguments).comparisons
    print(f"{count} comparisons a case, seed {SEED}, up to {LOOK_BLOCKS[LOOKS - 1]} blocks")
    print(f"{'':<24} different  equivalent   open   jobs (90 %)   held")
    for name, (difference, noise) in _CASES.items():
        draw = np.random.default_rng(SEED)
        verdicts: Counter[Verdict] = Counter()
        jobs, held = [], 0
        for _ in range(count):
            rates = noise(draw, (2, LOOK_BLOCKS[LOOKS - 1]))
            rates += np.cumsum(draw.normal(0, _DRIFT, rates.shape[1]))
            rates[1] += math.log1p(difference)
            look = settled_look(rates.tolist(), LOOKS)
            ((_, _, comparison),) = look.comparisons
            verdicts[comparison.verdict] += 1
            jobs.append(2 * look.blocks)
            ends = comparison.interval_low_pct, comparison.interval_high_pct
            held += ends[0] <= 100 * difference <= ends[1]
        print(
            f"{name:<24} {verdicts[Verdict.FASTER] + verdicts[Verdict.SLOWER]:>9}"
            f" {verdicts[Verdict.EQUIVALENT]:>11} {verdicts[Verdict.UNDETERMINED]:>6}"
            f" {np.mean(jobs):>7.1f} ({np.percentile(jobs, 90):.0f}) {held / count:>8.1%}",
            flush=True,
        )
