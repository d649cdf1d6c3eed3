"""Nights of measurements of one package's versions with known differences, by two strategies.

Each night measures some versions in turns with the reference version. Jobs of one turn share the
drift of the machine, as in :mod:`benchmarks.false_claims`. The shipped rules judge every night,
at the planned looks of :mod:`adviser.changes`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from adviser.changes import LOOK_ALPHA, MAX_LOOKS, is_due, next_look
from adviser.monkey.job_value import WORTHWHILE, job_values
from adviser.scoring.assessment_types import Claim
from adviser.scoring.comparisons import (
    MIN_DELTA,
    Comparison,
    ComparisonGroup,
    ComparisonResult,
    compare_all,
)
from adviser.scoring.histories import History, MeasuredJob
from adviser.scoring.samples import JobPlace
from adviser.scoring.verdicts import Verdict
from model.changes import ChangeLook
from model.packages.identity import Purl
from tests.factories.evidence import purl, series

#: Standard deviation of what all jobs of a turn share, natural log, a step a turn.
DRIFT = 0.02
#: Turns of a night: the jobs that ``thoth monkey`` gives to a stack.
TURNS = 5
_SERIES = series()
_RESULT_FIELDS = [it.name for it in fields(ComparisonResult)]


@dataclass(frozen=True, slots=True)
class PlantedVersions:
    """Versions with known rates; the reference comes in addition.

    :param gains: true gain of each version over the reference, as a share of its rate; a claim
        about a version within δ is false
    :param sd: of jobs of one turn, natural log
    :param per_night: number of versions that a night can measure
    :param nights: the search ends after these nights
    :param threshold: see :func:`adviser.monkey.job_value.job_values`
    """

    gains: tuple[float, ...]
    sd: float = 0.05
    per_night: int = 4
    nights: int = 120
    threshold: float = WORTHWHILE

    @property
    def planted(self) -> set[int]:
        """Numbers of the versions that differ by more than δ, from 1."""
        return {n for n, gain in enumerate(self.gains, 1) if abs(gain) > MIN_DELTA}


@dataclass(frozen=True, slots=True)
class PlantedOutcome:
    """The end of a search.

    :param settled: number of true differences that were claimed with the right sign
    :param false: number of false claims
    :param jobs: all jobs until the last true difference was settled, the reference's included;
        until the end if one was not
    :param all_jobs: all jobs until the end
    :param stopped: whether it ended because nothing was worth measuring
    """

    settled: int
    false: int
    jobs: int
    all_jobs: int
    stopped: bool


class PlantedNights:
    """One search, night by night."""

    def __init__(self, truth: PlantedVersions, seed: Sequence[int], *, informative: bool) -> None:
        self._truth = truth
        self._draw = np.random.default_rng(seed)
        self._informative = informative
        self._names = [f"stack {n:03}" for n in range(len(truth.gains) + 1)]
        self._purls = [purl(f"package=={n}") for n in range(len(truth.gains) + 1)]
        self._jobs: list[list[MeasuredJob]] = [[] for _ in self._names]
        self._looks: dict[int, ChangeLook] = {}
        self._claimed: dict[int, Verdict] = {}
        self._turn = 0
        self._drift = 0.0
        self._comparisons: dict[int, Comparison] = {}

    def run(self) -> PlantedOutcome:
        """Measure until all is settled (random), or nothing is worth measuring (informative)."""
        settled_at, stopped = 0, False
        planted = self._truth.planted
        for _ in range(self._truth.nights):
            chosen = self._chosen()
            if not chosen:
                stopped = True
                break
            self._measure(chosen)
            self._judge(chosen)
            if not settled_at and planted <= self._right():
                settled_at = self._spent
                if not self._informative:
                    break
        right = self._right()
        false = len(self._claimed.keys() - right)
        return PlantedOutcome(len(right), false, settled_at or self._spent, self._spent, stopped)

    @property
    def _spent(self) -> int:
        return sum(map(len, self._jobs))

    def _right(self) -> set[int]:
        gains = self._truth.gains
        return {
            n
            for n, verdict in self._claimed.items()
            if n in self._truth.planted and (gains[n - 1] > 0) is (verdict is Verdict.FASTER)
        }

    def _chosen(self) -> list[int]:
        versions = range(1, len(self._names))
        most = min(self._truth.per_night, len(versions))
        if not self._informative:
            return sorted(int(n) + 1 for n in self._draw.permutation(len(versions))[:most])
        unmeasured = [self._purls[n] for n in versions if not self._jobs[n]]
        claims = [
            claim_of(it, self._purls[n], self._purls[0]) for n, it in self._comparisons.items()
        ]
        values = job_values(claims, unmeasured, {}, {}, threshold=self._truth.threshold)
        return [self._purls.index(it.purl) for it in values[:most]]

    def _measure(self, chosen: Sequence[int]) -> None:
        truth = self._truth
        for _ in range(TURNS):
            self._turn += 1
            self._drift += self._draw.normal(0, DRIFT)
            for n in (0, *chosen):
                gain = math.log1p(truth.gains[n - 1]) if n else 0.0
                rate = gain + self._drift + self._draw.normal(0, truth.sd)
                place = JobPlace("host", f"{self._turn:05}", f"{self._turn // TURNS:05}")
                self._jobs[n].append(MeasuredJob(f"{self._turn:05}", rate, place, None, ()))

    def _judge(self, chosen: Sequence[int]) -> None:
        due = [
            n
            for n in chosen
            if is_due(self._looks.get(n), len(self._jobs[n])) and n not in self._claimed
        ]
        for n in due:
            self._looks[n] = next_look(self._looks.get(n), len(self._jobs[n]))
        if not due:
            return
        jobs = {self._names[0]: tuple(self._jobs[0])}
        arms = sorted(self._looks)
        jobs |= {self._names[n]: tuple(self._jobs[n][: self._looks[n].jobs]) for n in arms}
        history = History(_SERIES, jobs, {}, {})
        base, *others = (history.sample(it) for it in jobs)
        group = ComparisonGroup(base, others, (), history.spread)
        (compared,) = compare_all([group], LOOK_ALPHA)
        for n, comparison in zip(arms, compared, strict=True):
            if n not in self._claimed:
                self._comparisons[n] = comparison
                if self._looks[n].looks <= MAX_LOOKS and comparison.verdict.different:
                    self._claimed[n] = comparison.verdict


def claim_of(comparison: Comparison, version: Purl, baseline: Purl) -> Claim:
    """A comparison of two stacks that differ in one version, as a claim about it on the target."""
    result = {name: getattr(comparison, name) for name in _RESULT_FIELDS}
    return Claim(
        **result,
        package="package", purl=version, baseline_purl=baseline,
        stack=comparison.candidate, baseline_stack=comparison.baseline, differs=("package",),
        beside_baseline=True, indicator=_SERIES.indicator, parameters={}, device="cpu",
        unit=_SERIES.unit, comparison_key=_SERIES.comparison_key,
        hardware_digest=_SERIES.hardware_digest, hardware_label="", same_hardware=True,
        python_version="3.11", same_python=True, effect_pct=comparison.difference_pct,
        observed_pct=comparison.difference_pct, interval_low_pct=comparison.interval_low_pct,
        interval_high_pct=comparison.interval_high_pct, delta_pct=2.0, bound=0.0, scored=False,
        left_out={}, spread_ratio=None, evidence=(), as_of=None,
    )  # fmt: skip


def searched(
    truth: PlantedVersions, repetitions: int, seed: int, *, informative: bool
) -> list[PlantedOutcome]:
    """Independent searches; both strategies have the same seeds."""
    return [
        PlantedNights(truth, [seed, n], informative=informative).run() for n in range(repetitions)
    ]
