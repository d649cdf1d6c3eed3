"""From observations to the jobs of each stack: what counts, and how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from adviser.scoring.estimates import Sample
from adviser.scoring.jobs import JobEffect, Place, job_log_rate
from common.measurements import Unit
from common.stability import instability

#: Hexadecimal digits of a digest that a person can still tell apart.
SHORT_DIGEST = 8


class JobObservation(Protocol):
    """What is asked of an observation: measured, not quarantined, one job on one stack.

    A job that was recorded twice under one comparison key still counts as one job, so
    ``job_id`` must be unique over all inspections.
    """

    @property
    def stack_digest(self) -> str | None: ...
    @property
    def component(self) -> str | None: ...
    @property
    def component_version(self) -> str | None: ...
    @property
    def script_sha256(self) -> str | None: ...
    @property
    def indicator(self) -> str: ...
    @property
    def parameters(self) -> Mapping[str, Any]: ...
    @property
    def device(self) -> str | None: ...
    @property
    def hardware_digest(self) -> str: ...
    @property
    def hardware_label(self) -> str: ...
    @property
    def comparison_key(self) -> str: ...
    @property
    def job_id(self) -> str: ...
    @property
    def elapsed_s(self) -> float | None: ...
    @property
    def rate(self) -> float: ...
    @property
    def unit(self) -> Unit: ...
    @property
    def repetitions_s(self) -> Sequence[float]: ...
    @property
    def unstable_reason(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def block(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class MeasuredStack:
    """A stack's jobs before they are compared."""

    digest: str | None
    component: str | None
    version: str | None
    jobs: tuple[JobEffect, ...]

    @property
    def label(self) -> str:
        name = " ".join(part for part in (self.component, self.version) if part) or "stack"
        return f"{name} ({short_digest(self.digest) if self.digest else 'stack unknown'})"

    @property
    def stable(self) -> tuple[JobEffect, ...]:
        return tuple(job for job in self.jobs if job.unstable_reason is None)

    def sample(self, comparison_key: str) -> Sample:
        """The stable jobs as they are compared."""
        log_rates = tuple(job.log_rate for job in self.stable)
        places = tuple(job.place for job in self.stable)
        return Sample(self.label, log_rates, comparison_key, places)


def short_digest(digest: str) -> str:
    """The first digits of a digest, without its algorithm.

    >>> short_digest("sha256:1f2e3d4c5b6a")
    '1f2e3d4c'
    """
    return digest.rpartition(":")[2][:SHORT_DIGEST]


def stacks_of(alike: Sequence[JobObservation]) -> list[MeasuredStack]:
    """The stacks of a group by digest; without one, by version of the component."""
    by_stack = defaultdict(list)
    for seen in alike:
        unlocked = (seen.component or "", seen.component_version or "")
        by_stack[(seen.stack_digest or "", *(() if seen.stack_digest else unlocked))].append(seen)
    return [_measured(by_stack[identity]) for identity in sorted(by_stack)]


def _measured(rows: Sequence[JobObservation]) -> MeasuredStack:
    by_job = defaultdict(list)
    for row in rows:
        by_job[row.job_id].append(row)
    return MeasuredStack(
        digest=rows[0].stack_digest,
        component=min((row.component for row in rows if row.component), default=None),
        version=min((row.component_version for row in rows if row.component_version), default=None),
        jobs=tuple(_job(job_id, by_job[job_id]) for job_id in sorted(by_job)),
    )


def _job(job_id: str, rows: Sequence[JobObservation]) -> JobEffect:
    """One job, one number; it is unstable if any of its observations is."""
    reasons = (row.unstable_reason or instability(row.repetitions_s) for row in rows)
    return JobEffect(
        job_id=job_id,
        log_rate=job_log_rate([_rate(row) for row in rows]),
        unstable_reason=min((reason for reason in reasons if reason), default=None),
        place=Place(rows[0].host, rows[0].block),
    )


def _rate(row: JobObservation) -> float:
    """Of the median repetition where there are any; a script may have reported the mean."""
    if not row.repetitions_s or row.elapsed_s is None:
        return row.rate
    amount = row.rate * row.elapsed_s
    return amount / median(row.repetitions_s)
