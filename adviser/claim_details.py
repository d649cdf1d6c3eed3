"""The basis of one claim: pairs, hosts, inspections, other contexts, and the error rate.

The effects are estimated again from the evidence of the claim, by the functions that made it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import unquote

from adviser.reports.serialization import identified_claim, plain
from adviser.scoring.assessment_types import Claim, PackageDifference
from adviser.scoring.claim_texts import ClaimTexts
from adviser.scoring.effects import Effect, effects_of, intervals, per_cent
from adviser.scoring.estimates import Estimate, Method, estimate_with_parts, pair_estimates
from adviser.scoring.histories import History, MeasuredJob, histories_of
from adviser.scoring.lazy_numpy import np
from adviser.scoring.samples import mean_of
from adviser.scoring.stack_pairs import MeasuredStackIndex, exchanged_pairs, name_of
from adviser.scoring.turn_noise import Batches, turn_effects
from adviser.scoring.variances import NO_PRIOR
from adviser.scoring.verdicts import ALPHA
from adviser.scoring.version_choice import ELSEWHERE_SD, PACK_ELSEWHERE_SD
from model.declared_fields import BUNDLED_STEPS, DIGEST, HOST, STACK_DIGEST, Field, unbounded
from model.measurements.evidence import Evidence
from model.measurements.job_stability import left_out_text
from model.packages.native_libraries import Steps, bundled_steps, context_lines
from model.text import counted

#: Jobs of the baseline and of the candidate.
_Jobs = tuple[Sequence[MeasuredJob], Sequence[MeasuredJob]]


@dataclass(frozen=True, slots=True)
class EffectDetails:
    """A difference between two stacks with its error.

    ``d`` is NaN without comparable jobs; an unknown error and its interval are infinite.
    """

    d: Annotated[
        float, unbounded("Candidate minus baseline, natural logarithm; null if unknown.", 0.17)
    ]
    standard_error: Annotated[float, unbounded("Standard error of `d`; null if unknown.", 0.037)]
    degrees_of_freedom: Annotated[
        float, Field("Degrees of freedom of the standard error; 0 if unknown.", 12.8)
    ]
    observed_pct: Annotated[float, unbounded("The difference in % of the baseline's rate.", 18.5)]
    interval_low_pct: Annotated[float, unbounded("Lower end of its 95 % interval.", 9.4, unit="%")]
    interval_high_pct: Annotated[
        float, unbounded("Upper end of its 95 % interval.", 28.2, unit="%")
    ]


@dataclass(frozen=True, slots=True)
class PartialEffect:
    """The effect that some jobs show: the jobs of a host, of two inspections, or of other stacks.

    :param ended_at: end of the last job
    """

    stack: Annotated[str, Field("Digest of the candidate stack.", DIGEST)]
    baseline_stack: Annotated[str, Field("Digest of the baseline stack.", DIGEST)]
    differs: Annotated[
        tuple[str, ...],
        Field("Packages in which these stacks differ from the claim's stacks.", ["scipy"]),
    ]
    hosts: Annotated[tuple[str, ...], Field("Digests of the machines.", [DIGEST])]
    documents: Annotated[tuple[str, ...], Field("Inspections of the candidate's jobs.", [DIGEST])]
    baseline_documents: Annotated[
        tuple[str, ...], Field("Inspections of the baseline's jobs.", [DIGEST])
    ]
    ended_at: datetime | None
    method: Annotated[Method, Field("How the effect was estimated.")]
    jobs: Annotated[int, Field("Number of jobs of the candidate.", 9)]
    baseline_jobs: Annotated[int, Field("Number of jobs of the baseline.", 9)]
    effect: EffectDetails


@dataclass(frozen=True, slots=True)
class JobPair:
    """The jobs of both stacks in one turn on one host."""

    block: Annotated[str | None, Field("Identifier of the turn.")]
    host: Annotated[str | None, HOST]
    ended_at: datetime | None
    rate: Annotated[
        float, Field("Rate of the candidate, the geometric mean of its jobs in the turn.", 4.0e10)
    ]
    baseline_rate: Annotated[float, Field("Rate of the baseline.", 3.4e10)]
    d: Annotated[float, Field("Natural logarithm of the ratio of both rates.", 0.16)]
    difference_pct: Annotated[float, Field("The same in % of the baseline's rate.", 17.3)]


@dataclass(frozen=True, slots=True)
class UsedJob:
    """A job that the claim rests on."""

    stack: Annotated[str, STACK_DIGEST]
    document_id: Annotated[str | None, Field("Identifier of the inspection.", DIGEST)]
    job_id: Annotated[str, Field("Identifier of the job in its document.")]
    host: Annotated[str | None, HOST]
    block: Annotated[str | None, Field("Identifier of the turn.")]
    ended_at: datetime | None
    rate: Annotated[float, Field("Rate of the job.", 4.0e10)]
    observations: Annotated[tuple[str, ...], Field("Identifiers of its observations.", [DIGEST])]


@dataclass(frozen=True, slots=True)
class ClaimDetails:
    """A claim with everything that it rests on.

    :param differences: packages in which the two stacks differ
    :param effect: the observed effect, before it is widened by ``elsewhere_sd``
    :param hosts: the parts that were pooled; a single part if the effect was not pooled
    :param inspections: of jobs that ran in turns, the effect of each pair of inspections
    :param contexts: the same two versions in other stacks of the series, the most similar first
    :param pairs: jobs that ran in turns, by time
    :param jobs: all used jobs, those of the baseline first, by time
    """

    claim: Claim
    comparisons: Annotated[
        int, Field("Number of comparisons of the advice that share the error rate.", 28)
    ]
    share: Annotated[
        float, Field("Share of the error rate that this claim has; 0 if it was not tested.", 0.003)
    ]
    differences: tuple[PackageDifference, ...]
    effect: EffectDetails
    elsewhere_sd: Annotated[
        float,
        Field(
            "Standard deviation, natural logarithm, added because the comparison was measured"
            " elsewhere than on the target; 0 if it was measured there.",
            0.0,
        ),
    ]
    hosts: tuple[PartialEffect, ...]
    inspections: tuple[PartialEffect, ...]
    contexts: tuple[PartialEffect, ...]
    pairs: tuple[JobPair, ...]
    jobs: tuple[UsedJob, ...]
    left_out: Annotated[
        Mapping[str, Mapping[str, int]],
        Field("For each stack, the number of jobs left out by reason."),
    ]
    bundled: Annotated[Steps, BUNDLED_STEPS]

    @property
    def documents(self) -> tuple[str, ...]:
        """The inspections of all used jobs, sorted."""
        return tuple(sorted({it.document_id for it in self.jobs if it.document_id}))


def claim_details(evidence: Evidence, claim: Claim, comparisons: int, share: float) -> ClaimDetails:
    """Explain a claim from the evidence that it was made of."""
    series = claim.comparison_key, claim.python_version, claim.origin and claim.origin.pack
    number = next(
        place
        for place, it in enumerate(evidence.series)
        if (it.comparison_key, it.python_version, it.origin) == series
    )
    history, stacks = histories_of(evidence, [number])[number], MeasuredStackIndex(evidence)
    pair = claim.baseline_stack, claim.stack
    theirs, ours = map(history.sample, pair)
    estimate, parts = estimate_with_parts(theirs, ours, history.spread)
    paired = (it for it in parts if it.method is Method.PAIRED)
    turns = [turn for part in paired for turn in _turns(_used(history, pair, part))]
    turns.sort(key=lambda it: _by_time(it[0][-1]))
    used = zip(pair, (estimate.baseline_used, estimate.used), strict=True)
    away = (not claim.same_hardware) + (not claim.same_python)
    # With the index, which may be all that differs.
    old, new = (
        {name_of(it): unquote(it.partition("@")[2]) for it in stacks.members[stack]}
        for stack in pair
    )
    differences = tuple(PackageDifference(it, new.get(it), old.get(it)) for it in claim.differs)
    return ClaimDetails(
        claim=claim,
        comparisons=comparisons,
        share=share,
        differences=differences,
        effect=_effect_details(estimate.effect),
        elsewhere_sd=(ELSEWHERE_SD if claim.origin is None else PACK_ELSEWHERE_SD)
        * math.sqrt(away),
        hosts=tuple(
            _partial(pair, _used(history, pair, it), it.method, it.effect) for it in parts
        ),
        inspections=tuple(
            _partial(pair, _joined(several), Method.PAIRED, _own_effect(map(_pair, several)))
            for several in _by_inspections(turns)
        ),
        contexts=_contexts(stacks, history, claim),
        pairs=tuple(map(_pair, turns)),
        jobs=tuple(
            UsedJob(
                stack, job.place.run, job.job_id, job.place.host, job.place.block, job.seen_at,
                math.exp(job.log_rate), job.observations,
            )
            for stack, jobs in zip(pair, _used(history, pair, estimate), strict=True)
            for job in jobs
        ),
        left_out={stack: dict(history.excluded(stack, places)) for stack, places in used},
        bundled=bundled_steps(
            evidence.bundled, ((it.name, it.ours, it.theirs) for it in differences)
        ),
    )  # fmt: skip


def _by_time(job: MeasuredJob) -> tuple[str, str]:
    return str(job.seen_at), job.job_id


def _used(history: History, pair: tuple[str, str], estimate: Estimate) -> _Jobs:
    """The jobs that an estimate uses, by time."""
    theirs, ours = (
        sorted((history.jobs[stack][i] for i in places), key=_by_time)
        for stack, places in zip(pair, (estimate.baseline_used, estimate.used), strict=True)
    )
    return theirs, ours


def _turns(jobs: _Jobs) -> Iterator[_Jobs]:
    """Divide paired jobs by host and block."""
    sides: list[dict[tuple[str | None, str | None], list[MeasuredJob]]] = []
    for several in jobs:
        side = defaultdict(list)
        for it in several:
            side[it.place.host, it.place.block].append(it)
        sides.append(side)
    theirs, ours = sides
    return ((them, ours[turn]) for turn, them in theirs.items())


def _pair(turn: _Jobs) -> JobPair:
    baseline_rate, rate = (mean_of([it.log_rate for it in side]) for side in turn)
    place, d = turn[1][0].place, rate - baseline_rate
    return JobPair(
        place.block, place.host, _ended_at(turn), math.exp(rate), math.exp(baseline_rate), d,
        100 * math.expm1(d),
    )  # fmt: skip


def _by_inspections(turns: Iterable[_Jobs]) -> Iterable[list[_Jobs]]:
    """Divide turns by host and by the inspections of both stacks."""
    groups: dict[tuple[object, ...], list[_Jobs]] = defaultdict(list)
    for turn in turns:
        groups[turn[1][0].place.host, *(side[0].place.run for side in turn)].append(turn)
    return groups.values()


def _joined(turns: Iterable[_Jobs]) -> _Jobs:
    theirs, ours = zip(*turns, strict=True)
    return [it for side in theirs for it in side], [it for side in ours for it in side]


def _own_effect(pairs: Iterable[JobPair]) -> Effect:
    """The effect that pairs show by themselves, without the variance of other stacks."""
    differences = [it.d for it in pairs]
    batch = Batches.of([differences], [(len(differences),)])
    return turn_effects(batch, [NO_PRIOR], [None]).effects.single(0)


def _ended_at(jobs: _Jobs) -> datetime | None:
    return max((it.seen_at for side in jobs for it in side if it.seen_at), default=None)


def _partial(
    pair: tuple[str, str],
    jobs: _Jobs,
    method: Method,
    effect: Effect,
    differs: tuple[str, ...] = (),
) -> PartialEffect:
    theirs, ours = (sorted({it.place.run for it in side if it.place.run}) for side in jobs)
    hosts = {it.place.host for side in jobs for it in side if it.place.host}
    return PartialEffect(
        pair[1], pair[0], differs, tuple(sorted(hosts)), tuple(ours), tuple(theirs),
        _ended_at(jobs), method, len(jobs[1]), len(jobs[0]), _effect_details(effect),
    )  # fmt: skip


def _effect_details(effect: Effect) -> EffectDetails:
    low, high = intervals(effects_of([effect]))
    percents = per_cent(np.array([effect.d, low[0], high[0]])).tolist()
    if not math.isfinite(effect.standard_error):
        percents[1:] = -math.inf, math.inf
    return EffectDetails(effect.d, effect.standard_error, effect.degrees_of_freedom, *percents)


def _contexts(
    stacks: MeasuredStackIndex, history: History, claim: Claim
) -> tuple[PartialEffect, ...]:
    ours, theirs = claim.purl, claim.baseline_purl
    if ours is None or theirs is None:
        return ()
    measured = history.jobs.keys()
    pairs = [
        pair
        for pair in exchanged_pairs(stacks, theirs, ours)
        if pair[0] != claim.baseline_stack and measured >= set(pair)
    ]
    samples = [(history.sample(base), history.sample(other)) for base, other in pairs]
    contexts = [
        _partial(
            pair, _used(history, pair, estimate), estimate.method, estimate.effect,
            stacks.differing(pair[0], claim.baseline_stack),
        )
        for pair, estimate in zip(pairs, pair_estimates(samples, history.spread), strict=True)
    ]  # fmt: skip
    return tuple(sorted(contexts, key=lambda it: (len(it.differs), it.differs, it.stack)))


def details_document(details: ClaimDetails, *, hardware_named: bool = True) -> dict[str, Any]:
    """The details as JSON values, with sentences for people."""
    return {
        **plain(details),
        "claim": identified_claim(details.claim),
        "sentences": list(sentences(details, hardware_named=hardware_named)),
    }


def sentences(details: ClaimDetails, *, hardware_named: bool = True) -> Iterator[str]:
    """Sentences with the result of the claim and how it was computed.

    :param hardware_named: whether the advice is for a hardware class; else none is another
    """
    claim = details.claim
    yield f"{ClaimTexts([claim], hardware_named=hardware_named).justification(claim).message}."
    if claim.verdict.different:
        yield from (f"{it}." for it in context_lines(details.bundled, details.bundled))
    yield from _effect_texts(details)
    if details.elsewhere_sd:
        hardware = [] if claim.same_hardware else ["another hardware class"]
        python = [] if claim.same_python else ["another version of Python"]
        others = [*(hardware if hardware_named else []), *python]
        measured = f"It was measured on {' and '.join(others)} than requested" if others else ""
        unnamed = "The advice is for no hardware class" if hardware and not hardware_named else ""
        yield (
            f"{'. '.join(filter(None, (measured, unnamed)))}, so its standard"
            f" error is combined with {details.elsewhere_sd:.2f}."
        )
    if math.isfinite(claim.interval_high_pct):
        yield (
            f"Shrunk towards zero by its uncertainty, the effect to expect is"
            f" {claim.effect_pct:+.1f} %."
        )
    yield f"Differences up to {claim.delta_pct:.1f} % count as equivalent."
    if claim.tested:
        yield (
            f"The error rate of {100 * ALPHA:.0f} % is shared by"
            f" {counted(details.comparisons, 'comparison')} of the advice; this one has"
            f" {100 * details.share:.2f} %."
        )
        yield (
            f"Its p-value, adjusted for all of them (Holm), is {claim.p_value:.2g}; a verdict needs"
            f" less than {ALPHA:g}."
        )
    else:
        yield "The comparison was not tested: it has too few jobs, or its error is unknown."
    for stack, name in ((claim.baseline_stack, "baseline"), (claim.stack, "candidate")):
        if reasons := left_out_text(details.left_out[stack]):
            yield f"Jobs of the {name} left out: {reasons}."
    if claim.purl is not None:
        number = len(details.contexts)
        contexts = counted(number, "other context") if number else "no other context"
        yield f"In this series, the two versions were compared in {contexts}."
    observations = sum(len(it.observations) for it in details.jobs)
    inspections = counted(len(details.documents), "inspection")
    yield f"The claim rests on {counted(observations, 'observation')} of {inspections}."


def _effect_texts(details: ClaimDetails) -> Iterator[str]:
    """How the observed effect was estimated."""
    claim, effect = details.claim, details.effect
    if not math.isfinite(effect.d):
        yield "No jobs of the two stacks can be compared with each other."
        return
    error = "its error is unknown"
    if math.isfinite(effect.standard_error):
        error = (
            f"standard error {effect.standard_error:.4f} with"
            f" {effect.degrees_of_freedom:.1f} degrees of freedom"
        )
    yield (
        f"The observed effect is {_method_text(details)}: {effect.observed_pct:+.2f} %, natural"
        f" logarithm {effect.d:+.4f}, {error}."
    )
    if claim.method is Method.PAIRED:
        own = _own_effect(details.pairs)
        if not math.isclose(own.standard_error, effect.standard_error, rel_tol=1e-9):
            yield (
                f"By themselves, these pairs have a standard error of {own.standard_error:.4f} with"
                f" {own.degrees_of_freedom:.0f} degrees of freedom; the variance is moderated by"
                " that of other stacks in the same turns."
            )
    if len(details.inspections) == 1:
        yield "All pairs are of one run of each stack: differences between runs are not known."


def _method_text(details: ClaimDetails) -> str:
    claim = details.claim
    if claim.method is Method.PAIRED:
        return f"the mean difference of {counted(claim.pairs, 'pair')} of jobs that ran in turns"
    if claim.method is Method.POOLED:
        tau = 100 * math.expm1(claim.tau or 0.0)
        return (
            f"the mean over {len(details.hosts)} hosts, weighted by precision, with a standard"
            f" deviation of {tau:.1f} % between hosts (τ)"
        )
    runs = f"{claim.runs} and {counted(claim.baseline_runs, 'run')}"
    return f"the difference of the means of {runs}, which did not run in turns"
