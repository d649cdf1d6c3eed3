"""Dips: stretches of releases with another rate, from one release until a later one reverts it.

Both ends of a series with a dip are equal, so only jobs inside the dip can show it. For each
stretch of measured releases, the effect of a dip there is estimated by generalized least squares;
the noise has Jeffreys' prior, so the error follows Student's t, and a block effect has the prior of
:mod:`adviser.bisect.posterior`. Unlike there, outliers keep their weight: the only job inside a dip
is one.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from adviser.bisect.posterior import BLOCK_EFFECTS, STEP_SIZES, MeasuredRate
from adviser.scoring.lazy_numpy import FloatArray, IntArray, np

#: Chance with which a visible dip is seen, wherever it begins.
SEEN_CHANCE = 0.95
#: Chance with which the jobs inside a visible dip make it noticed. The rest is for noticed dips
#: that the search then loses.
_NOTICED_CHANCE = 0.96
#: The smallest dip of interest, as a share of the rate.
SMALLEST_DIP = 0.05
#: Expected number of dips that are noticed in a flat series.
_NOTICED_RATE = 0.25
#: The same for dips to which the search narrows.
_SURE_RATE = 0.001


@dataclass(frozen=True, slots=True)
class Dip:
    """The narrowest and smallest dip that would be seen.

    :param width: number of adjacent releases
    :param size: share of the rate
    """

    width: int
    size: float


@dataclass(frozen=True, slots=True)
class NoticedDip:
    """A stretch that probably differs.

    :param first: its first measured release
    :param last: its last measured release
    :param middle: a measured release inside
    :param sure: whether the search can narrow to it
    """

    first: int
    last: int
    middle: int
    sure: bool


class DipPower:
    """The dips that the jobs so far show, and those that they would show.

    :param jobs: of the series; those that are not usable are ignored
    :param releases: those that can be measured, ascending; a dip contains neither end
    :param smallest: the smallest dip of interest, as a share of the rate
    """

    def __init__(
        self, jobs: Sequence[MeasuredRate], releases: Sequence[int], smallest: float = SMALLEST_DIP
    ) -> None:
        order = {release: place for place, release in enumerate(releases)}
        usable = [job for job in jobs if job.usable and job.release in order]
        at = np.array([order[job.release] for job in usable], dtype=np.int64)
        self._releases = tuple(releases)
        self._smallest = math.log1p(smallest)
        self._jobs = Counter(at.tolist())
        self._inner = sorted(self._jobs.keys() - {0, len(releases) - 1})
        self._stretches = [
            (first, last) for i, first in enumerate(self._inner) for last in self._inner[i:]
        ]
        ends = np.array(self._stretches, dtype=np.int64).reshape(-1, 2)
        columns = ((at >= ends[:, :1]) & (at <= ends[:, 1:])).astype(np.float64)
        self._inside = columns.sum(axis=1)
        blocks = np.unique([job.block for job in usable], return_inverse=True)[1].reshape(-1)
        rates = np.array([job.log_rate for job in usable])
        if self._stretches and len(usable) > 3:
            self._effects, self._errors, self._freedom = _estimates(rates, blocks, columns)
        else:
            self._stretches = []
            self._effects = self._errors = self._freedom = np.zeros(0)

    def noticed(self) -> NoticedDip | None:
        """The stretch that differs most clearly, if any stands out and may be of interest."""
        if not self._stretches:
            return None
        size = np.abs(self._effects)
        share = np.where(size + self._margins >= self._smallest, size / self._thresholds, 0.0)
        best = int(np.argmax(share))
        if share[best] < 1:
            return None
        first, last = self._stretches[best]
        inside = [place for place in self._inner if first <= place <= last]
        sure = abs(self._effects[best]) >= self._quantiles(_SURE_RATE / 2)[best]
        return NoticedDip(
            self._releases[first],
            self._releases[last],
            self._releases[min(inside, key=lambda it: self._jobs[it])],
            bool(sure),
        )

    def visible_effect(self, width: int) -> float:
        """The smallest effect that a dip of this width needs to be seen, wherever it begins.

        :returns: natural log; infinite if some dip of this width contains no measured release
        """
        begins = range(1, len(self._releases) - width)
        return max((self._needed(first, first + width - 1) for first in begins), default=math.inf)

    def visible(self) -> list[Dip]:
        """For each size, the narrowest dip that would be seen; sizes without one are left out."""
        sizes = sorted(it for it in STEP_SIZES if math.log1p(it) >= self._smallest)
        widths = range(1, len(self._releases) - 1)
        needed = [(width, self.visible_effect(width)) for width in widths]
        goals = []
        for share in sizes:
            seen = [width for width, effect in needed if effect <= math.log1p(share)]
            goals += [Dip(seen[0], share)] if seen else []
        return goals

    @cached_property
    def _thresholds(self) -> FloatArray:
        """Effect from which each stretch is noticed."""
        return self._quantiles(_NOTICED_RATE / 2)

    def _quantiles(self, rate: float) -> FloatArray:
        """Upper quantile of each estimate if there is no dip; all releases share the rate."""
        return _upper(self._freedom, rate / len(self._inner)) * self._errors

    @cached_property
    def _visible_effects(self) -> dict[tuple[int, int], float]:
        """The effect with which each stretch is noticed almost surely."""
        effects = np.maximum(self._thresholds + self._margins, self._smallest)
        return dict(zip(self._stretches, effects.tolist(), strict=True))

    @cached_property
    def _margins(self) -> FloatArray:
        """How far an estimate is below the true effect, almost surely."""
        return _upper(self._freedom, 1 - _NOTICED_CHANCE) * self._errors

    def _needed(self, first: int, last: int) -> float:
        """The effect that a dip in these places needs to be seen."""
        begin, end = bisect_left(self._inner, first), bisect_right(self._inner, last)
        if begin == end:
            return math.inf
        return self._visible_effects.get((self._inner[begin], self._inner[end - 1]), math.inf)


def _upper(freedom: FloatArray, rate: float) -> FloatArray:
    """Upper quantiles of Student's t."""
    from scipy.special import stdtrit  # slow, and needed only with measurements

    return np.asarray(stdtrit(freedom, 1 - rate), dtype=np.float64)


