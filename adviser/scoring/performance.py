"""Claims about the performance of versions.

All comparisons of one answer are judged as one family. This bounds the chance of even one false
claim in the answer, for any number of packages, versions and indicators. Claims do not decide which
version is chosen; :mod:`adviser.scoring.version_choice` does.

Own jobs and each pack are estimated and judged apart. They share the error rate of the family, and
their shares do not depend on what packs contain. Where own jobs have settled a question, they
decide. Comparisons that decide nothing have no share, and are only shown.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from adviser.scoring.assessment_types import Claim, ClaimOrigin
from adviser.scoring.comparisons import ComparisonFamily, FamilyMember, judge_family
from adviser.scoring.effects import (
    MIN_JOBS_TO_TELL,
    Effects,
    SpreadRatio,
    lower_bounds,
    per_cent,
    shrunk_effects,
    true_variance,
    variance_ratio,
)
from adviser.scoring.estimates import Estimate, pair_estimates
from adviser.scoring.histories import History, histories_of, jobs_left_out
from adviser.scoring.lazy_numpy import FloatArray, np
from adviser.scoring.samples import within_runs
from adviser.scoring.stack_pairs import (
    ForcedChanges,
    MeasuredStackIndex,
    MeasuredStacks,
    Role,
    StackPair,
    package_pairs,
    several_package_pairs,
)
from adviser.scoring.target import OwnBenchmarks, Target, evidence_parts
from adviser.scoring.verdicts import ALPHA
from adviser.scoring.version_choice import ELSEWHERE_SD, PACK_ELSEWHERE_SD
from model.measurements.evidence import Evidence, EvidencePack, Series
from model.packages.identity import Purl

#: Shares of α by the purpose of a comparison; most of it for claims that change the advice.
_SHARES = {Role.BASELINE: 6.0, Role.NEWEST: 3.0, Role.STACKS: 1.0}
#: Share of α that all packs have beside own comparisons.
_PACKS_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class _Compared:
    """A pair of stacks with its estimated effect.

    :param pack: whose jobs these are; ``None`` for own ones
    :param decides: whether the claim may decide
    """

    pair: StackPair
    history: History
    estimate: Estimate
    pack: EvidencePack | None = None
    decides: bool = True

    @property
    def used(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The two stacks, each with the indexes of the jobs that were used."""
        return (
            (self.pair.baseline, self.estimate.baseline_used),
            (self.pair.candidate, self.estimate.used),
        )


@dataclass(frozen=True, slots=True)
class Performance:
    """Measured performance of the versions of a request.

    :param claims: comparisons with the baseline's versions, and settled ones between others
    :param comparisons: number of comparisons that share the error rate
    :param shares: share of α of each claim, 0 if it was not tested
    :param shown: claims of packs that decide nothing
    """

    claims: tuple[Claim, ...]
    comparisons: int
    shares: tuple[float, ...] = ()
    shown: tuple[Claim, ...] = ()


def performance_of(
    evidence: Evidence,
    measured: MeasuredStacks,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
) -> Performance:
    """Measured performance of the versions of a request.

    If a version was measured on the target, only these measurements count. Otherwise measurements
    from other targets are reported separately, with wider intervals.

    :param measured: the measured stacks of the evidence
    :param versions: versions that may be chosen, by name
    :returns: claims by package, version, indicator and hardware, then the settled claims about
        stacks that differ in several packages
    """
    compared: list[list[_Compared]] = []
    own = OwnBenchmarks(evidence, target)
    for stacks, pack, decides in measured.parts(target):
        series = stacks.evidence.series
        known = _series_of_interest(stacks.evidence, stacks.index, baseline, versions)
        interesting = sorted(it for it in known if not own.ignores(series[it]))
        histories = {number: stacks.histories[number] for number in interesting}
        pairs = package_pairs(stacks.index, histories, stacks.forced, baseline, versions)
        pairs = _nearest(pairs, series, target)
        here = {
            number: it for number, it in histories.items() if target.distance(series[number]) == 0
        }
        pairs += several_package_pairs(stacks.index, here, stacks.forced, baseline, versions)
        compared.append(_estimated(pairs, histories, pack, decides=decides))
    return _judged(compared, target, evidence)


