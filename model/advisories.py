"""Security advisories: affected packages, severity, version ranges, and their vulnerabilities."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from packaging.version import Version

from model.measurements.inspection import DocumentId
from model.packages.identity import version_of


class RangeEventKind(StrEnum):
    """Events that start or end a range of versions, named as in the OSV schema."""

    INTRODUCED = "introduced"
    FIXED = "fixed"
    LAST_AFFECTED = "last_affected"
    #: No version at or above it is affected, regardless of other events.
    LIMIT = "limit"


#: What a person reads where vulnerabilities are unknown.
NO_ADVISORIES = (
    "no advisories were read: set ADVISORIES to OSV's archive and run `thoth advisories sync --osv`"
)

#: An ``introduced`` event before every version, and a ``limit`` above every version.
FROM_THE_FIRST, NO_LIMIT = "0", "*"


@dataclass(frozen=True, slots=True)
class RangeEvent:
    """One end of a range; ``version`` is normalised by PEP 440."""

    kind: RangeEventKind
    version: str


#: Events in the order in which the advisory has them.
Range = tuple[RangeEvent, ...]


#: Signs of a specifier for the events of a range.
_SIGNS = {
    RangeEventKind.INTRODUCED: ">=", RangeEventKind.FIXED: "<",
    RangeEventKind.LAST_AFFECTED: "<=", RangeEventKind.LIMIT: "<",
}  # fmt: skip


def range_text(events: Range) -> str:
    """A range for people, in the order of its events.

    >>> start, fixed = RangeEventKind.INTRODUCED, RangeEventKind.FIXED
    >>> range_text((RangeEvent(start, "2.3.0"), RangeEvent(fixed, "2.3.2")))
    '>=2.3.0, <2.3.2'
    """
    return ", ".join(f"{_SIGNS[it.kind]}{it.version}" for it in events)


class Severity(StrEnum):
    """Qualitative rating by the CVSS specification, in ascending order."""

    NONE = "none"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Position in ascending order of severity, from 0."""
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
    """Severity of a vulnerability, as far as it is known.

    :param score: CVSS base score within ``[0, 10]``
    :param vector: CVSS vector of the score; without a score, a vector that cannot be parsed
    """

    severity: Severity | None = None
    score: float | None = None
    vector: str | None = None


def worst(ratings: Iterable[Rating]) -> Rating:
    """The rating with the highest score or, if none has a score, with the highest severity."""

    def badness(rating: Rating) -> tuple[bool, float, int, bool, str]:
        rank = -1 if rating.severity is None else rating.severity.rank
        vector = rating.vector or ""
        return rating.score is not None, rating.score or 0.0, rank, bool(vector), vector

    return max(ratings, key=badness, default=Rating())


