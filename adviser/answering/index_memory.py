"""Data that earlier requests read from indexes: in memory, and on disk for the next process.

A page is reused for as long as the index cache would use it, unless the record has a newer page.
Vulnerabilities and evidence are read again whenever the record changed. So an advice takes into
account everything that was stored before the request.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import zstandard
from sqlalchemy import Connection

from adviser.advice_request import StackRequest
from adviser.advise import AdviceReuse, SnapshotAndEvidence
from adviser.answering.index_snapshot import IndexSnapshot, ListedPackage
from adviser.packs.stored_packs import PackReader
from common.index.cache import read_packed, write_packed
from common.versioned_cache import VersionedCache
from graph.engine import Stores
from graph.record.evidence import EvidenceReader
from graph.record.freshness import evidence_position
from graph.record.indexes import answers_of
from graph.record.vulnerabilities import vulnerabilities_of_listed
from model.measurements.evidence import Evidence
from model.packages.candidate_builder import CandidateBuilder
from model.packages.candidates import Dependency
from model.packages.environments import Environment
from model.packages.import_names import ImportNames, ImportSource
from model.packages.releases import ReleaseMetadata, ReleaseProblem
from model.redaction import without_secrets

logger = logging.getLogger(__name__)

#: Maximum number of listed versions that are kept; 10,000 of them take about 40 MB.
KEPT_VERSIONS = 30_000
#: Maximum number of environments, and of kinds of requests, whose results are kept.
_KEPT_KINDS = 8


#: Environment, name and URL of the index, and name of the package.
PackageKey = tuple[Environment, str, str, str]


class RecordKnowledge:
    """Adds data from the record to listed and read versions.

    :param position: of the record; nothing is looked up twice at the same position
    """

    def __init__(self, stores: Stores, position: Hashable) -> None:
        self._engine = stores.engine
        self._position = position
        self._settings, self._now = stores.settings, datetime.now(UTC)
        self._reader = EvidenceReader(self._now)
        self._packs: PackReader | None = None
        self._last: tuple[Evidence, Evidence] | None = None

    def __call__(self, listed: IndexSnapshot) -> SnapshotAndEvidence:
        """The snapshot of listed versions, with vulnerabilities, and the evidence for it."""
        with self._engine.connect() as connection:
            self._look_up(connection, listed)
            snapshot = listed.freeze()
            # Packages that were kept take part once something requires them.
            if self._look_up(connection, listed):
                snapshot = listed.freeze()
            own = self._reader.evidence(connection, snapshot)
            packs = self._packs or PackReader(connection, self._settings, self._now)
        self._packs = packs
        recorded = packs.with_packs(own, snapshot)
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


class IndexMemory:
    """Data that requests resolved from indexes share in one process, for one request at a time.

    :param page_age_s: ``INDEX_PAGE_AGE_S``
    :param limit: maximum number of listed versions between requests
    """

    def __init__(self, page_age_s: float = 600.0, limit: int = KEPT_VERSIONS) -> None:
        self._page_age_s = page_age_s
        self._packages = VersionedCache[PackageKey, ListedPackage](
            limit, lambda package: len(package.records)
        )
        self._knowledge = VersionedCache[str, RecordKnowledge]()
        self._builders = VersionedCache[Environment, CandidateBuilder](_KEPT_KINDS)
        self._reuse = VersionedCache[Hashable, AdviceReuse](_KEPT_KINDS)

    def knowledge(self, stores: Stores) -> RecordKnowledge:
        """The current data of the record; forgets a package whose page is newer in the record."""
        with stores.engine.connect() as connection:
            position = evidence_position(connection)

            def current() -> RecordKnowledge:
                keys = self._packages.keys()
                answers = answers_of(connection, {name for *_, name in keys}) if keys else {}
                for key in keys:
                    package, (_, index, _, name) = self._packages.last(key), key
                    answer = answers.get((index, name))
                    if package and answer and answer.as_of and answer.as_of > package.page.as_of:
                        self._packages.pop(key)
                return RecordKnowledge(stores, position)

            return self._knowledge.get("record", position, current)

    def for_request(
        self, request: StackRequest, urls: Mapping[str, str], more: Iterable[Dependency] = ()
    ) -> RequestMemory:
        """The part that concerns one request.

        :param more: roots besides the requirements of the request
        :param urls: by name, of the indexes whose packages may be kept
        """
        environment = request.environment
        builder = self._builders.get(environment, None, lambda: CandidateBuilder(environment))
        key = AdviceReuse.key_of(request, (*request.roots, *more))
        reuse = self._reuse.get(key, None, AdviceReuse)
        return RequestMemory(self, environment, urls, builder, reuse)

    def take(self, key: PackageKey) -> ListedPackage | None:
        """Remove and return a package whose page is recent enough."""
        package = self._packages.pop(key)
        if package is None:
            return None
        age_s = (datetime.now(UTC) - package.page.as_of).total_seconds()
        return package if 0 <= age_s < self._page_age_s else None

    def keep(self, packages: Mapping[PackageKey, ListedPackage]) -> None:
        """Keep packages, and forget the least recently used ones."""
        forgets = [self._packages.put(key, None, it) for key, it in packages.items()]
        if any(forgets):
            # Results refer to the versions of forgotten packages.
            self._reuse = VersionedCache(_KEPT_KINDS)


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


#: Reads that began to be collected longer ago are not used. Otherwise the versions of a request
#: that is repeated every day would only grow.
_AGE_S = 7 * 86_400.0
#: Maximum bytes after decompression.
_LARGEST = 80 << 20
_LEVEL = 1
#: Raised when rows change.
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class PackageReads:
    """The versions of a package that were read.

    :param index: name of the index
    :param page: fingerprint of the page; the metadata belongs to the files that this page lists
    """

    index: str
    page: str
    metadata: Mapping[str, ReleaseMetadata]


class EarlierReads:
    """The reads of an earlier resolution, in the cache that all homes of a user share.

    A resolution reads metadata in rounds, and each round shows which versions are needed next. A
    resolution that begins with the versions of an earlier one mostly needs a single round. Reading
    more versions than needed never changes an answer, so a missing or outdated file does no harm.

    :param root: folder of the cache
    :param request: text that is the same for requests that read the same versions
    """

    def __init__(self, root: Path, request: str) -> None:
        self._root = root
        self._path = root / "requests" / f"{hashlib.sha256(request.encode()).hexdigest()}.reads"
        self._since = time.time()
        self._known: Mapping[str, PackageReads] = {}

    def load(self) -> Mapping[str, PackageReads]:
        """The reads by package; none if there are none, or if they are too old."""
        stored = read_packed(self._path)
        if stored is None or stored[0].get("format") != _FORMAT:
            return {}
        about, packed = stored
        try:
            since = float(about["since"])
            if not 0 <= time.time() - since < _AGE_S:
                return {}
            packages = orjson.loads(zstandard.decompress(packed, _LARGEST))
            reads = {
                name: PackageReads(
                    package["index"], package["page"],
                    {version: _metadata(row) for version, row in package["metadata"].items()},
                )
                for name, package in packages.items()
            }  # fmt: skip
        except (zstandard.ZstdError, KeyError, TypeError, ValueError, AttributeError):
            return {}
        self._since, self._known = since, reads
        return reads

    def keep(self, reads: Mapping[str, PackageReads]) -> None:
        """Store the reads of a resolution, unless nothing was read since :meth:`load`.

        Secrets in URLs are left out. A full disk is logged and raises nothing.
        """
        if reads == self._known:
            return
        public = {
            name: replace(it, metadata={at: _public(read) for at, read in it.metadata.items()})
            for name, it in reads.items()
        }
        packed = zstandard.compress(orjson.dumps(public), _LEVEL)
        about = {"format": _FORMAT, "since": self._since}
        try:
            write_packed(self._path, self._root, about, packed)
            self._remove_old()
        except OSError as error:
            fields = {"path": str(self._path), "error": str(error)}
            logger.warning("index_cache_not_written", extra=fields)

    def _remove_old(self) -> None:
        oldest = time.time() - _AGE_S
        for path in self._path.parent.glob("*.reads"):
            with suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink(missing_ok=True)


def _public(metadata: ReleaseMetadata) -> ReleaseMetadata:
    """Metadata without secrets in URLs."""
    requires = metadata.requires_dist
    return replace(
        metadata,
        requires_dist=requires and tuple(map(without_secrets, requires)),
        license=metadata.license and without_secrets(metadata.license),
    )


def _metadata(row: Mapping[str, Any]) -> ReleaseMetadata:
    """Metadata from JSON."""
    requires, problem, imports = row["requires_dist"], row["problem"], row["imports"]
    values = {
        "requires_dist": None if requires is None else tuple(requires),
        "provides_extra": tuple(row["provides_extra"]),
        "problem": problem and ReleaseProblem(problem),
        "imports": imports
        and ImportNames(tuple(imports["names"]), ImportSource(imports["source"])),
    }
    return ReleaseMetadata(**{**row, **values})
