"""Which versions of a package are preferred because they are likely faster beside the stack.

For each package and series, the effects of all measured versions are estimated beside the stacks
whose other packages are nearest to the advised stack. Nothing here depends on a baseline.

Claims keep a bounded error rate. A choice is a decision under uncertainty: somebody must take one
version, and the newest is only one of them. So likely differences choose versions, and only settled
differences become claims (:mod:`adviser.scoring.verdicts`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean, median

from adviser.scoring.effects import Effects
from adviser.scoring.estimates import Estimate, pair_estimates
from adviser.scoring.histories import History
from adviser.scoring.lazy_numpy import np
from adviser.scoring.stack_pairs import (
    ForcedChanges,
    MeasuredStackIndex,
    MeasuredStacks,
    context_distance,
    newest_first,
    pairs_of_versions,
)
from adviser.scoring.target import OwnBenchmarks, Relevance, Target
from adviser.scoring.verdicts import Verdict, judge
from model.measurements.evidence import COMMAND, EvidencePack, Series
from model.packages.identity import Purl

#: Standard deviation, natural log, by which an effect may differ on another hardware class or
#: another version of Python: a gain on one processor is often no gain on another, and
#: measurements on one processor do not show how well they transfer.
ELSEWHERE_SD = 0.1
#: The same for the effect of a pack: 46 steps of Pillow differed so much between two processors
#: (pillow-perf, commit cc22c47; 1.4826 times the median difference).
PACK_ELSEWHERE_SD = 0.14

#: Contexts disagree if chance explains their differences with less than this probability, divided
#: by the number of versions that are looked at.
_DISAGREEMENT = 0.05


@dataclass(frozen=True, slots=True)
class _Effect:
    """The effect of one version against another in one series, beside the nearest stacks."""

    d: float
    squared_error: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Preference:
    """Why a version is not preferred: how much it loses, and to which other version."""

    loss: float
    better: Purl


@dataclass(frozen=True, slots=True)
class PackageChoice:
    """The measured order of the versions of one package.

    :param measured: versions that can be compared with each other, newest first
    :param lost: versions that lose to a preferred one
    :param interacting: versions whose effect depends on the other packages of the stack, so that
        they are not scored
    :param contexts: whether versions were measured beside several other stacks
    :param settled: whether some of them are settled to differ, without regard to a baseline
    :param known: whether some of them are settled to differ or to be equivalent
    :param indicators: names of the indicators that decide
    :param own: whether these are indicators of the user's own
    :param benchmarks: names of the project's own benchmarks that decide
    :param pack: the pack that decides; ``None`` for own jobs
    """

    measured: tuple[Purl, ...]
    lost: Mapping[Purl, Preference] = field(default_factory=dict)
    interacting: tuple[Purl, ...] = ()
    contexts: bool = False
    settled: bool = False
    known: bool = False
    indicators: tuple[str, ...] = ()
    own: bool = False
    benchmarks: tuple[str, ...] = ()
    pack: EvidencePack | None = None
    _series: Sequence[_MeasuredVersions] = field(default=(), repr=False, compare=False)

    @property
    def series(self) -> list[Series]:
        """The series that decide."""
        return [it.series for it in self._series]

    def expected(self, ours: Purl, theirs: Purl) -> Difference | None:
        """The expected difference between two versions; ``None`` if no series has both."""
        return _difference(self._series, (ours, theirs), 0, 1)

    @property
    def preferred(self) -> Purl | None:
        """The version that is to be chosen if every version is possible."""
        return next((it for it in self.measured if it not in self.lost), None)


class VersionChoices:
    """Chooses versions of packages from evidence.

    The project's own benchmarks decide about the packages whose versions they measured, else the
    user's own indicators, else those that come with the product.

    :param bundled: names of indicators that come with the product
    """

    def __init__(
        self, measured: MeasuredStacks, target: Target, bundled: Collection[str] = ()
    ) -> None:
        self._stacks, self._forced = measured.index, measured.forced
        self._series, self._histories = measured.evidence.series, measured.histories
        self._target, self._bundled = target, bundled
        self._own = OwnBenchmarks(measured.evidence, target)

    def of_package(
        self,
        versions: Iterable[Purl],
        choosable: Collection[Purl],
        context: Collection[Purl] | None = None,
    ) -> PackageChoice | None:
        """The choice among the versions of one package; ``None`` if too little was measured.

        :param versions: all versions that were measured, or may have been
        :param choosable: versions that the request permits
        :param context: the stack beside which effects are estimated; ``None`` for all contexts
        """
        measured = newest_first({it for it in versions if self._stacks.holding(it)})
        if len(measured) < 2:
            return None
        series: list[_MeasuredVersions] = []
        for numbers in self._series_by_rank(measured):
            tried = (self._measured(number, measured, context) for number in numbers)
            series = [one for one in tried if one is not None]
            if series:
                break
        else:
            return None
        interacting = {purl for it in series for purl in it.interacting}
        known = [
            it for it in measured if it in choosable and any(it in one.places for one in series)
        ]
        difference = partial(_difference, series, known)
        lost = {}
        for place, (loss, better) in enumerate(losses(len(known), difference)):
            if loss > 0:
                lost[known[place]] = Preference(loss, known[better])
        return PackageChoice(
            tuple(known),
            lost,
            tuple(it for it in measured if it in interacting),
            any(it.contexts for it in series),
            any(it.settled for it in series),
            any(it.known for it in series),
            tuple(sorted({it.series.indicator for it in series})),
            any(self._relevance(it.series) <= Relevance.OWN_INDICATOR for it in series),
            tuple(sorted({name for it in series if (name := self._own.name_of(it.series))})),
            _series=series,
        )

    def _series_by_rank(self, measured: Sequence[Purl]) -> Iterator[list[int]]:
        """Series with several of the versions, in the order in which they decide.

        Series nearest to the target come first; among equally near series, the most relevant.
        """
        held = [frozenset(self._stacks.holding(it)) for it in measured]
        ranks: dict[tuple[int, Relevance], list[int]] = defaultdict(list)
        for number, history in self._histories.items():
            series = self._series[number]
            several = sum(not it.isdisjoint(history.jobs) for it in held) > 1
            if several and not self._own.ignores(series):
                ranks[self._target.distance(series), self._relevance(series)].append(number)
        for rank in sorted(ranks):
            yield ranks[rank]

    def _relevance(self, series: Series) -> Relevance:
        if series.indicator == COMMAND:
            own = self._own.name_of(series) is not None
            return Relevance.OWN_BENCHMARK if own else Relevance.OTHER_COMMAND
        bundled = series.indicator in self._bundled
        return Relevance.BUNDLED if bundled else Relevance.OWN_INDICATOR

    def _measured(
        self, number: int, measured: Sequence[Purl], context: Collection[Purl] | None
    ) -> _MeasuredVersions | None:
        """The effects of the versions in one series, relative to a common version."""
        history = self._histories[number]
        jobs = {
            it: sum(len(history.jobs.get(one, ())) for one in self._stacks.holding(it))
            for it in measured
        }
        here = [it for it in measured if jobs[it]]
        if len(here) < 2:
            return None
        # Sorting is stable: of versions with equally many jobs, the newest comes first.
        ordered = sorted(here, key=lambda it: -jobs[it])
        contexts = _Contexts(self._stacks, history, self._forced, context, len(here))
        first, near, interacting = contexts.centre(ordered)
        second = next((it for it in ordered if it in near), None)
        if second is None and not interacting:
            return None
        far = {} if second is None else contexts.star(near, second)
        sd = ELSEWHERE_SD if history.packed is None else PACK_ELSEWHERE_SD
        away = sd**2 * self._target.distance(history.series) / 2
        joined = {} if second is None else _joined(first, second, near, far)
        squares = _moderated({it: squared for it, (_, squared) in joined.items()}, jobs)
        effects = {it: (d, squares[it] + away) for it, (d, _) in joined.items()}
        places = {it: place for place, it in enumerate(effects)}
        speeds = posterior(*zip(*effects.values(), strict=True)) if len(effects) > 1 else None
        verdicts = _verdicts(near.values(), away, history.log_margin)
        return _MeasuredVersions(
            history, speeds, places, interacting, contexts.several,
            any(it.different for it in verdicts), any(it.settled for it in verdicts),
        )  # fmt: skip


def _verdicts(effects: Iterable[_Effect], away: float, margin: float) -> list[Verdict]:
    """The verdicts about effects, judged as one family."""
    rows = sorted((it.d, it.squared_error + 2 * away, it.freedom) for it in effects)
    if not rows:
        return []
    d, squared, freedom = (np.array(column) for column in zip(*rows, strict=True))
    judged = judge(
        Effects(d, np.sqrt(squared), freedom), np.ones(len(rows), dtype=np.bool_), margin, freedom
    )
    return [judged.verdict(i) for i in range(len(rows))]


@dataclass(frozen=True, slots=True)
class _MeasuredVersions:
    """The versions of a package in one series.

    :param places: place of each version in ``speeds``
    """

    history: History
    speeds: Speeds | None
    places: Mapping[Purl, int]
    interacting: frozenset[Purl]
    contexts: bool
    settled: bool
    known: bool

    @property
    def series(self) -> Series:
        return self.history.series


class _Contexts:
    """Effects between versions of a package in one series, in all contexts or in the nearest."""

    def __init__(
        self,
        stacks: MeasuredStackIndex,
        history: History,
        forced: ForcedChanges,
        context: Collection[Purl] | None,
        versions: int,
    ) -> None:
        self._stacks, self._history, self._forced = stacks, history, forced
        self._context, self._level = context, _DISAGREEMENT / max(1, versions - 1)
        self.interacting: set[Purl] = set()
        self.several = False

    def centre(self, versions: Sequence[Purl]) -> tuple[Purl, dict[Purl, _Effect], frozenset[Purl]]:
        """A version to compare the others with, their effects, and the versions that interact.

        The centre is the first version that disagrees between contexts with no more than half of
        the others. Of two versions that disagree, the newer one interacts.

        :param versions: at least two
        """
        odd: set[Purl] = set()
        for centre in versions[:-1]:
            others = [it for it in versions if it not in odd and it != centre]
            self.interacting.clear()
            near = self.star(others, centre)
            if len(others) == 1 or 2 * len(self.interacting) <= len(others):
                break
            odd.add(centre)
        interacting = odd | self.interacting
        if len(versions) == 2 and interacting:
            interacting = set(newest_first(versions)[:1])
        return centre, near, frozenset(interacting)

    def star(self, versions: Iterable[Purl], centre: Purl) -> dict[Purl, _Effect]:
        """The effects of the versions against one of them, where these are known."""
        pairs = {
            it: pairs_of_versions(self._history, self._forced, centre, it)
            for it in versions
            if it != centre
        }
        sample = self._history.sample
        samples = [
            (sample(base), sample(other)) for several in pairs.values() for base, other in several
        ]
        estimates = iter(pair_estimates(samples, self._history.spread))
        effects = (
            (it, self._effect(it, list(zip(pairs[it], estimates, strict=False)))) for it in pairs
        )
        return {it: effect for it, effect in effects if effect is not None}

    def _effect(
        self, ours: Purl, seen: Sequence[tuple[tuple[str, str], Estimate]]
    ) -> _Effect | None:
        """The effect of a version, given those of pairs of stacks; ``None`` if it is unknown or
        depends on the context.
        """
        estimates = [(pair, it) for pair, it in seen if it.tested]
        if not estimates:
            return None
        self.several |= len(estimates) > 1
        if len(estimates) > 1 and self._disagree([it for _, it in estimates]):
            self.interacting.add(ours)
            return None
        if self._context is not None:
            near = [context_distance(self._stacks, pair, self._context) for pair, _ in estimates]
            estimates = [it for it, far in zip(estimates, near, strict=True) if far == min(near)]
        return _pooled([it for _, it in estimates])

    def _disagree(self, estimates: Sequence[Estimate]) -> bool:
        """Whether the effects differ between contexts by more than chance and δ explain."""
        from scipy.special import chdtrc  # slow, and needed only with several contexts

        effects = [it.effect.d for it in estimates]
        if max(effects) - min(effects) <= self._history.log_margin:
            return False
        pooled = _pooled(estimates)
        q = math.fsum((it.effect.d - pooled.d) ** 2 / _squared_error(it) for it in estimates)
        return float(chdtrc(len(estimates) - 1, q)) < self._level


#: The smallest squared error, so that readings that do not vary are not infinitely certain.
_SMALLEST = 1e-10


def _squared_error(estimate: Estimate) -> float:
    return max(estimate.effect.standard_error**2, _SMALLEST)


def _pooled(estimates: Sequence[Estimate]) -> _Effect:
    """Mean of the effects in several contexts, weighted by precision."""
    order = sorted(estimates, key=lambda it: (it.effect.d, it.effect.standard_error))
    weights = [1 / _squared_error(it) for it in order]
    total = math.fsum(weights)
    mean = math.fsum(w * it.effect.d for w, it in zip(weights, order, strict=True)) / total
    return _Effect(mean, 1 / total, math.fsum(it.effect.degrees_of_freedom for it in order))


#: Weight of a version's own variance; the rest is what the versions of the package share.
OWN_SHARE = 0.3
#: A version that varies by this factor more than the median keeps its own variance.
WILD = 4.0


def _moderated(squares: Mapping[Purl, float], jobs: Mapping[Purl, int]) -> dict[Purl, float]:
    """Squared errors, pulled towards the shared variance of the package's versions.

    Versions of one package mostly vary alike, and few jobs know their own variance badly.
    """
    by_job = {it: squared * jobs[it] for it, squared in squares.items()}
    limit = WILD * median(by_job.values()) if by_job else 0.0
    tame = [it for it in by_job.values() if it <= limit]
    shared = fmean(sorted(tame)) if tame else 0.0
    return {
        it: squares[it]
        if value > limit
        else (OWN_SHARE * value + (1 - OWN_SHARE) * shared) / jobs[it]
        for it, value in by_job.items()
    }


def _joined(
    first: Purl, second: Purl, near: Mapping[Purl, _Effect], far: Mapping[Purl, _Effect]
) -> dict[Purl, tuple[float, float]]:
    """The effect of each version against ``first``, with the squared error of its own part.

    The error of an effect is that of both versions. The part of ``first``, which all effects share,
    follows from the effects against ``second``.

    :param near: effects against ``first``
    :param far: effects against ``second``
    """
    between = near[second].squared_error
    shares = [
        (it.squared_error + between - far[purl].squared_error) / 2
        for purl, it in near.items()
        if purl in far and purl != second
    ]
    share = fmean(sorted(shares)) if shares else between / 2
    least = min(it.squared_error for it in near.values())
    share = min(max(share, 0.02 * least), 0.9 * least)
    effects = {first: (0.0, share)}
    effects |= {purl: (it.d, it.squared_error - share) for purl, it in near.items()}
    for purl, effect in far.items():
        if purl not in effects:
            # Measured beside the second version only.
            squared_error = effect.squared_error + between - share
            effects[purl] = near[second].d + effect.d, squared_error
    return effects


def _difference(
    series: Sequence[_MeasuredVersions], versions: Sequence[Purl], ours: int, theirs: int
) -> Difference | None:
    """Expected difference of two versions: the mean over indicators of the mean over parameters.

    Only series in which both were measured count; ``None`` if there is none.
    """
    us, them = versions[ours], versions[theirs]
    by_indicator: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for measured in series:
        speeds, places = measured.speeds, measured.places
        if speeds is not None and us in places and them in places:
            row = *speeds.difference(places[us], places[them]), measured.history.log_margin
            by_indicator[measured.series.indicator].append(row)
    if not by_indicator:
        return None
    means, variances, margins = [], [], []
    for rows in by_indicator.values():
        means.append(fmean(sorted(row[0] for row in rows)))
        variances.append(math.fsum(row[1] for row in rows) / len(rows) ** 2)
        margins.append(fmean(sorted(row[2] for row in rows)))
    variance = math.fsum(variances) / len(variances) ** 2
    return Difference(fmean(sorted(means)), variance, fmean(sorted(margins)))


#: If differences as large as these are more likely than this among equal versions, nothing is
#: known, and newness decides.
GATE = 0.05

#: A version replaces a newer one only if it is faster with at least this probability.
LIKELY = 0.95


@dataclass(frozen=True, slots=True)
class Speeds:
    """Posterior distribution of the log speeds of several versions, measured in one series.

    :param means: one for each version, natural log, relative to any of them
    :param variances: of each version's own part
    :param pulls: by how much each mean follows the common mean, 0 to 1
    :param common: variance of the common mean
    """

    means: tuple[float, ...]
    variances: tuple[float, ...]
    pulls: tuple[float, ...]
    common: float

    def difference(self, ours: int, theirs: int) -> tuple[float, float]:
        """Mean and variance of the difference between two versions."""
        pull = self.pulls[ours] - self.pulls[theirs]
        variance = self.variances[ours] + self.variances[theirs] + pull**2 * self.common
        return self.means[ours] - self.means[theirs], variance


def posterior(effects: Sequence[float], variances: Sequence[float]) -> Speeds:
    """Pull the measured effects of versions towards their mean, as far as noise explains them.

    The versions' true log speeds are normal about a common mean with variance τ² (DerSimonian &
    Laird 1986, doi:10.1016/0197-2456(86)90046-2). If the effects do not differ significantly
    (Cochran's Q, 5 %), τ² is 0 and all versions count as equal. Nothing depends on which version
    the effects are relative to.

    :param effects: natural logs, relative to any stack
    :param variances: squared errors of each effect's own part, positive

    >>> [round(it, 3) for it in posterior([0.0, 0.0, 0.3], [0.001, 0.001, 0.001]).means]
    [0.003, 0.003, 0.293]
    >>> posterior([0.0, 0.01], [0.01, 0.01]).variances
    (0.0, 0.0)
    """
    weights = [1 / it for it in variances]
    total, freedom = math.fsum(weights), len(effects) - 1
    mean = math.fsum(w * d for w, d in zip(weights, effects, strict=True)) / total
    q = math.fsum(w * (d - mean) ** 2 for w, d in zip(weights, effects, strict=True))
    scale = total - math.fsum(w**2 for w in weights) / total
    from scipy.special import chdtrc  # slow, and needed only with measurements

    if freedom == 0 or float(chdtrc(freedom, q)) >= GATE or q <= freedom:
        equal, none, pulled = ((value,) * len(effects) for value in (mean, 0.0, 1.0))
        return Speeds(equal, none, pulled, 1 / total)
    spread = (q - freedom) / scale
    weights = [1 / (it + spread) for it in variances]
    total = math.fsum(weights)
    mean = math.fsum(w * d for w, d in zip(weights, effects, strict=True)) / total
    kept = [spread / (spread + it) for it in variances]
    return Speeds(
        tuple(mean + k * (d - mean) for k, d in zip(kept, effects, strict=True)),
        tuple(k * it for k, it in zip(kept, variances, strict=True)),
        tuple(1 - k for k in kept),
        1 / total,
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """Expected difference between two versions, over all indicators.

    :param mean: natural log; positive if the first is faster
    :param margin: ``ln(1 + δ)``
    """

    mean: float
    variance: float
    margin: float

    @property
    def probability(self) -> float:
        """The probability that the first is faster by more than δ/2."""
        from scipy.special import ndtr  # slow, and needed only with measurements

        beyond = self.mean - self.margin / 2
        if not self.variance:
            return float(beyond > 0)
        return float(ndtr(beyond / math.sqrt(self.variance)))

    @property
    def likely(self) -> bool:
        """Whether the first is likely faster, by an amount that matters."""
        return self.mean > 0 and self.probability >= LIKELY


#: The expected difference between the versions at two places; ``None`` if no series has both.
Differences = Callable[[int, int], Difference | None]

#: Loss of a newer version that was never compared with an older one that is preferred to it.
_UNCOMPARED_LOSS = 0.01


def chosen(places: Sequence[int], difference: Differences) -> int:
    """The version to choose: the newest, unless others are likely faster than it.

    Of the versions that are likely faster than the newest, those within δ/2 of the best compete,
    and the newest of these is chosen.

    :param places: of the versions, newest first
    """
    newest, *older = places
    gains = {
        it: gain.mean
        for it in older
        if (gain := difference(it, newest)) is not None and gain.likely
    }
    if not gains:
        return newest
    best = max(gains, key=gains.__getitem__)
    leads = ((it, difference(best, it)) for it in gains)
    return next(
        it for it, lead in leads if it == best or (lead is not None and lead.mean < lead.margin / 2)
    )


def losses(count: int, difference: Differences) -> list[tuple[float, int]]:
    """The loss of each version compared with the versions that are preferred to it.

    Versions are ranked by choosing one after the other, each from those that are left. So the
    preferred version of any part of the ranking is mostly the one that would be chosen from it.

    :param count: number of versions; places count from 0, newest first
    :returns: for each version the expected loss, natural log, and the place of the version that it
        loses to; versions without a loss lose to themselves
    """
    left, ranked = list(range(count)), list[int]()
    result = [(0.0, it) for it in range(count)]
    while left:
        place = chosen(left, difference)
        left.remove(place)
        for better in ranked:
            gap = difference(better, place)
            loss = gap.mean if gap is not None and gap.likely else 0.0
            if better > place:
                # An older version is preferred, so newness must not decide.
                least = _UNCOMPARED_LOSS if gap is None else max(gap.mean, gap.margin / 2)
                loss = result[better][0] + least
            if loss > result[place][0]:
                result[place] = loss, better
        if ranked and result[ranked[-1]][0] > result[place][0]:
            result[place] = result[ranked[-1]]
        ranked.append(place)
    return result
