"""Criteria: their table, what metadata and vulnerabilities weigh, and what is refused."""

from datetime import timedelta
from pathlib import Path

import pytest

from adviser.scoring.criteria import (
    AllowList,
    RecommendationType,
    ReleaseValues,
    criteria_of,
    last_release,
    points,
    refusal_reason,
    release_values,
    security_value,
)
from model.advisories import Severity
from model.packages.candidates import Candidate, KnownVulnerability, newest_first
from model.packages.identity import Purl, package_version, version_of
from tests.factories.evidence import NOW, harms

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "recommendation-types.md"


def shown() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("| criterion |"))
    table = [line for line in lines[first:] if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


@pytest.mark.parametrize("kind", RecommendationType)
def test_documented_weights_equal_those_in_the_code(kind: RecommendationType) -> None:
    head, _, *rows = shown()[: 2 + 11]
    column = head.index(f"`{kind}`")
    weights = {row[0].split("`")[1]: row[column] for row in rows}
    assert {row[0].split("`")[1] for row in rows if "(penalty" in row[0]} >= {
        it.name for it in criteria_of(kind) if it.penalty
    }
    assert {row[0].split("`")[1] for row in rows if "(penalty" not in row[0]} >= {
        it.name for it in criteria_of(kind) if not it.penalty
    }
    marked = {
        row[0].split("`")[1]
        for row in rows
        if ("newness)" in row[0] and row[column])
        or f"newness for `{kind}`" in row[0].replace("`latest` and ", "")
    }
    if kind is RecommendationType.LATEST:
        marked |= {row[0].split("`")[1] for row in rows if "newness for `latest`" in row[0]}
    assert marked == {it.name for it in criteria_of(kind) if it.newness}
    assert {name: float(it) for name, it in weights.items() if it} == {
        it.name: it.weight for it in criteria_of(kind)
    }


@pytest.mark.parametrize("kind", RecommendationType)
def test_every_recommendation_type_is_documented(kind: RecommendationType) -> None:
    assert f"**`{kind}`** " in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", RecommendationType)
def test_criterion_value_can_be_recomputed_from_its_contribution(kind: RecommendationType) -> None:
    for it in criteria_of(kind):
        assert it.value(it.contribution(-0.25)) == pytest.approx(-0.25, rel=0.02)
        assert it.contribution(0.0) == 0


def test_recommendation_types_differ_in_speed_prereleases_and_vulnerabilities() -> None:
    counted = {kind for kind in RecommendationType
               if "performance" in {it.name for it in criteria_of(kind)}}  # fmt: skip
    assert counted == {RecommendationType.BEST, RecommendationType.PERFORMANCE}
    assert {kind for kind in RecommendationType if kind.admits_prereleases} == {
        RecommendationType.TESTING
    }
    assert {kind for kind in RecommendationType if kind.refuses_vulnerable} == {
        RecommendationType.SECURITY
    }


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


def test_vulnerable_and_yanked_releases_do_not_make_older_ones_outdated() -> None:
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
def test_each_criterion_value_follows_from_release_metadata(
    criterion: str, candidates: list[Candidate], expected: dict[str, float]
) -> None:
    found = {version: it[criterion] for version, it in values(*candidates).items()}
    assert found == pytest.approx(found | expected)


def test_prereleases_count_as_versions_for_the_testing_type() -> None:
    found = values(*MIXED, prereleases=True)
    assert (found["1.0"]["freshness"], found["3.0rc1"]["freshness"]) == (-0.5, 0)


def test_last_release_is_the_latest_by_upload_time_not_by_version() -> None:
    found = last_release([candidate("2.0", 500), candidate("1.9.1", 20)])
    assert found == NOW - timedelta(days=20)
    assert last_release([candidate("1", None)]) is None


BAD = KnownVulnerability("GHSA-1", "critical", 9.8)
MILD = KnownVulnerability("PYSEC-2", "low", 2.0)
UNRATED = KnownVulnerability("PYSEC-3")
HARMLESS = KnownVulnerability("PYSEC-4", "none", 0.0)


def vulnerable(*them: KnownVulnerability) -> Candidate:
    return Candidate(Purl("pkg:pypi/it@1"), "it", "1", "pypi", vulnerabilities=them)


@pytest.mark.parametrize("severity", Severity)
def test_vulnerability_weight_grows_with_its_severity(severity: Severity) -> None:
    assert points(KnownVulnerability("V", severity.value)) == 2.5 * severity.rank


def test_vulnerability_with_only_a_cvss_score_weighs_as_its_rating() -> None:
    assert points(KnownVulnerability("V", None, 9.1)) == 10


def test_weights_of_several_vulnerabilities_add_up() -> None:
    assert security_value((BAD, MILD, UNRATED)) == -17.5
    assert security_value(()) == 0


@pytest.mark.parametrize("name", ["GHSA-1", "ghsa-1 ", "CVE-2024-1", "cve-2024-1"])
def test_allowed_vulnerability_is_ignored_under_any_alias(name: str) -> None:
    allowed = AllowList([name], harms(GHSA_1=("GHSA-1", "CVE-2024-1")))
    assert allowed.accepts(BAD)
    assert allowed.unaccepted(vulnerable(BAD, MILD)) == (MILD,)


def test_allow_list_accepts_only_vulnerabilities_that_it_names() -> None:
    allowed = AllowList(["CVE-2024-2", ""], harms(GHSA_1=("GHSA-1", "CVE-2024-1")))
    assert not allowed.accepts(BAD)


def test_refusal_names_harmful_vulnerabilities_worst_first() -> None:
    assert refusal_reason((HARMLESS,)) is None
    assert refusal_reason(()) is None
    assert refusal_reason((MILD, HARMLESS, UNRATED, BAD)) == (
        "known vulnerabilities: GHSA-1 (critical), PYSEC-3 (unrated), PYSEC-2 (low)"
    )
    assert refusal_reason((MILD,)) == "known vulnerability: PYSEC-2 (low)"
