"""What a stack falls short of is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adviser.advise import Advice, advise
from adviser.locks.lock_model import LockFormat
from adviser.reports.documents import ReleaseKnowledge, lock_of
from adviser.scoring.criteria import RecommendationType
from model.packages.candidates import KnownVulnerability
from tests.factories.reports import report_of
from tests.factories.requests import NOTHING, advice_for, known_for, request_for, snapshot_for
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


def test_a_cooldown_that_leaves_a_prerelease_alone_is_reported() -> None:
    advice = advice_for(request_for("core\n", published_before=DAY), INDEX)
    assert advice.best is not None
    assert advice.best.versions() == {"core": "2.0rc1"}
    (note,) = notes(advice, "only_prereleases")
    assert (note["type"], note["package_name"], note["package_version"]) == (
        "WARNING", "core", "2.0rc1",
    )  # fmt: skip
    assert "1.1 (not published before 2025-01-01 but on 2025-06-01)" in note["message"]


@pytest.mark.parametrize(
    ("manifest", "index", "reason"),
    [
        ("app\n", INDEX, "app 1.0 requires core>=2.0rc1"),
        ("core==2.0rc1\n", INDEX, "the request requires core==2.0rc1"),
        ("core\n", {"core": {"2.0rc1": OLD}}, "no release meets all requirements"),
    ],
)
def test_a_prerelease_is_reported_with_the_reason_that_admits_it(
    manifest: str, index: Index, reason: str
) -> None:
    (note,) = notes(advice_for(request_for(manifest), index), "prerelease")
    assert note["message"] == f"core 2.0rc1 is a pre-release: {reason}"


def test_a_refusal_that_leaves_a_prerelease_alone_is_reported() -> None:
    request = request_for("core\n", RecommendationType.SECURITY)
    snapshot = snapshot_for(request, INDEX)
    harm = (KnownVulnerability("CVE-1", "high"),)
    core = tuple(
        it if it.prerelease else replace(it, vulnerabilities=harm)
        for it in snapshot.packages["core"]
    )
    advice = advise(request, replace(snapshot, packages={"core": core}), NOTHING)
    (note,) = notes(advice, "only_prereleases")
    assert "1.0 (" in note["message"]
    assert "CVE-1" in note["message"]


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


def extra_notes(manifest: str) -> list[str]:
    inner = report_of(advice_for(request_for(manifest), INDEX))["result"]["report"]
    notes = [it for it in inner["stack_info"] if it["code"] == "extra_missing"]
    assert {it["type"] for it in notes} <= {"WARNING"}
    return [it["message"] for it in notes]


def test_an_extra_that_the_chosen_version_lacks_is_a_warning() -> None:
    assert extra_notes("web[speed]\n") == [
        "fast 1.0 requires core[never], but core 1.1 does not have the extra 'never', so it adds "
        "nothing; it has: none"
    ]
    assert "web 1.0 requires web[nosuch], but web 1.0" in extra_notes("web[all]\n")[0]
    requested = extra_notes("web[nosuch,sped]\n")
    assert "the request requires web[nosuch], but web 1.0 does not have the extra" in requested[0]
    assert "the extra 'sped' (did you mean 'speed'?)" in requested[1]
    assert requested[1].endswith("it has: all, speed")


def test_an_extra_that_only_older_versions_have_excludes_no_newer_version() -> None:
    index: Index = {
        "kit": {"1.0": {"requires": ["web[cli]"]}},
        "web": {"2.0": {}, "1.0": {"requires": ["core; extra == 'cli'"]}},
        "core": {"1.0": {}},
    }
    for manifest, requirer in (("web[cli]\n", "the request"), ("kit\n", "kit 1.0")):
        advice = advice_for(request_for(manifest), index)
        assert advice.best is not None
        assert advice.best.versions()["web"] == "2.0"
        assert "core" not in advice.best.versions()
        inner = report_of(advice)["result"]["report"]
        (note,) = [it for it in inner["stack_info"] if it["code"] == "extra_missing"]
        assert note["type"] == "WARNING"
        assert note["message"].startswith(f"{requirer} requires web[cli], but web 2.0 does not")


def test_a_requirement_that_is_not_valid_is_read_with_a_warning() -> None:
    index: Index = {
        "sde": {"1.0": {"requires": ["core (>=1.19.*)"], "requires_python": ">=3.6.*,"}},
        "core": {"1.20": {}, "1.18": {}},
    }
    advice = advice_for(request_for("sde\ncore<3.*\n"), index)
    assert advice.best is not None
    assert advice.best.versions() == {"sde": "1.0", "core": "1.20"}
    notes = report_of(advice)["result"]["report"]["stack_info"]
    messages = {it["code"]: it["message"] for it in notes if "old_specifier" in it["code"]}
    assert messages["project_old_specifier"].endswith(
        "'core<3.*' is not valid and is read as core<3; pip 24.1 and later refuse it"
    )
    of_releases = [it["message"] for it in notes if it["code"] == "old_specifier"]
    assert of_releases == [
        "sde 1.0: 'core (>=1.19.*)' is not valid and is read as core>=1.19; pip 24.1 and later "
        "refuse it",
        "sde 1.0: Requires-Python '>=3.6.*,' is not valid and is read as >=3.6",
    ]
    older = advice_for(request_for("sde\ncore<1.19\n"), index).resolution.conflict
    assert older is not None
    assert "sde 1.0 needs core>=1.19" in "\n".join(older.lines())


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
