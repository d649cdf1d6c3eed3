"""False claims about identical releases that the loop measures night after night.

A family is a reference and five releases that are all equally fast, measured in turns, twelve jobs
of each a night, for sixteen nights. That is enough for the five planned looks of the loop and of
``thoth changes``. The last column judges every night by the rule for a single answer, which is what
somebody does who reads new advice every morning and believes each settled claim.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from adviser.changes import LOOK_ALPHA, MAX_LOOKS, is_due, next_look
from adviser.scoring.comparisons import ComparisonGroup, compare_all
from adviser.scoring.histories import History, MeasuredJob
from adviser.scoring.samples import JobPlace
from adviser.scoring.verdicts import ALPHA
from model.changes import ChangeLook
from tests.factories.evidence import series

FAMILIES, SEED = 1000, 2026
RELEASES, NIGHTS, JOBS = 5, 16, 12
#: Standard deviation of what all jobs of a turn share, natural log, a step a turn.
_DRIFT = 0.02

Rates = NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Rates]

_DESIGNS: Mapping[str, Noise] = {
    "jobs vary by 3 %": lambda draw, shape: draw.normal(0, 0.03, shape),
    "jobs vary by 5 %": lambda draw, shape: draw.normal(0, 0.05, shape),
    "5 %, heavy tails": lambda draw, shape: draw.standard_t(3, shape) * 0.05 / 3**0.5,
}


def main(arguments: Sequence[str] = ()) -> None:
    """Print the shares of families with a false claim, by design."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nightly_false_claims")
    parser.add_argument("--families", type=int, default=FAMILIES, help="families of each design")
    count: int = parser.parse_args(arguments).families
    print(f"{count} families a design, seed {SEED}, {RELEASES} releases, {NIGHTS} nights")
    print(f"{'':<20} planned looks   every night")
    for name, noise in _DESIGNS.items():
        draw = np.random.default_rng(SEED)
        planned = nightly = 0
        for _ in range(count):
            rates = noise(draw, (1 + RELEASES, NIGHTS * JOBS))
            rates += np.cumsum(draw.normal(0, _DRIFT, NIGHTS * JOBS))
            planned += _claims_at_looks(rates)
            nightly += any(_differ(rates, JOBS * it, ALPHA) for it in range(1, NIGHTS + 1))
        print(f"{name:<20} {planned / count:>13.2%} {nightly / count:>13.2%}", flush=True)


def _claims_at_looks(rates: Rates) -> bool:
    """Whether a planned look claims a difference."""
    look: ChangeLook | None = None
    for night in range(1, NIGHTS + 1):
        jobs = JOBS * night
        if is_due(look, jobs) and (look is None or look.looks < MAX_LOOKS):
            look = next_look(look, jobs)
            if _differ(rates, jobs, LOOK_ALPHA):
                return True
    return False


def _differ(rates: Rates, turns: int, alpha: float) -> bool:
    """Whether a release is claimed to differ from the reference after so many turns."""
    jobs = {
        f"stack {stack}": tuple(
            MeasuredJob(f"{turn:04}", float(rate), JobPlace("host", f"{turn}", "run"), None, ())
            for turn, rate in enumerate(row[:turns])
        )
        for stack, row in enumerate(rates)
    }
    history = History(series(), jobs, {}, {})
    base, *others = (history.sample(stack) for stack in history.jobs)
    (compared,) = compare_all([ComparisonGroup(base, others, (), history.spread)], alpha)
    return any(it.verdict.different for it in compared)


if __name__ == "__main__":
    main(sys.argv[1:])
