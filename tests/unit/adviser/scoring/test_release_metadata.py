"""What metadata says of versions."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from adviser.scoring.criteria import ReleaseValues, last_release, release_values
from model.packages.candidates import Candidate, newest_first
from model.packages.identity import package_version, version_of
from tests.factories.evidence import NOW


def candidate(
    version: str, days: float | None = 1000, *, yanked: bool = False, index: str = "pypi"
) -> Candidate:
    """A version that was uploaded so many days ago."""
    it = package_version("it", version, index)
    parsed = version_of(version)
    return Candidate(
        it.purl, "it", version, index,
        prerelease=parsed is not None and parsed.is_prerelease, yanked=yanked,
        uploaded_at=None if days is None else NOW - timedelta(days=days),
    )  # fmt: skip


def values(*candidates: Candidate, prereleases: bool = False) -> dict[str, ReleaseValues]:
    told = release_values(newest_first(list(candidates)), NOW, prereleases=prereleases)
    return {it.version: found for it, found in told}


def test_the_newest_loses_nothing_and_others_their_share() -> None:
    found = values(candidate("3.0"), candidate("2.0"), candidate("1.0"), candidate("0.1"))
    assert [found[it]["freshness"] for it in ("3.0", "2.0", "1.0", "0.1")] == [
        0,
        -0.25,
        -0.5,
        -0.75,
    ]


def test_yanked_versions_and_prereleases_make_nobody_old() -> None:
    versions = [candidate("3.0rc1"), candidate("2.0", yanked=True), candidate("1.0")]
    found = values(*versions)
    assert found["1.0"]["freshness"] == 0
    assert (found["3.0rc1"]["prerelease"], found["2.0"]["yanked"]) == (-1, -1)
    testing = values(*versions, prereleases=True)
    assert testing["1.0"]["freshness"] == -0.5
    assert testing["3.0rc1"]["freshness"] == 0


def test_where_there_are_only_prereleases_they_count() -> None:
    found = values(candidate("1.0a1"), candidate("1.0a2"))
    assert found["1.0a1"]["freshness"] == -0.5


def test_age_is_the_years_up_to_the_newest() -> None:
    found = values(candidate("2.0", 0), candidate("1.0", 365.25 * 2))
    assert found["2.0"]["age"] == 0
    assert found["1.0"]["age"] == pytest.approx(-2.0)


def test_what_was_repaired_in_an_old_series_later_has_no_age() -> None:
    found = values(candidate("2.0", 500), candidate("1.26.5", 10))
    assert found["2.0"]["age"] == 0
    assert found["1.26.5"]["age"] == 0


def test_a_version_of_unknown_time_is_as_old_as_the_oldest() -> None:
    found = values(candidate("2.0", 0), candidate("1.5", None), candidate("1.0", 365.25))
    assert found["1.5"]["age"] == found["1.0"]["age"]
    assert found["1.5"]["maturity"] == -1


def test_nothing_is_known_of_any_time() -> None:
    found = values(candidate("2.0", None), candidate("1.0", None))
    assert found["1.0"]["age"] == 0
    assert last_release([candidate("1", None)]) is None


@pytest.mark.parametrize(("days", "lacking"), [(0, 1.0), (15, 0.5), (30, 0.0), (60, 0.0), (-3, 1)])
def test_a_release_ripens_in_thirty_days(days: float, lacking: float) -> None:
    assert values(candidate("1.0", days))["1.0"]["maturity"] == pytest.approx(-lacking)


def test_only_the_last_of_a_series_is_looked_after() -> None:
    found = values(*(candidate(it) for it in ("2.0.0", "1.4.2", "1.4.1", "1.4", "1.3.9", "1!1.4")))
    assert {it for it, told in found.items() if told["maintenance"]} == {"1.4.1", "1.4"}


def test_vulnerable_and_yanked_releases_supersede_nothing() -> None:
    listed = [candidate("1.4.2"), candidate("1.4.1", yanked=True), candidate("1.4")]
    told = release_values(listed, NOW, prereleases=False, harmful={listed[0].purl})
    assert [found["maintenance"] for _, found in told] == [0, 0, 0]
    told = release_values(listed, NOW, prereleases=False)
    assert [found["maintenance"] for _, found in told] == [0, -1, -1]


def test_indexes_are_not_held_against_each_other() -> None:
    found = values(candidate("2.0"), candidate("1.0", index="builds"))
    assert found["1.0"]["freshness"] == 0


def test_the_last_release_is_by_time_not_by_number() -> None:
    mended: datetime | None = last_release([candidate("2.0", 500), candidate("1.9.1", 20)])
    assert mended == NOW - timedelta(days=20)
