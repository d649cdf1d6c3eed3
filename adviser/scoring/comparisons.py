"""Compare stacks: reach a verdict on each candidate compared with its baseline.

All comparisons of one answer form one family and share one error rate. :func:`self_check` tests
the rules on stacks that are known to be identical.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from adviser.scoring.effects import Effects, effects_of, per_cent
from adviser.scoring.estimates import UNKNOWN_SERIES, Estimate, Method, SeriesSpread, estimates_of
from adviser.scoring.lazy_numpy import BoolArray, FloatArray, np
from adviser.scoring.sample_needs import JudgedFamily, Need, SampleNeed
from adviser.scoring.samples import Sample, job_seconds
from adviser.scoring.turn_noise import NoiseTest
from adviser.scoring.verdicts import ALPHA, Judgements, Verdict, judge
from model.declared_fields import public, unbounded
from model.errors import IncomparableSamples


@dataclass(frozen=True, slots=True)
class FamilyMember:
    """One of the comparisons in an answer.

    :param log_margin: ``ln(1 + δ)``
    :param series: number of its series; comparisons of one series inform each other
    :param elsewhere_sd: standard deviation by which the effect may differ on the target, natural
        log; 0 if measured on the target
    :param weight: share of α, in any unit, positive
    :param planned: whether to plan further jobs if it has no verdict
    :param own: whether the jobs are our own; if not, only own jobs help
    """

    estimate: Estimate
    log_margin: float
    series: int = 0
    elsewhere_sd: float = 0.0
    weight: float = 1.0
    planned: bool = True
    own: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonResult:
    """The verdict on one comparison of a family, and the jobs that it is based on.

    :param jobs: number of the candidate's jobs used
    :param baseline_jobs: number of the baseline's jobs used
    :param tested: whether there were enough jobs for a verdict, so that it counts for Holm
    :param chance: chance that these jobs settle it as faster or slower; 0 if it is settled or too
        little is known
    :param host_differences_pct: by host, the observed difference in per cent of the baseline's
        rate; empty unless several hosts disagree beyond chance
    """

    verdict: Annotated[Verdict, public("Verdict about the candidate.")]
    p_value: Annotated[
        float, public("One-sided; Holm-adjusted over all comparisons; 1 if not tested.", 0.01)
    ]
    jobs: int
    baseline_jobs: int
    runs: Annotated[
        int, public("Number of inspections with jobs of the candidate; if paired, of pairs.", 5)
    ]
    baseline_runs: Annotated[int, public("Number of inspections with jobs of the baseline.", 5)]
    batches: Annotated[
        int, public("Number of batches, such as nights, that the pairs or jobs are from.", 1)
    ]
    tested: bool
    needs: Annotated[Need | None, public("What is missing for a verdict; null if there is one.")]
    jobs_missing: Annotated[int, public("Estimated number of further jobs of the candidate.", 0)]
    baseline_jobs_missing: Annotated[
        int, public("Estimated number of further jobs of the baseline.", 0)
    ]
    chance: float
    job_s: Annotated[float | None, public("Duration of a job; null if unknown.", 42.0, unit="s")]
    method: Annotated[Method, public("Estimation method of d.", "paired")]
    pairs: Annotated[int, public("Number of pairs of jobs that ran in turns.", 10)]
    hosts: Annotated[
        int | None, public("Number of hosts that ran both stacks; null if unknown.", 1)
    ]
    tau: Annotated[
        float | None,
        public("Standard deviation of the effect between hosts, natural log; null unless pooled."),
    ]
    host_differences_pct: Mapping[str, float] = field(default_factory=dict)


#: Fields that a result has from its estimate.
_OF_ESTIMATE = (
    "jobs", "baseline_jobs", "runs", "baseline_runs", "batches", "tested", "method", "pairs",
    "hosts", "tau",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ComparisonFamily:
    """The verdicts on all comparisons of one answer.

    :param effects: effect of each, with a wider error if it was measured elsewhere
    :param tested: whether each had enough jobs, so that it counts
    :param alpha: share of α for each; 0 if it was not tested
    :param needs: what each needs for a verdict
    """

    judgements: Judgements
    effects: Effects
    tested: BoolArray
    alpha: FloatArray
    needs: tuple[SampleNeed, ...]

    @property
    def size(self) -> int:
        """The number of comparisons that share α."""
        return int(self.tested.sum())

    def result_fields(self, place: int, estimate: Estimate, job_s: float | None) -> dict[str, Any]:
        """Fields of the :class:`ComparisonResult` of one comparison of the family.

        :param place: index of the member
        :param estimate: the member's estimate
        :param job_s: duration of a job of its series, s
        """
        need = self.needs[place]
        return {
            "verdict": self.judgements.verdict(place),
            "p_value": float(self.judgements.p_value[place]),
            **{name: getattr(estimate, name) for name in _OF_ESTIMATE},
            "needs": need.need,
            "jobs_missing": need.jobs,
            "baseline_jobs_missing": need.baseline_jobs,
            "chance": need.chance,
            "job_s": job_s,
            "host_differences_pct": {}
            if estimate.hosts_agree
            else {host: 100 * math.expm1(d) for host, d in estimate.host_effects},
        }


def judge_family(members: Sequence[FamilyMember], alpha: float = ALPHA) -> ComparisonFamily:
    """Judge the comparisons of one answer together, in the given order.

    :param alpha: chance of even one false claim among them
    """
    estimates = [it.estimate for it in members]
    observed = effects_of([it.effect for it in estimates])
    away = np.array([it.elsewhere_sd for it in members])
    effects = Effects(
        observed.d, np.hypot(observed.standard_error, away), observed.degrees_of_freedom
    )
    tested = np.array([it.tested for it in estimates], dtype=np.bool_)
    margins = np.array([it.log_margin for it in members])
    weights = np.array([it.weight for it in members])
    own_freedom = np.array([it.own_freedom for it in estimates])
    judged = judge(effects, tested, margins, own_freedom, weights, alpha)
    total = float(weights[tested].sum()) or 1.0
    shares = np.where(tested, alpha * weights / total, 0.0)
    family = JudgedFamily(
        estimates=estimates,
        effects=effects,
        planned=(judged.verdicts == 0) & np.array([it.planned for it in members], dtype=np.bool_),
        elsewhere=(away > 0) | ~np.array([it.own for it in members], dtype=np.bool_),
        log_margin=margins,
        alpha=shares,
        series=[it.series for it in members],
    )
    return ComparisonFamily(judged, effects, tested, shares, tuple(family.needs()))


#: The smallest difference of interest, as a share of the baseline's rate.
MIN_DELTA = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(ComparisonResult):
    """One candidate against the baseline.

    ``d`` is NaN if an arm is empty; an unknown error is infinite, with 0 degrees of freedom.

    :param candidate: label of the candidate
    :param baseline: label of the baseline
    :param used: indexes of the candidate's jobs used, in its sample
    :param baseline_used: indexes of the baseline's jobs used, in its sample
    """

    candidate: str
    baseline: str
    d: Annotated[
        float, unbounded("Candidate minus baseline, natural logarithm.", -0.165, public=True)
    ]
    standard_error: Annotated[float, unbounded("Standard error of d.", 0.02, public=True)]
    degrees_of_freedom: Annotated[
        float, unbounded("Degrees of freedom of the standard error.", 17.3, public=True)
    ]
    interval_low_pct: Annotated[
        float,
        unbounded("Lower end of the 95 % interval; null if unknown.", -18.0, unit="%", public=True),
    ]
    interval_high_pct: Annotated[
        float,
        unbounded("Upper end of the 95 % interval; null if unknown.", -12.3, unit="%", public=True),
    ]
    used: tuple[int, ...]
    baseline_used: tuple[int, ...]

    @property
    def difference_pct(
        self,
    ) -> Annotated[
        float, unbounded("How much higher the candidate's rate is.", -15.2, unit="%", public=True)
    ]:
        """``exp(d) − 1`` in per cent of the baseline's rate."""
        return float(per_cent(np.array([self.d]))[0])


