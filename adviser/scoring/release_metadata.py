"""Values of a version from its release metadata: freshness, age, maturity, maintenance, build.

The best value is zero; lower values are negative. Versions of one package on the same index are
compared with each other. A pre-release makes other versions older only if the recommendation type
counts pre-releases as releases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from model.packages.candidates import Candidate
from model.packages.identity import Purl, series_of

#: Time in which most defects of a release are found, and fixed or yanked.
MATURE_AFTER = timedelta(days=30)
#: A package without a release for this long counts as unmaintained.
UNMAINTAINED_AFTER = timedelta(days=2 * 365)

#: Value of a version without any wheel: less than that of one newer version among thousands.
_NO_WHEEL = -1 / 5_000

_YEAR = timedelta(days=365.25)


#: The values of one version, by the names of the criteria.
ReleaseValues = dict[str, float]


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
    for _, served in groupby(sorted(candidates, key=by_index), key=by_index):
        yield from _values(list(served), as_of, prereleases, harmful)


def _values(
    served: list[Candidate], as_of: datetime, prereleases: bool, harmful: Collection[Purl]
) -> Iterator[tuple[Candidate, ReleaseValues]]:
    counted = _counted(served, prereleases)
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
            ReleaseValues(
                yanked=-float(candidate.yanked),
                prerelease=-float(candidate.prerelease),
                maturity=-_unripe(candidate.uploaded_at, as_of),
                maintenance=-float(series in seen),
                freshness=-newer / len(counted) if newer else 0.0,
                age=-_age(candidate, newest, oldest, newer),
                build=_build(candidate),
            ),
        )
        if candidate.purl in pool:
            newer += 1
            if candidate.purl not in harmful:
                seen.add(series)


def _counted(served: Iterable[Candidate], prereleases: bool) -> list[Candidate]:
    """The versions that make others old: all releases, or all versions if there is no release."""
    kept = [it for it in served if not it.yanked]
    plain = [it for it in kept if prereleases or not it.prerelease]
    return plain or kept or list(served)


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
