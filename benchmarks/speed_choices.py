"""Choices by speed: how far the advised version is from the fastest one, by planted speeds.

Each row is a way in which the speeds of versions differ. Regret is the true speed that the choice
gives away. The reference of the same run is the newest version, which is what one would take
without measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from tests.factories.speeds import (
    Speeds,
    advice_by_speed,
    chosen_place,
    measured_speeds,
    planted_speeds,
)

ANSWERS, SEED = 300, 2028


def _choices(speeds: Speeds, answers: int, reference_jobs: int | None) -> list[int]:
    draw = np.random.default_rng(SEED)
    return [
        chosen_place(
            advice_by_speed(
                measured_speeds(draw, speeds, reference_jobs=reference_jobs), len(speeds)
            )
        )
        for _ in range(answers)
    ]


def main(
    answers: int = ANSWERS,
    counts: Sequence[int] = (5, 20),
    reference_jobs: Sequence[int | None] = (None, 1),
) -> None:
    """Print regret, and the shares of the fastest, the newest and all other versions.

    :param reference_jobs: jobs of the reference in a turn; ``None`` for √k
    """
    for count in counts:
        for jobs in reference_jobs:
            print(f"{count} versions beside the reference, {jobs or '√k'} reference jobs a turn")
            print(f"  {'':38}{'regret':>8}{'newest':>8}{'fastest':>9}{'newest':>8}{'other':>7}")
            for name, speeds in planted_speeds(count):
                chosen = _choices(speeds, answers * (1 if any(speeds) else 3), jobs)
                most = max(speeds)
                regret = 100 * fmean(most - speeds[it] for it in chosen)
                fastest = [speeds[it] >= most - 1e-9 for it in chosen]
                newest = [it == count for it in chosen]
                other = [not a and not b for a, b in zip(fastest, newest, strict=True)]
                print(
                    f"  {name:38}{regret:>6.2f} %{100 * (most - speeds[-1]):>6.2f} %"
                    f"{fmean(fastest):>9.0%}{fmean(newest):>8.1%}{fmean(other):>7.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
