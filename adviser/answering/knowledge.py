"""The one door to knowledge: a request is answered from the stores, from the indexes, or from both.

The stores have what was read before. Indexes list all versions, and reading them takes rounds
(:mod:`adviser.answering.index_resolution`). :meth:`Knowledge.for_request` decides between them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from adviser.advice_request import StackRequest
from adviser.advise import Advice, Resolver, SnapshotAndEvidence, advise
from adviser.answering.answers import Answer, make_answer, text_of, timed, unfetched_versions
from adviser.answering.index_memory import IndexMemory
from adviser.answering.index_resolution import IndexResolution, OnBuild, OnProgress, over_indexes
from adviser.answering.index_selection import with_silent_indexes
from adviser.packs.stored_packs import PackReader
from adviser.resolver.resolver_request import ResolverRequest
from adviser.resolver.specifiers import admits
from adviser.why import ForcedStack, PackagePresence
from common.versioned_cache import VersionedCache
from graph.engine import GRAPH, Stores
from graph.hung_stores import watchdog
from graph.record.advisories import source_states
from graph.record.evidence import evidence_for
from graph.record.freshness import evidence_position
from graph.record.indexes import IndexAnswer, answers_of, are_partly_read, without_releases
from graph.record.vulnerabilities import known_vulnerabilities
from graph.snapshot_reader import is_current, load_snapshot
from model.packages.candidates import (
    Absence,
    Dependency,
    ExclusionReason,
    IndexesSilent,
    KnownVulnerability,
)
from model.packages.environments import Environment
from model.packages.identity import version_of
from model.packages.snapshot import Snapshot, with_absences, with_revision

#: What is called while indexes are read.
ReadingCallbacks = tuple[OnProgress, OnBuild]

T = TypeVar("T")
Explanation = TypeVar("Explanation", PackagePresence, ForcedStack)

#: Number of items that a request without data counts as.
_ITEMS_PER_REQUEST = 10


class KnowledgeObserver(Protocol):
    """Actions of a command or a job while knowledge is read, such as showing the progress."""

    def before_graph(self) -> None:
        """Called before the graph is read; may wait for it, or refuse it."""

    def reading(self) -> AbstractContextManager[ReadingCallbacks]:
        """A block in which the indexes are read."""

    def after_reading(self, resolution: IndexResolution) -> None:
        """Called with the data that was read from the indexes; stores it."""

    def on_silence(self, error: IndexesSilent) -> None:
        """Called if no index answers, so that only the stores are used."""


class GraphSource:
    """Snapshots from the graph and evidence from the record, read again only after a change.

    :param limit: maximum number of kept items, such as versions and readings; the last request
        alone may have more. An item takes 1 to 1.6 kB
    """

    def __init__(self, limit: int = 0) -> None:
        self._kept: VersionedCache[object, SnapshotAndEvidence] = VersionedCache(limit, _items)

    def read(
        self, stores: Stores, roots: Iterable[str], environment: Environment,
        timings: dict[str, float] | None = None,
    ) -> SnapshotAndEvidence:  # fmt: skip
        """The snapshot of requirements in an environment, and the evidence for it.

        :param timings: gets the duration of each step, s
        """
        names, times = tuple(sorted(roots)), {} if timings is None else timings
        driver, database = stores.driver, stores.database
        with stores.engine.connect() as connection:
            position = evidence_position(connection)
        last = self._kept.last((names, environment))
        with timed(times, "snapshot_s"), watchdog(GRAPH, stores.settings.hung_store_s):
            if last is not None and is_current(driver, last[0], database=database):
                snapshot = last[0]
            else:
                snapshot = load_snapshot(driver, names, environment, database=database)

        def with_evidence() -> SnapshotAndEvidence:
            with stores.engine.connect() as connection:
                now = datetime.now(UTC)
                own = evidence_for(connection, snapshot, now)
                packs = PackReader(connection, stores.settings, now)
            return snapshot, packs.with_packs(own, snapshot)

        with timed(times, "evidence_s"):
            return self._kept.get((names, environment), (snapshot, position), with_evidence)


def _items(known: SnapshotAndEvidence) -> int:
    """Number of items, as a measure of the memory in use."""
    snapshot, evidence = known
    packages = (snapshot.packages, snapshot.excluded, evidence.stacks)
    many = sum(len(them) for some in packages for them in some.values())
    return _ITEMS_PER_REQUEST + len(snapshot.revisions) + many + len(evidence.readings)


def stored_knowledge(
    stores: Stores, request: StackRequest, more: Iterable[Dependency] = (),
    source: GraphSource | None = None, timings: dict[str, float] | None = None,
) -> SnapshotAndEvidence:  # fmt: skip
    """Snapshot and evidence of the stores for a request.

    :param more: further roots of the snapshot, beside the requirements of the request
    :param source: caches its reads; by default, nothing is cached
    """
    roots = [*(it.text for it in request.requirements), *map(text_of, more)]
    times = {} if timings is None else timings
    with timed(times, "knowledge_s"):
        return (source or GraphSource()).read(stores, roots, request.environment, times)


@dataclass(frozen=True, slots=True)
class KnowledgeSources:
    """Where knowledge may come from.

    :param stored: snapshot and evidence of the stores
    :param memory: data that earlier requests of this process read; commands have none
    """

    stores: Stores
    stored: GraphSource = field(default_factory=GraphSource)
    memory: IndexMemory | None = None


@dataclass(slots=True)
class Knowledge:
    """The knowledge for one request, and answers from it; see :meth:`for_request`.

    :param fetches: whether the indexes are read
    :param may_reread: whether they are read if an answer of the stores rests on files that would
        not be installed
    :param more: requirements whose packages are read besides those of the request
    :ivar request: with a note if no index answered
    :ivar is_listed: whether the last answer is over all versions that the indexes list
    :ivar timings: duration of each step, s
    """

    sources: KnowledgeSources
    request: StackRequest
    observer: KnowledgeObserver
    resolver: Resolver
    more: tuple[Dependency, ...] = ()
    fetches: bool = False
    may_reread: bool = False
    is_listed: bool = False
    timings: dict[str, float] = field(default_factory=dict)
    _stored: SnapshotAndEvidence | None = None
    _absences: Mapping[str, Absence] = field(default_factory=dict)

    @classmethod
    def for_request(
        cls,
        sources: KnowledgeSources,
        request: StackRequest,
        fetch: bool | None,
        observer: KnowledgeObserver,
        resolver: Resolver,
        more: Iterable[Dependency] = (),
    ) -> Knowledge:
        """Decide where the knowledge for a request comes from.

        :param fetch: whether the indexes are read; ``None`` to read them if the stores lack
            releases that a configured index may have
        """
        known = cls(sources, request, observer, resolver, tuple(more), fetches=bool(fetch))
        if fetch is None:
            # Without a required package, reading the graph would be in vain.
            lacks = lacks_releases_of_roots(sources.stores, request)
            known.fetches = lacks or lacks_releases(sources.stores, request, known.stored[0])
            known.may_reread = not known.fetches
        return known

    @property
    def stored(self) -> SnapshotAndEvidence:
        """Snapshot and evidence of the stores, read once, with the answers of silent indexes."""
        if self._stored is None:
            self.observer.before_graph()
            self._stored = stored_knowledge(
                self.sources.stores, self.request, self.more, self.sources.stored, self.timings
            )
        snapshot, evidence = self._stored
        return (with_absences(snapshot, self._absences) if self._absences else snapshot), evidence

    def affecting(
        self, releases: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Sequence[KnownVulnerability]]:
        """The vulnerabilities of versions, which need not be in the record, by name and version."""
        with self.sources.stores.engine.connect() as connection:
            return known_vulnerabilities(connection, releases)

    @property
    def advisories_as_of(self) -> datetime | None:
        """When the oldest archive of advisories was read; ``None`` if none was."""
        with self.sources.stores.engine.connect() as connection:
            return min((it.as_of for it in source_states(connection)), default=None)

    def use(self, listed: Callable[[IndexResolution], Awaitable[T]], stored: Callable[[], T]) -> T:
        """The result over all versions that the indexes list, or from :attr:`stored`.

        :param listed: such as :meth:`IndexResolution.advise`
        :param stored: called instead if the indexes are not read, or none of them answers
        """
        if not self.fetches:
            return stored()
        stores, memory = self.sources.stores, self.sources.memory
        try:
            with timed(self.timings, "indexes_s"):
                with self.observer.reading() as (on_progress, on_build):
                    result, resolution = over_indexes(
                        stores.settings, lambda it: it.knowledge(stores), self.request, listed,
                        self.resolver, on_progress=on_progress, on_build=on_build, more=self.more,
                        memory=memory, parse_elsewhere=memory is None,
                    )  # fmt: skip
                self.observer.after_reading(resolution)
        except IndexesSilent as error:
            self.observer.on_silence(error)
            self._absences = error.absences
            self.request = with_silent_indexes(self.request)
            return stored()
        resolution.keep()
        self.is_listed = True
        return result

    def advise(self, threads: int = 1) -> Advice:
        """The best stacks.

        :param threads: threads of the solver; the answer does not depend on them
        """
        advice = self.use(
            lambda resolution: resolution.advise(threads), lambda: self._advise_stored(threads)
        )
        if self.is_listed:  # rounds compute no revision
            return replace(advice, snapshot=with_revision(advice.snapshot))
        return advice

    def explain(
        self, explain: Callable[[Advice, Resolver], Explanation], threads: int = 1
    ) -> Explanation:
        """The result of ``explain``, which gets the advice and the resolver that it is to use.

        If the answer is not over all listed versions, it names those that could resolve a conflict.
        """
        explanation = self.use(
            lambda resolution: resolution.explain(explain),
            lambda: explain(self._advise_stored(threads), self.resolver),
        )
        if self.is_listed:
            return explanation
        unfetched = unfetched_versions(
            self.sources.stores, self.request, self.stored[0], explanation.conflict
        )
        return explanation.with_unread(it.message() for it in unfetched)

    def _advise_stored(self, threads: int) -> Advice:
        snapshot, evidence = self.stored
        with timed(self.timings, "search_s"):
            return advise(self.request, snapshot, evidence, resolver=self.resolver, threads=threads)

    def answer(
        self, threads: int = 1, *, urls: bool = False, advice_id: str | None = None
    ) -> Answer:
        """The advice with its report; nothing is stored.

        :param urls: ask the indexes for the URLs of files, which some lock formats need
        :param advice_id: identifier of the advice; by default a new one
        """
        advice = self.advise(threads)
        answer = make_answer(
            self.sources.stores, advice, self.timings,
            urls=urls, all_listed=self.is_listed, advice_id=advice_id,
        )  # fmt: skip
        if self.may_reread and answer.known.other_wheels:
            self.fetches, self.may_reread, self.timings = True, False, {}
            return self.answer(threads, urls=urls, advice_id=advice_id)
        return answer


#: Last answer of an index, by index and project name.
IndexAnswers = Mapping[tuple[str, str], IndexAnswer]


def lacks_releases(stores: Stores, request: StackRequest, snapshot: Snapshot) -> bool:
    """Whether a configured index may have releases that a snapshot of the graph lacks.

    Also true if the store has only the releases of a package that an earlier advice read. Never
    with ``FETCH_MISSING=0``.
    """
    configured = _configured(stores, request)
    if not configured:
        return False
    names = list(snapshot.revisions)
    with stores.engine.connect() as connection:
        if are_partly_read(connection, names):
            return True
        answers = answers_of(connection, names)
    rules = request.resolver_request({})
    return any(
        not configured.isdisjoint(indexes_to_ask(snapshot, rules, name, answers)) for name in names
    )


def lacks_releases_of_roots(stores: Stores, request: StackRequest) -> bool:
    """Like :func:`lacks_releases`, for the packages that the request names; needs no snapshot."""
    configured = _configured(stores, request)
    if not configured:
        return False
    rules = request.resolver_request({})
    names = {it.name for it in request.roots if it.url is None}
    of_indexes = {name for name in names if rules.only_index_of(name) in {None, *configured}}
    with stores.engine.connect() as connection:
        return are_partly_read(connection, names) or bool(without_releases(connection, of_indexes))


def _configured(stores: Stores, request: StackRequest) -> frozenset[str]:
    """The indexes of a request that may be asked for missing releases."""
    if not stores.settings.fetch_missing:
        return frozenset()
    return frozenset(it.name for it in request.options.indexes if it.known)


def indexes_to_ask(
    snapshot: Snapshot, request: ResolverRequest, name: str, answers: IndexAnswers
) -> tuple[str, ...]:
    """Indexes that may have missing versions of a package, in search order.

    - All indexes, if no index of the request has a version of the package in the snapshot.
    - The indexes up to the first with a version, if no read version meets a requirement of the
      request, or if no version has known requirements and this index was not asked yet.
    - The indexes before the first with a version, if they were not asked yet.
    """
    sources = request.indexes_of(name)
    versions = _versions(snapshot, name)
    place = next((at for at, index in enumerate(sources) if index in versions), None)
    if place is None:
        return sources
    index, known = sources[place], versions[sources[place]]
    states = {it: answers[it, name].state for it in sources if (it, name) in answers}
    reasons = set(known.values())
    if reasons <= _UNKNOWN and (_UNREAD in reasons or states.get(index) != "known"):
        return sources[: place + 1]
    read = [
        it for it, reason in known.items() if reason not in (_UNREAD, ExclusionReason.UNAVAILABLE)
    ]
    if not _meets_request(snapshot, request, name, read):
        return sources[: place + 1]
    # An index that failed to answer may have it.
    is_open = any(states.get(it) in (None, "failed") for it in sources[:place])
    return sources[:place] if is_open else ()


_UNREAD = ExclusionReason.UNREAD
_UNKNOWN = frozenset({_UNREAD, ExclusionReason.UNSOLVABLE, ExclusionReason.NO_FILES})


def _versions(snapshot: Snapshot, name: str) -> dict[str, dict[str, ExclusionReason | None]]:
    """Versions by index, with the reason if they are not candidates."""
    versions: dict[str, dict[str, ExclusionReason | None]] = {}
    for it in snapshot.packages.get(name, ()):
        versions.setdefault(it.index, {})[it.version] = None
    for out in snapshot.excluded.get(name, ()):
        versions.setdefault(out.index, {})[out.version] = out.reason
    return versions


def _meets_request(
    snapshot: Snapshot, request: ResolverRequest, name: str, versions: Iterable[str]
) -> bool:
    """Whether each requirement of the request on a package admits one of these versions."""
    valid = [it for it in versions if version_of(it) is not None]
    return all(
        any(admits(specifier, version) for version in valid)
        for specifier in _own_specifiers(snapshot, request, name)
    )


def _own_specifiers(snapshot: Snapshot, request: ResolverRequest, name: str) -> Iterator[str]:
    """Specifiers from the request's own requirements, bounds and override for a package."""
    override = request.overrides.get(name)
    if override is not None:
        yield override
        return
    own: tuple[Dependency, ...] = (*snapshot.roots, *request.constraints)
    yield from (it.specifier for it in own if it.name == name)
