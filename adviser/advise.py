"""Give advice: find the best stacks for a request, from a snapshot and evidence.

This module does no I/O. The same request, snapshot and evidence always give the same advice.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Protocol, TypeVar

from adviser.advice_request import StackRequest
from adviser.harm_prevention import FoundStacks, PremiseSearch, harmful_versions, pins_of
from adviser.resolver.admission import AdmittedPackage, choosable, universe_of
from adviser.resolver.listed_versions import NeededReads, UniverseResolver, resolve_listed
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution, ResolutionStatus, ResolvedStack
from adviser.resolver.specifiers import admits
from adviser.resolver.universe import Universe
from adviser.scoring.assess import PackageScores, assess
from adviser.scoring.assessment_types import Assessment, Premises
from adviser.scoring.criteria import newness_of, penalties_of
from adviser.scoring.stack_pairs import MeasuredStacks
from common.versioned_cache import VersionedCache
from model.errors import ProjectError
from model.measurements.evidence import Evidence
from model.packages.candidates import Candidate, Dependency, ExclusionReason
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot
from model.text import first_few


class Resolver(Protocol):
    """Solves a universe, directly or in a :class:`adviser.resolver.worker.ResolverWorker`."""

    def __call__(
        self, universe: Universe, budget: Budget | None = None, *, count: int = 1
    ) -> Resolution: ...


def in_this_process(
    universe: Universe, budget: Budget | None = None, *, count: int = 1
) -> Resolution:
    """:func:`adviser.resolver.resolve.resolve`; the first call loads the solver."""
    from adviser.resolver.resolve import resolve

    return resolve(universe, budget, count=count)


@dataclass(frozen=True, slots=True)
class Advice:
    """The answer to a request, with its inputs.

    :param premises: the premises of the assessment
    :param snapshot: with source distributions that are older than this Python, if only they
        make a stack possible
    :param unbounded: packages whose inferred bounds do not count, because no stack meets them
    """

    request: StackRequest
    snapshot: Snapshot
    evidence: Evidence
    premises: Premises
    assessment: Assessment
    universe: Universe
    resolution: Resolution
    unbounded: frozenset[str] = frozenset()

    @property
    def baseline(self) -> Mapping[str, str] | None:
        """Version by name of the stack that claims compare with; ``None`` for the newest version
        of each package.
        """
        return self.premises.baseline

    @property
    def baseline_reason(self) -> str:
        """Description of the baseline."""
        if self.request.locked is not None:
            return f"the versions in {self.request.project.lock_source or 'the lock'}"
        if self.baseline is not None:
            return "the newest stack that meets the request"
        return "the newest version of each package"

    @property
    def best(self) -> ResolvedStack | None:
        """The advised stack, if there is one."""
        return self.resolution.stacks[0] if self.resolution.stacks else None

    @property
    def unread(self) -> tuple[str, ...]:
        """What was not read; if there is any, a conflict does not prove that there is no stack."""
        conflict = self.resolution.conflict
        return self.snapshot.unread_texts(conflict.names if conflict else ())


#: What is known in a round.
SnapshotAndEvidence = tuple[Snapshot, Evidence]
Result = TypeVar("Result")


class UnreadVersions(ProjectError):
    """A snapshot lists versions that must be read before anything is proven.

    :param reads: the reads that :func:`advise_listed` would request
    """

    def __init__(self, reads: NeededReads) -> None:
        names = [f"{it.name} {it.version}" for it in reads.versions] + list(reads.packages)
        super().__init__(f"not read yet: {first_few(names, 5)}")
        self.reads = reads


def advise(
    request: StackRequest,
    snapshot: Snapshot,
    evidence: Evidence,
    *,
    resolver: Resolver = in_this_process,
    threads: int = 1,
) -> Advice:
    """Find the best stacks for a request, or the reason why there is none.

    A project without a lock is compared with the newest feasible stack.

    :param snapshot: the closure of ``request.roots`` in its environment; it may have more roots
    :param threads: threads of the solver; the answer does not depend on them
    :raises UnreadVersions: if the snapshot lists versions that must be read first
    """
    return result_without_reads(
        advise_listed(request, snapshot, evidence, resolver=resolver, threads=threads)
    )


def result_without_reads(rounds: Generator[NeededReads, SnapshotAndEvidence, Result]) -> Result:
    """The result of rounds of which the first needs nothing more.

    :raises UnreadVersions: if it needs more
    """
    try:
        reads = next(rounds)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise UnreadVersions(reads)


@dataclass(slots=True)
class AdviceReuse:
    """Results by package, shared by requests with the same rules while the inputs stay the same.

    :param scores: of assessments
    :param admitted: of universes
    """

    scores: VersionedCache[str, PackageScores] = field(default_factory=VersionedCache)
    admitted: VersionedCache[str, AdmittedPackage] = field(default_factory=VersionedCache)

    @staticmethod
    def key_of(request: StackRequest, roots: Iterable[Dependency]) -> Hashable:
        """A key that is equal for requests that can share results; omits snapshot and evidence.

        The key includes only the extras of the requirements, because the search applies their
        specifiers.

        :param roots: of the snapshot
        """
        rules = replace(request.resolver_request({}), roots=None, direct=())
        extras = sorted((it.name, it.extras) for it in roots if it.extras)
        allowed = sorted(request.options.allowed_vulnerabilities)
        target = request.target, request.kind
        return request.environment, target, repr((rules, extras, allowed))


def advise_listed(
    request: StackRequest,
    snapshot: Snapshot,
    evidence: Evidence,
    *,
    resolver: Resolver = in_this_process,
    threads: int = 1,
    reuse: AdviceReuse | None = None,
) -> Generator[NeededReads, SnapshotAndEvidence, Advice]:
    """Advise in rounds over a snapshot with unread versions and unlisted packages.

    Each round yields what must be read next, and receives the extended snapshot with its evidence;
    see :func:`~adviser.resolver.listed_versions.resolve_listed`. Advising once on the last snapshot
    gives the same advice.

    :param reuse: results of earlier requests with the same rules
    :returns: the advice, which is proven over all versions that the last snapshot lists
    """
    resolve = partial(resolver, budget=request.options.budget(threads))
    known = yield from _with_forcing_versions((snapshot, evidence))
    premises = Premises(request.locked)
    # Without measurements there is nothing to compare.
    if premises.baseline is None and evidence.readings:
        newest = yield from resolved(known, partial(newest_universe, request), resolve)
        known, stacks = newest.known, newest.resolution.stacks
        versions = stacks[0].versions() if stacks else None
        premises = Premises(versions, is_settled(newest.resolution))
    assessment: Assessment
    measured = MeasuredStacks(*known)
    shared = reuse or AdviceReuse()

    def assessed_universe(
        unbounded: frozenset[str], known: SnapshotAndEvidence
    ) -> UniverseAndCandidates:
        nonlocal assessment, measured
        snapshot, evidence = known
        if measured.snapshot is not snapshot or measured.evidence is not evidence:
            measured = MeasuredStacks(snapshot, evidence)
        assessment = assess_candidates(
            request, snapshot, evidence, premises, shared.scores, measured
        )
        universe = universe_for(request, snapshot, assessment, unbounded, shared.admitted, premises)
        return universe, snapshot.packages

    search = PremiseSearch(request, premises)
    while True:
        premises = search.premises
        unbounded, old_sdists, known, universe, resolution = yield from resolved(
            known, assessed_universe, resolve, search.count
        )
        counted = _counted(known, old_sdists)
        resolution = search.harmless(resolution)
        if not search.continues(*counted, FoundStacks(assessment, universe, resolution)):
            break
    return Advice(request, *counted, premises, assessment, universe, resolution, unbounded)


def _with_forcing_versions(
    known: SnapshotAndEvidence,
) -> Generator[NeededReads, SnapshotAndEvidence, SnapshotAndEvidence]:
    """Read the versions whose requirements show which changes of measured stacks are forced."""
    seen: set[Purl] = set()
    while known[1].readings:
        unread = [it for it in MeasuredStacks(*known).unread() if it.purl not in seen]
        if not unread:
            break
        seen.update(it.purl for it in unread)
        known = yield NeededReads(tuple(unread))
    return known


#: A universe, and all candidates by name.
UniverseAndCandidates = tuple[Universe, Mapping[str, Sequence[Candidate]]]


class RelaxedResolution(NamedTuple):
    """A resolution, and the packages for which rules that installers lack were lifted.

    :param unbounded: packages whose inferred bounds do not count
    :param old_sdists: packages whose source distributions older than this Python may be chosen
    :param known: the knowledge in the last round
    """

    unbounded: frozenset[str]
    old_sdists: frozenset[str]
    known: SnapshotAndEvidence
    universe: Universe
    resolution: Resolution

    @property
    def is_infeasible(self) -> bool:
        """Whether the search proved that there is no stack."""
        return self.resolution.status is ResolutionStatus.INFEASIBLE

    @property
    def relevant_bounds(self) -> frozenset[str]:
        """Packages whose inferred bounds may prevent a stack."""
        packages, inferred = self.universe.packages, self.universe.inferred
        return self._in_conflict(
            name for name, them in packages.items() if any(it.purl in inferred for it in them)
        )

    @property
    def relevant_old_sdists(self) -> frozenset[str]:
        """Packages whose old source distributions may make a stack possible."""
        return self._in_conflict(self.known[0].old_sdists)

    def _in_conflict(self, names: Iterable[str]) -> frozenset[str]:
        """The given packages that matter: a minimal conflict depends only on these."""
        conflict = self.resolution.conflict
        if conflict is None or not conflict.minimal:
            return frozenset(names)
        return frozenset(names) & conflict.names

    @property
    def needed_bounds(self) -> frozenset[str]:
        """The packages in :attr:`unbounded`; none without a stack."""
        return self.unbounded if self.resolution.stacks else frozenset()

    @property
    def chosen_old_sdists(self) -> frozenset[str]:
        """The packages of :attr:`old_sdists` whose chosen version is an old source distribution."""
        choices = self.resolution.stacks[0].choices if self.resolution.stacks else ()
        candidates = (self.universe.packages[it.name][it.place] for it in choices)
        too_old = ExclusionReason.SDIST_TOO_OLD
        return self.old_sdists & {it.name for it in candidates if it.wheel_mismatch is too_old}

    @property
    def replaceable_old_sdists(self) -> frozenset[str]:
        """The packages of :attr:`chosen_old_sdists` of which the request admits other versions."""
        wanted: dict[str, list[str]] = {}
        for root in self.universe.roots:
            wanted.setdefault(root.name, []).append(self.universe.specifier_of(root))
        return frozenset(
            name
            for name in self.chosen_old_sdists
            if any(
                all(admits(text, it.version) for text in wanted.get(name, ()))
                for it in self.known[0].packages[name]
            )
        )


#: Maximum number of packages that are tried to be left out, each by a search.
_MOST_LEFT_OUT = 12
#: The relaxed resolution of what is known, for packages that a rule does not count for.
Search = Callable[
    [frozenset[str], SnapshotAndEvidence],
    Generator[NeededReads, SnapshotAndEvidence, RelaxedResolution],
]


def _fewest(
    result: RelaxedResolution,
    search: Search,
    needed_in: Callable[[RelaxedResolution], frozenset[str]],
    lifted_in: Callable[[RelaxedResolution], frozenset[str]],
    tried: frozenset[str],
) -> Generator[NeededReads, SnapshotAndEvidence, RelaxedResolution]:
    """Leave out packages for which a rule need not be lifted, in the order of names.

    :param tried: packages that may be left out
    """
    needed = needed_in(result)
    for name in sorted(tried)[:_MOST_LEFT_OUT]:
        if name in needed and len(needed) > 1:
            result = yield from search(needed - {name}, result.known)
            needed = needed_in(result) if result.resolution.stacks else needed
    if needed and needed != lifted_in(result):
        result = yield from search(needed, result.known)
    return result


def resolved(
    known: SnapshotAndEvidence,
    universe_with: Callable[[frozenset[str], SnapshotAndEvidence], UniverseAndCandidates],
    resolve: UniverseResolver,
    count: int = 1,
) -> Generator[NeededReads, SnapshotAndEvidence, RelaxedResolution]:
    """Resolve with inferred bounds; if no stack satisfies them, resolve without some of them.

    If no stack is left, source distributions that are older than this Python count, too, again
    with inferred bounds first. Both rules are lifted only for packages without which no stack is
    possible. If there is still no stack, the result is the one without old source distributions,
    unless further reads may make them useful. So the result depends on what was read, not on the
    order of reads.

    :param universe_with: returns the known universe, without the inferred bounds of packages
    """

    def search(
        old_sdists: frozenset[str], known: SnapshotAndEvidence
    ) -> Generator[NeededReads, SnapshotAndEvidence, RelaxedResolution]:
        def unbounded_search(
            unbounded: frozenset[str], known: SnapshotAndEvidence
        ) -> Generator[NeededReads, SnapshotAndEvidence, RelaxedResolution]:
            def universe_of(known: SnapshotAndEvidence) -> UniverseAndCandidates:
                return universe_with(unbounded, _counted(known, old_sdists))

            known, universe, resolution = yield from resolve_listed(
                known, universe_of, resolve, count=count
            )
            return RelaxedResolution(unbounded, old_sdists, known, universe, resolution)

        while True:
            result = yield from unbounded_search(frozenset(), known)
            while result.is_infeasible and (more := result.relevant_bounds):
                result = yield from unbounded_search(result.unbounded | more, result.known)
            result = yield from _fewest(
                result, unbounded_search, attrgetter("needed_bounds"), attrgetter("unbounded"),
                result.needed_bounds,
            )  # fmt: skip
            if not result.unbounded or result.known is known:
                return result
            # With what was read, the conflicts may name other packages.
            known = result.known

    result = yield from search(frozenset(), known)
    while result.is_infeasible:
        old_sdists = result.old_sdists | result.relevant_old_sdists
        if old_sdists == result.old_sdists:
            if not old_sdists or result.known is known:
                break
            # What was read may show that old source distributions cannot help either.
            old_sdists, known = frozenset(), result.known
        result = yield from search(old_sdists, result.known)
    result = yield from _fewest(
        result, search, attrgetter("chosen_old_sdists"), attrgetter("old_sdists"),
        result.replaceable_old_sdists,
    )  # fmt: skip
    return result


def _counted(known: SnapshotAndEvidence, old_sdists: frozenset[str]) -> SnapshotAndEvidence:
    return (known[0].with_old_sdists(old_sdists), known[1]) if old_sdists else known


def newest_universe(
    request: StackRequest, unbounded: frozenset[str], known: SnapshotAndEvidence
) -> UniverseAndCandidates:
    """A universe in which the first version of each package scores highest.

    Versions whose wheels are all for other environments come last: nobody measures them here.
    """
    rules = replace(request.resolver_request({}), unbounded=unbounded)
    packages = known[0].packages
    places = {
        it.purl: (-n - len(candidates) * (it.wheel_mismatch is not None),)
        for candidates in packages.values()
        for n, it in enumerate(candidates)
    }
    return universe_of(known[0], rules, places, newness={0}), packages


def universe_for(
    request: StackRequest,
    snapshot: Snapshot,
    assessment: Assessment,
    unbounded: frozenset[str] = frozenset(),
    reused: VersionedCache[str, AdmittedPackage] | None = None,
    premises: Premises | None = None,
) -> Universe:
    """The versions that the request may choose from, with their scores.

    :param unbounded: packages whose inferred bounds do not count
    :param reused: packages of an earlier universe of the same request
    :param premises: the premises of the assessment; they may keep the project's versions
    """
    if premises is not None and premises.kept:
        constraints = (*request.options.constraints, *pins_of(request.locked or {}))
        options = replace(request.options, constraints=constraints)
        # What is reused was found without these constraints.
        request, reused = replace(request, options=options), None
    rules = replace(request.resolver_request(assessment.refused), unbounded=unbounded)
    criteria = assessment.criteria
    penalties, newness = penalties_of(criteria), newness_of(criteria)
    return universe_of(snapshot, rules, assessment.scores, penalties, newness, reused)


def assess_candidates(
    request: StackRequest,
    snapshot: Snapshot,
    evidence: Evidence,
    premises: Premises,
    reused: VersionedCache[str, PackageScores] | None = None,
    measured: MeasuredStacks | None = None,
) -> Assessment:
    """The assessment of all versions that the request may choose from.

    :param reused: scores of an earlier assessment of the same request
    :param measured: the measured stacks of this snapshot and evidence, if known
    """
    allowed = request.options.allowed_vulnerabilities
    return assess(
        snapshot,
        evidence,
        request.kind,
        premises.baseline,
        request.target,
        allowed=allowed,
        choosable=lambda: choosable(snapshot, request.resolver_request({})),
        measured=measured,
        context=premises.context,
        harmful=harmful_versions(snapshot, evidence, request.locked, premises, allowed),
        reused=reused,
    )


def is_settled(resolution: Resolution) -> bool:
    """Whether every search would return these stacks in this order, or this conflict."""
    if resolution.status is ResolutionStatus.INFEASIBLE:
        return resolution.conflict is None or resolution.conflict.minimal
    return resolution.settled
