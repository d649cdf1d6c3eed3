"""Bisects with known answers: how many are right, and the jobs that they take.

A classic bisect of 64 releases with 10 jobs a release measures 6 releases and 2 ends: 80 jobs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from adviser.bisect.search import find_step
from tests.factories.planted_steps import (
    Draw,
    PlantedMeasurer,
    heavy_noise,
    normal_noise,
    step_levels,
)

RELEASES, SD, SEARCHES, SEED = 64, 0.02, 100, 2026
CLASSIC_JOBS = 80


@dataclass(frozen=True)
class _Truth:
    name: str
    step: float
    noise: Draw = normal_noise
    drift: float = 0.0


_TRUTHS = (
    _Truth("step of 5 %", 0.05),
    _Truth("step of -5 %", -0.05),
    _Truth("step of 10 %", 0.1),
    _Truth("no step", 0.0),
    _Truth("5 %, heavy tails", 0.05, heavy_noise),
    _Truth("10 %, heavy tails", 0.1, heavy_noise),
    _Truth("no step, heavy tails", 0.0, heavy_noise),
    _Truth("5 %, drift of 2 % a block", 0.05, drift=0.02),
    _Truth("10 %, drift of 2 % a block", 0.1, drift=0.02),
    _Truth("no step, drift of 2 % a block", 0.0, drift=0.02),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Print one row for each kind of truth; takes up to an hour."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bisect")
    parser.add_argument("--searches", type=int, default=SEARCHES, help="searches for each truth")
    searches: int = parser.parse_args(arguments).searches
    print(f"{RELEASES} releases, noise {SD:.0%}, {searches} searches each, classic {CLASSIC_JOBS}")
    print(f"{'truth':30} right wrong open | jobs to find, to confirm | of classic: find, all | s")
    for truth in _TRUTHS:
        _print_row(truth, searches)


def _print_row(truth: _Truth, searches: int) -> None:
    draw = np.random.default_rng(SEED)
    right = wrong = 0
    find, confirm = [], []
    start = process_time()
    for number in range(searches):
        step = int(draw.integers(1, RELEASES))
        levels = step_levels(RELEASES, {step: truth.step} if truth.step else {})
        measurer = PlantedMeasurer(levels, SEED + number, SD, truth.noise, truth.drift)
        search = find_step(measurer, RELEASES)
        expected = ("step", (step - 1, step)) if truth.step else ("none", None)
        right += (search.state, search.pair) == expected
        wrong += (search.state, search.pair) != expected and search.state in {"step", "none"}
        find.append(search.search_jobs)
        confirm.append(search.confirming_jobs)
    to_find, to_confirm = float(np.mean(find)), float(np.mean(confirm))
    seconds = (process_time() - start) / searches
    print(
        f"{truth.name:30} {right:5} {wrong:5} {searches - right - wrong:4} |"
        f" {to_find:12.1f} {to_confirm:11.1f} | {to_find / CLASSIC_JOBS:16.0%}"
        f" {(to_find + to_confirm) / CLASSIC_JOBS:4.0%} | {seconds:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
