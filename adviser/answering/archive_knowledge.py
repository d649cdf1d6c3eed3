"""Knowledge without stores: the versions of indexes, advisories of an archive, a pack's jobs."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NoReturn, Protocol, TypeVar

from adviser.advice_request import StackRequest
from adviser.advise import Resolver, SnapshotAndEvidence
from adviser.answering.index_resolution import IndexResolution, over_indexes
from adviser.answering.index_snapshot import IndexSnapshot
from adviser.answering.knowledge import ReadingCallbacks
from common.settings import Settings
from model.advisories import AffectedPackage, VersionLine, Vulnerability
from model.errors import InvalidDocument
from model.measurements.evidence import Evidence, VulnerabilityDetails
from model.packages.candidates import Dependency, KnownVulnerability
from model.packages.snapshot import Snapshot

T = TypeVar("T")


class Advisories(Protocol):
    """Vulnerabilities by package, as :class:`ingest.advisories.sources.AdvisoryArchive`."""

    as_of: datetime

    @property
    def refused(self) -> Mapping[str, InvalidDocument]: ...

    def about(self, name: str) -> list[tuple[Vulnerability, list[AffectedPackage]]]: ...


@dataclass(slots=True)
class ArchiveKnowledge:
    """:class:`adviser.answering.knowledge.Knowledge` without stores.

    :param measured: the measurements of a pack for a snapshot
    :param reading: a block in which the indexes are read
    :param more: requirements whose packages are read besides those of the request
    """

    settings: Settings
    request: StackRequest
    resolver: Resolver
    advisories: Advisories
    measured: Callable[[Snapshot], Evidence]
    reading: Callable[[], AbstractContextManager[ReadingCallbacks]]
    more: tuple[Dependency, ...] = ()
    _known: dict[str, VulnerabilityDetails] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)

    def use(self, listed: Callable[[IndexResolution], Awaitable[T]], stored: Callable[[], T]) -> T:
        """The result over all versions that the indexes list; ``stored`` is never called.

        :raises IndexesSilent: if no index gives a page
        """
        with self.reading() as (on_progress, on_build):
            result, _ = over_indexes(
                self.settings, lambda _: self._of_listed, self.request, listed, self.resolver,
                on_progress=on_progress, on_build=on_build, more=self.more, parse_elsewhere=True,
            )  # fmt: skip
        return result

    @property
    def stored(self) -> NoReturn:
        """There are no stores."""
        raise NotImplementedError

    @property
    def advisories_as_of(self) -> datetime:
        """Time of the archive."""
        return self.advisories.as_of

    def affecting(
        self, releases: Collection[tuple[str, str]]
    ) -> Mapping[tuple[str, str], Sequence[KnownVulnerability]]:
        """The vulnerabilities of versions by name and version."""
        return {
            (name, version): self._affecting(name, [version])[version] for name, version in releases
        }

    def _affecting(
        self, name: str, versions: Collection[str]
    ) -> dict[str, list[KnownVulnerability]]:
        line, known = VersionLine(versions), {it: list[KnownVulnerability]() for it in versions}
        for vulnerability, packages in self.advisories.about(name):
            rating, key = vulnerability.rating, vulnerability.vulnerability_id
            self._known[key] = VulnerabilityDetails(vulnerability.aliases, vulnerability.summary)
            for version in set().union(*map(line.affected, packages)):
                severity = rating.severity and rating.severity.value
                known[version].append(KnownVulnerability(key, severity, rating.score))
        return known

    def _of_listed(self, listed: IndexSnapshot) -> SnapshotAndEvidence:
        for name in listed.packages.keys() - self._seen:
            purls = listed.purls([name])[name]
            affected = self._affecting(name, purls)
            listed.packages[name].learn_vulnerabilities(
                {purls[version]: known for version, known in affected.items() if known}
            )
        self._seen |= listed.packages.keys()
        snapshot = listed.freeze()
        sources = {it: listed.as_of(it) for it in sorted(listed.indexes())}
        evidence = replace(
            self.measured(snapshot), vulnerabilities=dict(sorted(self._known.items())),
            sources={"advisories": self.advisories.as_of, **sources},
        )  # fmt: skip
        return snapshot, evidence
