"""What a stack falls short of is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adviser.advise import Advice
from adviser.locks.lock_model import LockFormat
from adviser.reports.documents import ReleaseKnowledge, lock_of
from adviser.scoring.criteria import RecommendationType
from tests.factories.reports import report_of
from tests.factories.requests import advice_for, known_for, request_for
from tests.factories.universes import Index, dependency

DAY = datetime(2025, 1, 1, tzinfo=UTC)
OLD, NEW = {"uploaded_at": "2024-01-01T00:00:00Z"}, {"uploaded_at": "2025-06-01T00:00:00Z"}
#: The pre-release is older than what became of it.
INDEX: Index = {
    "core": {"2.0rc1": OLD, "1.1": NEW, "1.0": NEW},
    "app": {"1.0": {"requires": ["core>=2.0rc1"], **OLD}},
    "web": {"1.0": {"requires": ["fast; extra == 'speed'", "web[nosuch]; extra == 'all'"], **OLD}},
    "fast": {"1.0": {"requires": ["core[never]"], **OLD}},
}


def notes(advice: Advice, code: str, name: str = "core") -> list[dict[str, Any]]:
    (product,) = report_of(advice)["result"]["report"]["products"]
    told = [it for it in product["justification"] if it["code"] == code]
    return [it for it in told if it["package_name"] == name]


@pytest.mark.parametrize(
    ("manifest", "options"),
    [
        ("core\n", {}),
        ("core>=2.0rc1\n", {"published_before": DAY}),
        ("app\n", {"published_before": DAY}),
        ("core>1.5\n", {"published_before": DAY}),
        ("core\n", {"published_before": DAY, "prereleases": frozenset({"core"})}),
        ("core\n", {"published_before": DAY, "kind": RecommendationType.TESTING}),
        ("core>1.1\n", {"exclusions": (dependency("core==1.1"),)}),
    ],
)
def test_a_prerelease_that_is_asked_for_or_alone_anyway_is_no_surprise(
    manifest: str, options: dict[str, Any]
) -> None:
    assert notes(advice_for(request_for(manifest, **options), INDEX), "only_prereleases") == []


def test_a_cooldown_holds_for_the_files_of_a_lock() -> None:
    """A wheel may be added to a release long after it came out."""
    advice = advice_for(request_for("app\n", published_before=DAY), INDEX)
    files = {}
    for purl, (wheel, sdist) in known_for(advice).files.items():
        files[purl] = (
            replace(wheel, uploaded_at=DAY), replace(sdist, uploaded_at=DAY.replace(year=2024))
        )  # fmt: skip
    assert advice.best is not None
    for form in (LockFormat.REQUIREMENTS, LockFormat.PIPFILE_LOCK):
        text = lock_of(advice, advice.best, ReleaseKnowledge(files), form).data.decode()
        for wheel, sdist in files.values():
            assert str(sdist.sha256) in text
            assert str(wheel.sha256) not in text
    anytime = advice_for(request_for("app\n"), INDEX)
    assert anytime.best is not None
    text = lock_of(
        anytime, anytime.best, ReleaseKnowledge(files), LockFormat.REQUIREMENTS
    ).data.decode()
    assert all(str(wheel.sha256) in text for wheel, _ in files.values())


def test_without_a_file_of_that_age_there_is_no_lock() -> None:
    advice = advice_for(request_for("app\n", published_before=DAY), INDEX)
    report = report_of(advice, known_for(advice))["result"]
    assert report["error"] is True
    assert "from before 2025-01-01 is known" in report["error_msg"]
