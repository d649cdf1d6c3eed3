"""How vulnerabilities weigh, which are accepted, what they refuse."""

from __future__ import annotations

import pytest

from adviser.scoring.harms import AllowList, points, refusal, security_value
from common.advisories import Severity
from common.packages import Purl
from graph.candidates import Candidate, KnownVulnerability
from tests.factories.evidence import harms

BAD = KnownVulnerability("GHSA-1", "critical", 9.8)
MILD = KnownVulnerability("PYSEC-2", "low", 2.0)
UNRATED = KnownVulnerability("PYSEC-3")
HARMLESS = KnownVulnerability("PYSEC-4", "none", 0.0)


def vulnerable(*them: KnownVulnerability) -> Candidate:
    return Candidate(Purl("pkg:pypi/it@1"), "it", "1", "pypi", vulnerabilities=them)


@pytest.mark.parametrize("severity", Severity)
def test_the_worse_the_heavier(severity: Severity) -> None:
    assert points(KnownVulnerability("V", severity.value)) == 2.5 * severity.rank


def test_a_score_alone_is_rated() -> None:
    assert points(KnownVulnerability("V", None, 9.1)) == 10


def test_vulnerabilities_add_up() -> None:
    assert security_value((BAD, MILD, UNRATED)) == -17.5
    assert security_value(()) == 0


@pytest.mark.parametrize("name", ["GHSA-1", "ghsa-1 ", "CVE-2024-1", "cve-2024-1"])
def test_what_is_allowed_under_any_name_is_not_held_against_a_version(name: str) -> None:
    allowed = AllowList([name], harms(GHSA_1=("GHSA-1", "CVE-2024-1")))
    assert allowed.accepts(BAD)
    assert allowed.held_against(vulnerable(BAD, MILD)) == (MILD,)


def test_what_is_not_on_the_list_is_not_accepted() -> None:
    allowed = AllowList(["CVE-2024-2", ""], harms(GHSA_1=("GHSA-1", "CVE-2024-1")))
    assert not allowed.accepts(BAD)


def test_only_harm_refuses_and_the_worst_is_named_first() -> None:
    assert refusal((HARMLESS,)) is None
    assert refusal(()) is None
    assert refusal((MILD, HARMLESS, UNRATED, BAD)) == (
        "known vulnerabilities: GHSA-1 (critical), PYSEC-3 (unrated), PYSEC-2 (low)"
    )
    assert refusal((MILD,)) == "known vulnerability: PYSEC-2 (low)"
