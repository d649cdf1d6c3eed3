"""What a process keeps between requests over indexes: packages, evidence and results by package.

A page is reused for as long as the index cache would use it, unless the record has a newer page.
Vulnerabilities and evidence are read again whenever the record changed. So an advice takes into
account everything that was stored before the request.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from adviser.advise import AdviceReuse, SnapshotAndEvidence
from adviser.answering.index_snapshot import IndexSnapshot, ListedPackage
from adviser.stack_request import StackRequest
from graph.engine import Stores
from graph.record.affected_versions import vulnerabilities_of_listed
from graph.record.evidence import EvidenceReader
from graph.record.freshness import changes
from graph.record.indexes import answers_of
from model.measurements.evidence import Evidence
from model.packages.candidate_builder import CandidateBuilder
from model.packages.candidates import Dependency
from model.packages.environments import Environment

#: Maximum number of listed versions that are kept; 10,000 of them take about 40 MB.
KEPT_VERSIONS = 30_000
#: Maximum number of environments, and of kinds of requests, whose results are kept.
_KEPT_KINDS = 8


#: Environment, name and URL of the index, and name of the package.
PackageKey = tuple[Environment, str, str, str]


class RecordKnowledge:
    """Adds data from the record to listed and read versions.

    :param position: of the record; what was looked up at the same position is not looked up again
    """

    def __init__(self, stores: Stores, position: Hashable) -> None:
        self._engine = stores.engine
        self._position = position
        self._reader = EvidenceReader(datetime.now(UTC))
        self._last: tuple[Evidence, Evidence] | None = None

    def __call__(self, listed: IndexSnapshot) -> SnapshotAndEvidence:
        """The snapshot of what was listed, with vulnerabilities, and the evidence for it."""
        with self._engine.connect() as connection:
            self._look_up(connection, listed)
            snapshot = listed.freeze()
            # Packages that were kept take part once something requires them.
            if self._look_up(connection, listed):
                snapshot = listed.freeze()
            recorded = self._reader.evidence(connection, snapshot)
        sources = {**recorded.sources, **{it: listed.as_of(it) for it in listed.indexes()}}
        sources = dict(sorted(sources.items()))
        # The same object as before if nothing changed, so that nothing is computed again.
        last = self._last
        if last is None or last[0] is not recorded or last[1].sources != sources:
            last = self._last = recorded, replace(recorded, sources=sources)
        return snapshot, last[1]

    def _look_up(self, connection: Connection, listed: IndexSnapshot) -> bool:
        """Look up the vulnerabilities of new packages; returns whether there are any."""
        packages = listed.packages
        new = [name for name, it in packages.items() if it.position != self._position]
        if new:
            known = vulnerabilities_of_listed(connection, listed.purls(new))
            for name in new:
                packages[name].learn_vulnerabilities(known, self._position)
        return bool(new)


@dataclass(slots=True)
class IndexMemory:
    """Data that requests resolved from indexes share in one process, for one request at a time.

    :param page_age_s: ``INDEX_PAGE_AGE_S``
    :param limit: maximum number of listed versions between requests
    """

    page_age_s: float = 600.0
    limit: int = KEPT_VERSIONS
    _position: Hashable = None
    _knowledge: RecordKnowledge | None = None
    _packages: OrderedDict[PackageKey, ListedPackage] = field(default_factory=OrderedDict)
    _builders: OrderedDict[Environment, CandidateBuilder] = field(default_factory=OrderedDict)
    _reuse: OrderedDict[Hashable, AdviceReuse] = field(default_factory=OrderedDict)

    def knowledge(self, stores: Stores) -> RecordKnowledge:
        """The current data of the record; forgets a package whose page is newer in the record."""
        with stores.engine.connect() as connection:
            position = changes(connection), datetime.now(UTC).date()
            if self._knowledge is None or position != self._position:
                names = {name for *_, name in self._packages}
                answers = answers_of(connection, names) if names else {}
                for key, package in list(self._packages.items()):
                    answer = answers.get((package.index, key[-1]))
                    if answer and answer.as_of and answer.as_of > package.page.as_of:
                        del self._packages[key]
                self._position = position
                self._knowledge = RecordKnowledge(stores, position)
        return self._knowledge

    def for_request(
        self, request: StackRequest, urls: Mapping[str, str], more: Iterable[Dependency] = ()
    ) -> RequestMemory:
        """The part that concerns one request.

        :param more: roots besides the requirements of the request
        :param urls: by name, of the indexes whose packages may be kept
        """
        environment = request.environment
        builder = self._builders.pop(environment, None) or CandidateBuilder(environment)
        reuse_key = AdviceReuse.key_of(request, (*request.roots, *more))
        reuse = self._reuse.pop(reuse_key, None) or AdviceReuse()
        self._builders[environment], self._reuse[reuse_key] = builder, reuse
        for kept in (self._builders, self._reuse):
            if len(kept) > _KEPT_KINDS:
                kept.popitem(last=False)
        return RequestMemory(self, environment, urls, builder, reuse)

    def take(self, key: PackageKey) -> ListedPackage | None:
        """Remove and return a package whose page is recent enough."""
        package = self._packages.pop(key, None)
        if package is None or not 0 <= _age_s(package) < self.page_age_s:
            return None
        return package

    def keep(self, packages: Mapping[PackageKey, ListedPackage]) -> None:
        """Keep packages, and forget those that were used least recently."""
        self._packages.update(packages)
        versions = sum(len(it.records) for it in self._packages.values())
        while versions > self.limit:
            _, forgotten = self._packages.popitem(last=False)
            versions -= len(forgotten.records)
            # Results refer to the versions of forgotten packages.
            self._reuse.clear()


@dataclass(frozen=True, slots=True)
class RequestMemory:
    """The part of an :class:`IndexMemory` that concerns one request.

    :param urls: by name, of the indexes whose packages may be kept
    """

    memory: IndexMemory
    environment: Environment
    urls: Mapping[str, str]
    builder: CandidateBuilder
    reuse: AdviceReuse

    def take(self, index: str, name: str) -> ListedPackage | None:
        """Remove and return a package, without requested extras; :meth:`keep` adds it again."""
        if index not in self.urls:
            return None
        package = self.memory.take((self.environment, index, self.urls[index], name))
        if package is not None:
            package.extras = frozenset()
        return package

    def keep(self, packages: Mapping[str, ListedPackage]) -> None:
        """Keep packages, by name, if the record has their metadata."""
        kept = {}
        for name, package in packages.items():
            if package.index in self.urls and package.is_complete:
                package.stored = set(package.metadata)
                key = self.environment, package.index, self.urls[package.index], name
                kept[key] = package
        self.memory.keep(kept)


def _age_s(package: ListedPackage) -> float:
    return (datetime.now(UTC) - package.page.as_of).total_seconds()
