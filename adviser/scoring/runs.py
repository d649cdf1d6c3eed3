"""What all jobs of one run share: the night, and what it does to an error.

A run is one inspection of one stack. The machine has a state of its own each time (its
temperature, its neighbours, where the kernel put the pages), so that ten jobs of one night are
far more alike than ten of ten nights. Stacks that ran in turns share that state and it cancels.
Where they did not, a run counts once, by the mean of its jobs, and the error is that between runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import Effects, FloatArray, Moments, welch_effects
from adviser.scoring.jobs import MIN_JOBS
from adviser.scoring.moderation import NO_PRIOR, VariancePrior, moderated, variance_prior
from adviser.scoring.spread import Variance

#: Degrees of freedom that the variance between runs has at least before arms of fewer than five
#: runs are judged by it: eleven runs of one stack, or five of each of three.
MIN_FREEDOM = 10


@dataclass(frozen=True, slots=True)
class RunSpread:
    """How much the runs of one stack on one host differ, over all stacks of a series.

    :param variance: of the means of runs, squared natural logs; ``nan`` if nothing ran twice
    :param freedom: its degrees of freedom: runs less stacks
    :param within: variance of jobs within their run; 0 if no run has two jobs
    :param per_run: mean of one over the number of jobs of those runs
    :param prior: what the stacks share of their own variances, for arms of five runs or more
    """

    variance: float = math.nan
    freedom: int = 0
    within: float = 0.0
    per_run: float = 1.0
    prior: VariancePrior = NO_PRIOR

    @property
    def known(self) -> bool:
        """Whether arms of fewer than five runs can be judged by it."""
        return self.freedom >= MIN_FREEDOM


#: Where nothing ran twice.
UNKNOWN_SPREAD = RunSpread()


def run_spread(
    log_rates: Sequence[float], runs: Sequence[int], stack_of: Sequence[int]
) -> RunSpread:
    """The variance between runs, pooled over stacks: one-way analysis of variance of their means.

    Stacks that ran once say nothing. Linear in the jobs.

    :param runs: of each job, the number of its run, from 0
    :param stack_of: of each run, the number of its stack on its host, from 0

    >>> seen = run_spread([0.0, 2.0, 1.0, 1.0, 1.0, 1.0], [0, 1, 2, 2, 3, 4], [0, 0, 1, 1, 1])
    >>> seen.variance, seen.freedom, seen.per_run
    (0.6666666666666666, 3, 0.9)
    """
    rates, run, stack = np.asarray(log_rates), np.asarray(runs, int), np.asarray(stack_of, int)
    several = np.bincount(stack)[stack] > 1
    freedom = int(several.sum()) - len(np.unique(stack[several]))
    if not freedom:
        return UNKNOWN_SPREAD
    jobs = np.bincount(run)
    means = np.bincount(run, rates) / jobs
    middles = np.bincount(stack, means) / np.maximum(1, np.bincount(stack))
    squares = float(((means - middles[stack])[several] ** 2).sum())
    inside = several[run]
    inner = int((jobs[several] - 1).sum())
    within = float(((rates - means[run])[inside] ** 2).sum())
    return RunSpread(
        variance=squares / freedom,
        freedom=freedom,
        within=within / inner if inner else 0.0,
        per_run=float((1 / jobs[several]).mean()),
        prior=variance_prior(_variances(means, middles, stack)),
    )


def _variances(means: FloatArray, middles: FloatArray, stack: NDArray[np.int64]) -> list[Variance]:
    """The variance of the means of runs of each stack that has five or more."""
    squares, runs = np.bincount(stack, (means - middles[stack]) ** 2), np.bincount(stack)
    return [
        Variance(float(squares[i] / (runs[i] - 1)), int(runs[i] - 1))
        for i in np.flatnonzero(runs >= MIN_JOBS)
    ]


@dataclass(frozen=True, slots=True)
class RunArms:
    """Arms that did not run in turns, one entry a comparison.

    :param means: of the means of their runs
    :param jobs: of their jobs, as if these had nothing in common
    :param per_run: mean of one over the number of jobs of their runs
    """

    means: Moments
    jobs: Moments
    per_run: FloatArray


def run_effects(ours: RunArms, theirs: RunArms, spread: RunSpread) -> Effects:
    """Effects of arms whose unit is the run.

    With five runs an arm, Welch's error of the means of runs, each arm's variance moderated by
    what the stacks of the series share. With fewer, that of
    ``S² (1/r_a + 1/r_b)``, where S² is the variance between runs that all stacks of the series have
    shown, with its degrees of freedom; where even that is not known, Welch's error if both
    arms have two runs, and none otherwise. What an arm's jobs vary by within it is never less
    than its share of the error.

    :returns: an infinite error with zero degrees of freedom where nothing tells what a run does
    """
    own = welch_effects(ours.means, theirs.means)
    if not spread.known:
        return own
    many = np.minimum(ours.means.jobs, theirs.means.jobs) >= MIN_JOBS
    if spread.prior.freedom:
        own = _moderated(own, ours.means, theirs.means, spread.prior)
    (mine, free), (others, freely) = (_shared(it, spread) for it in (ours, theirs))
    # Both arms lean on one and the same estimate, so that its freedom counts once.
    return Effects(
        own.d,
        np.where(many, own.standard_error, np.sqrt(mine + others)),
        np.where(many, own.degrees_of_freedom, np.minimum(free, freely)),
    )


def _moderated(own: Effects, ours: Moments, theirs: Moments, prior: VariancePrior) -> Effects:
    """The same effects with the variance of each arm moderated by one and the same prior."""
    arms = []
    for it in (ours, theirs):
        free = np.where(it.jobs > 1, it.jobs - 1, 0.0)
        arms.append(moderated(it.variance, free, [prior] * len(free)))
    (mine, free), (others, freely) = arms
    with np.errstate(divide="ignore", invalid="ignore"):
        mine, others = mine / ours.jobs, others / theirs.jobs
        squared = mine + others
        share = mine / squared
        freedom = 1 / (share**2 / free + (1 - share) ** 2 / freely)
        # Both arms lean on the prior, whose freedom counts once.
        freedom = np.minimum(freedom, prior.freedom + ours.jobs + theirs.jobs - 2)
    usable = np.isfinite(own.standard_error) & (squared > 0) & np.isfinite(freedom)
    return Effects(
        own.d,
        np.where(usable, np.sqrt(np.where(usable, squared, 0.0)), own.standard_error),
        np.where(usable, freedom, own.degrees_of_freedom),
    )


def _shared(arms: RunArms, spread: RunSpread) -> tuple[FloatArray, FloatArray]:
    """The squared error of the mean of each arm, and its degrees of freedom."""
    # Runs of fewer jobs than those of the past are noisier by what their jobs vary more.
    more = spread.within * np.maximum(0.0, arms.per_run - spread.per_run)
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = (spread.variance + more) / arms.means.jobs
        alone = arms.jobs.variance / arms.jobs.jobs
    wild = alone > shared  # false where an arm has a single job
    empty = arms.jobs.jobs == 0
    error = np.where(empty, np.inf, np.where(wild, alone, shared))
    freedom = np.where(wild, np.minimum(spread.freedom, arms.jobs.jobs - 1), spread.freedom)
    return error, np.where(empty, 0.0, freedom)
