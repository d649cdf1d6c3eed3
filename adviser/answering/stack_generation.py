"""Input of Dependency Monkey: the universe of stacks, and the data for the value of a job."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from adviser.advice_request import StackRequest
from adviser.advise import assess_candidates, newest_universe
from adviser.answering.index_resolution import IndexResolution
from adviser.monkey.job_value import JobValue, job_values
from adviser.monkey.strategies import GeneratedStack, closed_universe
from adviser.resolver.resolve import resolve
from adviser.resolver.results import ResolutionStatus
from adviser.resolver.universe import Universe
from adviser.scoring.assessment_types import Premises
from adviser.scoring.stack_pairs import name_of
from adviser.scoring.target import OwnBenchmarks
from graph.engine import Stores
from graph.record.measurements import job_minutes
from graph.record.release_queries import files_of
from graph.record.watches import watches
from model.measurements.evidence import Evidence
from model.packages.candidates import Dependency
from model.packages.identity import Purl
from model.packages.releases import ReleaseFile
from model.packages.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StackKnowledge:
    """The input for generating stacks.

    :param universe: scored so that the newest versions are the best
    :param unread: number of versions that were not read and so cannot occur, by package
    """

    universe: Universe
    snapshot: Snapshot
    evidence: Evidence
    unread: Mapping[str, int]


def stack_knowledge(
    request: StackRequest, snapshot: Snapshot, evidence: Evidence
) -> StackKnowledge:
    """The universe of a request.

    Inferred bounds count unless no stack meets them, as for advice.
    """
    known = snapshot, evidence
    universe, _ = newest_universe(request, frozenset(), known)
    if universe.inferred:
        newest = resolve(closed_universe(universe), request.options.budget())
        if newest.status is ResolutionStatus.INFEASIBLE:
            universe, _ = newest_universe(request, frozenset(snapshot.packages), known)
    unread = {
        name: count
        for name, candidates in snapshot.packages.items()
        if (count := sum(not it.read for it in candidates))
    }
    return StackKnowledge(universe, snapshot, evidence, unread)


async def read_varied(
    resolution: IndexResolution, request: StackRequest, varied: tuple[str, ...]
) -> tuple[Snapshot, Evidence]:
    """Read the versions that generated stacks may contain, and return the knowledge with them.

    Reads all versions of the packages that vary, then for each of them the newest versions that
    meet its requirements, and so on. Older versions of other packages stay unread, unless
    another package requires them.

    :param varied: packages that vary; empty for the direct requirements
    """
    await resolution.advise()
    roots = {it.name: it for it in request.roots}
    names = varied or tuple(roots)
    await resolution.read_down(roots.get(name, Dependency(name)) for name in names)
    advice = await resolution.advise()
    return advice.snapshot, advice.evidence


def files_of_stack(
    stores: Stores, generated: GeneratedStack
) -> dict[Purl, tuple[ReleaseFile, ...]]:
    """The recorded files of each release of a stack."""
    with stores.engine.connect() as connection:
        return files_of(connection, [it.purl for it in generated.stack.choices])


@dataclass(frozen=True, slots=True)
class RecordedJobRanking:
    """Ranks jobs for a request; see :data:`adviser.monkey.strategies.JobRanking`.

    :param indicators: names of the indicators that count; empty for all
    :param weights: 1 for each package, plus the weights of the watches that can contain it
    :param minutes: mean duration of a job by package name, from measured jobs
    :param usual_minutes: the same for packages without measured jobs
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
        premises = Premises(reference, harm_accepted=True)
        assessment = assess_candidates(self.request, known.snapshot, known.evidence, premises)
        own = OwnBenchmarks(known.evidence, self.request.target)
        claims = [
            claim
            for claim in assessment.claims
            if claim.purl is not None
            and claim.origin is None
            and claim.here
            and claim.beside_baseline
            and (not self.indicators or claim.indicator in self.indicators)
            and not own.ignores(claim)
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
    """Read the inputs of the value of a job; runs two queries."""
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
