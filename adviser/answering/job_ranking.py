"""Rank jobs to measure by what the record knows: claims, watches, and durations of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from adviser.advise import assess_candidates
from adviser.answering.stack_spaces import StackKnowledge
from adviser.monkey.job_value import JobValue, job_values
from adviser.scoring.stack_pairs import name_of
from adviser.stack_request import StackRequest
from common.packages import Purl
from graph.engine import Stores
from graph.record.measurements import job_minutes
from graph.record.watches import watches


@dataclass(frozen=True, slots=True)
class RecordedJobRanking:
    """Ranks jobs for a request; see :data:`adviser.monkey.strategies.JobRanking`.

    :param indicators: names of the indicators that count; empty for all
    :param weights: 1 for each package, plus the weights of the watches that can contain it
    :param minutes: mean duration of a job by package name, from measured jobs
    :param usual_minutes: the same for packages without any
    :param threshold: see :func:`adviser.monkey.job_value.job_values`
    """

    request: StackRequest
    known: StackKnowledge
    indicators: Collection[str]
    weights: Mapping[str, float]
    minutes: Mapping[str, float]
    usual_minutes: float
    threshold: float

    def __call__(
        self, reference: Mapping[str, str], versions: Sequence[Purl]
    ) -> Sequence[JobValue]:
        """Jobs by value, for versions compared with a reference stack."""
        known = self.known
        assessment = assess_candidates(self.request, known.snapshot, known.evidence, reference)
        claims = [
            claim
            for claim in assessment.claims
            if claim.purl is not None
            and claim.here
            and claim.beside_baseline
            and (not self.indicators or claim.indicator in self.indicators)
        ]
        measured = {it.purl for it in claims}
        return job_values(
            claims,
            [it for it in versions if it not in measured],
            self.weights,
            self.minutes,
            usual_minutes=self.usual_minutes,
            threshold=self.threshold,
        )


def recorded_ranking(
    stores: Stores,
    request: StackRequest,
    known: StackKnowledge,
    indicators: Collection[str] = (),
    *,
    usual_minutes: float = 1.0,
    threshold: float = 0.0,
) -> RecordedJobRanking:
    """Read what the value of a job depends on; runs two queries."""
    stacks = known.evidence.stacks
    with stores.engine.connect() as connection:
        durations = job_minutes(connection, list(stacks))
        watched = watches(connection)
    weights: dict[str, float] = defaultdict(lambda: 1.0)
    for watch in watched:
        for name in {watch.name, *watch.closure}:
            weights[name] += watch.weight
    by_package: dict[str, list[float]] = defaultdict(list)
    for stack, minutes in sorted(durations.items()):
        for purl in stacks[stack]:
            by_package[name_of(purl)].append(minutes)
    return RecordedJobRanking(
        request,
        known,
        indicators,
        dict(weights),
        {name: fmean(them) for name, them in by_package.items()},
        usual_minutes,
        threshold,
    )