@dataclass(frozen=True, slots=True)
class AffectedPackage:
    """Affected versions of a package: those in a range, and those listed.

    :param name: normalised
    :param versions: sorted; normalised by PEP 440 if they are versions
    """

    name: str
    ranges: tuple[Range, ...]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdvisoryHead:
    """Description of the vulnerability in an advisory.

    :param aliases: other identifiers of the same vulnerability, sorted
    :param withdrawn_at: when its publisher withdrew it
    :param document_id: digest of the source document
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
        """Sort key of documents of one advisory, from the oldest to the newest."""
        return self.modified_at, self.document_id


@dataclass(frozen=True, slots=True)
class Advisory:
    """One advisory, from one document.

    :param packages: Python packages; empty if it only concerns other ecosystems
    :param body: canonical JSON of the whole delivery
    :param unreadable_versions: number of range ends that are not versions; such ranges are read
        as wider
    :param malformed_vectors: number of CVSS vectors that give no score
    """

    head: AdvisoryHead
    packages: tuple[AffectedPackage, ...]
    body: bytes = field(repr=False)
    unreadable_versions: int = 0
    malformed_vectors: int = 0


#: Prefixes of preferred identifiers, best first.
_PREFERRED = ("CVE-", "GHSA-", "PYSEC-")


@dataclass(frozen=True, slots=True)
class Vulnerability:
    """A vulnerability, merged from all advisories about it.

    :param aliases: all its identifiers, its own included, sorted; aliases in withdrawn advisories
        count only if all advisories are withdrawn
    :param withdrawn_at: set if all advisories are withdrawn
    :param document_id: document of the advisory with the preferred identifier
    :param advisory_ids: its advisories, sorted
    """

    vulnerability_id: str
    aliases: tuple[str, ...]
    summary: str | None
    rating: Rating
    published_at: datetime | None
    modified_at: datetime
    withdrawn_at: datetime | None
    document_id: str
    advisory_ids: tuple[str, ...]


def merge_advisories(advisories: Collection[AdvisoryHead]) -> list[Vulnerability]:
    """Merge advisories into vulnerabilities; the result does not depend on their order.

    Two advisories belong together if a chain of aliases connects them. A withdrawn advisory does
    not connect other advisories, because wrong aliases may be the reason for its withdrawal. A
    withdrawn advisory joins the group that contains its identifier, or else the group that contains
    its preferred alias. Two withdrawn advisories are connected with each other only if neither has
    such a group.
    """
    parents: dict[str, str] = {}
    valid = [head for head in advisories if head.withdrawn_at is None]
    _join_all(parents, valid)
    named = {identifier for head in valid for identifier in _identifiers(head)}
    #: For each assigned advisory, an identifier in its group.
    assigned: dict[str, str] = {}
    for head in advisories:
        known = [it for it in head.aliases if it in named]
        if head.withdrawn_at is None or head.advisory_id in named:
            assigned[head.advisory_id] = head.advisory_id
        elif known:
            assigned[head.advisory_id] = min(known, key=preference)
    _join_all(parents, [head for head in advisories if head.advisory_id not in assigned])
    groups: dict[str, list[AdvisoryHead]] = defaultdict(list)
    for head in advisories:
        groups[_root(parents, assigned.get(head.advisory_id, head.advisory_id))].append(head)
    return [_vulnerability(group) for group in groups.values()]


def _identifiers(head: AdvisoryHead) -> tuple[str, ...]:
    return head.advisory_id, *head.aliases


def preference(identifier: str) -> tuple[int, str]:
    """Sort key of identifiers; the identifier that sorts first names the vulnerability.

    >>> sorted(["PYSEC-2021-1", "GHSA-x", "OSV-1", "CVE-2021-9", "CVE-2021-10"], key=preference)
    ['CVE-2021-10', 'CVE-2021-9', 'GHSA-x', 'PYSEC-2021-1', 'OSV-1']
    """
    ranks = (rank for rank, prefix in enumerate(_PREFERRED) if identifier.startswith(prefix))
    return next(ranks, len(_PREFERRED)), identifier


def _root(parents: dict[str, str], identifier: str) -> str:
    root = identifier
    while (above := parents.get(root, root)) != root:
        root = above
    # Path compression keeps long chains cheap (union-find).
    while identifier != root:
        parents[identifier], identifier = root, parents.get(identifier, root)
    return root


def _join_all(parents: dict[str, str], heads: Collection[AdvisoryHead]) -> None:
    for head in heads:
        for alias in head.aliases:
            parents[_root(parents, head.advisory_id)] = _root(parents, alias)


def _vulnerability(group: list[AdvisoryHead]) -> Vulnerability:
    heads = sorted(group, key=lambda head: preference(head.advisory_id))
    valid = [head for head in heads if head.withdrawn_at is None] or heads
    withdrawn = [head.withdrawn_at for head in heads if head.withdrawn_at is not None]
    identifiers = {it for head in valid for it in _identifiers(head)}
    return Vulnerability(
        vulnerability_id=min(identifiers, key=preference),
        aliases=tuple(sorted(identifiers | {head.advisory_id for head in heads})),
        summary=next((head.summary for head in valid if head.summary), None),
        rating=worst(head.rating for head in valid),
        published_at=min((it.published_at for it in valid if it.published_at), default=None),
        modified_at=max(head.modified_at for head in heads),
        withdrawn_at=max(withdrawn) if len(withdrawn) == len(heads) else None,
        document_id=valid[0].document_id,
        advisory_ids=tuple(sorted(head.advisory_id for head in heads)),
    )


class VersionLine:
    """The sorted versions of one package, to match against many advisories.

    As in a specifier, a local build such as ``2.0.1+cu118`` counts as its public release, unless
    the advisory itself names a local version. Texts that are not versions by PEP 440 match no
    range; they are affected only if an advisory lists them.

    >>> line = VersionLine(["1.0", "1.5", "1.5+cu118", "2.0"])
    >>> start, fixed = RangeEventKind.INTRODUCED, RangeEventKind.FIXED
    >>> events = (RangeEvent(start, "0"), RangeEvent(fixed, "2.0"))
    >>> sorted(line.affected(AffectedPackage("x", (events,), ())))
    ['1.0', '1.5', '1.5+cu118']
    """

    def __init__(self, versions: Iterable[str]) -> None:
        texts = self._all = frozenset(versions)
        placed = sorted((parsed, text) for text in texts if (parsed := version_of(text)))
        self._texts = [text for _, text in placed]
        self._full = [parsed for parsed, _ in placed]
        self._releases = [it if it.local is None else Version(it.public) for it in self._full]
        self._listed: dict[Version | str, list[str]] = {}
        for text in texts:
            for key in _listed_keys(text):
                self._listed.setdefault(key, []).append(text)

    @property
    def ordered(self) -> list[str]:
        """The versions, oldest first; texts that are not versions come last."""
        unplaced = sorted(text for text in self._all if version_of(text) is None)
        return [*self._texts, *unplaced]

    def affected(self, package: AffectedPackage) -> set[str]:
        """The affected versions: those in a range, and those listed.

        The cost is a few binary searches, and a pass over the versions for each range.
        """
        affected: set[str] = set()
        for events in package.ranges:
            flags = self._flags(events)
            affected.update(text for text, flag in zip(self._texts, flags, strict=True) if flag)
        for listed in package.versions:
            affected.update(self._listed.get(version_of(listed) or listed, ()))
        return affected

    def _flags(self, events: Range) -> bytearray:
        """One byte for each version, 1 if it is affected.

        An event applies to its version and all versions above it. If several events apply to a
        version, the last one in order decides, so each event overwrites the effect of earlier
        events.
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
        """Position of the first version to which ``event`` applies."""
        if event.version == FROM_THE_FIRST and event.kind is RangeEventKind.INTRODUCED:
            return 0
        if event.version == NO_LIMIT and event.kind is RangeEventKind.LIMIT:
            return len(self._texts)
        parsed = version_of(event.version)
        if parsed is None:
            # Parsers refuse such versions. To be safe, a range without a start covers all versions.
            return 0 if event.kind is RangeEventKind.INTRODUCED else len(self._texts)
        among = self._full if parsed.local else self._releases
        find = bisect_right if event.kind is RangeEventKind.LAST_AFFECTED else bisect_left
        return find(among, parsed)


def _listed_keys(text: str) -> set[Version | str]:
    """Keys to find version ``text`` in a list that spells it differently, such as 1.0.0 for 1.0."""
    parsed = version_of(text)
    return {text} if parsed is None else {parsed, Version(parsed.public)}


_LOWEST = Version("0.dev0")


def _order(event: RangeEvent) -> tuple[bool, Version]:
    """Sort key of an event; events of one version keep the advisory's order."""
    introduced_first = event.kind is RangeEventKind.INTRODUCED and event.version == FROM_THE_FIRST
    parsed = version_of(event.version)
    if introduced_first or parsed is None:
        return False, _LOWEST
    return True, parsed
