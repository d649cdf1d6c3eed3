"""Steps of a machine: false alarms in series of 60 nights, and how often true steps are found.

A series has the mean of one run a night, with a standard deviation of 3 %. The step is 5 % in
night 54, seen after six nights, or 10 % in night 50, seen after five.

``--otava PYTHON`` judges the same series with Apache Otava, too, a detector of the same purpose
(Fleming et al. 2023, doi:10.1145/3578244.3583719), with its default options. PYTHON is the
interpreter of an environment that has it, because its requirements conflict with ours::

    uv venv /tmp/otava && uv pip install --python /tmp/otava/bin/python apache-otava==0.8.0
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.drift import steps

SERIES, SEED, NIGHTS, SD = 3000, 5, 60, 0.03
#: Reads series of rates as JSON, and prints the share in which Otava finds a change point.
_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
series = json.load(sys.stdin)
print(sum(bool(compute_change_points(it)[0]) for it in series) / len(series))
"""
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


def main(arguments: Sequence[str] = ()) -> None:
    """Print the share of series with a step."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drift")
    parser.add_argument("--series", type=int, default=SERIES, help="number of series of each case")
    parser.add_argument("--otava", metavar="PYTHON", help="interpreter that can import otava")
    options = parser.parse_args(arguments)
    count, otava = options.series, options.otava
    print(f"{count} series a case, standard deviation {SD:.0%}, seed {SEED}")
    if otava is None:
        print("without Otava: --otava names no interpreter that has it")
    print(f"{'':<58}    ours{'' if otava is None else '   Otava'}")
    for name, series in cases(count):
        share = sum(bool(steps(row)) for row in series.tolist()) / count
        other = "" if otava is None else f" {_otava_share(otava, series):7.2%}"
        print(f"{name:<58} {share:7.2%}{other}", flush=True)


def _otava_share(python: str, series: NDArray[np.float64]) -> float:
    """The share of series in which Otava finds a change point."""
    done = subprocess.run(
        [python, "-c", _OTAVA], input=json.dumps(np.exp(series).tolist()), text=True,
        capture_output=True, check=True,
    )  # fmt: skip
    return float(done.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
