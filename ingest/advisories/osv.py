"""Parses advisories in the OSV format; packages of other ecosystems are left out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError
from packaging.utils import canonicalize_name

from ingest.personal_data import scrub
from model.advisories import (
    FROM_THE_FIRST,
    NO_LIMIT,
    Advisory,
    AdvisoryHead,
    AffectedPackage,
    Range,
    RangeEvent,
    RangeEventKind,
    Rating,
    Severity,
    worst,
)
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json
from model.json_fields import Fields
from model.measurements.inspection import DocumentId
from model.packages.identity import version_of

_LONGEST_VECTOR = 500
#: Prefixes of CVSS vectors, the newest version first; vectors of version 2 have no prefix.
_VERSIONS = (("CVSS:4.", CVSS4), ("CVSS:3.1/", CVSS3), ("CVSS:3.0/", CVSS3))
_SCORED_TYPES = ("CVSS_V2", "CVSS_V3", "CVSS_V4")
_SEVERITY_NAMES = {"moderate": Severity.MEDIUM, "important": Severity.HIGH}


def rating_of(records: Iterable[Mapping[str, Any]]) -> tuple[Rating, int]:
    """Return the rating of an advisory, and the number of invalid vectors.

    If several vectors have the newest CVSS version, the vector with the highest score is used. If
    no vector is valid, a severity such as ``MODERATE`` is used instead, and an invalid vector is
    stored unchanged.

    :param records: the advisory and its affected packages
    """
    scored: list[tuple[int, Rating]] = []
    severities: list[Severity] = []
    malformed: set[str] = set()
    for record in records:
        entries = record.get("severity")
        for entry in entries if isinstance(entries, list) else ():
            kind = entry.get("type") if isinstance(entry, dict) else None
            if kind in _SCORED_TYPES:
                stated = entry.get("score")
                text = stated if isinstance(stated, str) else repr(stated)
                vector = text.strip()[:_LONGEST_VECTOR]
                rating = _scored(kind, vector)
                if rating is None:
                    malformed.add(vector)
                else:
                    scored.append(rating)
        severities.extend(_severities(record))
    if scored:
        newest = max(version for version, _ in scored)
        return worst(rating for version, rating in scored if version == newest), len(malformed)
    highest = max(severities, key=lambda severity: severity.rank, default=None)
    return Rating(highest, None, min(malformed, default=None)), len(malformed)


@lru_cache(maxsize=16_384)
def _scored(kind: str, vector: str) -> tuple[int, Rating] | None:
    """Return the rank of the CVSS version and the rating; ``None`` if ``vector`` is invalid.

    >>> _scored("CVSS_V3", "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H")[1].score
    9.8
    """
    for rank, (prefix, calculator) in enumerate(_VERSIONS):
        if vector.startswith(prefix):
            return _calculated(len(_VERSIONS) - rank, calculator, vector)
    return _calculated(0, CVSS2, vector) if kind == "CVSS_V2" else None


def _calculated(rank: int, calculator: Any, vector: str) -> tuple[int, Rating] | None:
    try:
        score = float(calculator(vector).scores()[0])
    except (CVSSError, ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
        return None
    return rank, Rating(Severity.of_score(score), score, vector)


def _severities(record: Mapping[str, Any]) -> Iterator[Severity]:
    for key in ("database_specific", "ecosystem_specific"):
        extra = record.get(key)
        severity = extra.get("severity") if isinstance(extra, dict) else None
        if isinstance(severity, str):
            lower = severity.strip().lower()
            if lower in _SEVERITY_NAMES:
                yield _SEVERITY_NAMES[lower]
            elif lower in set(Severity):
                yield Severity(lower)


ECOSYSTEM = "PyPI"
_PYTHON = ECOSYSTEM.casefold()
_CREDITS = "credits"
#: Types of ranges that name versions; other types name commits.
_VERSION_RANGES = ("ECOSYSTEM", "SEMVER")
_LONGEST_SUMMARY = 300
_LONGEST_IDENTIFIER = 200
#: Limit far above any real advisory; an advisory with more would take seconds to evaluate.
_MOST_EVENTS = 20_000
#: Replacements for unreadable ends of a range; other unreadable ends are left out.
_REPLACED_ENDS = {
    RangeEventKind.INTRODUCED: RangeEvent(RangeEventKind.INTRODUCED, FROM_THE_FIRST),
    RangeEventKind.LIMIT: RangeEvent(RangeEventKind.LIMIT, NO_LIMIT),
}


def without_persons(value: Any, canonical: bytes) -> tuple[Any, bytes]:
    """An advisory without e-mail addresses and without credits, which name persons.

    :param canonical: the canonical bytes of ``value``
    :returns: value and canonical bytes
    """
    scrubbed = scrub(value, canonical)
    if isinstance(scrubbed, dict) and _CREDITS in scrubbed:
        scrubbed = {key: it for key, it in scrubbed.items() if key != _CREDITS}
    return (value, canonical) if scrubbed is value else (scrubbed, canonical_json(scrubbed))


def advisory_of(value: Any, canonical: bytes, document_id: DocumentId, now: datetime) -> Advisory:
    """Check and normalise one advisory.

    :param value: the parsed JSON
    :param canonical: the canonical bytes of ``value``
    :returns: the advisory; it has no packages if it is only about other ecosystems
    :raises InvalidDocument: if a required field is missing or has the wrong type
    """
    record = Fields(value)
    reading = _Reading()
    ecosystems = [
        (it, it.nested("package").text("ecosystem") or "") for it in record.each("affected")
    ]
    ours = [it for it, name in ecosystems if name.partition(":")[0].casefold() == _PYTHON]
    packages = tuple(map(reading.package, ours))
    rating, malformed = rating_of([record, *ours])
    identifier = record.required_text("id", "an advisory without id", _LONGEST_IDENTIFIER)
    aliases, summary = _texts(record, "aliases") - {identifier}, _summary(record)
    published_at, modified_at = record.time("published", now), record.time("modified", now)
    if modified_at is None:
        raise InvalidDocument(
            Reason.MISSING_FIELD, "an advisory without modification date", field="$.modified"
        )
    head = AdvisoryHead(
        advisory_id=identifier,
        aliases=tuple(sorted(aliases)),
        summary=summary,
        rating=rating,
        published_at=published_at,
        modified_at=modified_at,
        withdrawn_at=record.time("withdrawn", now),
        document_id=document_id,
    )
    return Advisory(head, packages, canonical, reading.unreadable, malformed)


def _summary(record: Fields) -> str | None:
    """Return the summary or, without one, the first line of the details, cut if it is too long."""
    for key in ("summary", "details"):
        text = record.get(key)
        lines = text.splitlines() if isinstance(text, str) else ()
        line = next(filter(None, (it.strip().lstrip("#").strip() for it in lines)), "")
        if line:
            return line if len(line) <= _LONGEST_SUMMARY else line[: _LONGEST_SUMMARY - 1] + "…"
    return None


def _texts(record: Fields, key: str) -> set[str]:
    return set(filter(None, map(str.strip, record.texts(key, _LONGEST_IDENTIFIER))))


@dataclass(slots=True)
class _Reading:
    """Reads the affected packages of an advisory, and counts unreadable versions."""

    unreadable: int = 0
    events: int = 0

    def package(self, item: Fields) -> AffectedPackage:
        name = item.nested("package").required_text("name", "a package without name")
        ranges = [
            self._range(it) for it in item.each("ranges") if it.text("type") in _VERSION_RANGES
        ]
        listed = {str(version_of(it) or it) for it in _texts(item, "versions")}
        return AffectedPackage(
            canonicalize_name(name), tuple(filter(None, ranges)), tuple(sorted(listed))
        )

    def _range(self, record: Fields) -> Range:
        events: list[RangeEvent] = []
        for ends in record.each("events"):
            for kind in RangeEventKind:
                version = ends.text(kind.value, _LONGEST_IDENTIFIER)
                if version is not None and (event := self._event(kind, version.strip())):
                    events.append(event)
        self.events += len(events)
        if self.events > _MOST_EVENTS:
            raise record.invalid(Reason.OUT_OF_RANGE, f"more than {_MOST_EVENTS} events", "events")
        return tuple(events)

    def _event(self, kind: RangeEventKind, version: str) -> RangeEvent | None:
        """Read one end of a range; an unreadable version widens the range.

        A range with an unreadable beginning starts with the first version, and a range with an
        unreadable end has no end. A false alarm is better than a missed vulnerability.
        """
        if RangeEvent(kind, version) in _REPLACED_ENDS.values():
            return RangeEvent(kind, version)
        parsed = version_of(version)
        if parsed is not None:
            return RangeEvent(kind, str(parsed))
        self.unreadable += 1
        return _REPLACED_ENDS.get(kind)
