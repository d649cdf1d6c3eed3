"""What an undetermined comparison needs: more jobs, turns, runs or hosts.

The observed difference is partly luck. So the prediction of what further jobs would show starts
from likely true differences: none at all, or one of the size that the other comparisons of the
series suggest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from adviser.scoring.effects import Effects, FloatArray
from adviser.scoring.estimates import Estimate
from adviser.scoring.samples import MIN_JOBS
from adviser.scoring.verdicts import none_level

#: Shares of comparisons without any difference, all equally likely beforehand.
NONE_SHARES = (0.1, 0.5, 0.9)

#: Standard deviations of true differences, natural log, all equally likely beforehand.
EFFECT_SDS = (0.02, 0.05, 0.1)

#: Chance of a verdict that further jobs are planned for (Cohen 1988).
POWER = 0.8
#: The chance that is planned for where :data:`POWER` is out of reach.
EVEN = 0.5

#: Numbers of further jobs that are looked at.
_STEPS = np.unique(np.concatenate([np.arange(1, 21), np.geomspace(21, 1000, 24).round()]))

#: The least standard error, for readings without any spread.
_SMALLEST = 1e-9


@dataclass(frozen=True, slots=True)
class EffectPrior:
    """A mixture: no difference, or a normal one with one of :data:`EFFECT_SDS`.

    :param none: chance of no difference
    :param sizes: chance of each standard deviation; with ``none`` they add up to 1
    """

    none: float
    sizes: tuple[float, ...]


def effect_prior(effects: Effects) -> EffectPrior:
    """What the comparisons of one series say of true differences.

    Empirical Bayes with a spike at zero (Johnstone & Silverman 2004,
    doi:10.1214/009053604000000030), on a grid that keeps a single comparison from deciding.

    :param effects: of alike comparisons; those with an unknown error are left out
    """
    d, error = _known(effects)
    shares, sds = np.meshgrid(NONE_SHARES, EFFECT_SDS, indexing="ij")
    log_weight = np.zeros(shares.shape)
    for place in np.argsort(np.abs(d) / error, kind="stable"):
        none = _density(d[place], error[place])
        some = _density(d[place], np.hypot(error[place], sds))
        log_weight += _log(shares * none + (1 - shares) * some)
    weight = _exp(log_weight - log_weight.max())
    weight /= math.fsum(weight.ravel())
    sizes = (1 - shares) * weight
    return EffectPrior(
        math.fsum((weight * shares).ravel()), tuple(math.fsum(column) for column in sizes.T)
    )


@dataclass(frozen=True, slots=True)
class Outlook:
    """How many further jobs an arm make a verdict likely, one entry a comparison.

    :param more: further ones; 0 where no number up to 1,000 makes a verdict likely
    :param chance: that these settle it as faster or slower, within [0, 1]
    """

    more: FloatArray
    chance: FloatArray


@dataclass(frozen=True, slots=True)
class OpenEffects:
    """Comparisons without a verdict, one entry each.

    :param effects: their effects so far, with finite errors
    :param so_far: pairs, runs or hosts that these come from
    :param log_margin: ``ln(1 + δ)``
    :param own_freedom: see :func:`adviser.scoring.verdicts.none_level`
    :param alpha: the part of α that each has
    """

    effects: Effects
    so_far: FloatArray
    log_margin: FloatArray
    own_freedom: FloatArray
    alpha: FloatArray

    def with_more(self, more: FloatArray, prior: EffectPrior) -> tuple[FloatArray, FloatArray]:
        """The chances of a difference and of equivalence after further jobs.

        :param more: further ones, in the unit of ``so_far``; a column for each comparison
        """
        d, error = (it[:, None] for it in _known(self.effects))
        growth = (self.so_far[:, None] + more) / self.so_far[:, None]
        later = np.maximum(self.effects.standard_error[:, None], _SMALLEST) / np.sqrt(growth)
        beyond, within = self._limits(later, growth)
        # The later estimate is the mean of what was seen and what is to come.
        kept = 1 / growth
        different, equal = np.zeros(later.shape), np.zeros(later.shape)
        for chance, mean, variance in _posterior(d, error, prior):
            expected = kept * d + (1 - kept) * mean
            moves = np.sqrt((1 - kept) ** 2 * variance + error**2 * kept * (1 - kept))
            above = _upper((beyond - expected) / moves) + _upper((beyond + expected) / moves)
            inside = 1 - _upper((within - expected) / moves) - _upper((within + expected) / moves)
            different += chance * above
            equal += chance * np.where(within > 0, np.maximum(inside, 0.0), 0.0)
        return different, equal

    def _limits(self, error: FloatArray, growth: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From which ``|d|`` on there is a difference, and up to which equivalence."""
        from scipy.special import stdtrit  # slow, and needed only where something was measured

        freedom = np.maximum(self.effects.degrees_of_freedom[:, None] * growth, 1.0)
        margin, alpha = self.log_margin[:, None], self.alpha[:, None]
        alone = stdtrit(freedom, 1 - alpha) * error
        # Both signs share α where the error is large beside δ.
        other_sign = _exp(-2 * (margin + alone) * margin / error**2)
        beyond = margin + stdtrit(freedom, 1 - alpha / (1 + other_sign)) * error
        none = none_level(self.own_freedom[:, None] * growth, alpha)
        none = stdtrit(freedom, 1 - none / 2) * error
        return np.maximum(beyond, none), margin - alone