def smallest_difference(aa_history: Sequence[float] = ()) -> float:
    """δ, the smallest difference of interest, as a share of the baseline's rate.

    δ is 2 % or, if larger, the 95th percentile of ``|d|`` between identical stacks.

    :param aa_history: past effects between identical stacks that ran in turns with this comparison
        key, natural logs; differences between runs are part of the error instead

    >>> smallest_difference()
    0.02
    """
    if not aa_history:
        return MIN_DELTA
    return max(MIN_DELTA, math.expm1(float(np.percentile(np.abs(aa_history), 95))))


@dataclass(frozen=True, slots=True)
class ComparisonGroup:
    """Stacks of one series and the baseline that they are compared with.

    :param aa_history: see :func:`smallest_difference`
    :param spread: the noise of the series
    """

    baseline: Sample
    candidates: Sequence[Sample]
    aa_history: Sequence[float] = ()
    spread: SeriesSpread = UNKNOWN_SERIES


def compare_candidates(
    baseline: Sample,
    candidates: Sequence[Sample],
    *,
    aa_history: Sequence[float] = (),
    spread: SeriesSpread = UNKNOWN_SERIES,
    alpha: float = ALPHA,
) -> list[Comparison]:
    """Compare every candidate with the baseline: :func:`compare_all` for one group."""
    return compare_all([ComparisonGroup(baseline, candidates, aa_history, spread)], alpha)[0]


