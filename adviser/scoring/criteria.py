"""What advice is measured by: the recommendation types, their criteria and the weights of these.

This is the one table; ``docs/reference/recommendation-types.md`` shows it to people. The value of
a version by a criterion is a plain number, better the higher it is. Contributions are integers, as
sums of them have to be exact. Most criteria say which version of a package is preferred, and count
as the difference to the best of the package. A penalty counts from zero, and is never above it: a
vulnerability harms whoever installs it, also where no version is without.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

#: Parts of a point that a contribution counts in.
SCALE = 10_000


class RecommendationType(StrEnum):
    """What somebody wants of a stack; the value is stored, never renamed."""

    LATEST = "latest"
    STABLE = "stable"
    TESTING = "testing"
    PERFORMANCE = "performance"
    SECURITY = "security"

    @property
    def admits_prereleases(self) -> bool:
        """Whether every pre-release may be chosen, asked for or not."""
        return self is RecommendationType.TESTING

    @property
    def refuses_vulnerable(self) -> bool:
        """Whether versions with a known vulnerability are left out rather than weighed."""
        return self is RecommendationType.SECURITY


@dataclass(frozen=True, slots=True)
class Criterion:
    """One line of the table for one recommendation type.

    :param name: stored, never renamed
    :param weight: points for a value of 1, above zero
    :param unit: what a value of 1 means
    :param penalty: whether it counts from zero, and not from the best version of a package
    """

    name: str
    weight: float
    unit: str
    description: str
    penalty: bool = False

    def contribution(self, value: float) -> int:
        """What a value is worth in parts of a point (:data:`SCALE`), rounded to the nearest."""
        return round(SCALE * self.weight * value)

    def value(self, contribution: int) -> float:
        """The value that is worth so much, or a sum of values.

        >>> Criterion("age", 0.5, "years", "").value(-10_000)
        -2.0
        """
        return contribution / (SCALE * self.weight)


@dataclass(frozen=True, slots=True)
class _Line:
    """A criterion and its weight in each type, 0 where it does not count."""

    name: str
    unit: str
    description: str
    latest: float = 0.0
    stable: float = 0.0
    testing: float = 0.0
    performance: float = 0.0
    security: float = 0.0
    penalty: bool = False


#: In the order in which they are shown. A point is about what passing over every release of
#: a package costs with ``latest``.
_TABLE = (
    _Line(
        "performance", "natural log of the ratio of rates",
        "pessimistic bound of what measurements settled against the baseline, mean over"
        " indicators; nothing where nothing is settled",
        performance=100.0,
    ),
    _Line(
        "security", "points of severity",
        "known vulnerabilities: by severity, added up (critical 10, high 7.5, medium 5, low 2.5,"
        " unknown 5)",
        latest=0.1, stable=0.2, testing=0.05, performance=0.1, security=10.0, penalty=True,
    ),
    _Line(
        "yanked", "yanked version", "whether its publisher took it back",
        latest=10.0, stable=10.0, testing=10.0, performance=10.0, security=10.0, penalty=True,
    ),
    _Line(
        "prerelease", "pre-release", "whether it is a pre-release",
        stable=10.0, performance=10.0, security=10.0, penalty=True,
    ),
    _Line(
        "maturity", "share of the first 30 days",
        "how much of its first 30 days is still to come; all of it if nobody knows",
        stable=5.0, security=0.5, penalty=True,
    ),
    _Line(
        "maintenance", "version superseded within its series",
        "whether a later release of the same series, such as 1.4.x, mended something",
        stable=1.0, performance=0.2, security=1.0,
    ),
    _Line(
        "freshness", "share of the package's releases",
        "how many releases of the package are newer, as a share of all",
        latest=1.0, stable=0.2, testing=1.0, performance=0.1, security=0.2,
    ),
    _Line(
        "age", "years",
        "years between it and the newest release of the package (libyears)",
        latest=0.5, stable=0.1, testing=0.5, performance=0.05, security=0.2,
    ),
)  # fmt: skip


def criteria_of(kind: RecommendationType) -> tuple[Criterion, ...]:
    """The criteria that count for a type, in the order of the table.

    >>> [it.name for it in criteria_of(RecommendationType.LATEST)]
    ['security', 'yanked', 'freshness', 'age']
    """
    lines = ((line, float(getattr(line, kind.value))) for line in _TABLE)
    return tuple(
        Criterion(it.name, weight, it.unit, it.description, it.penalty)
        for it, weight in lines
        if weight
    )


def penalties_of(criteria: Iterable[Criterion]) -> frozenset[int]:
    """The places of the penalties among criteria.

    >>> sorted(penalties_of(criteria_of(RecommendationType.LATEST)))
    [0, 1]
    """
    return frozenset(place for place, it in enumerate(criteria) if it.penalty)
