"""What metadata says of versions."""

from __future__ import annotations

from datetime import timedelta

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


def test_vulnerable_and_yanked_releases_supersede_nothing() -> None:
    listed = [candidate("1.4.2"), candidate("1.4.1", yanked=True), candidate("1.4")]
    told = release_values(listed, NOW, prereleases=False, harmful={listed[0].purl})
    assert [found["maintenance"] for _, found in told] == [0, 0, 0]
    told = release_values(listed, NOW, prereleases=False)
    assert [found["maintenance"] for _, found in told] == [0, -1, -1]


#: Its pre-release and its yanked version make nobody old.
MIXED = [candidate("3.0rc1"), candidate("2.0", yanked=True), candidate("1.0")]
UNDATED = [candidate("2.0", 0), candidate("1.5", None), candidate("1.0", 365.25)]
SERIES = [candidate(it) for it in ("2.0.0", "1.4.2", "1.4.1", "1.4", "1.3.9", "1!1.4")]


@pytest.mark.parametrize(
    ("criterion", "candidates", "expected"),
    [
        ("freshness", [candidate(it) for it in ("3.0", "2.0", "1.0", "0.1")],
         {"3.0": 0, "2.0": -0.25, "1.0": -0.5, "0.1": -0.75}),
        ("freshness", MIXED, {"1.0": 0}),
        ("prerelease", MIXED, {"3.0rc1": -1, "1.0": 0}),
        ("yanked", MIXED, {"2.0": -1, "1.0": 0}),
        # Pre-releases count where there is nothing else.
        ("freshness", [candidate("1.0a1"), candidate("1.0a2")], {"1.0a1": -0.5}),
        # Versions of another index do not.
        ("freshness", [candidate("2.0"), candidate("1.0", index="builds")], {"1.0": 0}),
        ("age", [candidate("2.0", 0), candidate("1.0", 365.25 * 2)], {"2.0": 0, "1.0": -2}),
        # It was repaired after the newest version came out.
        ("age", [candidate("2.0", 500), candidate("1.26.5", 10)], {"2.0": 0, "1.26.5": 0}),
        # A version of unknown time is as old as the oldest.
        ("age", UNDATED, {"1.5": -1, "1.0": -1}),
        ("maturity", UNDATED, {"1.5": -1}),
        ("age", [candidate("2.0", None), candidate("1.0", None)], {"1.0": 0}),
        *(("maturity", [candidate("1.0", days)], {"1.0": -lacking})
          for days, lacking in ((0, 1.0), (15, 0.5), (30, 0.0), (60, 0.0), (-3, 1))),
        # Only the last of a series is maintained.
        ("maintenance", SERIES, {it.version: -(it.version in ("1.4.1", "1.4")) for it in SERIES}),
    ],
)  # fmt: skip
def test_metadata_gives_each_version_its_value(
    criterion: str, candidates: list[Candidate], expected: dict[str, float]
) -> None:
    found = {version: it[criterion] for version, it in values(*candidates).items()}
    assert found == pytest.approx(found | expected)


def test_prereleases_are_versions_like_others_where_they_are_welcome() -> None:
    found = values(*MIXED, prereleases=True)
    assert (found["1.0"]["freshness"], found["3.0rc1"]["freshness"]) == (-0.5, 0)


def test_the_last_release_is_by_time_and_not_by_number() -> None:
    found = last_release([candidate("2.0", 500), candidate("1.9.1", 20)])
    assert found == NOW - timedelta(days=20)
    assert last_release([candidate("1", None)]) is None