def outlook(comparisons: OpenEffects, prior: EffectPrior) -> Outlook:
    """The smallest number of further jobs that gives a verdict with a chance of :data:`POWER`.

    Where no number does, the smallest that gives one with an even chance.
    """
    count = len(comparisons.so_far)
    different, equal = comparisons.with_more(np.broadcast_to(_STEPS, (count, len(_STEPS))), prior)
    any_verdict = different + equal
    likely = any_verdict >= POWER
    likely |= ~likely.any(axis=1, keepdims=True) & (any_verdict >= EVEN)
    first = np.argmax(likely, axis=1)
    reached = likely.any(axis=1)
    rows = np.arange(count)
    return Outlook(
        np.where(reached, _STEPS[first], 0.0), np.where(reached, different[rows, first], 0.0)
    )


def _posterior(
    d: FloatArray, error: FloatArray, prior: EffectPrior
) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
    """Chance, mean and variance of the true difference for each part of the mixture."""
    parts = [(prior.none * _density(d, error), np.zeros(d.shape), np.zeros(d.shape))]
    for chance, sd in zip(prior.sizes, EFFECT_SDS, strict=True):
        kept = sd**2 / (sd**2 + error**2)
        parts.append((chance * _density(d, np.hypot(error, sd)), kept * d, kept * error**2))
    total = np.add.reduce([chance for chance, *_ in parts])
    return [(chance / total, mean, variance) for chance, mean, variance in parts]


def _known(effects: Effects) -> tuple[FloatArray, FloatArray]:
    """Known effects and their errors, widened by what few degrees of freedom do not know."""
    known = np.isfinite(effects.d) & np.isfinite(effects.standard_error)
    freedom = np.maximum(effects.degrees_of_freedom[known], 3.0)
    error = effects.standard_error[known] * np.sqrt(freedom / (freedom - 2))
    return effects.d[known], np.maximum(error, _SMALLEST)


def _density(d: FloatArray, sd: FloatArray) -> FloatArray:
    return np.asarray(_exp(-0.5 * (d / sd) ** 2) / sd + 1e-300)


# NumPy's exponentials and logarithms differ in the last bit from processor to processor.
def _exp(x: FloatArray) -> FloatArray:
    from scipy.special import exp2

    return np.asarray(exp2(x / math.log(2)))


def _log(x: FloatArray) -> FloatArray:
    from scipy.special import xlogy

    return np.asarray(xlogy(1.0, x))


def _upper(z: FloatArray) -> FloatArray:
    from scipy.special import ndtr  # slow, and needed only where something was measured

    return np.asarray(ndtr(-z))


class Need(StrEnum):
    """What an undetermined comparison lacks; the value is stored, never renamed."""

    #: Further jobs: pairs that ran in turns, or runs of a job each.
    JOBS = "jobs"
    #: That the stacks run in turns, or in more runs: what a run does to a job is not known.
    TURNS = "turns"
    #: Further runs, each with a job or more.
    RUNS = "runs"
    #: Jobs in the circumstances that are asked about.
    HERE = "here"
    #: Jobs on a host that both stacks run on, or on further ones.
    HOSTS = "hosts"
    #: More than 1,000 jobs: the difference is too close to δ, or the jobs vary too much.
    MARGIN = "margin"


