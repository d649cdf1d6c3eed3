"""Recommendation types, with their criteria and weights; values of releases; vulnerabilities.

``docs/reference/recommendation-types.md`` documents the table. Each criterion gives a version a
number as its value; higher is better. Contributions to a score are integers, so that sums are
exact. Most criteria express a preference among the versions of a package. They count as the
difference from the package's best version. A penalty counts from zero and is never positive: a
vulnerability lowers the score even if every version of the package has one.

Freshness, age, maturity, maintenance and build are values from release metadata. The best value is
zero; lower values are negative. Versions of one package on the same index are compared with each
other. A pre-release makes other versions older only if the recommendation type counts pre-releases
as releases.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

from adviser.resolver.universe import DISTANCES
from model.advisories import Severity
from model.measurements.evidence import VulnerabilityDetails
from model.packages.candidates import Candidate, KnownVulnerability
from model.packages.identity import Purl, series_of

#: Units of a contribution in one point.
SCALE = 10_000


class RecommendationType(StrEnum):
    """What a user wants from a stack. The values are stored; never rename them."""

    BEST = "best"
    LATEST = "latest"
    STABLE = "stable"
    TESTING = "testing"
    PERFORMANCE = "performance"
    SECURITY = "security"

    @property
    def admits_prereleases(self) -> bool:
        """Whether every pre-release may be chosen, even if no requirement admits it."""
        return self is RecommendationType.TESTING

    @property
    def weighs_speed(self) -> bool:
        """Whether measurements of speed count."""
        return self in (RecommendationType.BEST, RecommendationType.PERFORMANCE)

    @property
    def refuses_vulnerable(self) -> bool:
        """Whether versions with a known vulnerability are excluded instead of weighed."""
        return self is RecommendationType.SECURITY


class CriterionName(StrEnum):
    """Names of the criteria. The values are stored; never rename them."""

    PERFORMANCE = "performance"
    UNMEASURED = "unmeasured"
    #: Its value is unknown without advisories.
    SECURITY = "security"
    YANKED = "yanked"
    PRERELEASE = "prerelease"
    MATURITY = "maturity"
    MAINTENANCE = "maintenance"
    FRESHNESS = "freshness"
    AGE = "age"
    #: Left out if no project of a snapshot is known to be archived or deprecated.
    STATUS = "status"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class Criterion:
    """A criterion with its weight for one recommendation type.

    :param weight: points for a value of 1; positive
    :param unit: meaning of a value of 1
    :param penalty: whether it counts from zero instead of from the best version of a package
    :param newness: whether it is weighed as newness, after all criteria that are not
    """

    name: CriterionName
    weight: float
    unit: str
    description: str
    penalty: bool = False
    newness: bool = False

    def contribution(self, value: float) -> int:
        """The contribution of a value, in units of 1/:data:`SCALE` point, rounded."""
        return round(SCALE * self.weight * value)

    def value(self, contribution: int) -> float:
        """The value, or sum of values, that corresponds to a contribution.

        >>> Criterion(CriterionName.AGE, 0.5, "years", "").value(-10_000)
        -2.0
        """
        return contribution / (SCALE * self.weight)


@dataclass(frozen=True, slots=True)
class _Line:
    """A criterion and its weight in each recommendation type; 0 if it does not count.

    :param newness: the recommendation types for which it is weighed as newness
    """

    name: CriterionName
    unit: str
    description: str
    best: float = 0.0
    latest: float = 0.0
    stable: float = 0.0
    testing: float = 0.0
    performance: float = 0.0
    security: float = 0.0
    penalty: bool = False
    newness: frozenset[RecommendationType] = frozenset()


_ALL = frozenset(RecommendationType)
#: For these, a vulnerability weighs as much as some newness, so both are weighed together.
_NEWEST = frozenset({RecommendationType.LATEST, RecommendationType.TESTING})

#: In display order. One point is about the cost of the oldest release of a package with
#: ``latest``. The large weights of ``best`` and ``performance`` make an order: a speed ratio below
#: e^20 does not outweigh an unmeasured version, and a thousand unmeasured versions do not outweigh
#: a vulnerability or a yanked version.
_TABLE = (
    _Line(
        CriterionName.PERFORMANCE, "natural log of the ratio of rates",
        "expected difference to the version that is likely the fastest: mean over indicators; 0 if"
        " no version is likely faster",
        best=100.0, performance=100.0,
    ),
    _Line(
        CriterionName.UNMEASURED, "version without measurements",
        "whether it was not measured although measurements have settled that the package's versions"
        " differ",
        best=2e3, performance=2e3,
    ),
    _Line(
        CriterionName.SECURITY, "points of severity",
        "known vulnerabilities: by severity, added up (critical 10, high 7.5, medium 5, low 2.5,"
        " unknown 5)",
        best=1e6, latest=0.1, stable=0.2, testing=0.05, performance=1e6, security=10.0,
        penalty=True,
        newness=_NEWEST,
    ),
    _Line(
        CriterionName.YANKED, "yanked version", "whether its publisher yanked it",
        best=1e7, latest=10.0, stable=10.0, testing=10.0, performance=1e7,
        security=10.0, penalty=True,
    ),
    _Line(
        CriterionName.PRERELEASE, "pre-release", "whether it is a pre-release",
        stable=10.0, performance=10.0, security=10.0, penalty=True,
    ),
    _Line(
        CriterionName.MATURITY, "share of the first 30 days",
        "share of its first 30 days that is still ahead; 1 if its upload time is unknown",
        stable=5.0, security=0.5, penalty=True,
    ),
    _Line(
        CriterionName.MAINTENANCE, "version superseded within its series",
        "whether its series, such as 1.4.x, has a later release",
        stable=1.0, performance=0.2, security=1.0,
    ),
    _Line(
        CriterionName.FRESHNESS, "share of the package's releases",
        "number of newer releases of the package, as a share of all its releases",
        best=1.0, latest=1.0, stable=0.2, testing=1.0, performance=0.1, security=0.2, newness=_ALL,
    ),
    _Line(
        CriterionName.AGE, "years",
        "years between it and the newest release of the package (libyears)",
        best=0.5, latest=0.5, stable=0.1, testing=0.5, performance=0.05, security=0.2, newness=_ALL,
    ),
    _Line(
        CriterionName.STATUS, "archived or deprecated project",
        "whether its index says that the project is archived or deprecated (PEP 792)",
        stable=0.1, security=0.2, penalty=True, newness=_ALL,
    ),
    _Line(
        CriterionName.BUILD, "version whose wheels are for other environments",
        "whether it must be built here although it publishes wheels; a version without any wheel"
        " counts 1/5,000, which only settles ties",
        best=1.0, latest=1.0, stable=0.5, testing=1.0, performance=0.5, security=0.5, newness=_ALL,
    ),
)  # fmt: skip


def criteria_of(kind: RecommendationType, *, statuses: bool = True) -> tuple[Criterion, ...]:
    """The criteria of a recommendation type, in the order of the table.

    :param statuses: whether any project is known to be archived or deprecated; otherwise that
        criterion is left out

    >>> [it.name.value for it in criteria_of(RecommendationType.LATEST)]
    ['security', 'yanked', 'freshness', 'age', 'build']
    """
    lines = ((line, float(getattr(line, kind.value))) for line in _TABLE)
    return tuple(
        Criterion(it.name, weight, it.unit, it.description, it.penalty, kind in it.newness)
        for it, weight in lines
        if weight and (statuses or it.name is not CriterionName.STATUS)
    )


def penalties_of(criteria: Iterable[Criterion]) -> frozenset[int]:
    """The positions of the penalties among the criteria.

    >>> sorted(penalties_of(criteria_of(RecommendationType.LATEST)))
    [0, 1]
    """
    return frozenset(place for place, it in enumerate(criteria) if it.penalty)


def newness_of(criteria: Iterable[Criterion]) -> frozenset[int]:
    """The positions of the newness criteria among the criteria.

    >>> sorted(newness_of(criteria_of(RecommendationType.STABLE)))
    [5, 6, 7, 8]
    """
    return frozenset(place for place, it in enumerate(criteria) if it.newness)


def level_names(direct: Iterable[str]) -> list[str]:
    """Names of the levels of a score, in order; each level outweighs all later levels.

    :param direct: packages that the request names, in declared order

    >>> level_names(["flask"])  # doctest: +NORMALIZE_WHITESPACE
    ['before newness', 'newness of flask', 'newness at distance 1', 'newness at distance 2',
     'newness of other packages']
    """
    names = [f"newness of {name}" for name in direct]
    near = [f"newness at distance {number}" for number in range(1, DISTANCES + 1)]
    return ["before newness", *names, *near, "newness of other packages"]


#: Time in which most defects of a release are found, and fixed or yanked.
MATURE_AFTER = timedelta(days=30)
#: A package without a release for this long counts as unmaintained.
UNMAINTAINED_AFTER = timedelta(days=2 * 365)

#: Value of a version without any wheel: less than that of one newer version among thousands.
_NO_WHEEL = -1 / 5_000

_YEAR = timedelta(days=365.25)


#: The values of one version, by the names of the criteria.
ReleaseValues = dict[CriterionName, float]


def release_values(
    candidates: Sequence[Candidate],
    as_of: datetime,
    *,
    prereleases: bool,
    harmful: Collection[Purl] = (),
) -> Iterator[tuple[Candidate, ReleaseValues]]:
    """The values of every candidate of one package.

    :param candidates: newest first
    :param as_of: the time from which ages are counted
    :param prereleases: whether pre-releases count as newer releases
    :param harmful: vulnerable versions; these supersede no other version
    """
    by_index = attrgetter("index")
    for _, group in groupby(sorted(candidates, key=by_index), key=by_index):
        served = list(group)
        kept = [it for it in served if not it.yanked]
        plain = [it for it in kept if prereleases or not it.prerelease]
        # The versions that make others old: all releases, or all versions if there is no release.
        counted = plain or kept or served
        yield from _values(served, counted, as_of, harmful)


def _values(
    served: list[Candidate], counted: list[Candidate], as_of: datetime, harmful: Collection[Purl]
) -> Iterator[tuple[Candidate, ReleaseValues]]:
    pool = frozenset(it.purl for it in counted)
    newest = next((it.uploaded_at for it in counted if it.uploaded_at), None)
    known = [it.uploaded_at for it in served if it.uploaded_at]
    oldest = _lag(newest, min(known)) if newest and known else 0.0
    newer = 0
    seen: set[tuple[int, ...]] = set()
    for candidate in served:
        series = series_of(candidate.version)
        yield (
            candidate,
            {
                CriterionName.YANKED: -float(candidate.yanked),
                CriterionName.PRERELEASE: -float(candidate.prerelease),
                CriterionName.MATURITY: -_unripe(candidate.uploaded_at, as_of),
                CriterionName.MAINTENANCE: -float(series in seen),
                CriterionName.FRESHNESS: -newer / len(counted) if newer else 0.0,
                CriterionName.AGE: -_age(candidate, newest, oldest, newer),
                CriterionName.BUILD: _build(candidate),
            },
        )
        if candidate.purl in pool:
            newer += 1
            if candidate.purl not in harmful:
                seen.add(series)


def _unripe(uploaded_at: datetime | None, as_of: datetime) -> float:
    if uploaded_at is None:
        return 1.0
    return min(1.0, max(0.0, 1 - (as_of - uploaded_at) / MATURE_AFTER))


def _age(candidate: Candidate, newest: datetime | None, oldest: float, newer: int) -> float:
    """Age in libyears (Cox et al. 2015, doi:10.1109/ICSE.2015.140), relative to the newest release.

    A version without an upload time is as old as the oldest known version, unless it is the newest.
    A version of an old series that was published after the newest release has age 0.
    """
    if newest is None or not newer:
        return 0.0
    return oldest if candidate.uploaded_at is None else _lag(newest, candidate.uploaded_at)


def _lag(newest: datetime, uploaded_at: datetime) -> float:
    return max(0.0, (newest - uploaded_at) / _YEAR)


def _build(candidate: Candidate) -> float:
    """0 with a wheel for the environment.

    A publisher whose wheels are all for other environments may never have built the version for
    this environment. A publisher without any wheel expects every user to build it.
    """
    if not candidate.sdist_only:
        return 0.0
    return _NO_WHEEL if candidate.wheel_mismatch is None else -1.0


def last_release(candidates: Iterable[Candidate]) -> datetime | None:
    """The upload time of the latest release of a package; ``None`` if unknown."""
    return max((it.uploaded_at for it in candidates if it.uploaded_at), default=None)


#: Points by severity: about the middle of its range of CVSS scores.
POINTS = {
    Severity.CRITICAL: 10.0,
    Severity.HIGH: 7.5,
    Severity.MEDIUM: 5.0,
    Severity.LOW: 2.5,
    Severity.NONE: 0.0,
}
#: Points without a rating: those of medium, the most frequent severity.
UNRATED = 5.0


def severity_of(vulnerability: KnownVulnerability) -> Severity | None:
    """The severity of a vulnerability, derived from its score if necessary; ``None`` if unrated."""
    return _severity(vulnerability.severity, vulnerability.score)


def points(vulnerability: KnownVulnerability) -> float:
    """The weight of a vulnerability, from 0 to 10.

    >>> points(KnownVulnerability("V-1", "critical")), points(KnownVulnerability("V-2"))
    (10.0, 5.0)
    """
    rated = _severity(vulnerability.severity, vulnerability.score)
    return UNRATED if rated is None else POINTS[rated]


@lru_cache(maxsize=1024)
def _severity(name: str | None, score: float | None) -> Severity | None:
    if name is not None:
        return Severity(name)
    return None if score is None else Severity.of_score(score)


class AllowList:
    """Vulnerabilities that a request accepts, under any of their aliases."""

    def __init__(self, allowed: Iterable[str], known: Mapping[str, VulnerabilityDetails]) -> None:
        """
        :param allowed: identifiers such as ``CVE-2024-1``, in any case
        :param known: known vulnerabilities with their aliases, by identifier
        """
        wanted = {it.strip().upper() for it in allowed}
        self._accepted = set(wanted)
        for identifier, details in known.items() if wanted else ():
            if wanted.intersection(alias.upper() for alias in details.aliases):
                self._accepted.add(identifier.upper())

    def accepts(self, vulnerability: KnownVulnerability) -> bool:
        """Whether the request accepts the vulnerability."""
        return bool(self._accepted) and vulnerability.id.upper() in self._accepted

    def unaccepted(self, candidate: Candidate) -> tuple[KnownVulnerability, ...]:
        """Those vulnerabilities of a version which the request does not accept."""
        if not self._accepted:
            return candidate.vulnerabilities
        return tuple(it for it in candidate.vulnerabilities if not self.accepts(it))


def security_value(vulnerabilities: Collection[KnownVulnerability]) -> float:
    """The total points of vulnerabilities, negated; 0 without vulnerabilities."""
    return -sum(map(points, vulnerabilities)) if vulnerabilities else 0.0


def refusal_reason(vulnerabilities: Collection[KnownVulnerability]) -> str | None:
    """Reason why ``security`` advice refuses a version with these vulnerabilities, if there is one.

    Vulnerabilities that are rated as harmless are ignored; vulnerabilities without a rating count.

    >>> refusal_reason([KnownVulnerability("V-2", "low"), KnownVulnerability("V-1", "critical")])
    'known vulnerabilities: V-1 (critical), V-2 (low)'
    """
    harmful = [(points(it), it) for it in vulnerabilities if points(it) > 0]
    if not harmful:
        return None
    harmful.sort(key=lambda pair: (-pair[0], pair[1].id))
    listing = ", ".join(f"{it.id} ({severity_of(it) or 'unrated'})" for _, it in harmful)
    return f"known {'vulnerability' if len(harmful) == 1 else 'vulnerabilities'}: {listing}"
