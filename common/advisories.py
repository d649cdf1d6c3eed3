"""Security advisories: what one says of which packages, and how bad it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from common.inspection import DocumentId


class EventKind(StrEnum):
    """What begins or ends a range of versions, in the words of the OSV schema."""

    INTRODUCED = "introduced"
    FIXED = "fixed"
    LAST_AFFECTED = "last_affected"
    #: Nothing at or above it is affected, whatever the other events say.
    LIMIT = "limit"


#: As an ``introduced`` event: before every version. As a ``limit``: above every version.
FROM_THE_FIRST, NO_LIMIT = "0", "*"


@dataclass(frozen=True, slots=True)
class Event:
    """One end of a range; ``version`` is normalised by PEP 440."""

    kind: EventKind
    version: str


#: Events in the order in which the advisory has them.
Range = tuple[Event, ...]


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
