"""Advisories that are aliases of each other make one vulnerability."""

from __future__ import annotations

from typing import Any

from graph.record.vulnerability_queries import Vulnerability, merge_advisories
from model.advisories import Severity
from tests.factories.advisories import CRITICAL, HIGH, advisory, flask_sessions, osv


def of(*documents: dict[str, Any]) -> list[Vulnerability]:
    merged = merge_advisories([advisory(document).head for document in documents])
    return sorted(merged, key=lambda it: it.vulnerability_id)


def test_two_advisories_about_one_cve_are_one_vulnerability() -> None:
    (vulnerability,) = of(*flask_sessions())
    assert vulnerability.vulnerability_id == "CVE-2023-30861"
    assert vulnerability.aliases == ("CVE-2023-30861", "GHSA-m2qf-hxjv-5gpq", "PYSEC-2023-62")
    assert vulnerability.advisory_ids == ("GHSA-m2qf-hxjv-5gpq", "PYSEC-2023-62")
    assert (vulnerability.rating.severity, vulnerability.rating.score) == (Severity.HIGH, 7.5)
    assert (
        vulnerability.summary
        == "A session cookie may be cached by a proxy and sent to other clients"
    )
    assert str(vulnerability.published_at) == "2023-05-01 19:22:20+00:00"


def test_a_chain_of_aliases_joins_its_ends() -> None:
    (vulnerability,) = of(
        osv("GHSA-1", aliases=["A"]), osv("GHSA-3", aliases=["B"]), osv("X-2", aliases=["A", "B"])
    )
    assert vulnerability.vulnerability_id == "GHSA-1"
    assert vulnerability.aliases == ("A", "B", "GHSA-1", "GHSA-3", "X-2")


def test_related_advisories_are_not_aliases() -> None:
    assert len(of(osv("GHSA-1", related=["GHSA-2"]), osv("GHSA-2"))) == 2


def test_the_highest_score_counts_and_the_lesser_words_do_not() -> None:
    words = {"severity": "CRITICAL"}
    (vulnerability,) = of(
        osv("GHSA-1", vector=HIGH, aliases=["CVE-1"]),
        osv("PYSEC-1", aliases=["CVE-1"], database_specific=words),
    )
    assert (
        vulnerability.rating.severity,
        vulnerability.rating.score,
        vulnerability.rating.vector,
    ) == ("high", 7.5, HIGH)


def test_a_withdrawn_advisory_says_nothing_as_long_as_another_stands() -> None:
    withdrawn = {"withdrawn": "2024-03-01T00:00:00Z"}
    standing = osv("PYSEC-1", vector=HIGH, aliases=["GHSA-1"], summary="Stands")
    taken_back = osv("GHSA-1", vector=CRITICAL, summary="Taken back", **withdrawn)
    (vulnerability,) = of(taken_back, standing)
    assert (vulnerability.withdrawn_at, vulnerability.rating.score, vulnerability.summary) == (
        None,
        7.5,
        "Stands",
    )
    (gone,) = of(taken_back, standing | withdrawn)
    assert str(gone.withdrawn_at) == "2024-03-01 00:00:00+00:00"
    assert gone.rating.score == 9.8


def test_long_chains_of_aliases_are_followed() -> None:
    chain = [osv(f"X-{number}", aliases=[f"X-{number + 1}"]) for number in range(3_000)]
    (vulnerability,) = of(*chain)
    assert len(vulnerability.aliases) == 3_001


TAKEN_BACK = {"withdrawn": "2024-03-01T00:00:00Z"}


def test_a_withdrawn_advisory_joins_nothing() -> None:
    glue = osv("GHSA-W", aliases=["CVE-1", "CVE-2"], vector=CRITICAL, **TAKEN_BACK)
    one = osv("PYSEC-1", aliases=["CVE-1"], vector=HIGH)
    other = osv("PYSEC-2", aliases=["CVE-2"])
    first, second = of(glue, one, other)
    assert first.aliases == ("CVE-1", "GHSA-W", "PYSEC-1")
    assert first.advisory_ids == ("GHSA-W", "PYSEC-1")
    assert (second.aliases, second.withdrawn_at) == (("CVE-2", "PYSEC-2"), None)
    assert (first.rating.score, second.rating.score) == (7.5, None)


def test_a_withdrawn_advisory_goes_where_its_own_identifier_is() -> None:
    glue = osv("GHSA-W", aliases=["CVE-1"], **TAKEN_BACK)
    named = osv("PYSEC-2", aliases=["CVE-2", "GHSA-W"])
    first, second = of(glue, named, osv("PYSEC-1", aliases=["CVE-1"]))
    assert first.advisory_ids == ("PYSEC-1",)
    assert second.advisory_ids == ("GHSA-W", "PYSEC-2")


def test_withdrawn_advisories_that_go_nowhere_are_joined() -> None:
    (vulnerability,) = of(
        osv("GHSA-1", aliases=["CVE-9"], **TAKEN_BACK),
        osv("PYSEC-1", aliases=["CVE-9"], **TAKEN_BACK),
    )
    assert (vulnerability.vulnerability_id, vulnerability.withdrawn_at is None) == ("CVE-9", False)
