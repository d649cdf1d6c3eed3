"""Choices by speed: how far the advised version is from the fastest one, by planted speeds.

Each row is a way in which the speeds of versions differ, or in which their jobs vary. Regret is the
true speed that the choice gives away. The reference of the same run is the newest version, which is
what one would take without measurements.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np

from tests.factories.speeds import (
    PLAIN,
    SpeedDesign,
    Speeds,
    advice_by_speed,
    chosen_place,
    measured_speeds,
    planted_speeds,
)

ANSWERS, SEED = 300, 2028
#: Ways in which jobs vary; each is tried with some of the planted speeds and five versions.
DESIGNS = (
    PLAIN,
    SpeedDesign("heavy tails", heavy=True),
    SpeedDesign("one version varies 3x", wild=3.0),
    SpeedDesign("the newest lost 4 of 10 turns", lost=4),
    SpeedDesign("5 nights that differ by 3 %", turns=50, nights=5, night=0.03),
    SpeedDesign("two hosts", hosts=2),
    SpeedDesign("three indicators", indicators=3),
)
_TRIED = ("all equal", "an old one 10 % faster", "the newest 10 % slower")


def _rows(counts: Sequence[int]) -> Iterator[tuple[str, Speeds, SpeedDesign]]:
    for count in counts:
        for design in (PLAIN, replace(PLAIN, reference_jobs=1)):
            for name, speeds in planted_speeds(count):
                yield (
                    f"k={count}, {design.reference_jobs or '√k'} reference: {name}",
                    speeds,
                    design,
                )
    for design in DESIGNS:
        for name, speeds in planted_speeds(5):
            if name in _TRIED:
                yield f"{design.name}: {name}", speeds, design


def main(answers: int = ANSWERS, counts: Sequence[int] = (5, 20)) -> None:
    """Print regret, and the shares of the fastest, the newest and all other versions."""
    print(f"{'':58}{'regret':>8}{'newest':>8}{'fastest':>9}{'newest':>8}{'other':>7}")
    for label, speeds, design in _rows(counts):
        draw = np.random.default_rng(SEED)
        chosen = [
            chosen_place(advice_by_speed(measured_speeds(draw, speeds, design), len(speeds)))
            for _ in range(answers if any(speeds) else 3 * answers)
        ]
        most = max(speeds)
        regret = 100 * fmean(most - speeds[it] for it in chosen)
        fastest = [speeds[it] >= most - 1e-9 for it in chosen]
        newest = [it == len(speeds) - 1 for it in chosen]
        other = [not a and not b for a, b in zip(fastest, newest, strict=True)]
        print(
            f"{label:58}{regret:>6.2f} %{100 * (most - speeds[-1]):>6.2f} %"
            f"{fmean(fastest):>9.0%}{fmean(newest):>8.1%}{fmean(other):>7.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
