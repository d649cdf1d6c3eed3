"""One OSV document: what is read, what is left out, what is refused."""

from typing import Any

import pytest

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
from tests.factories.case_files import described
from tests.factories.errors import raised
from tests.factories.golden import compare_views


def rated(*vectors: str) -> dict[str, Any]:
    """An advisory with these vectors of CVSS."""
    return osv("X-1", severity=[osv("X", vector=vector)["severity"][0] for vector in vectors])


NONE = "CVSS:3.0/AV:L/AC:H/PR:H/UI:R/S:U/C:N/I:N/A:N"
ADVISORIES = {
    "a real advisory": flask_sessions()[1],
    "another real advisory": requests_headers(),
    "names and versions in other spellings": osv(
        "X-1", affected("Zope.Interface", ("introduced", "1.0-beta2"), versions=["v1.0"])
    ),
    "other ecosystems, and ranges of commits": osv(
        "X-1",
        affected("left", ("introduced", "0"), ecosystem="npm"),
        affected("right", ("introduced", "0a1b"), type="GIT", versions=["1.0"]),
    ),
    "only another ecosystem": osv("X-2", affected("left", ecosystem="npm")),
    "ends that are not versions": osv(
        "X-1", affected("x", ("introduced", "r1"), ("fixed", "r2"), ("limit", "r3"))
    ),
    "two vectors of one version": rated(MEDIUM, HIGH),
    "vectors of two versions": rated(CRITICAL, FOURTH),
    "vectors of two older versions": rated(SECOND, MEDIUM),
    "an old vector": rated(SECOND),
    "a vector without an impact": rated(NONE),
    "severities of packages": osv(
        "X-1",
        affected("x") | {"severity": osv("X", vector=CRITICAL)["severity"]},
        affected("y", ecosystem="npm") | {"severity": osv("X", vector=HIGH)["severity"]},
    ),
    "a malformed vector beside a word": osv(
        "X-1", vector="CVSS:3.1/AV:N", database_specific={"severity": "MODERATE"}
    ),
    "a severity of another kind": osv("X-1", severity=[{"type": "Ubuntu", "score": "high"}]),
    "a title instead of a summary": osv("X-1", details="# Title\n" + "x" * 400),
    "a long summary": osv("X-1", summary="x" * 400),
}


def test_advisory_document_gives_its_packages_ranges_and_severity() -> None:
    views = {}
    for title, document in ADVISORIES.items():
        facts = described(advisory(document))
        views[title] = "\n".join(it for it in facts if "document_id" not in it)
    compare_views("advisories", views)


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
def test_invalid_advisory_is_refused_with_reason_and_field(
    change: dict[str, Any], reason: str, field: str
) -> None:
    with raised(InvalidDocument, reason=reason, field=field):
        advisory(osv("X-1") | change)