def upgrade_claims(
    evidence: Evidence,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
    target: Target,
    forced: Callable[[MeasuredStackIndex], ForcedChanges],
    whole: tuple[Collection[Purl], Collection[Purl]] | None = None,
) -> Performance:
    """Claims about an upgrade, settled or not: about each changed version and the whole stack.

    Only measurements on the target's hardware count, with any version of Python; those of packs on
    other hardware are shown. These comparisons form a family of their own.

    :param baseline: versions of the old stack by name
    :param versions: by name, the old and the new version of each changed package
    :param forced: returns the other changes that the change of a package forces
    :param whole: all versions of the old and of the new stack; if both were measured, they are
        compared on the target only, and never scored
    """
    compared: list[list[_Compared]] = []
    for part, pack, decides in evidence_parts(evidence, target):
        stacks = MeasuredStackIndex(part)
        known = _series_of_interest(part, stacks, baseline, versions)
        if decides:
            known = {it for it in known if target.same_hardware(part.series[it])}
        histories = histories_of(part, known)
        pairs = package_pairs(stacks, histories, forced(stacks), baseline, versions)
        pairs = _nearest(pairs, part.series, target)
        old, new = map(stacks.exactly, whole) if whole is not None else (None, None)
        if old is not None and new is not None:
            differs = stacks.differing(old, new)
            pairs += [
                StackPair(number, old, new, differs)
                for number, it in histories.items()
                if target.distance(part.series[number]) == 0 and old in it.jobs and new in it.jobs
            ]
        compared.append(_estimated(pairs, histories, pack, decides=decides))
    return _judged(compared, target, evidence, every=True)


def claims_about(
    pairs: Sequence[StackPair], histories: Mapping[int, History], target: Target, evidence: Evidence
) -> tuple[Claim, ...]:
    """Claims about all pairs, settled or not, as one family.

    :param histories: of the series of the pairs, by number
    """
    return _judged([_estimated(pairs, histories)], target, evidence, every=True).claims


def _series_of_interest(
    evidence: Evidence,
    stacks: MeasuredStackIndex,
    baseline: Mapping[str, Purl],
    versions: Mapping[str, Collection[Purl]],
) -> set[int]:
    """Indexes of the series with a measured stack that contains a version of interest."""
    holding = {digest for purl in baseline.values() for digest in stacks.holding(purl)}
    for several in versions.values():
        measured = [it for it in several if stacks.holding(it)]
        if len(measured) > 1:
            holding.update(digest for it in measured for digest in stacks.holding(it))
    return {it.series for it in evidence.readings if it.stack in holding}


def _nearest(
    pairs: Sequence[StackPair], series: Sequence[Series], target: Target
) -> list[StackPair]:
    """For each pair of versions, the stack pairs whose measurements are nearest to the target."""
    nearest: dict[tuple[Purl | None, Purl | None], int] = {}
    for pair in pairs:
        versions = pair.purl, pair.baseline_purl
        distance = target.distance(series[pair.series])
        nearest[versions] = min(distance, nearest.get(versions, distance))
    return [
        it
        for it in pairs
        if target.distance(series[it.series]) == nearest[it.purl, it.baseline_purl]
    ]


def _estimated(
    pairs: Sequence[StackPair],
    histories: Mapping[int, History],
    pack: EvidencePack | None = None,
    *,
    decides: bool = True,
) -> list[_Compared]:
    """Estimate the effects, all pairs of a series together."""
    by_series: dict[int, list[StackPair]] = defaultdict(list)
    for it in pairs:
        by_series[it.series].append(it)
    compared = []
    for number, several in by_series.items():
        history = histories[number]
        samples = [(history.sample(it.baseline), history.sample(it.candidate)) for it in several]
        estimates = pair_estimates(samples, history.spread)
        compared += [
            _Compared(pair, history, estimate, pack, decides)
            for pair, estimate in zip(several, estimates, strict=True)
        ]
    return compared


