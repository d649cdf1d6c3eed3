"""Score past advice with what is known now, and sum the scores up by month.

Advice is scored against the snapshot that it chose from, so it is not blamed for releases that came
out later. Ages are those of the day of the advice. Of all else, what is known now counts.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist, fmean
from typing import Any

from adviser.advise import Advice, Resolver, UnreadVersions, advise, assess_candidates, is_settled
from adviser.reports.checking import AdviceInputs
from adviser.resolver.results import Resolution, ResolvedStack
from adviser.scoring.assessment_types import Claim
from adviser.scoring.criteria import SCALE
from adviser.scoring.verdicts import Verdict
from common import __version__
from model.json_documents import digest
from model.ledger import (
    AdviceOutcome,
    AdviceScore,
    ClaimScore,
    CountedShare,
    IdenticalPair,
    LedgerMonth,
)
from model.measurements.evidence import ADVISORIES, Evidence
from model.packages.candidates import KnownVulnerability
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot

#: Version of the rule that scores advice; a new one scores all advice again.
LEDGER_RULE = "ledger-2"

_NORMAL = NormalDist()
#: Quantile of the normal distribution for a two-sided 95 % interval.
_Z = _NORMAL.inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class PastAdvice:
    """A recorded advice.

    :param advised: the versions of its best stack
    """

    inputs: AdviceInputs
    advised: Collection[Purl]


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """The part of an :class:`model.ledger.AdviceScore` that is computed."""

    outcome: AdviceOutcome
    regret_points: float | None = None
    regret_pct: float | None = None
    claims: tuple[ClaimScore, ...] = ()


def evidence_since(then: Evidence, now: Evidence) -> Evidence:
    """What is known now, as of the day of the advice: ages and times of sources do not count.

    Advisories count if they are known now, even if nobody had read any on that day.
    """
    sources = dict(then.sources)
    if sources.get(ADVISORIES, then.as_of) is None and now.sources.get(ADVISORIES) is not None:
        sources[ADVISORIES] = then.as_of
    return replace(now, as_of=then.as_of, sources=sources)


def snapshot_since(
    then: Snapshot, vulnerabilities: Mapping[str, Sequence[KnownVulnerability]]
) -> Snapshot:
    """The snapshot of an advice with the vulnerabilities that are known now.

    :param vulnerabilities: all vulnerabilities of its candidates, by Package URL
    :returns: ``then`` itself if nothing differs
    """
    packages = {
        name: tuple(
            replace(it, vulnerabilities=tuple(sorted(vulnerabilities.get(it.purl, ()), key=_id)))
            for it in candidates
        )
        for name, candidates in then.packages.items()
    }
    return then if packages == dict(then.packages) else replace(then, packages=packages)


def _id(vulnerability: KnownVulnerability) -> str:
    return vulnerability.id


def knowledge_digest(evidence: Evidence, snapshot: Snapshot) -> str:
    """Identifier of what an advice is scored with: what is known, the rule and this program.

    :param snapshot: as :func:`snapshot_since` returns it
    """
    vulnerable = [
        [it.purl, *(plain_vulnerability(known) for known in it.vulnerabilities)]
        for candidates in snapshot.packages.values()
        for it in candidates
        if it.vulnerabilities
    ]
    return digest([LEDGER_RULE, __version__, evidence.revision, vulnerable])


def plain_vulnerability(known: KnownVulnerability) -> list[Any]:
    """Identifier, severity and score, as JSON values."""
    return [known.id, known.severity, known.score]


def score_advice(
    past: PastAdvice, known: Evidence, resolver: Resolver, snapshot: Snapshot | None = None
) -> ScoreResult:
    """Score an advice.

    :param known: as :func:`evidence_since` returns it
    :param snapshot: as :func:`snapshot_since` returns it; by default that of the advice
    """
    inputs = past.inputs
    if snapshot is not None and snapshot is not inputs.snapshot:
        inputs = replace(inputs, snapshot=snapshot)
    elif known.revision == inputs.evidence.revision:
        claims = tuple(score_claims(inputs, known, ()))
        return ScoreResult(AdviceOutcome.UNTESTED, claims=claims)
    try:
        later = advise(inputs.request, inputs.snapshot, known, resolver=resolver)
    except UnreadVersions:
        return ScoreResult(AdviceOutcome.UNDECIDED)
    claims = tuple(score_claims(inputs, known, later.assessment.claims))
    best = later.best
    alone = later.resolution if best is None else _advised_alone(past, later, resolver)
    if not (is_settled(later.resolution) and is_settled(alone)):
        return ScoreResult(AdviceOutcome.UNDECIDED, claims=claims)
    if best is None or not alone.stacks:
        return ScoreResult(AdviceOutcome.REFUSED, claims=claims)
    advised = alone.stacks[0]
    return ScoreResult(
        AdviceOutcome.SURPASSED if advised.levels < best.levels else AdviceOutcome.BEST,
        max(0, best.levels[0] - advised.levels[0]) / SCALE,
        _speed_regret(later, best, advised),
        claims,
    )


def _advised_alone(past: PastAdvice, later: Advice, resolver: Resolver) -> Resolution:
    """Resolve with the advised versions only: the advised stack with its score of today."""
    chosen = {
        name: [it for it in candidates if it.purl in past.advised]
        for name, candidates in later.universe.packages.items()
    }
    universe = replace(later.universe, packages={name: it for name, it in chosen.items() if it})
    return resolver(universe, past.inputs.request.options.budget())


def _speed_regret(later: Advice, best: ResolvedStack, advised: ResolvedStack) -> float | None:
    """How much faster the best stack is by what is likely, in per cent; at least 0."""
    choices = later.assessment.choices.values()
    losses = {purl: it.loss for choice in choices for purl, it in choice.lost.items()}
    if not losses:
        return None

    def loss(stack: ResolvedStack) -> float:
        return math.fsum(losses[it.purl] for it in stack.choices if it.purl in losses)

    return 100 * math.expm1(max(0.0, loss(advised) - loss(best)))


def score_claims(
    inputs: AdviceInputs, known: Evidence, later: Iterable[Claim]
) -> Iterator[ClaimScore]:
    """Score the settled claims of an advice, and all claims that were measured again.

    An interval is compared with the estimate from new jobs only, because an estimate that shares
    its jobs with the interval would agree with it anyway.

    :param later: claims with everything known now
    """
    before = {it.observation_id for it in inputs.evidence.readings}
    new = tuple(it for it in known.readings if it.observation_id not in before)
    fresh: dict[object, Claim] = {}
    if new:
        evidence = replace(known, readings=new)
        again = assess_candidates(inputs.request, inputs.snapshot, evidence, inputs.premises)
        fresh = {_comparison(it): it for it in again.claims if it.tested}
    now = {_comparison(it): it for it in later}
    then = assess_candidates(inputs.request, inputs.snapshot, inputs.evidence, inputs.premises)
    for claim in then.claims:
        key = _comparison(claim)
        measured, today = fresh.get(key), now.get(key)
        contained = expected = None
        if measured is not None and claim.tested and math.isfinite(claim.interval_high_pct):
            low, high = claim.interval_low_pct, claim.interval_high_pct
            contained = low <= measured.observed_pct <= high
            expected = capture_chance(_width(claim), _width(measured))
        if claim.verdict.settled or contained is not None:
            yield ClaimScore(
                digest([key, claim.evidence]),
                claim.verdict.value,
                None if today is None else today.verdict.value,
                contained,
                expected,
            )


def capture_chance(width: float, later_width: float) -> float:
    """Chance that an honest 95 % interval contains a later, independent estimate.

    Both have normal errors. With equal widths it is 83 %, not 95 %, because the later estimate has
    an error of its own (Cumming & Maillardet 2006, doi:10.1037/1082-989X.11.3.217).

    :param width: of the interval, natural log
    :param later_width: of the 95 % interval of the later estimate

    >>> round(capture_chance(1.0, 1.0), 3), round(capture_chance(1.0, 0.0), 3)
    (0.834, 0.95)
    """
    if not math.isfinite(later_width):
        return 0.0
    if width <= 0:
        return 0.95 if later_width <= 0 else 0.0
    return 2 * _NORMAL.cdf(_Z / math.hypot(1.0, later_width / width)) - 1


def _width(claim: Claim) -> float:
    low, high = claim.interval_low_pct, claim.interval_high_pct
    if not (math.isfinite(low) and math.isfinite(high) and low > -100):
        return math.inf
    return math.log1p(high / 100) - math.log1p(low / 100)


def _comparison(claim: Claim) -> tuple[str | None, ...]:
    origin = (claim.origin.pack,) if claim.origin else ()
    series = claim.comparison_key, claim.python_version
    return (*series, claim.stack, claim.baseline_stack, *origin)


def counted_share(count: int, total: int) -> CountedShare:
    """A share with its exact 95 % interval.

    >>> share = counted_share(19, 20)
    >>> share.share, round(share.low, 3), round(share.high, 3)
    (0.95, 0.751, 0.999)
    """
    from scipy.special import betaincinv  # slow, and needed only here

    low = float(betaincinv(count, total - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, total - count, 0.975)) if count < total else 1.0
    return CountedShare(count, total, count / total if total else None, low, high)


def ledger_months(
    scores: Iterable[AdviceScore], pairs: Iterable[IdenticalPair] = ()
) -> list[LedgerMonth]:
    """The ledger by month, newest first. A claim counts once, in the month of its first advice.

    :param scores: the latest score of each advice
    """
    by_month: dict[str, list[AdviceScore]] = defaultdict(list)
    claims: dict[str, list[ClaimScore]] = defaultdict(list)
    seen = set()
    for score in sorted(scores, key=lambda it: (it.advised_at, it.advice_id)):
        month = f"{score.advised_at:%Y-%m}"
        by_month[month].append(score)
        for claim in score.claims:
            if claim.claim_id not in seen:
                seen.add(claim.claim_id)
                claims[month].append(claim)
    identical: dict[str, list[IdenticalPair]] = defaultdict(list)
    for pair in pairs:
        identical[f"{pair.measured_at:%Y-%m}"].append(pair)
    return [
        _month(it, by_month[it], claims[it], identical[it])
        for it in sorted({*by_month, *identical}, reverse=True)
    ]


def _month(
    month: str,
    scores: Sequence[AdviceScore],
    claims: Sequence[ClaimScore],
    pairs: Sequence[IdenticalPair],
) -> LedgerMonth:
    outcomes = Counter(it.outcome for it in scores)
    best, worse = outcomes[AdviceOutcome.BEST], outcomes[AdviceOutcome.SURPASSED]
    points = [it.regret_points for it in scores if it.regret_points is not None]
    percents = [it.regret_pct for it in scores if it.regret_pct is not None]
    regretted = [it for it in scores if (it.regret_points or 0, it.regret_pct or 0) > (0, 0)]
    worst = max(regretted, key=lambda it: (it.regret_points, it.regret_pct or 0), default=None)
    checked = [it for it in claims if it.contained is not None]
    different = [it for it in claims if Verdict(it.verdict).different]
    rejudged = [it for it in different if it.later_verdict and Verdict(it.later_verdict).settled]
    faster = sum(it.verdict == Verdict.FASTER for it in different)
    expected = [it.expected for it in checked if it.expected is not None]
    return LedgerMonth(
        month=month,
        advices=len(scores),
        outcomes={it.value: outcomes[it] for it in AdviceOutcome},
        still_best=counted_share(best, best + worse + outcomes[AdviceOutcome.REFUSED]),
        mean_regret_points=fmean(points) if points else None,
        worst_regret_points=max(points, default=None),
        mean_regret_pct=fmean(percents) if percents else None,
        worst_regret_pct=max(percents, default=None),
        worst_advice=None if worst is None else worst.advice_id,
        contained=counted_share(sum(bool(it.contained) for it in checked), len(checked)),
        expected_contained=fmean(expected) if expected else None,
        contradicted=counted_share(
            sum(it.later_verdict != it.verdict for it in rejudged), len(rejudged)
        ),
        faster=faster,
        slower=len(different) - faster,
        symmetry_p=_symmetry_p(faster, len(different)),
        false_claims=counted_share(sum(Verdict(it.verdict).different for it in pairs), len(pairs)),
    )


def _symmetry_p(faster: int, claims: int) -> float | None:
    """P-value of the exact two-sided test that both directions are equally likely.

    >>> _symmetry_p(0, 8), _symmetry_p(2, 4)
    (0.0078125, 1.0)
    """
    from scipy.special import bdtr  # slow, and needed only here; scipy.stats takes a second more

    if not claims:
        return None
    return min(1.0, 2 * float(bdtr(min(faster, claims - faster), claims, 0.5)))
