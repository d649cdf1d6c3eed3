"""Versions that must be built: when they are chosen, and what the report says of them."""

from __future__ import annotations

from typing import Any

import pytest

from adviser.advise import Advice
from adviser.locks.lock_model import LockFormat
from adviser.reports.documents import ReleaseKnowledge, lock_of
from model.packages.releases import ReleaseFile
from tests.factories.reports import report_of
from tests.factories.requests import advice_for, request_for
from tests.factories.universes import Index

OLD, NEW = {"uploaded_at": "2025-01-01T00:00:00Z"}, {"uploaded_at": "2026-01-01T00:00:00Z"}
SDIST: dict[str, Any] = {"wheels": [], "sdist": True}
WINDOWS: dict[str, Any] = {"wheels": ["cp311-cp311-win_amd64"], "sdist": True}
#: It needs a newer C library than the environment has.
NEWER: dict[str, Any] = {"wheels": ["cp311-cp311-manylinux_2_99_x86_64"], "sdist": True}


def versions(manifest: str, index: Index, **options: Any) -> dict[str, str]:
    advice = advice_for(request_for(manifest, **options), index)
    return advice.best.versions()


def notes(advice: Advice, name: str = "it") -> dict[str, tuple[str, str]]:
    """Level and message by code, of the notes about a package."""
    (product,) = report_of(advice)["result"]["report"]["products"]
    return {
        it["code"]: (it["type"], it["message"])
        for it in product["justification"]
        if it.get("package_name") == name
        and it["code"] in ("built_from_sdist", "requirements_likely")
    }


@pytest.mark.parametrize("manifest", ["it\n", "app\n"])
def test_newness_decides_where_a_publisher_builds_no_wheel(manifest: str) -> None:
    index: Index = {
        "app": {"1": {"requires": ["it"], **NEW}},
        "it": {"2": {**SDIST, **NEW}, "1": {**OLD}},
    }
    assert versions(manifest, index)["it"] == "2"
    assert versions(manifest, index, only_wheels=True)["it"] == "1"
    assert versions(f"--only-binary=it\n{manifest}", index)["it"] == "1"


def test_a_wheel_settles_a_tie() -> None:
    """One of two packages must be older, and each would be so by as much."""
    index: Index = {
        "app": {"1": {"requires": ["one", "two"], **NEW}},
        "one": {"2": {"requires": ["two<2"], **NEW, **SDIST}, "1": {**OLD}},
        "two": {"2": {"requires": ["one<2"], **NEW}, "1": {**OLD}},
    }
    assert versions("app\n", index) == {"app": "1", "one": "1", "two": "2"}


@pytest.mark.parametrize(
    ("elsewhere", "behind", "chosen"),
    [(WINDOWS, "2025-06-01", "1"), (NEWER, "2025-06-01", "1"), (NEWER, "2019-01-01", "2")],
)
def test_wheels_for_other_environments_count_as_some_years(
    elsewhere: dict[str, Any], behind: str, chosen: str
) -> None:
    index: Index = {
        "it": {
            "2": {**elsewhere, **NEW},
            "1": {"uploaded_at": f"{behind}T00:00:00Z"},
            "0": {"uploaded_at": "2018-01-01T00:00:00Z"},
        }
    }
    assert versions("it\n", index) == {"it": chosen}


def test_a_package_without_any_fitting_wheel_is_its_newest_version() -> None:
    """As drivers of databases that publish wheels for Windows only."""
    index: Index = {"it": {"3": {**WINDOWS, **NEW}, "2": {**WINDOWS, **OLD}}}
    advice = advice_for(request_for("it\n"), index)
    assert advice.best.versions() == {"it": "3"}
    assert advice.best.score == 0
    level, message = notes(advice)["built_from_sdist"]
    assert level == "WARNING"
    assert "because its wheels are for other platforms" in message


def test_newness_of_what_is_asked_for_outranks_a_build_of_what_that_requires() -> None:
    index: Index = {
        "app": {"2": {"requires": ["it>=2"], **NEW}, "1": {"requires": ["it"], **OLD}},
        "it": {"2": {**NEWER, **NEW}, "1": OLD},
    }
    assert versions("app\n", index) == {"app": "2", "it": "2"}
    assert versions("app\n", index, only_wheels=True) == {"app": "1", "it": "1"}


@pytest.mark.parametrize("form", LockFormat)
def test_a_lock_has_the_hash_of_the_source_distribution(form: LockFormat) -> None:
    advice = advice_for(request_for("it\n"), {"it": {"1": {**SDIST, **NEW}}})
    (choice,) = advice.best.choices
    file = ReleaseFile("it-1.tar.gz", "ab" * 32, "sdist", 12)
    known = ReleaseKnowledge(
        files={choice.purl: (file,)}, urls={file.filename: f"https://files.example/{file.filename}"}
    )
    text = lock_of(advice, advice.best, known, form).data.decode()
    if form is LockFormat.CONSTRAINTS:
        assert "it==1" in text
    else:
        assert "ab" * 32 in text
    assert ("[packages.sdist]" in text) == (form is LockFormat.PYLOCK)


@pytest.mark.parametrize(("source", "is_likely"), [("sdist", False), ("sdist-likely", True)])
def test_a_search_over_likely_requirements_is_only_likely(source: str, is_likely: bool) -> None:
    advice = advice_for(request_for("it\n"), {"it": {"1": {**SDIST, "metadata_source": source}}})
    assert report_of(advice)["result"]["report"]["search"]["likely"] == is_likely
