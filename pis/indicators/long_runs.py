"""Runs of seconds, such as a compilation, a training or a load test, and the units that they need.

The units are added here, because a change of ``results.py`` would change the digest of every
script, and results of scripts with different digests are not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pis.indicators.parameters import Parameter
from pis.indicators.results import RATE_UNITS

#: Samples of queries.
SAMPLES = "samples"
#: Whole runs of a long task.
RUNS = "runs"

RATE_UNITS.update({SAMPLES: ("samples/s", 1.0), RUNS: ("runs/s", 1.0)})

#: Calls with which the harness tries a work before it repeats the work.
_TRIALS = 3


def long_run_parameters(repetitions: int) -> tuple[Parameter, ...]:
    """The parameters that say how often a long run is repeated, one run per repetition."""
    return (
        Parameter("reps", repetitions, "repetitions", high=10**4),
        Parameter("mini_batch", 1, "calls a repetition", high=10**9),
    )


class LongRuns:
    """Times a run that always starts afresh and needs no warm-up.

    The harness calls a work a few times before its repetitions. Those runs are as good as all
    others, so they are given again as the first repetitions.

    :param run: seconds of one run, and its output

    >>> runs = LongRuns(lambda it=iter(range(1, 9)): (float(next(it)), None))
    >>> [runs(1)[0] for _ in range(3)], [runs(1)[0] for _ in range(5)]
    ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0])
    """

    def __init__(self, run: Callable[[], tuple[float, Any]]) -> None:
        self._run = run
        self._trials: list[tuple[float, Any]] = []
        self._calls = 0

    def __call__(self, calls: int) -> tuple[float, Any]:
        """Seconds of ``calls`` runs together, and the output of the last one."""
        done = [self._once() for _ in range(calls)]
        return sum(seconds for seconds, _ in done), done[-1][1]

    def _once(self) -> tuple[float, Any]:
        self._calls += 1
        if self._calls > _TRIALS and self._trials:
            return self._trials.pop(0)
        measured = self._run()
        if self._calls <= _TRIALS:
            self._trials.append(measured)
        return measured
