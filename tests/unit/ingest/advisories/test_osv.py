"""One OSV document: what is read, what is left out, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from model.advisories import RangeEvent, RangeEventKind, Rating, Severity
from model.errors import InvalidDocument
from tests.factories.advisories import (
    CRITICAL,
    FOURTH,
    HIGH,
    MEDIUM,
    SECOND,
    advisory,
    affected,
    flask_sessions,
    osv,
    requests_headers,
)


def events(*ends: tuple[str, str], **more: Any) -> tuple[tuple[RangeEvent, ...], ...]:
    return advisory(osv("X-1", affected("x", *ends, **more))).packages[0].ranges


def test_facts_of_a_real_advisory() -> None:
    found = advisory(flask_sessions()[1])
    head, (package,) = found.head, found.packages
    assert head.advisory_id == "PYSEC-2023-62"
    assert head.aliases == ("CVE-2023-30861", "GHSA-m2qf-hxjv-5gpq")
    assert head.summary == "Session cookies, proxies."
    assert package.name == "flask"
    assert [event.version for event in package.ranges[0]] == ["0", "2.2.5", "2.3.0", "2.3.2"]
    assert package.versions == ("2.2.4", "2.3.0", "2.3.1")
    assert advisory(requests_headers()).head.rating.score == 7.5


def test_names_and_versions_are_normalised() -> None:
    found = advisory(
        osv("X-1", affected("Zope.Interface", ("introduced", "1.0-beta2"), versions=["v1.0"]))
    )
    assert found.packages[0].name == "zope-interface"
    assert found.packages[0].ranges == ((RangeEvent(RangeEventKind.INTRODUCED, "1.0b2"),),)
    assert found.packages[0].versions == ("1.0",)


def test_other_ecosystems_and_ranges_of_commits_are_left_out() -> None:
    mixed = osv(
        "X-1",
        affected("left", ("introduced", "0"), ecosystem="npm"),
        affected("right", ("introduced", "0a1b"), type="GIT", versions=["1.0"]),
    )
    (package,) = advisory(mixed).packages
    assert (package.name, package.ranges, package.versions) == ("right", (), ("1.0",))
    assert advisory(osv("X-2", affected("left", ecosystem="npm"))).packages == ()


def test_ends_that_are_no_versions_are_taken_to_the_safe_side() -> None:
    found = advisory(
        osv("X-1", affected("x", ("introduced", "r1"), ("fixed", "r2"), ("limit", "r3")))
    )
    introduced = RangeEvent(RangeEventKind.INTRODUCED, "0")
    assert found.packages[0].ranges == ((introduced, RangeEvent(RangeEventKind.LIMIT, "*")),)
    assert found.unreadable_versions == 3


@pytest.mark.parametrize(
    ("vectors", "score", "severity"),
    [
        ([MEDIUM, HIGH], 7.5, Severity.HIGH),
        ([CRITICAL, FOURTH], 6.9, Severity.MEDIUM),
        ([SECOND, MEDIUM], 5.3, Severity.MEDIUM),
        ([SECOND], 7.5, Severity.HIGH),
        (["CVSS:3.0/AV:L/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N"], 0.0, Severity.NONE),
    ],
)
def test_of_several_vectors_the_newest_version_of_cvss_counts(
    vectors: list[str], score: float, severity: Severity
) -> None:
    entries = [osv("X", vector=vector)["severity"][0] for vector in vectors]
    rating = advisory(osv("X-1", severity=entries)).head.rating
    assert (rating.score, rating.severity) == (score, severity)
    assert rating.vector in vectors


def test_a_package_may_have_a_severity_of_its_own() -> None:
    entry = osv("X", vector=CRITICAL)["severity"]
    other = affected("y", ecosystem="npm") | {"severity": osv("X", vector=HIGH)["severity"]}
    found = advisory(osv("X-1", affected("x") | {"severity": entry}, other))
    assert found.head.rating.vector == CRITICAL


def test_a_malformed_vector_is_kept_as_text_and_words_count_instead() -> None:
    found = advisory(osv("X-1", vector="CVSS:3.1/AV:N", database_specific={"severity": "MODERATE"}))
    assert found.head.rating == Rating(Severity.MEDIUM, None, "CVSS:3.1/AV:N")
    assert found.malformed_vectors == 1


def test_a_severity_of_another_kind_is_no_malformed_vector() -> None:
    found = advisory(osv("X-1", severity=[{"type": "Ubuntu", "score": "high"}]))
    assert (found.head.rating, found.malformed_vectors) == (Rating(), 0)


@pytest.mark.parametrize(
    ("change", "reason", "field"),
    [
        ({"id": None}, "missing_field", "$.id"),
        ({"id": "X" * 201}, "out_of_range", "$.id"),
        ({"modified": None}, "missing_field", "$.modified"),
        ({"modified": "yesterday"}, "wrong_type", "$.modified"),
        ({"modified": "2030-01-01T00:00:00Z"}, "future_timestamp", "$.modified"),
        ({"aliases": "CVE-1"}, "wrong_type", "$.aliases"),
        ({"aliases": [1]}, "wrong_type", "$.aliases[0]"),
        ({"affected": [1]}, "wrong_type", "$.affected[0]"),
        ({"affected": [{"package": {"ecosystem": "PyPI"}}]}, "missing_field",
         "$.affected[0].package.name"),
        ({"affected": [affected("x", ("introduced", 1))]}, "wrong_type",  # type: ignore[arg-type]
         "$.affected[0].ranges[0].events[0].introduced"),
        ({"affected": [affected("x", *[("fixed", "1")] * 20_001)]}, "out_of_range",
         "$.affected[0].ranges[0].events"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_by_name(
    change: dict[str, Any], reason: str, field: str
) -> None:
    with pytest.raises(InvalidDocument) as refused:
        advisory(osv("X-1") | change)
    assert (refused.value.reason, refused.value.field) == (reason, field)


def test_a_long_summary_is_cut() -> None:
    summary = advisory(osv("X-1", details="# Title\n" + "x" * 400)).head.summary
    assert summary == "Title"
    long = advisory(osv("X-1", summary="x" * 400)).head.summary
    assert long is not None
    assert (len(long), long[-1]) == (300, "…")
