"""Compare measured stacks with each other: the part of ``thoth stacks`` that does no I/O.

Observations go in, and groups of comparable stacks come out. The order of the groups depends
neither on the order of the observations nor on the time of day.

The reference of a series is the stack with the most jobs: its error is part of every comparison, so
``thoth inspect`` runs it more often than the others.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from statistics import median
from typing import Annotated

from packaging.version import Version

from adviser.scoring.comparisons import (
    Comparison,
    ComparisonGroup,
    EstimatedGroup,
    SelfCheck,
    compare_candidates,
    estimate_group,
    judge_groups,
    self_check,
    smallest_difference,
)
from adviser.scoring.histories import History, MeasuredJob, history_of, jobs_left_out, jobs_of
from adviser.scoring.next_jobs import FurtherJobs, further_jobs
from adviser.scoring.sample_needs import AGAIN, INSPECT
from adviser.scoring.samples import Sample
from adviser.scoring.turn_noise import noise_test
from adviser.scoring.verdicts import ALPHA
from model.declared_fields import COMPONENT, DELTA_PCT, STACK_DIGEST, STACK_LABEL, Field
from model.errors import ProjectError
from model.measurements.evidence import (
    UNKNOWN_STACK,
    HardwareName,
    MeasuredObservation,
    Reading,
    Series,
)
from model.measurements.job_stability import noise_warnings, robust_variation
from model.packages.identity import DEFAULT_INDEX, PackageVersion, version_of

#: Number of hexadecimal digits that identify a digest for people.
SHORT_DIGEST = 8
#: Inspections of a series in its short history; the latest ones.
RECENT_INSPECTIONS = 30
#: Share of the jobs of a reference that may be disturbed.
MOST_DISTURBED = 0.2
#: Value of ``baseline`` that compares with the newest release instead of a stack.
NEWEST_BASELINE = "newest"
_LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecentHistory:
    """The last inspections of a series, of all its stacks together."""

    observations: Annotated[int, Field("Number of all observations, including unstable ones.", 40)]
    inspections: Annotated[int, Field("Number of all inspections.", 4)]
    rates: Annotated[
        tuple[float, ...],
        Field(
            "Median rate of each of the last 30 inspections, oldest first. Unstable observations"
            " do not count; observations from before a step of the machine do.",
            [9.4e10],
        ),
    ]


@dataclass(frozen=True, slots=True)
class StackJobs:
    """The jobs of a stack before the comparison.

    :param digest: ``None`` if the inspections named no lock
    :param jobs: the jobs that count
    :param left_out: for each other job the reason why it does not count, sorted
    :param packages: all packages of the stack; empty if it is unknown
    """

    digest: str | None
    component: str | None
    version: str | None
    jobs: tuple[MeasuredJob, ...]
    left_out: tuple[str, ...]
    packages: tuple[PackageVersion, ...] = ()

    @property
    def label(self) -> str:
        return stack_label(self.component, self.version, self.digest)

    @property
    def number(self) -> int:
        """Number of all jobs."""
        return len(self.jobs) + len(self.left_out)

    @property
    def rates(self) -> list[float]:
        """Rates of the jobs that count."""
        return [math.exp(it.log_rate) for it in self.jobs]


@dataclass(frozen=True, slots=True)
class MeasuredSeries:
    """Everything measured under one comparison key and one version of Python.

    :param known: stacks by digest
    :param unknown: jobs of unknown stacks, by version of the component; one version may
        stand for several stacks, so they are not compared
    """

    series: Series
    hardware_label: str
    history: History = field(repr=False)
    known: tuple[StackJobs, ...]
    unknown: tuple[StackJobs, ...]
    recent: RecentHistory


def short_digest(digest: str) -> str:
    """The first digits of a digest, without its algorithm.

    >>> short_digest("sha256:1f2e3d4c5b6a")
    '1f2e3d4c'
    """
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def stack_label(component: str | None, version: str | None, digest: str | None) -> str:
    """A measured stack for people.

    >>> stack_label("numpy", "2.0.2", "sha256:1f2e3d4c5b6a"), stack_label(None, None, None)
    ('numpy 2.0.2 (1f2e3d4c)', 'stack (stack unknown)')
    """
    name = " ".join(part for part in (component, version) if part) or "stack"
    return f"{name} ({short_digest(digest) if digest else 'stack unknown'})"


def measured_series(alike: Sequence[MeasuredObservation]) -> MeasuredSeries:
    """Group the observations of one series, in any order, by stack.

    Drift and instability are handled by the same functions as in advice.
    """
    by_stack = defaultdict(list)
    for observation in alike:
        unlocked = (observation.component or "", observation.component_version or "")
        by_stack[
            observation.reading.stack, *(() if observation.reading.stack else unlocked)
        ].append(observation)
    series = alike[0].series
    history = history_of(series, (it.reading for it in alike if it.reading.stack != UNKNOWN_STACK))
    known: list[StackJobs] = []
    unknown: list[StackJobs] = []
    for identity, rows in sorted(by_stack.items()):
        digest = identity[0]
        if digest == UNKNOWN_STACK:
            stable, out = jobs_of(it.reading for it in rows)
            reasons = tuple(sorted(out[UNKNOWN_STACK]))
            component = _component(rows)
            unknown.append(StackJobs(None, *component, tuple(stable[UNKNOWN_STACK]), reasons))
        else:
            jobs, left_out = history.jobs.get(digest, ()), history.left_out.get(digest, ())
            packages = rows[0].packages
            known.append(StackJobs(digest, *_component(rows), jobs, left_out, packages))
    label = min(it.hardware_label for it in alike)
    recent = _recent([it.reading for it in alike])
    return MeasuredSeries(series, label, history, tuple(known), tuple(unknown), recent)


def _recent(readings: Sequence[Reading]) -> RecentHistory:
    by_run: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for it in readings:
        by_run[it.document_id, it.stack].append(it)
    timed = []
    for run, them in by_run.items():
        began_at = min((it.seen_at for it in them if it.seen_at), default=_LONG_AGO)
        rates = [it.rate for it in them if it.unstable_reason is None]
        if rates:
            timed.append((began_at, run, median(rates)))
    last = sorted(timed)[-RECENT_INSPECTIONS:]
    return RecentHistory(len(readings), len(by_run), tuple(rate for *_, rate in last))


def _component(rows: Sequence[MeasuredObservation]) -> tuple[str | None, str | None]:
    return (
        min((row.component for row in rows if row.component), default=None),
        min((row.component_version for row in rows if row.component_version), default=None),
    )


@dataclass(frozen=True, slots=True)
class DifferingPackage:
    """A package that a stack has in another version than the baseline."""

    name: Annotated[str, Field("Name of the package.", "numpy")]
    baseline_version: Annotated[
        str | None, Field("Its version in the baseline; null if it lacks it.", "2.2.6")
    ]
    version: Annotated[str | None, Field("Its version in the stack; null if it lacks it.", "2.3.5")]

    def __str__(self) -> str:
        return f"{self.name} {self.baseline_version or 'none'} → {self.version or 'none'}"


#: Many stacks differ from their baselines in the same way.
_differing_package = lru_cache(maxsize=65_536)(DifferingPackage)


def differing_packages(baseline: StackJobs, stack: StackJobs) -> tuple[DifferingPackage, ...]:
    """All packages that differ between two stacks: the measured package first, then by name."""
    ours, theirs = (_versions(set(a.packages) - set(b.packages))
                    for a, b in ((stack, baseline), (baseline, stack)))  # fmt: skip
    names = sorted(ours.keys() | theirs.keys(), key=lambda it: (it != stack.component, it))
    return tuple(_differing_package(it, theirs.get(it), ours.get(it)) for it in names)


def _versions(packages: Iterable[PackageVersion]) -> dict[str, str]:
    return {
        it.name: it.version if it.index == DEFAULT_INDEX else f"{it.version} ({it.index})"
        for it in sorted(packages, key=lambda it: it.purl)
    }


class UnknownBaseline(ProjectError):
    """Raised for a digest prefix that matches no measured stack, or more than one."""


@dataclass(frozen=True, slots=True)
class StackResult:
    """One stack under one comparison key.

    :param median_rate: the jobs of a compared stack and of the baseline may have run at different
        times, so a median of its own jobs would disagree with the difference
    :param variation: MAD-based coefficient of variation of the rates of the jobs that count,
        dimensionless; ``None`` below two jobs
    :param comparison: comparison with the group's baseline; ``None`` for the baseline itself and
        for unknown stacks
    """

    label: Annotated[str, STACK_LABEL]
    stack_digest: Annotated[str | None, STACK_DIGEST]
    component: Annotated[str | None, COMPONENT]
    component_version: Annotated[
        str | None, Field("Version of that library in the stack.", "2.4.6")
    ]
    jobs: Annotated[int, Field("Number of jobs, including unstable ones.", 10)]
    unstable: Annotated[tuple[str, ...], Field("Why each unstable job was left out, sorted.", [])]
    median_rate: Annotated[
        float | None,
        Field(
            "Median rate of the stable jobs, in `unit`; of a compared stack, that of the baseline"
            " times 1 + `difference_pct` / 100, so that rates and differences agree.",
            9.4e10,
        ),
    ]
    variation: float | None
    comparison: Comparison | None = None
    left_out: Annotated[
        Mapping[str, int], Field("Number of jobs of both stacks that are left out, by reason.")
    ] = field(default_factory=dict)
    differing_packages: Annotated[
        tuple[DifferingPackage, ...],
        Field("All packages that differ from the baseline, the measured one first."),
    ] = ()

    @property
    def spread_pct(
        self,
    ) -> Annotated[
        float | None, Field("Coefficient of variation of the jobs' rates.", 2.1, unit="%")
    ]:
        """:attr:`variation` in per cent."""
        return None if self.variation is None else 100 * self.variation

    @property
    def unnamed_differences(self) -> tuple[DifferingPackage, ...]:
        """All packages that differ from the baseline, unless labels say it all."""
        named = [it.name for it in self.differing_packages] == [self.component]
        return () if named else self.differing_packages

    @property
    def warnings(
        self,
    ) -> Annotated[tuple[str, ...], Field("Warnings about noise, for people.", [])]:
        """Warnings about noisy jobs."""
        return tuple(noise_warnings(self.label, self.jobs, Counter(self.unstable), self.variation))


@dataclass(frozen=True, slots=True, kw_only=True)
class StackGroup(Series):
    """All stacks measured under one comparison key and on one version of Python.

    :param baseline: the stack that the others are compared with; ``None`` without known stacks
    :param baseline_reason: why this stack is the baseline
    :param stacks: known stacks including the baseline, fastest median first
    :param delta: δ, the smallest difference of interest, as a share of the baseline's rate
    :param next_jobs: undetermined comparisons, the ones for which jobs are most useful first
    :param unknown_stacks: jobs of unknown stacks, by version of the component; one version may
        stand for several stacks, so they are not compared
    """

    hardware_label: str
    baseline: StackResult | None
    baseline_reason: str
    delta: float
    stacks: tuple[StackResult, ...]
    unknown_stacks: tuple[StackResult, ...]
    recent: RecentHistory
    next_jobs: tuple[FurtherJobs, ...] = ()

    @property
    def hardware(self) -> HardwareName:
        """The hardware class of the series."""
        return HardwareName(self.hardware_digest, self.hardware_label)

    @property
    def delta_pct(self) -> Annotated[float, DELTA_PCT]:
        """:attr:`delta` in per cent."""
        return 100 * self.delta


@dataclass(frozen=True, slots=True)
class SeriesEstimates:
    """One series with the estimated effects of its stacks, before it is judged with other series.

    It has no jobs, so that many of them fit into memory.

    :param baseline: the stack that the others are compared with; ``None`` without known stacks
    :param baseline_reason: why this stack is the baseline
    :param delta: δ, the smallest difference of interest, as a share of the baseline's rate
    :param others: the other known stacks, in the order of the estimates
    :param unknown: as in :class:`StackGroup`
    """

    series: Series
    hardware_label: str
    baseline: StackResult | None
    baseline_reason: str
    delta: float
    others: tuple[StackResult, ...]
    effects: EstimatedGroup
    unknown: tuple[StackResult, ...]
    recent: RecentHistory

    @property
    def order(self) -> tuple[str, ...]:
        """The place of the series in a list: indicator, hardware, parameters."""
        series = self.series
        parameters = json.dumps(dict(series.parameters), sort_keys=True, default=str)
        place = (series.indicator, self.hardware_label, parameters, series.comparison_key)
        return (*place, series.python_version or "")

    @property
    def stacks(self) -> tuple[StackResult, ...]:
        """All stacks, known or not."""
        known = () if self.baseline is None else (self.baseline, *self.others)
        return (*known, *self.unknown)

    def has(self, prefix: str) -> bool:
        """Whether a stack has a digest that starts with ``prefix``, with or without algorithm."""
        return any(_starts(it.stack_digest, prefix) for it in self.stacks)


def compare_stacks(
    observations: Iterable[MeasuredObservation],
    baseline: str | None = None,
    *,
    required: bool = True,
) -> list[StackGroup]:
    """Compare the stacks of each series, by the same rules as advice.

    The default baseline is the reference: the stack with the most jobs that count. Among equals, it
    is the one with the newest release of the measured component: final releases before
    pre-releases, then PEP 440 order. Stacks that ran equally often are equal if up to a fifth of
    the jobs was disturbed.

    :param baseline: prefix of a stack digest, with or without ``sha256:``, or
        :data:`NEWEST_BASELINE`; groups without this stack use the default baseline and say so
    :param required: whether a group must have the baseline
    :returns: groups by indicator, hardware and parameters; their comparisons are one family
    :raises UnknownBaseline: if no group has such a stack, or a group has several
    """
    series = [estimated_series(it, baseline) for it in all_series(observations)]
    digest_named = required and baseline not in {None, NEWEST_BASELINE}
    if digest_named and not any(it.has(baseline or "") for it in series):
        raise UnknownBaseline(f"no measured stack has a digest that starts with {baseline!r}")
    return judged_groups(sorted(series, key=lambda it: it.order))


def estimated_series(measured: MeasuredSeries, baseline: str | None = None) -> SeriesEstimates:
    """Estimate the effects of the stacks of one series.

    :param baseline: as for :func:`compare_stacks`
    :raises UnknownBaseline: if several stacks of the series have such a digest
    """
    base, reason = _baseline_of(measured.known, baseline)
    history = measured.history
    others = [stack for stack in measured.known if base is not None and stack is not base]
    effects = estimate_group(_comparison_group(measured, base, others))
    return SeriesEstimates(
        series=measured.series,
        hardware_label=measured.hardware_label,
        baseline=None if base is None else _result(base),
        baseline_reason=reason,
        delta=smallest_difference(history.identical),
        others=tuple(
            replace(
                _result(stack),
                left_out=jobs_left_out(
                    history,
                    [
                        (base.digest or "", estimate.baseline_used),
                        (stack.digest or "", estimate.used),
                    ],
                ),
                differing_packages=differing_packages(base, stack),
            )
            for stack, estimate in zip(others, effects.estimates, strict=True)
            if base is not None
        ),
        effects=effects,
        unknown=_by_speed(map(_result, measured.unknown)),
        recent=measured.recent,
    )


def judged_groups(
    family: Sequence[SeriesEstimates], shown: Sequence[int] | None = None, alpha: float = ALPHA
) -> list[StackGroup]:
    """Judge all series as one family of claims.

    :param shown: indexes of the series that are returned, by default all; comparisons of other
        series count, too
    :param alpha: chance of even one false claim
    """
    places = range(len(family)) if shown is None else shown
    compared = judge_groups([it.effects for it in family], alpha, shown=frozenset(places))
    return [_group(family[place], compared[place]) for place in places]


def identical_pairs(observations: Iterable[MeasuredObservation]) -> SelfCheck:
    """Compare stacks with themselves: runs in the same turns, and each run with the next one.

    Each comparison is judged by itself with the smallest δ, because the observed noise would raise
    δ. For runs that did not take turns, the error is computed from all runs of their series.
    """
    comparisons, residuals = [], []
    for series in all_series(observations):
        history = series.history
        residuals += [*history.residuals.values(), *history.identical_residuals()]
        for theirs, ours in (*history.identical_pairs(), *history.neighbours()):
            comparisons += compare_candidates(theirs, [ours], spread=history.spread)
    return self_check(comparisons, noise_test(residuals))


def all_series(observations: Iterable[MeasuredObservation]) -> list[MeasuredSeries]:
    """The observations by series: one origin, comparison key and version of Python each."""
    by_series = defaultdict(list)
    for row in observations:
        series = row.series
        by_series[series.origin, series.comparison_key, series.python_version].append(row)
    return [measured_series(alike) for alike in by_series.values()]


def _starts(digest: str | None, prefix: str) -> bool:
    return digest is not None and (
        digest.startswith(prefix) or digest.rpartition(":")[2].startswith(prefix)
    )


def _comparison_group(
    series: MeasuredSeries, base: StackJobs | None, others: Sequence[StackJobs]
) -> ComparisonGroup:
    def sample(stack: StackJobs) -> Sample:
        return replace(series.history.sample(stack.digest or ""), label=stack.label)

    return ComparisonGroup(
        Sample("", (), series.series.comparison_key) if base is None else sample(base),
        [sample(it) for it in others],
        series.history.identical,
        series.history.spread,
    )


def _group(estimates: SeriesEstimates, comparisons: Sequence[Comparison]) -> StackGroup:
    series, baseline = estimates.series, estimates.baseline
    compared = [
        replace(
            stack, comparison=comparison, median_rate=_comparable_rate(baseline, stack, comparison)
        )
        for stack, comparison in zip(estimates.others, comparisons, strict=True)
    ]
    return StackGroup(
        **{it.name: getattr(series, it.name) for it in fields(Series)},
        hardware_label=estimates.hardware_label,
        baseline=baseline,
        baseline_reason=estimates.baseline_reason,
        delta=estimates.delta,
        stacks=() if baseline is None else _by_speed([baseline, *compared]),
        unknown_stacks=estimates.unknown,
        recent=estimates.recent,
        next_jobs=further_jobs(comparisons, INSPECT if series.origin is None else AGAIN),
    )


def _comparable_rate(
    baseline: StackResult | None, stack: StackResult, comparison: Comparison
) -> float | None:
    if baseline is None or baseline.median_rate is None or not math.isfinite(comparison.d):
        return stack.median_rate
    return baseline.median_rate * math.exp(comparison.d)


def _baseline_of(known: Sequence[StackJobs], prefix: str | None) -> tuple[StackJobs | None, str]:
    if not known:
        return None, "the versions of all stacks are unknown"
    if prefix == NEWEST_BASELINE:
        newest = _newest_of(known)
        if newest.version is not None:
            return newest, f"the newest release of {newest.component} measured here"
        base, reason = _reference_of(known)
        return base, f"{reason}; no version of the component is known"
    named = [stack for stack in known if prefix and _starts(stack.digest, prefix)]
    if len(named) > 1:
        names = ", ".join(str(stack.digest) for stack in named)
        raise UnknownBaseline(f"{prefix!r} is the start of more than one digest: {names}")
    if named:
        return named[0], "as requested"
    base, reason = _reference_of(known)
    return base, reason if prefix is None else f"{reason}; {prefix} was not measured here"


def _reference_of(known: Sequence[StackJobs]) -> tuple[StackJobs, str]:
    """The stack with the most jobs that count, among equals the newest, and the reason.

    Stacks that ran equally often are equal unless many jobs were disturbed: chance would choose.
    """
    most = max(len(it.jobs) for it in known)
    numbers = {it.number for it in known if len(it.jobs) == most}
    candidates = [
        it
        for it in known
        if len(it.jobs) == most
        or (it.number in numbers and len(it.jobs) >= (1 - MOST_DISTURBED) * most)
    ]
    reference = _newest_of(candidates)
    if len(known) == 1:
        return reference, "the only stack"
    if most == 0:
        return reference, "the newest release, because no job counts"
    if len(candidates) == 1:
        return reference, f"the reference, because it has the most jobs ({most})"
    equals = f"among the {len(candidates)} stacks that ran most often"
    if reference.version is None:
        return reference, f"one {equals}; no version of the component is known"
    return reference, f"the newest release of {reference.component} {equals}"


def _newest_of(stacks: Sequence[StackJobs]) -> StackJobs:
    """The stack with the newest release of the measured component.

    Among equals, the one with the most jobs, then with the most packages in their newest release.
    """
    newest = max(_release_order(it.version) for it in stacks)
    alike = [it for it in stacks if _release_order(it.version) == newest]
    shared = set[str].intersection(*({it.name for it in stack.packages} for stack in alike))
    latest: dict[str, _ReleaseOrder] = {}
    for package in (it for stack in alike for it in stack.packages if it.name in shared):
        order = _release_order(package.version)
        latest[package.name] = max(latest.get(package.name, order), order)

    def order_of(stack: StackJobs) -> tuple[int, int, str]:
        new = sum(latest.get(it.name) == _release_order(it.version) for it in stack.packages)
        return len(stack.jobs), new, stack.digest or ""

    return max(alike, key=order_of)


_ReleaseOrder = tuple[bool, bool, Version]


def _release_order(text: str | None) -> _ReleaseOrder:
    """Final releases are after pre-releases, and these after texts that are no versions."""
    version = version_of(text or "")
    if version is None:
        return False, False, Version("0")
    return True, not version.is_prerelease, version


def _result(stack: StackJobs) -> StackResult:
    rates = stack.rates
    return StackResult(
        label=stack.label,
        stack_digest=stack.digest,
        component=stack.component,
        component_version=stack.version,
        jobs=stack.number,
        unstable=stack.left_out,
        median_rate=median(rates) if rates else None,
        variation=robust_variation(rates) if len(rates) > 1 else None,
        left_out=Counter(stack.left_out),
    )


def _by_speed(results: Iterable[StackResult]) -> tuple[StackResult, ...]:
    return tuple(sorted(results, key=lambda r: (-(r.median_rate or 0.0), r.label)))
