"""Security advisories: affected packages, severity, and OSV's evaluation of version ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from packaging.version import Version

from common.inspection import DocumentId
from common.packages import (
    version_of,
)


class RangeEventKind(StrEnum):
    """What begins or ends a range of versions, in the words of the OSV schema."""

    INTRODUCED = "introduced"
    FIXED = "fixed"
    LAST_AFFECTED = "last_affected"
    #: Nothing at or above it is affected, whatever the other events say.
    LIMIT = "limit"


#: As an ``introduced`` event: before every version. As a ``limit``: above every version.
FROM_THE_FIRST, NO_LIMIT = "0", "*"


@dataclass(frozen=True, slots=True)
class RangeEvent:
    """One end of a range; ``version`` is normalised by PEP 440."""

    kind: RangeEventKind
    version: str


#: Events in the order in which the advisory has them.
Range = tuple[RangeEvent, ...]


class Severity(StrEnum):
    """Qualitative rating by the CVSS specification, the least first."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Place in the order of badness, from 0."""
        return list(Severity).index(self)

    @classmethod
    def of_score(cls, score: float) -> Severity:
        """The rating of a CVSS base score within ``[0, 10]``.

        >>> Severity.of_score(9.8), Severity.of_score(0.0)
        (<Severity.CRITICAL: 'critical'>, <Severity.NONE: 'none'>)
        """
        floors = (9.0, cls.CRITICAL), (7.0, cls.HIGH), (4.0, cls.MEDIUM), (0.1, cls.LOW)
        return next((rating for floor, rating in floors if score >= floor), cls.NONE)


@dataclass(frozen=True, slots=True)
class Rating:
    """How bad it is, as far as somebody said.

    :param score: CVSS base score within ``[0, 10]``
    :param vector: what the score comes from; without a score, a vector that nobody can read
    """

    severity: Severity | None = None
    score: float | None = None
    vector: str | None = None


def worst(ratings: Iterable[Rating]) -> Rating:
    """The highest score; without any, the worst that was said in words."""

    def badness(rating: Rating) -> tuple[bool, float, int, bool, str]:
        rank = -1 if rating.severity is None else rating.severity.rank
        vector = rating.vector or ""
        return rating.score is not None, rating.score or 0.0, rank, bool(vector), vector

    return max(ratings, key=badness, default=Rating())


@dataclass(frozen=True, slots=True)
class AffectedPackage:
    """Which versions of a package are affected: those in a range, and those listed.

    :param name: normalised
    :param versions: normalised by PEP 440 where they can be, sorted
    """

    name: str
    ranges: tuple[Range, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdvisoryHead:
    """What an advisory says of the vulnerability itself.

    :param aliases: other identifiers of the same vulnerability, sorted
    :param withdrawn_at: since when its publisher takes it back
    :param document_id: digest of the document that says all this
    """

    advisory_id: str
    aliases: tuple[str, ...]
    summary: str | None
    rating: Rating
    published_at: datetime | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: DocumentId

    @property
    def age(self) -> tuple[datetime, str]:
        """Of two documents of one advisory, the one with the greater is the newer."""
        return self.modified_at, self.document_id


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory, as one document has it.

    :param packages: Python packages; empty if it is about those of other ecosystems only
    :param body: canonical JSON of all that was delivered
    :param unreadable_versions: ends of ranges that are no versions, taken to the safe side
    :param malformed_vectors: CVSS vectors that give no score
    """

    head: AdvisoryHead
    packages: tuple[AffectedPackage, ...]
    body: bytes = field(repr=False)
    unreadable_versions: int = 0
    malformed_vectors: int = 0


class VersionLine:
    """The versions of one package in their order, to ask of many advisories which they affect.

    A local build such as ``2.0.1+cu118`` counts as the release that it is built from,
    as it does in a specifier, unless the advisory names a local version itself.
    Versions that are none by PEP 440 have no place in a range; they can only be listed.

    >>> line = VersionLine(["1.0", "1.5", "1.5+cu118", "2.0"])
    >>> start, fixed = RangeEventKind.INTRODUCED, RangeEventKind.FIXED
    >>> events = (RangeEvent(start, "0"), RangeEvent(fixed, "2.0"))
    >>> sorted(line.affected(AffectedPackage("x", (events,), ())))
    ['1.0', '1.5', '1.5+cu118']
    """

    def __init__(self, versions: Iterable[str]) -> None:
        given = self._given = frozenset(versions)
        placed = sorted((parsed, text) for text in given if (parsed := version_of(text)))
        self._texts = [text for _, text in placed]
        self._full = [parsed for parsed, _ in placed]
        self._releases = [it if it.local is None else Version(it.public) for it in self._full]
        self._listed: dict[Version | str, list[str]] = {}
        for text in given:
            for key in _listed_keys(text):
                self._listed.setdefault(key, []).append(text)

    @property
    def ordered(self) -> list[str]:
        """The versions, oldest first; what is no version comes last, as text."""
        unplaced = sorted(text for text in self._given if version_of(text) is None)
        return [*self._texts, *unplaced]

    def affected(self, package: AffectedPackage) -> set[str]:
        """Those of the versions that are in a range, or listed.

        Costs a few binary searches and a pass over the versions for each range.
        """
        found: set[str] = set()
        for events in package.ranges:
            flags = self._flags(events)
            found.update(text for text, flag in zip(self._texts, flags, strict=True) if flag)
        for listed in package.versions:
            found.update(self._listed.get(version_of(listed) or listed, ()))
        return found

    def _flags(self, events: Range) -> bytearray:
        """One byte a version, 1 if it is affected.

        Every event holds from one version on for all above it, and where several hold,
        the last of them in their order decides: so each overwrites what came before.
        """
        flags = bytearray(len(self._texts))
        for event in sorted(events, key=_order):
            if event.kind is RangeEventKind.LIMIT:
                continue
            first = self._first(event)
            state = b"\1" if event.kind is RangeEventKind.INTRODUCED else b"\0"
            flags[first:] = state * (len(flags) - first)
        limits = [self._first(event) for event in events if event.kind is RangeEventKind.LIMIT]
        if limits:
            flags[max(limits) :] = bytes(len(flags) - max(limits))
        return flags

    def _first(self, event: RangeEvent) -> int:
        """Place of the first version for which ``event`` holds."""
        if event.version == FROM_THE_FIRST and event.kind is RangeEventKind.INTRODUCED:
            return 0
        if event.version == NO_LIMIT and event.kind is RangeEventKind.LIMIT:
            return len(self._texts)
        parsed = version_of(event.version)
        if parsed is None:
            # Parsers let none through; what begins nowhere affects everything, to be safe.
            return 0 if event.kind is RangeEventKind.INTRODUCED else len(self._texts)
        among = self._full if parsed.local else self._releases
        find = bisect_right if event.kind is RangeEventKind.LAST_AFFECTED else bisect_left
        return find(among, parsed)


def _listed_keys(text: str) -> set[Version | str]:
    """What a list may name so that the version ``text`` is meant: equals, such as 1.0 and 1.0.0."""
    parsed = version_of(text)
    return {text} if parsed is None else {parsed, Version(parsed.public)}


_LOWEST = Version("0.dev0")


def _order(event: RangeEvent) -> tuple[bool, Version]:
    """Place of an event; events of one version stay in the advisory's order."""
    introduced_first = event.kind is RangeEventKind.INTRODUCED and event.version == FROM_THE_FIRST
    parsed = version_of(event.version)
    if introduced_first or parsed is None:
        return False, _LOWEST
    return True, parsed