def _judged(
    parts: Sequence[Sequence[_Compared]], target: Target, evidence: Evidence, *, every: bool = False
) -> Performance:
    """Judge all comparisons of one answer, which share its error rate.

    :param parts: own comparisons, then those of packs; parts that decide nothing have no share
    :param every: whether to return claims from all comparisons, settled or not
    """
    tested = [any(it.decides and it.estimate.tested for it in part) for part in parts]
    packs, both = sum(tested[1:]), tested[0] and any(tested[1:])
    rows: _Rows = []
    shown: list[Claim] = []
    comparisons = 0
    for number, part in enumerate(parts):
        share = 1.0 - _PACKS_SHARE if both else 1.0
        if number:
            share = (_PACKS_SHARE if both else 1.0) / max(1, packs)
        decides = all(it.decides for it in part)
        claims, size = _family(part, target, evidence, share if decides else 1.0, every=every)
        if decides:
            rows += claims
            comparisons += size
        else:
            shown += (claim for claim, _ in claims)
    rows, passed_over = _ranked(sorted(rows, key=lambda pair: _order(pair[0])))
    return Performance(
        tuple(claim for claim, _ in rows),
        comparisons,
        tuple(share for _, share in rows),
        tuple(sorted([*shown, *passed_over], key=_order)),
    )


#: Claims with their shares of α.
_Rows = list[tuple[Claim, float]]


def _family(
    compared: Sequence[_Compared], target: Target, evidence: Evidence, share: float, *, every: bool
) -> tuple[_Rows, int]:
    """The claims of one origin with their shares of α, and its number of comparisons.

    :param share: of α, for all of them
    """
    if not compared:
        return [], 0
    tested = Counter(it.pair.role for it in compared if it.estimate.tested)
    places: dict[int, int] = {}
    numbers = [places.setdefault(id(it.history), len(places)) for it in compared]
    family = judge_family(
        [
            FamilyMember(
                member.estimate,
                member.history.log_margin,
                number,
                (ELSEWHERE_SD if member.pack is None else PACK_ELSEWHERE_SD)
                * math.sqrt(target.distance(member.history.series)),
                _SHARES[member.pair.role] / max(1, tested[member.pair.role]),
                every or member.pair.role is Role.BASELINE,
                member.pack is None,
            )
            for member, number in zip(compared, numbers, strict=True)
        ],
        share * ALPHA,
    )
    verdicts = family.judgements.verdicts
    shrunk = _expected(numbers, family.effects)
    levels = np.where(family.tested, family.alpha, ALPHA)
    sizes = replace(family.effects, d=np.abs(family.effects.d))
    bounds = lower_bounds(sizes, np.abs(shrunk), levels)
    judged = [
        _Judged(it, family, i, float(shrunk[i]), float(bounds[i])) for i, it in enumerate(compared)
    ]
    claims = [
        (_claim(it, target, evidence.hardware, share), float(family.alpha[it.place]))
        for it in judged
        if every or it.compared.pair.role is Role.BASELINE or verdicts[it.place]
    ]
    return claims, family.size


def _ranked(rows: _Rows) -> tuple[_Rows, list[Claim]]:
    """The claims that decide, and claims of packs that another claim on their question overrides.

    Own jobs that have settled a question decide it, and say which packs they confirm or overrule.
    Packs that disagree decide nothing.
    """
    if all(claim.origin is None for claim, _ in rows):
        return rows, []
    settled: dict[object, list[Claim]] = defaultdict(list)
    for claim, _ in rows:
        if claim.verdict.settled:
            settled[claim.question].append(claim)
    kept: _Rows = []
    passed_over: list[Claim] = []
    for claim, share in rows:
        alike = settled.get(claim.question, [])
        packs = [it for it in alike if it.origin is not None]
        if claim.origin is None:
            names: dict[bool, list[str]] = {True: [], False: []}
            for it in packs if claim.verdict.settled else ():
                names[it.verdict is claim.verdict].append(it.origin.name if it.origin else "")
            agreed = replace(claim, confirms=tuple(names[True]), overrules=tuple(names[False]))
            kept.append((agreed, share))
        elif len(packs) == len(alike) and len({it.verdict for it in packs}) < 2:
            kept.append((claim, share))
        else:
            problem = "packs disagree" if len(packs) == len(alike) else "own jobs decide"
            origin = replace(claim.origin, problem=problem)
            passed_over.append(replace(claim, origin=origin, scored=False, bound=0.0))
    return kept, passed_over


