"""How bad an advisory says it is: CVSS vectors, or else a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from cvss import CVSS2, CVSS3, CVSS4
from cvss.exceptions import CVSSError

from common.advisories import Rating, Severity, worst

_LONGEST_VECTOR = 500
#: How vectors begin, the newest version of CVSS first; those of version 2 have no such mark.
_VERSIONS = (("CVSS:4.", CVSS4), ("CVSS:3.1/", CVSS3), ("CVSS:3.0/", CVSS3))
_SCORED_TYPES = ("CVSS_V2", "CVSS_V3", "CVSS_V4")
_WORDS = {"moderate": Severity.MEDIUM, "important": Severity.HIGH}


def rating_of(records: Iterable[dict[str, Any]]) -> tuple[Rating, int]:
    """The rating in an advisory and its affected packages, and how many vectors gave no score.

    Of several vectors the one of the newest CVSS version counts, and of these the worst.
    Without a score, words such as ``MODERATE`` count, and a vector is kept as it is.
    """
    scored: list[tuple[int, Rating]] = []
    words: list[Severity] = []
    malformed: set[str] = set()
    for record in records:
        for kind, vector in _vectors(record):
            found = _scored(kind, vector)
            if found is None:
                malformed.add(vector)
            else:
                scored.append(found)
        words.extend(_words(record))
    if scored:
        newest = max(version for version, _ in scored)
        return worst(rating for version, rating in scored if version == newest), len(malformed)
    said = max(words, key=lambda severity: severity.rank, default=None)
    return Rating(said, None, min(malformed, default=None)), len(malformed)


def _vectors(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Type and text of each vector; other kinds of severity are none of ours."""
    entries = record.get("severity")
    for entry in entries if isinstance(entries, list) else ():
        kind = entry.get("type") if isinstance(entry, dict) else None
        if kind in _SCORED_TYPES:
            vector = entry.get("score")
            text = vector if isinstance(vector, str) else repr(vector)
            yield kind, text.strip()[:_LONGEST_VECTOR]


@lru_cache(maxsize=16_384)
def _scored(kind: str, vector: str) -> tuple[int, Rating] | None:
    """Rank of its CVSS version and the rating; ``None`` if ``vector`` is none.

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


def _words(record: dict[str, Any]) -> Iterator[Severity]:
    for key in ("database_specific", "ecosystem_specific"):
        extra = record.get(key)
        word = extra.get("severity") if isinstance(extra, dict) else None
        if isinstance(word, str):
            lower = word.strip().lower()
            if lower in _WORDS:
                yield _WORDS[lower]
            elif lower in set(Severity):
                yield Severity(lower)
