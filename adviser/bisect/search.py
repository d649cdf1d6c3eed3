"""The search for a step: measure the most informative blocks, then confirm on fresh jobs.

The posterior alone is over-confident near the noise, so it only chooses which releases to measure.
The claim is decided by the rule for all comparisons (:mod:`adviser.scoring.comparisons`) on blocks
that ran after the pair of releases was chosen.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from adviser.bisect.posterior import (
    STEP_SIZES,
    Dip,
    DipPower,
    MeasuredRate,
    Remainder,
    StepPosterior,
    next_block,
    noise_of,
    posterior_of,
    remainder_of,
)
from adviser.scoring.comparisons import Comparison, compare_candidates, smallest_difference
from adviser.scoring.effects import Effect, effects_of
from adviser.scoring.estimates import SeriesSpread
from adviser.scoring.lazy_numpy import np
from adviser.scoring.samples import MIN_JOBS, JobPlace, Sample
from adviser.scoring.variances import NO_PRIOR, VariancePrior
from adviser.scoring.verdicts import ALPHA, judge

#: Chance of a step from which the pair is measured for confirmation. The fresh jobs also inform the
#: posterior, so a wrong pair costs few jobs: its first look is small.
STEP_CHANCE = 0.8
#: Chance of no step from which "no step" is the answer.
NONE_CHANCE = 0.99
#: Chance of a further difference from which the rest is reported as not flat.
REMAINDER_CHANCE = 0.95
#: "No step" needs a job at this many places between the ends, because a dip cannot be seen at the
#: ends.
SPREAD_PLACES = 7
#: Shares of the error rate of the planned looks at fresh jobs, in order (Bonferroni), so the rate
#: holds for all looks together, at whichever pairs. Early looks have more, because they save most.
LOOK_RATES = (0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.05, 0.05)
#: Blocks at which a pair is looked at, as shares of the number that settles the step almost surely.
#: Each look costs some error rate, but most steps are settled before the last.
LOOK_SHARES = (0.25, 0.38, 0.55, 0.83, 1.2, 1.75, 2.5, 3.5)
#: Blocks of a pair at most, but for the last look.
MAX_CONFIRMING_BLOCKS = 60
#: Degrees of freedom that the jobs of the search add to the variance of fresh jobs, at most.
MAX_PRIOR_FREEDOM = 8.0
#: The host of all jobs of a search, for comparisons.
_HOST = "this machine"
#: From this number of usable jobs, their noise is known well enough to give up.
NOISE_JOBS = 20
#: The search is given up if an answer is likely to need this number of times the jobs of its limit.
GIVE_UP_FACTOR = 2
#: The search stops here if nothing else limits it.
MAX_JOBS = 200


class StackUnavailable(Exception):
    """A stack cannot be installed or measured; the search goes on without it.

    :param stack: its place in the series
    """

    def __init__(self, stack: int, reason: str) -> None:
        super().__init__(stack, reason)
        self.stack = stack
        self.reason = reason


class StopReason(StrEnum):
    """Why a search ended without an answer."""

    #: The limit of jobs was reached.
    JOBS = "jobs"
    #: The limit of time was reached.
    TIME = "time"
    #: Other processes kept the machine busy.
    BUSY = "busy"
    #: Most jobs failed or were unstable.
    UNSTABLE = "unstable"
    #: Jobs vary too much for an answer within the limit of jobs.
    NOISE = "noise"


class SearchStopped(Exception):
    """The search ended before a block started; nothing is lost.

    :param message: for a person
    """

    def __init__(self, reason: StopReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class BlockMeasurer(Protocol):
    """Measures stacks of a series; planted truths and the executor are interchangeable."""

    def measure(self, stacks: Sequence[int], blocks: int) -> Sequence[MeasuredRate]:
        """Run ``blocks`` blocks with one job of each stack.

        The search calls this in a sequence that depends only on earlier results, so a measurer
        that keeps results can replay them.

        :param stacks: different places in the series
        :raises StackUnavailable: if one of the stacks cannot be measured
        :raises SearchStopped: if there is no time left, the machine stays busy, or most jobs are
            unusable
        """


class SearchState(StrEnum):
    """State of a search; stored values are never renamed."""

    #: Not ended yet.
    RUNNING = "running"
    #: The command ended before the search did; it can be continued.
    INTERRUPTED = "interrupted"
    STEP = "step"
    NONE = "none"
    UNCONFIRMED = "unconfirmed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class StepSearch:
    """A search: its result or, after each block, its state so far.

    :param pair: the releases before and after the step, as places; ``None`` without a step. While
        the search runs, the pair that fresh jobs confirm now
    :param comparison: the comparison of the pair on fresh jobs; ``None`` if there was none
    :param effect: of the step by the posterior, natural log; 0 without a step
    :param search_jobs: jobs that located the step
    :param confirming_jobs: jobs that confirmed it
    :param unusable_jobs: how many of all these jobs failed or were unstable
    :param unavailable: reason for each place that could not be measured
    :param remainder: a further difference; see :data:`REMAINDER_CHANCE`
    :param posterior: the last posterior; ``None`` while nothing usable was measured
    :param stopped: why the search was stopped; ``None`` if it was not
    :param dips: if there is no step, for each size the narrowest dip that would have been seen;
        sizes of which none would be seen are left out
    """

    state: SearchState
    pair: tuple[int, int] | None
    comparison: Comparison | None
    effect: float
    search_jobs: int
    confirming_jobs: int
    unusable_jobs: int
    unavailable: dict[int, str]
    remainder: Remainder | None
    posterior: StepPosterior | None
    stopped: SearchStopped | None = None
    dips: tuple[Dip, ...] = ()

    @property
    def jobs(self) -> int:
        """All jobs that were measured."""
        return self.search_jobs + self.confirming_jobs

    @property
    def flat_remainder(self) -> bool:
        """Whether no further difference was noticed. Few jobs cannot rule one out."""
        return self.remainder is None or self.remainder.chance < REMAINDER_CHANCE


def find_step(
    measurer: BlockMeasurer,
    count: int,
    *,
    max_jobs: int = MAX_JOBS,
    progress: Callable[[StepSearch], None] = lambda _: None,
) -> StepSearch:
    """Find the largest step in a series of stacks.

    :param count: number of stacks in the series, at least two
    :param max_jobs: no block starts that would exceed this number
    :raises StackUnavailable: if fewer than two stacks can be measured
    """
    return _Search(measurer, count, max_jobs, progress).run()


@dataclass
class _Confirmation:
    """Fresh jobs of a pair.

    :param planned: numbers of further blocks until each look, fixed before the first fresh job
    :param prior: the noise of the earlier jobs
    """

    planned: list[int]
    prior: VariancePrior
    jobs: list[MeasuredRate] = field(default_factory=list)


@dataclass
class _Search:
    measurer: BlockMeasurer
    count: int
    max_jobs: int
    progress: Callable[[StepSearch], None]
    jobs: list[MeasuredRate] = field(default_factory=list)
    confirmations: dict[tuple[int, int], _Confirmation] = field(default_factory=dict)
    unavailable: dict[int, str] = field(default_factory=dict)
    confirming: int = 0
    looks: int = 0
    end: int = 0
    narrowed: int = 0
    posterior: StepPosterior | None = None

    def run(self) -> StepSearch:
        self.end = self.count
        pair, comparison = None, None
        try:
            while True:
                self._locate()
                assert self.posterior is not None  # noqa: S101 - set by _locate
                if self.posterior.none >= NONE_CHANCE:
                    if self._looked_at_dip():
                        continue
                    return self._result(SearchState.NONE, None, None)
                pair = self.posterior.pair()
                comparison = self._confirm(pair)
                if comparison is not None and comparison.verdict.different:
                    return self._result(SearchState.STEP, pair, comparison)
                if self.looks >= len(LOOK_RATES):
                    return self._result(SearchState.UNCONFIRMED, pair, comparison)
        except SearchStopped as stopped:
            if self.posterior is not None and self.posterior.none < 0.5:
                pair = self.posterior.pair()
            return replace(self._result(SearchState.STOPPED, pair, comparison), stopped=stopped)

    def _releases(self) -> list[int]:
        return [it for it in range(self.end) if it not in self.unavailable]

    def _locate(self) -> None:
        """Measure until the posterior is decided."""
        while True:
            releases = self._releases()
            if len(releases) < 2:
                last = max(self.unavailable)
                raise StackUnavailable(last, self.unavailable[last])
            usable = [job for job in self._within() if job.usable]
            ends = {releases[0], releases[-1]}
            if sum(job.release in ends for job in usable) < 4 or not ends <= {
                job.release for job in usable
            }:
                self._measure(sorted(ends), 1)
                continue
            self.posterior = posterior = posterior_of(self._within(), releases)
            self.progress(self._result(SearchState.RUNNING, None, None))
            if posterior.best_chance >= STEP_CHANCE:
                return
            if posterior.none >= NONE_CHANCE:
                unseen = self._unseen(releases)
                if not unseen:
                    return
                self._measure(unseen[:2], 1)
                continue
            self._require_low_noise(posterior)
            self._measure(sorted(next_block(posterior)), 1)

    def _require_low_noise(self, posterior: StepPosterior) -> None:
        """:raises SearchStopped: if an answer is likely to need more jobs than the limit allows"""
        if sum(job.usable for job in self.jobs) < NOISE_JOBS:
            return
        needed = likely_jobs(posterior)
        if needed > GIVE_UP_FACTOR * self.max_jobs:
            raise SearchStopped(
                StopReason.NOISE,
                f"jobs of the same stack vary by {100 * posterior.noise:.0f} %, so an answer needs"
                f" about {needed} jobs",
            )

    def _within(self) -> list[MeasuredRate]:
        return [job for job in self.jobs if job.release < self.end]

    def _unseen(self, releases: Sequence[int]) -> list[int]:
        """Evenly spread releases without a job near them."""
        seen = [releases.index(job.release) for job in self._within() if job.release in releases]
        inner = min(SPREAD_PLACES, len(releases) - 2)
        gap = (len(releases) - 1) / (inner + 1)
        wanted = [round(i * gap) for i in range(1, inner + 1)]
        return [
            releases[place]
            for place in wanted
            if all(abs(place - other) > gap / 2 for other in seen)
        ]

    def _looked_at_dip(self) -> bool:
        """Take one step to examine a noticed dip; false if no step is left.

        The dip is measured again until it disappears or the search can narrow to its first edge.
        If there is no step, the search widens again.
        """
        if self.end < self.count:
            self.end = self.count
            return True
        dip = self._dip_power().noticed()
        if dip is None:
            return False
        if dip.sure and len(self.jobs) > self.narrowed:
            self.end, self.narrowed = dip.last + 1, len(self.jobs)
        else:
            releases = self._releases()
            # The end of the series with fewer jobs.
            jobs_of = [job.release for job in self.jobs].count
            rarer = min(releases[0], releases[-1], key=jobs_of)
            self._measure([dip.middle, rarer], 1)
        return True

    def _dip_power(self) -> DipPower:
        return DipPower(self.jobs, self._releases())

    def _measure(self, stacks: Sequence[int], blocks: int) -> list[MeasuredRate]:
        if len(self.jobs) + len(stacks) * blocks > self.max_jobs:
            raise SearchStopped(StopReason.JOBS, f"the limit of {self.max_jobs} jobs was reached")
        try:
            measured = list(self.measurer.measure(stacks, blocks))
        except StackUnavailable as error:
            self.unavailable[error.stack] = error.reason
            return []
        self.jobs += measured
        for stack in stacks:
            own = [job for job in self.jobs if job.release == stack]
            if len(own) >= MIN_JOBS and self._is_at_fault(stack, own):
                self.unavailable[stack] = f"none of its {len(own)} jobs was usable"
        return measured

    def _is_at_fault(self, stack: int, own: Sequence[MeasuredRate]) -> bool:
        """Whether all jobs of a stack are unusable, and not because the machine is unstable."""
        if any(job.usable for job in own):
            return False
        others = [job.usable for job in self.jobs if job.release != stack]
        return all(job.failed for job in own) or sum(others) > len(others) / 2

    def _confirm(self, pair: tuple[int, int]) -> Comparison | None:
        """Measure fresh blocks of the pair until its next look, and compare it.

        :returns: ``None`` if one of its stacks is not available
        """
        assert self.posterior is not None  # noqa: S101 - set by _locate
        if pair not in self.confirmations:
            effect = float(self.posterior.effect[self.posterior.best])
            planned = planned_blocks(effect, self.posterior.noise)
            self.confirmations[pair] = _Confirmation(planned, noise_prior(self.jobs, pair[1]))
        confirmation = self.confirmations[pair]
        blocks = confirmation.planned.pop(0)
        affordable = (self.max_jobs - len(self.jobs)) // 2
        if affordable < min(blocks, MIN_JOBS):
            raise SearchStopped(StopReason.JOBS, f"the limit of {self.max_jobs} jobs was reached")
        self.progress(self._result(SearchState.RUNNING, pair, None))
        measured = self._measure(pair, min(blocks, affordable))
        if not measured:
            return None
        self.confirming += len(measured)
        confirmation.jobs += measured
        rate = ALPHA * LOOK_RATES[self.looks]
        self.looks += 1
        return compare_pair(pair, confirmation.jobs, rate, confirmation.prior)

    def _result(
        self, state: SearchState, pair: tuple[int, int] | None, comparison: Comparison | None
    ) -> StepSearch:
        posterior, remainder = self.posterior, None
        if posterior is not None and state not in {SearchState.RUNNING, SearchState.STOPPED}:
            remainder = remainder_of(self.jobs, pair[1] if pair else None)
        effect = 0.0
        if posterior is not None and pair is not None:
            effect = float(posterior.effect[posterior.best])
        return StepSearch(
            state=state,
            pair=pair,
            comparison=comparison,
            effect=effect,
            search_jobs=len(self.jobs) - self.confirming,
            confirming_jobs=self.confirming,
            unusable_jobs=sum(not job.usable for job in self.jobs),
            unavailable=dict(sorted(self.unavailable.items())),
            remainder=remainder,
            posterior=posterior,
            dips=tuple(self._dip_power().visible()) if state is SearchState.NONE else (),
        )


def noise_prior(jobs: Sequence[MeasuredRate], step: int) -> VariancePrior:
    """The prior of the variance of fresh jobs, from the jobs so far.

    A pair that varies more than these jobs keeps its own variance, as in every comparison
    (:func:`adviser.scoring.variances.moderate_variances`).

    :param step: the release after the step
    """
    noise = noise_of(jobs, step)
    if not noise.freedom or noise.value <= 0:
        return NO_PRIOR
    # Both releases of a pair get this prior, and a comparison adds their degrees of freedom.
    return VariancePrior(noise.value, min(noise.freedom, MAX_PRIOR_FREEDOM) / 2)


def compare_pair(
    pair: tuple[int, int],
    jobs: Sequence[MeasuredRate],
    alpha: float,
    prior: VariancePrior = NO_PRIOR,
) -> Comparison:
    """Compare the release after a step with the one before, by blocks.

    :param alpha: chance of a false claim
    :param prior: the variance of a job within its block that other jobs suggest
    """
    samples = []
    for release in pair:
        own = [job for job in jobs if job.release == release and job.usable]
        places = tuple(JobPlace(_HOST, job.block, None) for job in own)
        rates = tuple(job.log_rate for job in own)
        samples.append(Sample(str(release), rates, "bisect", places))
    spread = SeriesSpread(turns={_HOST: prior})
    return compare_candidates(samples[0], samples[1:], spread=spread, alpha=alpha)[0]


def planned_blocks(effect: float, noise: float) -> list[int]:
    """Numbers of further blocks until each look at a pair; see :data:`LOOK_SHARES`.

    >>> planned_blocks(math.log(1.05), 0.02), planned_blocks(math.log(1.1), 0.02)
    ([5, 2, 3, 5, 7, 10, 13, 18], [5, 1, 1, 1, 1, 4, 5, 7])
    """
    enough = confirming_blocks(effect, noise)
    sizes = [0, *(math.ceil(share * enough) for share in LOOK_SHARES)]
    for look in range(1, len(sizes)):
        sizes[look] = max(sizes[look], sizes[look - 1] + 1, MIN_JOBS)
    return [later - earlier for earlier, later in itertools.pairwise(sizes)]


def likely_jobs(posterior: StepPosterior) -> int:
    """Jobs that the most probable answer is likely to need, which grow with the noise squared.

    "No step" needs two ends whose difference has an error of a third of the smallest step, which
    makes a step a hundred times less likely. A step needs its first look.
    """
    if posterior.none >= 0.5:
        return math.ceil(4 * (3 * posterior.noise / math.log1p(STEP_SIZES[0])) ** 2)
    effect = float(posterior.effect[posterior.best])
    return 2 * planned_blocks(effect, posterior.noise)[0]


def confirming_blocks(effect: float, noise: float) -> int:
    """Number of blocks with which the rule for comparisons settles ``effect`` almost surely.

    The rule must accept an observed effect that is 1.5 standard errors below the expected one.

    :param effect: natural log
    :param noise: standard deviation of the jobs of a block, natural log

    >>> confirming_blocks(0.1, 0.02), confirming_blocks(0.0, 0.02)
    (6, 60)
    """
    margin, alpha = math.log1p(smallest_difference()), ALPHA / len(LOOK_RATES)
    for blocks in range(MIN_JOBS, MAX_CONFIRMING_BLOCKS):
        error = noise * math.sqrt(2 / blocks)
        observed = Effect(abs(effect) - 1.5 * error, error, blocks - 1.0)
        judged = judge(
            effects_of([observed]), np.array([True]), margin, float(blocks - 1), None, alpha
        )
        if judged.verdict(0).different:
            return blocks
    return MAX_CONFIRMING_BLOCKS
