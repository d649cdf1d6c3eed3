"""Bisects with known answers: how many are right, and the jobs that they take.

Of planted dips, it counts those that an answer wrongly says it would have seen.

A classic bisect of 64 releases with 10 jobs a release measures 6 releases and 2 ends: 80 jobs.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from adviser.bisect.search import find_step
from tests.factories.planted_steps import (
    Draw,
    PlantedMeasurer,
    dip_outcome,
    dip_steps,
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


@dataclass(frozen=True)
class _Dip:
    """A planted dip."""

    width: int
    size: float
    sd: float = SD
    noise: Draw = normal_noise
    drift: float = 0.0


_DIPS = (
    _Dip(9, 0.1),
    _Dip(8, 0.125),
    _Dip(32, 0.05),
    _Dip(9, 0.1, noise=heavy_noise),
    _Dip(9, 0.1, sd=0.015),
    _Dip(16, 0.1, drift=0.02),
    _Dip(5, -0.08),
)


def main(arguments: Sequence[str] = ()) -> None:
    """Print one row for each kind of truth and dip; takes up to an hour."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bisect")
    parser.add_argument("--searches", type=int, default=SEARCHES, help="searches for each truth")
    searches: int = parser.parse_args(arguments).searches
    print(f"{RELEASES} releases, noise {SD:.0%}, {searches} searches each, classic {CLASSIC_JOBS}")
    print(f"{'truth':30} right wrong open | jobs to find, to confirm | of classic: find, all | s")
    for truth in _TRUTHS:
        _print_row(truth, searches)
    print(f"{'dip':50} seen not stated wrong | jobs")
    for dip in _DIPS:
        _print_dip_row(dip, searches)


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


def _print_dip_row(dip: _Dip, searches: int) -> None:
    """A search is wrong if it says that it would have seen the dip, but has not."""
    draw = np.random.default_rng(SEED)
    counts = Counter[str]()
    jobs = []
    for number in range(searches):
        first = int(draw.integers(1, RELEASES - dip.width))
        levels = step_levels(RELEASES, dip_steps(first, dip.width, dip.size))
        measurer = PlantedMeasurer(levels, SEED + number, dip.sd, dip.noise, dip.drift)
        search = find_step(measurer, RELEASES, max_jobs=400)
        jobs.append(search.jobs)
        counts[dip_outcome(search, dip.width, dip.size)] += 1
    name = f"{dip.size:.1%}, {dip.width} wide, noise {dip.sd:.1%} {dip.noise.__name__}"
    name += f", drift {dip.drift:.0%}" if dip.drift else ""
    print(
        f"{name:50} {counts['seen']:4} {counts['not stated']:10} {counts['wrong']:5} |"
        f" {float(np.mean(jobs)):.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