@dataclass(frozen=True, slots=True)
class SampleNeed:
    """What a comparison lacks.

    :param need: ``None`` where it is settled
    :param jobs: further ones of the candidate that make a verdict likely; of :attr:`Need.RUNS`
        each in a run of its own; 0 where it is not a matter of jobs
    :param baseline_jobs: the same of the baseline
    :param chance: that these jobs settle it as faster or slower; 0 where too little is known
    """

    need: Need | None = None
    jobs: int = 0
    baseline_jobs: int = 0
    chance: float = 0.0


_NOTHING = SampleNeed()


@dataclass(frozen=True, slots=True)
class JudgedFamily:
    """All comparisons of one answer after they were judged, one entry each.

    :param estimates: how each was estimated
    :param effects: their effects, widened where they come from elsewhere
    :param planned: whether it is asked what each lacks; not where it has a verdict
    :param elsewhere: whether each was measured in other circumstances than the answer is for
    :param log_margin: ``ln(1 + δ)``
    :param alpha: the part of α that each has
    :param series: number of the series of each; comparisons of one series inform each other
    """

    estimates: Sequence[Estimate]
    effects: Effects
    planned: NDArray[np.bool_]
    elsewhere: NDArray[np.bool_]
    log_margin: FloatArray
    alpha: FloatArray
    series: Sequence[int]

    def lacks(self) -> list[SampleNeed]:
        """What each comparison lacks."""
        lacks = [self._without_jobs(i) for i in range(len(self.estimates))]
        by_series: dict[int, list[int]] = defaultdict(list)
        for i, number in enumerate(self.series):
            by_series[number].append(i)
        for places in by_series.values():
            still_open = [i for i in places if lacks[i] is None]
            if still_open:
                known = [i for i in places if self.estimates[i].tested]
                for i, lack in self._with_jobs(still_open, known):
                    lacks[i] = lack
        return [it or _NOTHING for it in lacks]

    def _without_jobs(self, i: int) -> SampleNeed | None:
        """What is known without planning further jobs; ``None`` where these have to be planned."""
        it = self.estimates[i]
        if not self.planned[i]:
            return _NOTHING
        if self.elsewhere[i]:
            return SampleNeed(Need.HERE, MIN_JOBS, MIN_JOBS)
        if it.hosts == 0:
            return SampleNeed(Need.HOSTS, MIN_JOBS, MIN_JOBS)
        return None if it.tested else _first_jobs(it)

    def _with_jobs(
        self, places: Sequence[int], known: Sequence[int]
    ) -> list[tuple[int, SampleNeed]]:
        """Further pairs, runs or hosts for the open comparisons of one series."""
        chosen = np.array(places)
        comparisons = OpenEffects(
            _taken(self.effects, chosen),
            np.array([_units(self.estimates[i]) for i in places], dtype=np.float64),
            self.log_margin[chosen],
            np.array([self.estimates[i].own_freedom for i in places]),
            self.alpha[chosen],
        )
        seen = outlook(comparisons, effect_prior(_taken(self.effects, np.array(known))))
        return [
            (i, _further(self.estimates[i], int(seen.more[n]), float(seen.chance[n])))
            for n, i in enumerate(places)
        ]


def _units(it: Estimate) -> int:
    """Pairs or runs so far; hosts where these disagree."""
    return min(it.runs, it.baseline_runs) if it.hosts_agree else it.hosts or 1


def _further(it: Estimate, more: int, chance: float) -> SampleNeed:
    if not more:
        return SampleNeed(Need.MARGIN)
    if not it.hosts_agree:
        return SampleNeed(Need.HOSTS, MIN_JOBS * more, MIN_JOBS * more, chance)
    so_far = it.runs, it.baseline_runs
    needed = min(so_far) + more
    clustered = not it.pairs and so_far != (it.jobs, it.baseline_jobs)
    ours, theirs = (max(0, needed - each) for each in so_far)
    return SampleNeed(Need.RUNS if clustered else Need.JOBS, ours, theirs, chance)


def _taken(effects: Effects, places: NDArray[np.int64]) -> Effects:
    return Effects(
        effects.d[places], effects.standard_error[places], effects.degrees_of_freedom[places]
    )


def _first_jobs(it: Estimate) -> SampleNeed:
    """What is missing for a first verdict."""
    few = max(0, MIN_JOBS - it.jobs), max(0, MIN_JOBS - it.baseline_jobs)
    if (it.runs, it.baseline_runs) == (it.jobs, it.baseline_jobs) and any(few):
        return SampleNeed(Need.JOBS, *few)
    # Pairs are new jobs of both; what there is counts for none of them.
    return SampleNeed(Need.TURNS, MIN_JOBS, MIN_JOBS)
