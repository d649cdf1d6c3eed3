"""Finds settled changes of performance in measurements, without I/O.

Entry point: :func:`new_entries`. Two stacks are compared if they differ in the version of one
package only: each measured release against the measured release before it. The nightly loop
measures new releases beside the stack that a project runs, its reference. A release is therefore
also compared with the newest older release of a reference stack: small steps add up, and the loop
spends no jobs on releases in between once another one is faster. All comparisons that are judged
together form one family (see :mod:`adviser.scoring.verdicts`).

Each night is another chance for a false claim. A comparison is therefore judged at planned numbers
of jobs only: first with enough jobs for a verdict, then each time with twice as many. At most five
of these looks can announce a change, and each has a fifth of the error rate (Bonferroni's bound,
which holds for any dependence between the looks; Jennison & Turnbull 2000, "Group Sequential
Methods with Applications to Clinical Trials"). Further looks can only confirm, resize or withdraw.

:func:`series_history` is the history of one series: its jobs by inspection in the order of time,
levels and steps. Comparisons use the same rules for jobs that do not count, and for steps.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from itertools import groupby, pairwise
from statistics import fmean, median, quantiles
from typing import Annotated, Any

from packaging.version import Version

from adviser.scoring.claim_texts import effect_text
from adviser.scoring.comparisons import ComparisonFamily, FamilyMember, judge_family
from adviser.scoring.drift import steps
from adviser.scoring.effects import per_cent, shrunk_effects, true_variance
from adviser.scoring.estimates import Estimate, pair_estimates
from adviser.scoring.histories import (
    DRIFT,
    History,
    MeasuredJob,
    histories_of,
    history_of,
    jobs_of,
    reference_runs,
)
from adviser.scoring.lazy_numpy import FloatArray, np
from adviser.scoring.stack_pairs import MeasuredStackIndex, StackPair, name_of, version_of_purl
from adviser.scoring.verdicts import ALPHA, Verdict
from adviser.stack_comparison import short_digest, stack_label
from model.changes import ChangeEvent, ChangeKind, ChangeLook, PerformanceChange, RecordedChange
from model.declared_fields import DIGEST, HOST, Field
from model.json_documents import as_json_time, digest
from model.measurements.evidence import (
    UNKNOWN_STACK,
    Evidence,
    MeasuredObservation,
    Reading,
    Series,
)
from model.packages.identity import Purl, version_of
from model.packages.native_libraries import CONTEXT

#: Version of the rules for changes. Part of the identifiers.
RULE = "changes-1"

#: A look is one test of a comparison while its jobs accumulate (an interim analysis). Only this
#: number of first looks can announce a change.
MAX_LOOKS = 5

#: The next look needs this number of times the jobs of the last one. The fifth look then has about
#: 80 jobs. With 1.5, it had 40, too few for a difference of 8 % if jobs vary by 5 %: in 3 of 60
#: simulated searches it became clear only after the last look.
GROWTH = 2.0

#: Chance of even one false claim among the comparisons of one look.
LOOK_ALPHA = ALPHA / MAX_LOOKS


def is_due(last: ChangeLook | None, jobs: int) -> bool:
    """Whether a comparison has enough jobs for its next look.

    >>> is_due(ChangeLook(looks=1, jobs=6), 11), is_due(ChangeLook(looks=1, jobs=6), 12)
    (False, True)
    """
    return last is None or jobs >= GROWTH * last.jobs


def next_look(last: ChangeLook | None, jobs: int) -> ChangeLook:
    """The look after ``last``, with this number of jobs."""
    return ChangeLook(1 if last is None else last.looks + 1, jobs)


@dataclass(frozen=True, slots=True)
class _ReleaseComparison:
    """A comparison of a release with an earlier one.

    :param identifier: see :attr:`model.changes.PerformanceChange.change_id`
    """

    identifier: str
    pair: StackPair
    history: History
    estimate: Estimate

    @property
    def jobs(self) -> int:
        return min(self.estimate.jobs, self.estimate.baseline_jobs)


@dataclass(frozen=True, slots=True)
class ChangeUpdate:
    """Entries and looks that new evidence adds to the list of changes.

    :param entries: new entries, in a stable order
    :param looks: looks that were taken, by identifier of the change
    """

    entries: tuple[PerformanceChange, ...]
    looks: Mapping[str, ChangeLook]


def new_entries(
    evidence: Evidence,
    known: Iterable[PerformanceChange],
    looks: Mapping[str, ChangeLook],
    references: Collection[str] = (),
) -> ChangeUpdate:
    """The entries that the evidence adds. Repeating it with equal evidence adds nothing.

    :param evidence: all measurements, stacks included
    :param known: all earlier entries, oldest first
    :param looks: earlier looks, by identifier of the change
    :param references: see :func:`compared_releases`
    """
    earlier = list(known)
    recorded, latest = {it.change_id for it in earlier}, {it.announcement: it for it in earlier}
    due = [
        it
        for it in _compared(evidence, references)
        if it.estimate.tested and is_due(looks.get(it.identifier), it.jobs)
    ]
    if not due:
        return ChangeUpdate((), {})
    members = [FamilyMember(it.estimate, it.history.log_margin, it.pair.series) for it in due]
    family = judge_family(members, LOOK_ALPHA)
    shrunk = _shrunk(due, family)
    taken = {it.identifier: next_look(looks.get(it.identifier), it.jobs) for it in due}
    entries = []
    for place, compared in enumerate(due):
        look = taken[compared.identifier].looks
        now = _entry(compared, family, place, float(shrunk[place]), look, evidence)
        entry = later_entry(now, latest.get(compared.identifier))
        if entry is not None and entry.change_id not in recorded:
            entries.append(entry)
    return ChangeUpdate(tuple(entries), taken)


def later_entry(now: PerformanceChange, last: PerformanceChange | None) -> PerformanceChange | None:
    """The entry to add, given the present evidence; ``None`` if there is no news.

    :param now: an announcement by the present evidence, settled or not
    :param last: the last entry about the same change, if it was announced
    """
    settled = now.verdict in (Verdict.FASTER, Verdict.SLOWER)
    if last is None:
        return now if settled and now.look <= MAX_LOOKS else None
    event = _event(now, last, settled=settled)
    event = None if last.event is ChangeEvent.WITHDRAWN else _event(now, last, settled=settled)
    if event is None:
        return None
    identifier = digest([last.announcement, event.value, now.look, now.rule])
    return replace(now, change_id=identifier, event=event, refers_to=last.announcement)


def _event(now: PerformanceChange, last: PerformanceChange, *, settled: bool) -> ChangeEvent | None:
    """The event of an announced change by the present evidence; ``None`` if there is no news."""
    same_sign = (now.observed_pct > 0) == (last.observed_pct > 0)
    inside = now.interval_low_pct <= last.effect_pct <= now.interval_high_pct
    event = None
    if not settled:
        gone = now.interval_low_pct <= 0 <= now.interval_high_pct or not same_sign
        event = ChangeEvent.WITHDRAWN if gone or now.verdict == Verdict.EQUIVALENT else None
    elif not same_sign:
        event = ChangeEvent.WITHDRAWN
    elif not inside and abs(now.effect_pct - last.effect_pct) > now.delta_pct:
        event = ChangeEvent.RESIZED
    elif last.event is ChangeEvent.ANNOUNCED:
        event = ChangeEvent.CONFIRMED
    return event


def _compared(evidence: Evidence, references: Collection[str]) -> Iterator[_ReleaseComparison]:
    """All comparisons of releases, in a stable order."""
    stacks = MeasuredStackIndex(evidence)
    for number, history in histories_of(evidence, range(len(evidence.series))).items():
        pairs = compared_releases(stacks, number, history, references)
        samples = [(history.sample(it.baseline), history.sample(it.candidate)) for it in pairs]
        for pair, estimate in zip(pairs, pair_estimates(samples, history.spread), strict=True):
            releases = [pair.baseline_purl, pair.purl]
            where = [history.series.comparison_key, history.series.python_version]
            kind = ChangeKind.RELEASE.value
            identifier = digest([kind, *where, *releases, pair.baseline, pair.candidate, RULE])
            yield _ReleaseComparison(identifier, pair, history, estimate)


def compared_releases(
    stacks: MeasuredStackIndex, series: int, history: History, references: Collection[str]
) -> list[StackPair]:
    """Pairs of stacks that differ in one package only, in a release and an earlier one.

    The earlier release is the next older one that was measured in an otherwise equal stack. If that
    stack is no reference, the newest older release of a reference stack makes a second pair.

    :param references: digests of stacks that new releases are measured beside
    """
    alike: dict[tuple[str, str, int], list[tuple[Version, Purl, str]]] = defaultdict(list)
    for digest_ in sorted(history.jobs):
        for purl in sorted(stacks.members.get(digest_, ())):
            version = version_of(version_of_purl(purl))
            if version is not None:
                place = name_of(purl), purl.partition("?")[2], stacks.without(digest_, purl)
                alike[place].append((version, purl, digest_))
    pairs = []
    for (name, _, _), releases in sorted(alike.items()):
        firsts = [next(it) for _, it in groupby(sorted(releases), key=lambda it: it[0])]
        reference = None
        for (_, theirs, before), (_, ours, other) in pairwise(firsts):
            if before in references:
                reference = theirs, before
            earlier = {(theirs, before)} if reference is None else {(theirs, before), reference}
            pairs += [
                StackPair(series, base, other, (name,), ours, base_purl)
                for base_purl, base in earlier
            ]
    return sorted(pairs, key=lambda it: (it.differs, it.baseline, it.candidate))


def _shrunk(due: Sequence[_ReleaseComparison], family: ComparisonFamily) -> FloatArray:
    """The expected effects, natural logs; see :func:`adviser.scoring.effects.shrunk_effects`."""
    shrunk = np.zeros(len(due))
    by_series: dict[int, list[int]] = defaultdict(list)
    for place, it in enumerate(due):
        by_series[it.pair.series].append(place)
    for places in by_series.values():
        alike = family.effects.taken(places)
        shrunk[places] = shrunk_effects(alike, true_variance(alike))
    return shrunk


def _entry(
    compared: _ReleaseComparison,
    family: ComparisonFamily,
    place: int,
    shrunk: float,
    look: int,
    evidence: Evidence,
) -> PerformanceChange:
    pair, series, estimate = compared.pair, compared.history.series, compared.estimate
    judged = family.judgements
    low, high, effect, observed = per_cent(
        np.array([judged.low[place], judged.high[place], shrunk, estimate.effect.d])
    ).tolist()
    times = (
        compared.history.as_of(pair.baseline, estimate.baseline_used),
        compared.history.as_of(pair.candidate, estimate.used),
    )
    return PerformanceChange(
        change_id=compared.identifier,
        kind=ChangeKind.RELEASE,
        event=ChangeEvent.ANNOUNCED,
        refers_to=None,
        package=pair.differs[0],
        host=None,
        from_version=version_of_purl(pair.baseline_purl or Purl("")),
        to_version=version_of_purl(pair.purl or Purl("")),
        from_stack=pair.baseline,
        to_stack=pair.candidate,
        indicator=series.indicator,
        parameters=series.parameters,
        device=series.device,
        comparison_key=series.comparison_key,
        python_version=series.python_version,
        hardware_digest=series.hardware_digest,
        hardware_label=evidence.hardware.get(series.hardware_digest, series.hardware_digest),
        verdict=judged.verdict(place).value,
        effect_pct=effect,
        observed_pct=observed,
        interval_low_pct=low,
        interval_high_pct=high,
        delta_pct=100 * math.expm1(compared.history.log_margin),
        jobs=estimate.jobs,
        baseline_jobs=estimate.baseline_jobs,
        comparisons=family.size,
        look=look,
        seen_at=max(filter(None, times), default=None),
        rule=RULE,
    )


def change_title(change: PerformanceChange) -> str:
    """What changed, in one line."""
    size, _ = _effect(change)
    if change.kind is ChangeKind.RELEASE:
        subject = f"{change.package} {change.from_version} → {change.to_version}"
    else:
        subject = f"Machine {change.host or 'unknown'}"
    if change.event is ChangeEvent.WITHDRAWN:
        return f"{subject}: no longer a difference in {change.indicator} (withdrawn)"
    suffix = "" if change.event is ChangeEvent.ANNOUNCED else f" ({change.event.value})"
    return f"{subject}: {size} in {change.indicator}{suffix}"


def change_text(change: PerformanceChange) -> str:
    """The evidence of a change, in one paragraph."""
    parameters = ", ".join(f"{key} {change.parameters[key]}" for key in sorted(change.parameters))
    measured = f"{change.indicator} ({parameters})" if parameters else change.indicator
    _, interval = _effect(change)
    counts = f"{change.baseline_jobs} and {change.jobs}"
    if change.kind is ChangeKind.RELEASE:
        stacks = f"{short_digest(change.from_stack)} and {short_digest(change.to_stack)}"
        basis = f"{counts} jobs of stacks {stacks}, which differ in {change.package} only"
    else:
        basis = f"{counts} runs of stack {short_digest(change.from_stack)}"
    bundled = change.bundled if isinstance(change, RecordedChange) else None
    context = f" {bundled} ({CONTEXT})." if bundled else ""
    refers = f" This entry refers to {change.refers_to}." if change.refers_to else ""
    return (
        f"{change_title(change)} ({interval}), from {basis}. Measured with {measured} on"
        f" {change.hardware_label}.{context}{refers}"
    )


def _effect(change: PerformanceChange) -> tuple[str, str]:
    return effect_text(change.observed_pct, change.interval_low_pct, change.interval_high_pct)


def change_document(change: RecordedChange) -> dict[str, Any]:
    """A change as JSON values."""
    values = {field.name: getattr(change, field.name) for field in fields(change)}
    return {
        **values,
        "kind": change.kind.value,
        "event": change.event.value,
        "parameters": dict(change.parameters),
        "seen_at": as_json_time(change.seen_at),
        "recorded_at": as_json_time(change.recorded_at),
        "title": change_title(change),
    }


_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One observation of a job."""

    observation_id: Annotated[str, Field("Identifier of the observation.", DIGEST)]
    rate: Annotated[float, Field("Rate in the unit of the series.", 9.4e10)]
    seen_at: Annotated[datetime | None, Field("When the job ended.")]
    left_out: Annotated[
        str | None, Field("Why comparisons leave the job out; null if they use it.")
    ]


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """The jobs of one inspection in the series."""

    document_id: Annotated[str, Field("Identifier of the inspection.", DIGEST)]
    stack_digest: Annotated[
        str | None, Field("Digest of the stack; null if it is unknown.", DIGEST)
    ]
    label: Annotated[str, Field("The stack for people.", "numpy 2.4.6 (1f2e3d4c)")]
    host: Annotated[str | None, HOST]
    jobs: tuple[HistoryJob, ...]
    median_rate: Annotated[float | None, Field("Median rate of the jobs that count.", 9.4e10)]
    low_rate: Annotated[
        float | None, Field("Lower quartile of these jobs; null below four.", 9.3e10)
    ]
    high_rate: Annotated[
        float | None, Field("Upper quartile of these jobs; null below four.", 9.5e10)
    ]

    @property
    def began_at(self) -> datetime:
        """Time of its first job; long ago if no job has a time."""
        return min((it.seen_at for it in self.jobs if it.seen_at), default=_LONG_AGO)


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A time since which a machine runs at another speed."""

    host: Annotated[str | None, HOST]
    document_id: Annotated[str | None, Field("First inspection of the new level.", DIGEST)]
    since: Annotated[datetime, Field("Time of the first job of the new level.")]
    change_pct: Annotated[
        float, Field("Difference of the levels of the machine's reference stack.", -8.1, unit="%")
    ]


@dataclass(frozen=True, slots=True)
class SeriesHistory:
    """Everything measured in a series, oldest first."""

    series: Series
    hardware_label: str
    runs: tuple[HistoryRun, ...]
    steps: tuple[HistoryStep, ...]


def series_history(observations: Sequence[MeasuredObservation]) -> SeriesHistory:
    """The history of a series, from all its observations in any order.

    :param observations: at least one; all of the same series
    """
    known = [it.reading for it in observations if it.reading.stack != UNKNOWN_STACK]
    drifted = history_of(observations[0].series, known).drifted
    by_run: dict[tuple[str, str], list[MeasuredObservation]] = defaultdict(list)
    for it in observations:
        by_run[it.reading.document_id, it.reading.stack].append(it)
    runs = [_run(them, drifted) for them in by_run.values()]
    jobs, _ = jobs_of(known)
    return SeriesHistory(
        observations[0].series,
        min(it.hardware_label for it in observations),
        tuple(sorted(runs, key=lambda it: (it.began_at, it.document_id, it.label))),
        tuple(sorted(_steps(jobs), key=lambda it: (it.since, it.host or ""))),
    )


def _run(
    observations: Sequence[MeasuredObservation], drifted: Mapping[str | None, datetime]
) -> HistoryRun:
    first = observations[0]
    readings = [it.reading for it in observations]
    readings.sort(key=lambda it: (it.seen_at or _LONG_AGO, it.observation_id))
    jobs = tuple(
        HistoryJob(it.observation_id, it.rate, it.seen_at, _reason(it, drifted)) for it in readings
    )
    rates = [it.rate for it in jobs if it.left_out is None]
    low, _, high = quantiles(rates, method="inclusive") if len(rates) > 3 else (None, None, None)
    stack = None if first.reading.stack == UNKNOWN_STACK else first.reading.stack
    return HistoryRun(
        first.reading.document_id,
        stack,
        stack_label(first.component, first.component_version, stack),
        first.reading.host,
        jobs,
        median(rates) if rates else None,
        low,
        high,
    )


def _reason(reading: Reading, drifted: Mapping[str | None, datetime]) -> str | None:
    """Why comparisons leave a job out."""
    since = drifted.get(reading.host)
    old = since is not None and (reading.seen_at is None or reading.seen_at < since)
    return reading.unstable_reason or (DRIFT if old else None)


def _steps(jobs: Mapping[str, Sequence[MeasuredJob]]) -> Iterator[HistoryStep]:
    """All steps of each machine, in its reference stack."""
    for host, (_, runs) in reference_runs(jobs).items():
        means = [fmean(it.log_rate for it in run) for run in runs]
        cuts = steps(means)
        for start, cut, end in zip([0, *cuts], cuts, [*cuts[1:], len(means)], strict=False):
            change = fmean(means[cut:end]) - fmean(means[start:cut])
            first = min(runs[cut], key=lambda it: it.seen_at or _LONG_AGO)
            yield HistoryStep(
                host, first.place.run, first.seen_at or _LONG_AGO, 100 * math.expm1(change)
            )