def _estimates(
    rates: FloatArray, blocks: IntArray, columns: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Effect of each column, its standard error and its degrees of freedom.

    :param rates: natural logs
    :param columns: which jobs each stretch contains; one row for each stretch
    """
    freedom = len(rates) - 2
    same_block = (blocks[:, None] == blocks[None, :]).astype(np.float64)
    chances, effects, precisions = [], [], []
    for ratio, prior in BLOCK_EFFECTS:
        factor = np.linalg.cholesky(np.eye(len(rates)) + ratio**2 * same_block)
        mean, rate = np.linalg.solve(factor, np.stack([np.ones(len(rates)), rates], axis=1)).T
        stretch = np.linalg.solve(factor, columns.T)
        total = mean @ mean
        rate = rate - mean * (mean @ rate) / total
        stretch = stretch - np.outer(mean, mean @ stretch) / total
        squares = (stretch**2).sum(axis=0)
        effect = (rate @ stretch) / squares
        rest = np.maximum(rate @ rate - effect**2 * squares, 1e-20)
        effects.append(effect)
        precisions.append(freedom * squares / rest)
        chances.append(
            math.log(prior) - np.log(np.diag(factor)).sum() - 0.5 * math.log(total)
            - 0.5 * np.log(squares) - 0.5 * freedom * np.log(rest)
        )  # fmt: skip
    weights = np.exp(np.array(chances) - np.max(chances, axis=0))
    weights /= weights.sum(axis=0)
    lost = (1 - weights[0]) * blocks.max()  # block effects cost one degree each, less the mean
    return (
        np.asarray((weights * np.array(effects)).sum(axis=0)),
        np.asarray((weights * np.array(precisions)).sum(axis=0) ** -0.5),
        np.asarray(np.maximum(freedom - lost, 1.0)),
    )
