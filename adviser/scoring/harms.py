"""Known vulnerabilities: how heavily they weigh, which are accepted, what is refused for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from common.advisories import Severity
from graph.candidates import Candidate, KnownVulnerability
from graph.evidence import KnownHarm

#: Points by severity: about the middle of the range of CVSS scores that has the name.
POINTS = {
    Severity.CRITICAL: 10.0,
    Severity.HIGH: 7.5,
    Severity.MEDIUM: 5.0,
    Severity.LOW: 2.5,
    Severity.NONE: 0.0,
}
#: Where nobody rated it: that of the middle, as most turn out to be.
UNRATED = 5.0


def severity_of(it: KnownVulnerability) -> Severity | None:
    """Its rating, from the score if only that is known; ``None`` if nobody rated it."""
    return _severity(it.severity, it.score)


def points(it: KnownVulnerability) -> float:
    """How heavily a vulnerability weighs, from 0 to 10.

    >>> points(KnownVulnerability("V-1", "critical")), points(KnownVulnerability("V-2"))
    (10.0, 5.0)
    """
    rated = _severity(it.severity, it.score)
    return UNRATED if rated is None else POINTS[rated]


@lru_cache(maxsize=1024)
def _severity(name: str | None, score: float | None) -> Severity | None:
    if name is not None:
        return Severity(name)
    return None if score is None else Severity.of_score(score)


class AllowList:
    """Vulnerabilities that somebody accepts, under any of the names that they have."""

    def __init__(self, allowed: Iterable[str], known: Mapping[str, KnownHarm]) -> None:
        """
        :param allowed: identifiers such as ``CVE-2024-1``, in any case
        :param known: what is known of vulnerabilities, by identifier
        """
        wanted = {it.strip().upper() for it in allowed}
        self._accepted = {it.upper() for it in wanted}
        for identifier, harm in known.items() if wanted else ():
            if wanted.intersection(alias.upper() for alias in harm.aliases):
                self._accepted.add(identifier.upper())

    def accepts(self, it: KnownVulnerability) -> bool:
        """Whether it is on the list."""
        return bool(self._accepted) and it.id.upper() in self._accepted

    def held_against(self, candidate: Candidate) -> tuple[KnownVulnerability, ...]:
        """The vulnerabilities of a version that are not accepted."""
        if not self._accepted:
            return candidate.vulnerabilities
        return tuple(it for it in candidate.vulnerabilities if not self.accepts(it))


def security_value(held: Collection[KnownVulnerability]) -> float:
    """Minus the points of all that is held against a version; 0 if there is nothing."""
    return -sum(map(points, held)) if held else 0.0


def refusal(held: Collection[KnownVulnerability]) -> str | None:
    """Why a version is refused where no vulnerability is put up with; ``None`` if it is not.

    Those that were rated harmless refuse nothing; those that nobody rated do.

    >>> refusal([KnownVulnerability("V-2", "low"), KnownVulnerability("V-1", "critical")])
    'known vulnerabilities: V-1 (critical), V-2 (low)'
    """
    harmful = [(points(it), it) for it in held if points(it) > 0]
    if not harmful:
        return None
    harmful.sort(key=lambda pair: (-pair[0], pair[1].id))
    told = ", ".join(f"{it.id} ({severity_of(it) or 'unrated'})" for _, it in harmful)
    return f"known {'vulnerability' if len(harmful) == 1 else 'vulnerabilities'}: {told}"