def _expected(series: Sequence[int], effects: Effects) -> FloatArray:
    """Shrink each effect, based on all comparisons of its series, given by number."""
    shrunk = np.zeros(len(series))
    by_series: dict[int, list[int]] = defaultdict(list)
    for i, number in enumerate(series):
        by_series[number].append(i)
    for places in by_series.values():
        alike = effects.taken(places)
        shrunk[places] = shrunk_effects(alike, true_variance(alike))
    return shrunk


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on one comparison.

    :param place: index among the members of the family
    :param shrunk: shrunk effect, natural log
    :param smallest: lower bound of its absolute value, natural log
    """

    compared: _Compared
    family: ComparisonFamily
    place: int
    shrunk: float
    smallest: float

    @property
    def one_package(self) -> bool:
        """Whether one package forces all differences between the two stacks."""
        return self.compared.pair.purl is not None

    @property
    def bound(self) -> float:
        """The settled difference, which is at least δ; 0 if nothing is settled."""
        if not (self.one_package and self.family.judgements.verdict(self.place).different):
            return 0.0
        size = max(self.smallest, self.compared.history.log_margin)
        return math.copysign(size, self.compared.estimate.effect.d)


def _claim(judged: _Judged, target: Target, labels: Mapping[str, str], share: float) -> Claim:
    """:param share: of α, for all comparisons of the origin"""
    compared = judged.compared
    pair, series, estimate = compared.pair, compared.history.series, compared.estimate
    place, judgements = judged.place, judged.family.judgements
    low, high, effect, observed = per_cent(
        np.array([judgements.low[place], judgements.high[place], judged.shrunk, estimate.effect.d])
    ).tolist()
    fields = judged.family.result_fields(place, estimate, compared.history.job_s)
    return Claim(
        **fields | {"p_value": min(1.0, fields["p_value"] / share)},
        package=pair.differs[0] if pair.purl else None,
        purl=pair.purl,
        baseline_purl=pair.baseline_purl,
        stack=pair.candidate,
        baseline_stack=pair.baseline,
        differs=pair.differs,
        beside_baseline=pair.role is Role.BASELINE,
        indicator=series.indicator,
        parameters=series.parameters,
        device=series.device,
        unit=series.unit,
        comparison_key=series.comparison_key,
        hardware_digest=series.hardware_digest,
        hardware_label=labels.get(series.hardware_digest, series.hardware_digest),
        same_hardware=target.same_hardware(series),
        python_version=series.python_version,
        same_python=target.same_python(series),
        effect_pct=effect,
        observed_pct=observed,
        interval_low_pct=low if math.isfinite(judgements.low[place]) else -math.inf,
        interval_high_pct=high,
        delta_pct=100 * math.expm1(compared.history.log_margin),
        bound=judged.bound if compared.decides else 0.0,
        scored=judged.one_package and judgements.verdict(place).settled and compared.decides,
        left_out=jobs_left_out(compared.history, compared.used),
        spread_ratio=_spread_ratio(compared),
        evidence=tuple(
            sorted(
                one
                for stack, used in compared.used
                for one in compared.history.observed(stack, used)
            )
        ),
        as_of=max(
            (at for one in compared.used if (at := compared.history.as_of(*one))), default=None
        ),
        origin=_origin(compared),
    )


def _origin(compared: _Compared) -> ClaimOrigin | None:
    pack = compared.pack
    if pack is None:
        return None
    problem = pack.problem
    if problem is None and not compared.decides:
        allowed = pack.decides(compared.history.series)
        problem = "other hardware" if allowed else "the policy does not trust its key for this"
    return ClaimOrigin(pack.digest, pack.name, pack.key, problem)


def _spread_ratio(compared: _Compared) -> SpreadRatio | None:
    """Ratio of the spreads of both stacks; ``None`` below 20 jobs."""
    if min(compared.estimate.jobs, compared.estimate.baseline_jobs) < MIN_JOBS_TO_TELL:
        return None
    theirs, ours = (
        within_runs(compared.history.sample(stack), used) for stack, used in compared.used
    )
    return variance_ratio(ours, theirs)


def _order(claim: Claim) -> tuple[object, ...]:
    return (
        claim.purl is None, claim.package or "", claim.purl or "", claim.indicator,
        claim.hardware_label, claim.comparison_key, claim.python_version or "", claim.stack,
        claim.baseline_stack,
    )  # fmt: skip
