"""Steps of a machine: false alarms in series of 60 nights, and how often true steps are found.

A series has the mean of one run a night, with a standard deviation of 3 %. The step is 5 % in
night 54, seen after six nights, or 10 % in night 50, seen after five. Each series is judged once.
The last rows judge fewer series again every night, by the rule of announcements.

``python -m benchmarks.drift COUNT PATH`` also writes the series of each case to a file, one line of
rates each, for other detectors.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.drift import FIRST_NIGHT, nightly_steps, steps

SERIES, SEED, NIGHTS, SD = 3000, 5, 60, 0.03
#: One of this many series is judged every night, because each takes forty looks.
NIGHTLY_SHARE = 3
#: Runs before the first night, so that the series is stationary.
_BEFORE = 50


def cases(count: int = SERIES) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Named sets of series of log rates."""
    for correlation in (0.0, 0.3):
        draw = np.random.default_rng(SEED)
        alike = f"neighbours correlated by {correlation}"
        yield f"no step, {alike}", _steady(draw, count, correlation)
        for change, begin, nights in ((0.05, 54, 60), (0.10, 50, 55)):
            series = _steady(draw, count, correlation)[:, :nights]
            series[:, begin:] += math.log1p(-change)
            yield f"step of {change:.0%} for {nights - begin} nights, {alike}", series


def _steady(draw: np.random.Generator, count: int, correlation: float) -> NDArray[np.float64]:
    noise = draw.normal(0, SD, (count, _BEFORE + NIGHTS))
    for night in range(1, _BEFORE + NIGHTS):
        noise[:, night] += correlation * noise[:, night - 1]
    scaled: NDArray[np.float64] = noise[:, _BEFORE:] * math.sqrt(1 - correlation**2)
    return scaled


def main(count: int = SERIES, folder: Path | None = None) -> None:
    """Print the share of series with a step.

    :param folder: where to write the series
    """
    print(f"{count} series a case, standard deviation {SD:.0%}, seed {SEED}")
    for name, series in cases(count):
        share = sum(bool(steps(row)) for row in series.tolist()) / count
        print(f"{name:<58} {share:7.2%}", flush=True)
        if folder is not None:
            np.savetxt(folder / f"{name}.txt", np.exp(series))
    few = max(1, count // NIGHTLY_SHARE)
    for name, series in cases(few):
        share = sum(map(_announced, series.tolist())) / few
        print(f"{'every night, ' + name:<58} {share:7.2%}", flush=True)


def _announced(series: list[float]) -> bool:
    """Whether any look finds a step; the looks begin at the twentieth night."""
    looks = range(FIRST_NIGHT, len(series) + 1)
    return any(nightly_steps(series[:nights]) for nights in looks)


if __name__ == "__main__":
    main(
        int(sys.argv[1]) if len(sys.argv) > 1 else SERIES,
        Path(sys.argv[2]) if len(sys.argv) > 2 else None,
    )