@dataclass(frozen=True, slots=True)
class EstimatedGroup:
    """A group with the estimated effects of its candidates, before it is judged with others.

    :param baseline: label of the baseline
    :param candidates: labels, in the order of the estimates
    :param log_margin: ``ln(1 + δ)``
    :param job_s: duration of a job, s
    """

    baseline: str
    candidates: tuple[str, ...]
    estimates: tuple[Estimate, ...]
    log_margin: float
    job_s: float | None = None


def estimate_group(group: ComparisonGroup) -> EstimatedGroup:
    """Estimate the effects of a group.

    :func:`adviser.scoring.estimates.estimates_of` selects the jobs.

    :raises IncomparableSamples: if a comparison key differs from that of the baseline
    """
    for sample in group.candidates:
        if sample.comparison_key != group.baseline.comparison_key:
            raise IncomparableSamples(
                f"{sample.label} ({sample.comparison_key}) was not measured like "
                f"{group.baseline.label} ({group.baseline.comparison_key})"
            )
    return EstimatedGroup(
        group.baseline.label,
        tuple(it.label for it in group.candidates),
        tuple(estimates_of(group.baseline, group.candidates, group.spread)),
        math.log1p(smallest_difference(group.aa_history)),
        job_seconds(it for sample in (group.baseline, *group.candidates) for it in sample.places),
    )


def compare_all(groups: Sequence[ComparisonGroup], alpha: float = ALPHA) -> list[list[Comparison]]:
    """Compare the candidates of every group with its baseline, as one family of claims.

    Candidates with fewer than five jobs or pairs are neither tested nor counted in Holm's
    adjustment. This depends only on the number of jobs, never on the results of the jobs. There is
    no verdict if the jobs of an arm come from fewer than five runs, unless the spread between runs
    is known for the series.

    :param groups: everything that one answer shows; splitting it defeats Holm
    :param alpha: chance of even one false claim among all of them
    :returns: the comparisons of each group, in the given order
    :raises IncomparableSamples: if a comparison key differs from that of the baseline
    """
    return judge_groups([estimate_group(it) for it in groups], alpha)


def judge_groups(
    groups: Sequence[EstimatedGroup], alpha: float = ALPHA, *, shown: Container[int] | None = None
) -> list[list[Comparison]]:
    """Judge estimated groups as one family of claims, like :func:`compare_all`.

    :func:`adviser.scoring.verdicts.judge` decides the verdicts.

    :param shown: indexes of the groups whose comparisons are returned, by default all; the
        comparisons of other groups are judged, too, but not described
    """
    members = [
        FamilyMember(estimate, group.log_margin, number, planned=shown is None or number in shown)
        for number, group in enumerate(groups)
        for estimate in group.estimates
    ]
    if not members:
        return [[] for _ in groups]
    family = judge_family(members, alpha)
    places = iter(range(len(members)))
    compared: list[list[Comparison]] = []
    for number, group in enumerate(groups):
        of_group = list(islice(places, len(group.estimates)))
        if shown is not None and number not in shown:
            of_group = []
        compared.append(
            [
                _comparison(group, candidate, members[i].estimate, family, i)
                for candidate, i in zip(group.candidates, of_group, strict=False)
            ]
        )
    return compared


