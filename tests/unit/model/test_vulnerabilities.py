"""Advisories that are aliases of each other make one vulnerability."""

from typing import Any

from model.advisories import Vulnerability, merge_advisories
from tests.factories.advisories import CRITICAL, HIGH, advisory, flask_sessions, osv
from tests.factories.case_files import described
from tests.factories.golden import compare_views


def of(*documents: dict[str, Any]) -> list[Vulnerability]:
    merged = merge_advisories([advisory(document).head for document in documents])
    return sorted(merged, key=lambda it: it.vulnerability_id)


TAKEN_BACK = {"withdrawn": "2024-03-01T00:00:00Z"}
STANDING = osv("PYSEC-1", vector=HIGH, aliases=["GHSA-1"], summary="Stands")
WITHDRAWN = osv("GHSA-1", vector=CRITICAL, summary="Taken back", **TAKEN_BACK)
CVE_1, CVE_2 = osv("PYSEC-1", aliases=["CVE-1"]), osv("PYSEC-2", aliases=["CVE-2"])
RATED = osv("PYSEC-1", aliases=["CVE-1"], vector=HIGH)
ADVISORIES = {
    "two advisories about one CVE": flask_sessions(),
    "a chain of aliases": [
        osv("GHSA-1", aliases=["A"]), osv("GHSA-3", aliases=["B"]), osv("X-2", aliases=["A", "B"]),
    ],
    "related advisories": [osv("GHSA-1", related=["GHSA-2"]), osv("GHSA-2")],
    "a score beside a word": [
        osv("GHSA-1", vector=HIGH, aliases=["CVE-1"]),
        osv("PYSEC-1", aliases=["CVE-1"], database_specific={"severity": "CRITICAL"}),
    ],
    "a withdrawn advisory beside one that stands": [WITHDRAWN, STANDING],
    "two withdrawn advisories": [WITHDRAWN, STANDING | TAKEN_BACK],
    "a withdrawn advisory that would join two": [
        osv("GHSA-W", aliases=["CVE-1", "CVE-2"], vector=CRITICAL, **TAKEN_BACK), RATED, CVE_2,
    ],
    "a withdrawn advisory that another one names": [
        osv("GHSA-W", aliases=["CVE-1"], **TAKEN_BACK),
        osv("PYSEC-2", aliases=["CVE-2", "GHSA-W"]), CVE_1,
    ],
    "withdrawn advisories alone": [
        osv("GHSA-1", aliases=["CVE-9"], **TAKEN_BACK),
        osv("PYSEC-1", aliases=["CVE-9"], **TAKEN_BACK),
    ],
}  # fmt: skip


def test_advisories_with_common_aliases_are_merged_into_one_vulnerability() -> None:
    views = {
        title: "\n".join(described(of(*documents), "vulnerability"))
        for title, documents in ADVISORIES.items()
    }
    compare_views("vulnerabilities", views)


def test_long_chains_of_advisory_aliases_are_followed() -> None:
    chain = [osv(f"X-{number}", aliases=[f"X-{number + 1}"]) for number in range(3_000)]
    (vulnerability,) = of(*chain)
    assert len(vulnerability.aliases) == 3_001
