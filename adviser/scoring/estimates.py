"""Estimate the effect between two stacks from their jobs: host by host, in pairs if possible.

Conditions shared by two jobs of one block on one host, such as the temperature, cancel in their
difference. Conditions shared by all jobs of a host cancel if both stacks ran on that host. Jobs on
a host that only one stack used are left out, because they would compare hosts instead of stacks.
Unpaired jobs count run by run, because jobs of one run share the state of the machine.

Equal readings of a coarse clock do not prove equal speeds. A clock rounds each reading to one of
its ticks, which has a variance of tick²/12. If readings vary by much more than a tick, this error
differs each time, and is part of their variance. If they do not vary, each reading has the same
error, and more jobs do not make it smaller.

The effects of several hosts of one hardware class are pooled into their mean. A second host with a
similar effect makes it more certain. The true difference between hosts is estimated from all stacks
of the series. If one stack's effects differ more between hosts, the stack interacts with the host,
and its error is computed from its own differences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from statistics import median

from adviser.scoring.effects import Effect, moments
from adviser.scoring.lazy_numpy import FloatArray, np
from adviser.scoring.samples import MIN_JOBS, Arm, ArmPair, Sample, jobs_by_place, mean_of, plan_of
from adviser.scoring.turn_noise import Batches, TurnNoise, turn_effects
from adviser.scoring.variances import (
    NO_PRIOR,
    UNKNOWN_SPREAD,
    RunArms,
    RunSpread,
    VariancePrior,
    pair_prior,
    run_effects,
)

#: Degrees of freedom of a rounding error: two constant readings that differ by a few ticks are not
#: settled.
_FREEDOM = 2.0

#: Readings, or standard errors, that are smaller than this differ by floating-point errors only.
_ROUNDING = 1e-12


def clock_tick(readings: Sequence[float]) -> float:
    """The step of the clock as a share of the measured time; 0 if unknown.

    If no step was recorded and readings coincide, it is at most their smallest gap.

    :param readings: log rates of the jobs of both stacks

    >>> clock_tick([0.5, 0.5, 0.25]), clock_tick([0.5, 0.25]), clock_tick([0.5, 0.5])
    (0.25, 0.0, 0.0)
    """
    gaps = [b - a for a, b in pairwise(sorted(readings))]
    wide = [gap for gap in gaps if gap > _ROUNDING]
    return min(wide, default=0.0) if len(wide) < len(gaps) else 0.0


def clock_variance(values: Sequence[float], tick: float, readings: int = 1) -> float:
    """The squared error of the mean of values that more values do not reduce.

    Constant values have all of the variance of a rounding error. Values that vary by half a tick or
    more for each rounded reading have none of it.

    :param values: log rates of the jobs of a stack, or differences of pairs
    :param tick: see :func:`clock_tick`
    :param readings: number of rounded readings of which a value is made
    :returns: infinite if the values are constant and the tick is unknown

    >>> clock_variance([0.5, 0.5], 0.25), clock_variance([0.5, 0.75], 0.25)
    (0.005208333333333333, 0.0)
    """
    mean = mean_of(values) if values else 0.0
    variance = math.fsum((it - mean) ** 2 for it in values) / max(1, len(values) - 1)
    if not tick and variance <= _ROUNDING**2:
        return math.inf
    return max(0.0, readings * tick**2 / 4 - variance) / 3


def with_clock(effect: Effect, variance: float, own_freedom: float) -> tuple[Effect, float]:
    """The effect with the error of the clock, and its degrees of freedom from two stacks alone.

    Degrees of freedom follow Satterthwaite. An effect without any error is not known.
    """
    if not math.isfinite(effect.standard_error):
        return effect, own_freedom
    own = effect.standard_error**2
    total = own + variance
    if not math.isfinite(variance) or total <= _ROUNDING**2:
        return replace(effect, standard_error=math.inf, degrees_of_freedom=0.0), 0.0
    if not variance:
        return effect, own_freedom
    share = own / total

    def mixed(freedom: float) -> float:
        return 1 / ((share**2 / freedom if share else 0.0) + (1 - share) ** 2 / _FREEDOM)

    return (
        Effect(effect.d, math.sqrt(total), mixed(effect.degrees_of_freedom)),
        mixed(own_freedom),
    )


#: Differences between hosts with a p-value below this are real.
_DISAGREEMENT = 0.05

#: Prior degrees of freedom of agreement: few stacks behave differently on equal hosts.
_AGREEMENT_FREEDOM = 2.0

#: Minimum degrees of freedom, over all stacks, to estimate the spread between hosts.
_MIN_FREEDOM = 4


@dataclass(frozen=True, slots=True)
class HostSpread:
    """The spread of effects between hosts, over all stacks of a series.

    :param variance: τ², squared natural logs
    :param freedom: its degrees of freedom; 0 if too few stacks ran on several hosts
    """

    variance: float = 0.0
    freedom: int = 0


UNKNOWN_HOST_SPREAD = HostSpread()


@dataclass(frozen=True, slots=True)
class PooledEffect:
    """An effect pooled over hosts.

    :param effect: mean over the hosts
    :param tau: standard deviation of the true effect between hosts, natural log
    :param hosts: number of hosts
    :param agree: whether the hosts differ no more than for other stacks
    """

    effect: Effect
    tau: float
    hosts: int
    agree: bool = True


def host_spread(effects: Sequence[Sequence[Effect]]) -> HostSpread:
    """Estimate τ² so that the median of Q over several stacks equals the median expected by chance.

    Because of the median, one stack that interacts with the host does not widen the errors of all
    other stacks. τ² is 0 unless significantly many stacks differ by more than their errors (sign
    test, 5 %).

    :param effects: for each stack, its effects by host, all against the same other stack
    """
    several = [_arrays(known) for it in effects if len(known := _known(it)) > 1]
    freedom = sum(len(d) - 1 for d, _ in several)
    if freedom < _MIN_FREEDOM or not all(squared.all() for _, squared in several):
        return UNKNOWN_HOST_SPREAD
    from scipy.special import bdtrc, chdtri  # slow, and needed only for several hosts

    middles = [float(chdtri(len(d) - 1, 0.5)) for d, _ in several]

    def ratios(variance: float) -> list[float]:
        """Q of each stack divided by the median that chance gives."""
        return [
            _cochran(d, 1 / (squared + variance)) / middle
            for (d, squared), middle in zip(several, middles, strict=True)
        ]

    above = sum(it > 1 for it in ratios(0.0))
    if bdtrc(above - 1, len(several), 0.5) >= _DISAGREEMENT:
        return HostSpread(0.0, freedom)
    low, high = 0.0, 2 * max(float(np.ptp(d)) for d, _ in several) ** 2
    for _ in range(60):  # bisection, to the last significant bit
        middle = (low + high) / 2
        low, high = (low, middle) if median(ratios(middle)) <= 1 else (middle, high)
    return HostSpread(high, freedom)


def pooled_effect(
    effects: Sequence[Effect], spread: HostSpread = UNKNOWN_HOST_SPREAD
) -> PooledEffect:
    """Pool the effects of several hosts.

    Weights are ``1 / (SE² + τ²)`` with the τ² of the series. The error accounts for the uncertainty
    of estimated weights (Meier 1953, doi:10.2307/3001633). The degrees of freedom follow
    Satterthwaite. If τ² is 0, the error never exceeds the smallest error of a host. If the hosts
    disagree beyond chance for this stack (Cochran's Q, 5 %), the stack's own τ² sets the weights
    (DerSimonian & Laird 1986, doi:10.1016/0197-2456(86)90046-2), and a moderated Birge ratio scales
    the error (Birge 1932, doi:10.1103/PhysRev.40.207).

    :param effects: one per host; those with an infinite standard error are ignored
    :raises ValueError: if no host has a finite standard error, or one of several is zero

    >>> two = pooled_effect([Effect(0.1, 0.01, 9), Effect(0.1, 0.01, 9)])
    >>> round(two.effect.d, 6), round(two.effect.standard_error, 6)
    (0.1, 0.007817)
    """
    known = _known(effects)
    if not known:
        raise ValueError("no host has enough jobs for a standard error")
    if len(known) == 1:
        return PooledEffect(known[0], tau=0.0, hosts=1)
    d, squared = _arrays(known)
    if not squared.all():
        raise ValueError("a host without any spread would outweigh all others")
    from scipy.special import chdtrc  # slow, and needed only for several hosts

    weight = 1 / (squared + spread.variance)
    q, host_freedom = _cochran(d, weight), len(known) - 1
    if chdtrc(host_freedom, q) >= _DISAGREEMENT:
        pooled = _agreeing(known, weight, spread)
        best = min(known, key=lambda it: it.standard_error)
        if not spread.variance and best.standard_error < pooled.standard_error:
            # Another host that agrees never makes an effect less certain.
            pooled = replace(best, d=pooled.d)
        return PooledEffect(pooled, math.sqrt(spread.variance), len(known))
    total = math.fsum(weight)
    own = max(0.0, (q - host_freedom) / (total - math.fsum(weight**2) / total))
    inflation = max(1.0, (_AGREEMENT_FREEDOM + q) / (_AGREEMENT_FREEDOM + host_freedom))
    wide = 1 / (squared + spread.variance + own)
    effect = Effect(
        math.fsum(wide * d) / math.fsum(wide),
        math.sqrt(inflation / total),
        _AGREEMENT_FREEDOM + host_freedom,
    )
    return PooledEffect(effect, math.sqrt(spread.variance + own), len(known), agree=False)


def _agreeing(effects: Sequence[Effect], weight: FloatArray, spread: HostSpread) -> Effect:
    d, squared = _arrays(effects)
    freedom = np.array([it.degrees_of_freedom for it in effects])
    total = math.fsum(weight)
    share = weight / total
    estimated = 1 + 4 * math.fsum(share * (1 - share) / freedom)
    variance = estimated / total
    within = share**2 * squared * estimated
    between = variance - math.fsum(within)
    parts = math.fsum(within**2 / freedom)
    if spread.freedom and between > 0:
        parts += between**2 / spread.freedom
    return Effect(math.fsum(share * d), math.sqrt(variance), variance**2 / parts)


def _known(effects: Sequence[Effect]) -> list[Effect]:
    return [it for it in effects if math.isfinite(it.standard_error)]


def _arrays(effects: Sequence[Effect]) -> tuple[FloatArray, FloatArray]:
    return (
        np.array([it.d for it in effects]),
        np.array([it.standard_error for it in effects]) ** 2,
    )


# Exact sums below, because sums by BLAS depend on the processor and the number of threads.
def _cochran(d: FloatArray, weight: FloatArray) -> float:
    """Cochran's Q: squared differences between hosts in units of their errors."""
    mean = math.fsum(weight * d) / math.fsum(weight)
    return math.fsum(weight * (d - mean) ** 2)


@dataclass(frozen=True, slots=True)
class SeriesSpread:
    """The noise of one series, estimated from all its stacks.

    :param runs: differences between runs of one stack on one host
    :param turns: by host, the variance shared by stacks that ran in turns
    :param noise: by host, the error that batches and neighbours add for stacks in turns
    :param hosts: differences of effects between hosts
    :param min_jobs: jobs of each stack from which comparisons are tested
    :param min_sessions: batches on one host, or runs, from which comparisons are tested
    """

    runs: RunSpread = UNKNOWN_SPREAD
    turns: Mapping[str, VariancePrior] = field(default_factory=dict)
    noise: Mapping[str, TurnNoise] = field(default_factory=dict)
    hosts: HostSpread = UNKNOWN_HOST_SPREAD
    min_jobs: int = 0
    min_sessions: int = 1

    def allows(self, estimate: Estimate) -> bool:
        """Whether an estimate has enough jobs and sessions.

        Hosts that ran one session each say nothing about the differences between sessions.
        """
        sessions = estimate.batches - max(0, (estimate.hosts or 1) - 1)
        jobs = min(estimate.jobs, estimate.baseline_jobs)
        return jobs >= self.min_jobs and sessions >= self.min_sessions


UNKNOWN_SERIES = SeriesSpread()


class Method(StrEnum):
    """How an effect was estimated."""

    #: Two independent arms of runs.
    WELCH = "welch"
    #: Differences between paired jobs, which ran in turns.
    PAIRED = "paired"
    #: Effects of several hosts, each estimated by one of the other methods.
    POOLED = "pooled"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated effect of one candidate against the baseline.

    :param jobs, baseline_jobs: number of jobs used; one each for a pair
    :param runs, baseline_runs: number of runs of these jobs, where a job of an unknown run counts
        as one; the number of pairs if paired
    :param batches: number of batches of the pairs, or the smaller number of runs; summed over hosts
    :param tested: whether there are enough pairs or jobs for a verdict, and a known error
    :param pairs: number of pairs; 0 if unpaired
    :param hosts: number of hosts that both stacks used; ``None`` if unknown
    :param used, baseline_used: indexes of the jobs used in their samples, ascending
    :param own_freedom: degrees of freedom from these two stacks alone
    :param batches_differ: whether more than half of the squared error comes from differences
        between batches
    :param clock_variance: the part of the squared error that comes from the clock; infinite if
        equal readings say nothing
    :param tau: standard deviation of the true effect between hosts, natural log; ``None``
        unless pooled
    :param hosts_agree: whether hosts differ no more than expected from chance and other stacks
    :param host_effects: the effect on each known host that was estimated by itself, natural log
    :param turns: see :class:`adviser.scoring.samples.ArmPair`
    """

    effect: Effect
    jobs: int
    baseline_jobs: int
    runs: int
    baseline_runs: int
    batches: int
    tested: bool
    method: Method
    pairs: int
    hosts: int | None
    used: tuple[int, ...]
    baseline_used: tuple[int, ...]
    own_freedom: float = 0.0
    batches_differ: bool = False
    clock_variance: float = 0.0
    tau: float | None = None
    hosts_agree: bool = True
    host_effects: tuple[tuple[str, float], ...] = ()
    turns: int | None = None


def estimates_of(
    baseline: Sample, candidates: Sequence[Sample], spread: SeriesSpread = UNKNOWN_SERIES
) -> list[Estimate]:
    """Estimate the effect of every candidate, in the given order.

    Each host on which both stacks have five jobs or five pairs is estimated separately: in pairs if
    there are five pairs. Several such hosts are pooled by :func:`pooled_effect`. If there is no
    such host, the pairs of all shared hosts are combined if there are five pairs. Otherwise both
    arms come from the one host where both stacks have the most jobs, because arms from several
    hosts would compare hosts instead of stacks. Several jobs of one stack in a block count as one,
    by their mean. So do the jobs of an unpaired run.

    :param spread: the noise of this series
    """
    return pair_estimates([(baseline, it) for it in candidates], spread)


def pair_estimates(
    pairs: Sequence[tuple[Sample, Sample]], spread: SeriesSpread = UNKNOWN_SERIES
) -> list[Estimate]:
    """Like :func:`estimates_of`, but for many pairs of a baseline and a candidate at once."""
    chosen = [_chosen(whole, parts, spread.hosts) for whole, parts in _by_plan(pairs, spread)]
    return [_checked(it, spread) for it in chosen]


def _checked(estimate: Estimate, spread: SeriesSpread) -> Estimate:
    """The estimate with the error of the clock, tested only if the series allows it."""
    estimate = _with_clock(estimate)
    return estimate if spread.allows(estimate) else replace(estimate, tested=False)


def _with_clock(estimate: Estimate) -> Estimate:
    effect, own_freedom = with_clock(estimate.effect, estimate.clock_variance, estimate.own_freedom)
    tested = estimate.tested and math.isfinite(effect.standard_error)
    return replace(estimate, effect=effect, own_freedom=own_freedom, tested=tested)


def estimate_with_parts(
    baseline: Sample, candidate: Sample, spread: SeriesSpread = UNKNOWN_SERIES
) -> tuple[Estimate, tuple[Estimate, ...]]:
    """Like :func:`estimates_of` for one candidate, with the estimates of the pooled hosts.

    An estimate that is not pooled is its own only part.
    """
    ((whole, parts),) = _by_plan([(baseline, candidate)], spread)
    chosen = _checked(_chosen(whole, parts, spread.hosts), spread)
    pooled = chosen.method is Method.POOLED
    return chosen, tuple(_with_clock(it) for it in parts if it.tested) if pooled else (chosen,)


def effects_by_host(
    baseline: Sample, candidates: Sequence[Sample], spread: SeriesSpread = UNKNOWN_SERIES
) -> list[list[Effect]]:
    """For each candidate, the effects on the hosts that can be estimated separately."""
    return [
        [it.effect for it in parts if it.tested]
        for _, parts in _by_plan([(baseline, it) for it in candidates], spread)
    ]


def _by_plan(
    pairs: Sequence[tuple[Sample, Sample]], spread: SeriesSpread
) -> list[tuple[Estimate, list[Estimate]]]:
    """For each pair, the estimate from all jobs, and the estimates of its hosts."""
    samples = {id(it): it for pair in pairs for it in pair}
    placed = {key: jobs_by_place(it) for key, it in samples.items()}
    plans = [plan_of(placed[id(ours)], placed[id(theirs)]) for theirs, ours in pairs]
    arm_pairs = [arm_pair for plan in plans for arm_pair in (plan.whole, *plan.parts)]
    estimates = iter(_estimated(arm_pairs, spread))
    return [(next(estimates), [next(estimates) for _ in plan.parts]) for plan in plans]


def _estimated(arm_pairs: Sequence[ArmPair], spread: SeriesSpread) -> list[Estimate]:
    """Estimate all arm pairs: those in turns, then the others, in arrays with one entry each."""
    effects_at: dict[int, _Estimated] = {}
    for paired, estimated in ((True, _in_turns), (False, _apart)):
        chosen = [(i, it) for i, it in enumerate(arm_pairs) if it.paired is paired]
        if chosen:
            effects = estimated([it for _, it in chosen], spread)
            effects_at |= {i: effect for (i, _), effect in zip(chosen, effects, strict=True)}
    return [_estimate(it, effects_at[i], spread.runs) for i, it in enumerate(arm_pairs)]


#: An effect, its degrees of freedom from two stacks alone, and whether batches differ much.
_Estimated = tuple[Effect, float, bool]


def _in_turns(arm_pairs: Sequence[ArmPair], spread: SeriesSpread) -> Iterator[_Estimated]:
    seen = turn_effects(
        Batches.of([_differences(it) for it in arm_pairs], [it.batches for it in arm_pairs]),
        [_prior(it, spread) for it in arm_pairs],
        [spread.noise.get(it.hosts[0] or "") if len(it.hosts) == 1 else None for it in arm_pairs],
    )
    for i, own_freedom in enumerate(seen.own_freedom.tolist()):
        yield seen.effects.single(i), own_freedom, bool(seen.between[i] > 0.5)


def _apart(arm_pairs: Sequence[ArmPair], spread: SeriesSpread) -> Iterator[_Estimated]:
    ours, theirs = _arms([it.ours for it in arm_pairs]), _arms([it.theirs for it in arm_pairs])
    effects = run_effects(ours, theirs, spread.runs)
    for i, arm_pair in enumerate(arm_pairs):
        effect, fewest = effects.single(i), min(len(arm_pair.ours.runs), len(arm_pair.theirs.runs))
        yield effect, fewest - 1.0 if fewest >= MIN_JOBS else effect.degrees_of_freedom, False


def _prior(arm_pair: ArmPair, spread: SeriesSpread) -> VariancePrior:
    """The prior of the variance of the differences within one pair of arms."""
    if len(arm_pair.hosts) != 1 or (host := arm_pair.hosts[0]) is None:
        return NO_PRIOR
    return pair_prior(
        spread.turns.get(host, NO_PRIOR),
        (arm_pair.ours.turn_variance, arm_pair.theirs.turn_variance),
        (arm_pair.ours.share, arm_pair.theirs.share),
    )


def _estimate(arm_pair: ArmPair, estimated: _Estimated, spread: RunSpread) -> Estimate:
    effect, own_freedom, batches_differ = estimated
    ours, theirs = arm_pair.ours, arm_pair.theirs
    runs = len(ours.runs), len(theirs.runs)
    if arm_pair.paired:
        runs = len(ours.rates), len(theirs.rates)
    many = arm_pair.paired or min(runs) >= MIN_JOBS
    alone = arm_pair.hosts if len(arm_pair.hosts) == 1 else ()
    return Estimate(
        effect=effect,
        jobs=len(ours.rates),
        baseline_jobs=len(theirs.rates),
        runs=runs[0],
        baseline_runs=runs[1],
        batches=len(arm_pair.batches) or min(runs),
        tested=(many or spread.known) and arm_pair.enough and math.isfinite(effect.standard_error),
        method=Method.PAIRED if arm_pair.paired else Method.WELCH,
        pairs=len(ours.rates) if arm_pair.paired else 0,
        hosts=arm_pair.known_hosts,
        used=tuple(sorted(ours.used)),
        baseline_used=tuple(sorted(theirs.used)),
        own_freedom=own_freedom,
        batches_differ=batches_differ,
        clock_variance=_clock_variance(arm_pair),
        host_effects=tuple((it, effect.d) for it in alone if it is not None),
        turns=arm_pair.turns,
    )


def _clock_variance(arm_pair: ArmPair) -> float:
    ours, theirs = arm_pair.ours, arm_pair.theirs
    recorded = max(ours.tick, theirs.tick) if ours.tick and theirs.tick else 0.0
    tick = recorded or clock_tick((*ours.readings, *theirs.readings))
    if arm_pair.paired:
        return clock_variance(_differences(arm_pair), tick, 2)
    variances = [clock_variance(it.readings, tick) for it in (ours, theirs)]
    # Only if both stacks are constant, nothing tells the resolution.
    return math.inf if min(variances) == math.inf else sum(it for it in variances if it < math.inf)


def _arms(arms: Sequence[Arm]) -> RunArms:
    return RunArms(
        means=moments([it.means for it in arms]),
        jobs=moments([it.rates for it in arms]),
        per_run=np.array([it.per_run for it in arms], dtype=np.float64),
    )


def _differences(arm_pair: ArmPair) -> list[float]:
    return [a - b for a, b in zip(arm_pair.ours.rates, arm_pair.theirs.rates, strict=True)]


def _chosen(whole: Estimate, parts: Sequence[Estimate], spread: HostSpread) -> Estimate:
    tested = [it for it in parts if it.tested]
    if len(tested) < 2:
        return tested[0] if tested else whole
    try:
        pooled = pooled_effect([part.effect for part in tested], spread)
    except ValueError:  # a host without spread cannot be weighted against others
        return whole
    return _pooled(pooled, tested)


def _pooled(pooled: PooledEffect, parts: Sequence[Estimate]) -> Estimate:
    known = [part.hosts for part in parts if part.hosts is not None]
    return Estimate(
        effect=pooled.effect,
        jobs=sum(part.jobs for part in parts),
        baseline_jobs=sum(part.baseline_jobs for part in parts),
        runs=sum(part.runs for part in parts),
        baseline_runs=sum(part.baseline_runs for part in parts),
        batches=sum(part.batches for part in parts),
        tested=True,
        method=Method.POOLED,
        pairs=sum(part.pairs for part in parts),
        hosts=sum(known) if len(known) == len(parts) else None,
        used=tuple(sorted(i for part in parts for i in part.used)),
        baseline_used=tuple(sorted(i for part in parts for i in part.baseline_used)),
        own_freedom=math.fsum(part.own_freedom for part in parts),
        batches_differ=any(part.batches_differ for part in parts),
        clock_variance=max(part.clock_variance for part in parts),
        tau=pooled.tau,
        hosts_agree=pooled.agree,
        host_effects=tuple(effect for part in parts for effect in part.host_effects),
    )