def _comparison(
    group: EstimatedGroup, candidate: str, estimate: Estimate, family: ComparisonFamily, i: int
) -> Comparison:
    low, high = per_cent(np.array([family.judgements.low[i], family.judgements.high[i]]))
    return Comparison(
        **family.result_fields(i, estimate, group.job_s),
        candidate=candidate,
        baseline=group.baseline,
        d=estimate.effect.d,
        standard_error=estimate.effect.standard_error,
        degrees_of_freedom=estimate.effect.degrees_of_freedom,
        interval_low_pct=float(low),
        interval_high_pct=float(high),
        used=estimate.used,
        baseline_used=estimate.baseline_used,
    )


#: Expected share of 95 % intervals of identical stacks that contain "no difference".
COVERAGE = (0.93, 0.97)

#: Chance of a false alarm, for each of the checks.
_ALARM = 0.01


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The results of comparisons of identical stacks, where every claim is false.

    :param settled: number of comparisons with an interval
    :param covering: number of these intervals that contain "no difference"
    :param problems: messages; empty if the error rates are as promised
    """

    comparisons: int
    faster: int
    slower: int
    settled: int
    covering: int
    problems: tuple[str, ...]

    @property
    def coverage(self) -> float | None:
        """Share of intervals that contain "no difference"; ``None`` if there are no intervals."""
        return self.covering / self.settled if self.settled else None


def self_check(identical: Sequence[Comparison], noise: NoiseTest | None = None) -> SelfCheck:
    """Check comparisons of stacks with themselves, each judged by itself.

    A problem is a result that chance alone would rarely give (1 in 100). The problems are: the
    share of claims is above 2 α (one α for faster, one for slower), claims of one sign are far more
    frequent, intervals contain zero too seldom or too often, differences exceed their errors,
    batches differ, or neighbouring jobs are alike.

    :param noise: of the series of these stacks
    """
    from scipy.special import chdtrc, chdtri, stdtr  # slow, and needed only for a self-check
    from scipy.stats import binom, binomtest

    faster = sum(it.verdict is Verdict.FASTER for it in identical)
    slower = sum(it.verdict is Verdict.SLOWER for it in identical)
    claims = faster + slower
    known = [it for it in identical if it.degrees_of_freedom > 0]
    settled = len(known)
    covering = sum(it.interval_low_pct <= 0 <= it.interval_high_pct for it in known)
    problems = []
    if claims > binom.ppf(1 - _ALARM, len(identical), 2 * ALPHA):
        problems.append(
            f"{claims} false claims in {len(identical)} comparisons of identical stacks"
        )
    if claims and binomtest(faster, claims).pvalue < _ALARM:
        problems.append(
            f"identical stacks were called faster {faster} times and slower {slower} times"
        )
    if known:
        low, high = COVERAGE
        fewest, most = binom.ppf(_ALARM / 2, settled, low), binom.isf(_ALARM / 2, settled, high)
        if not fewest <= covering <= most:
            problems.append(
                f'{covering} of {settled} intervals contain "no difference", instead of about 95 %'
            )
    varying = [it for it in known if it.standard_error > 0]
    if varying:
        t = np.array([abs(it.d) / it.standard_error for it in varying])
        chances = 2 * stdtr(np.array([it.degrees_of_freedom for it in varying]), -t)
        total = math.fsum(chdtri(1.0, np.maximum(chances, 1e-300)))
        if chdtrc(float(len(varying)), total) < _ALARM:
            times = math.sqrt(total / len(varying))
            problems.append(f"identical stacks differ by {times:.1f} times what their errors allow")
    if noise and noise.between_p < _ALARM:
        problems.append(
            f"the difference between two stacks varies by {noise.between:.1%} more between batches"
            " (nights, boots, builds) than within them: measure several batches"
        )
    if noise and noise.correlation_p < _ALARM:
        problems.append(
            f"neighbouring jobs are alike (autocorrelation {noise.correlation:.2f}): more jobs in a"
            " row tell less than they seem to"
        )
    return SelfCheck(len(identical), faster, slower, settled, covering, tuple(problems))
