"""Versions that must be built: when they are chosen, and the last resort of old ones."""

from typing import Any

import pytest

from adviser.advise import Advice, advise, in_this_process
from adviser.locks.formats import LockFormat
from adviser.reports.checking import check_offline
from adviser.reports.documents import ReleaseKnowledge, lock_of
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution, ResolutionStatus
from adviser.resolver.universe import Universe
from model.packages.candidates import ExclusionReason
from model.packages.releases import ReleaseFile
from model.packages.snapshot import Snapshot, revision_of
from tests.factories.reports import report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for
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
def test_newest_version_is_built_from_source_if_it_has_no_wheel(manifest: str) -> None:
    index: Index = {
        "app": {"1": {"requires": ["it"], **NEW}},
        "it": {"2": {**SDIST, **NEW}, "1": {**OLD}},
    }
    assert versions(manifest, index)["it"] == "2"
    assert versions(manifest, index, only_wheels=True)["it"] == "1"
    assert versions(f"--only-binary=it\n{manifest}", index)["it"] == "1"


def test_version_with_a_wheel_is_preferred_among_equally_old_ones() -> None:
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
def test_build_costs_as_much_as_some_years_of_age_if_other_wheels_exist(
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


def test_newest_version_is_built_if_no_version_has_an_installable_wheel() -> None:
    """As drivers of databases that publish wheels for Windows only."""
    index: Index = {"it": {"3": {**WINDOWS, **NEW}, "2": {**WINDOWS, **OLD}}}
    advice = advice_for(request_for("it\n"), index)
    assert advice.best.versions() == {"it": "3"}
    assert advice.best.score == 0
    level, message = notes(advice)["built_from_sdist"]
    assert level == "WARNING"
    assert "because its wheels are for other platforms" in message


def test_newness_of_a_requested_package_outranks_a_build_of_its_dependency() -> None:
    index: Index = {
        "app": {"2": {"requires": ["it>=2"], **NEW}, "1": {"requires": ["it"], **OLD}},
        "it": {"2": {**NEWER, **NEW}, "1": OLD},
    }
    assert versions("app\n", index) == {"app": "2", "it": "2"}
    assert versions("app\n", index, only_wheels=True) == {"app": "1", "it": "1"}


@pytest.mark.parametrize("form", LockFormat)
def test_lock_has_the_hash_of_a_source_distribution(form: LockFormat) -> None:
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
def test_advice_from_likely_requirements_is_marked_as_likely(source: str, is_likely: bool) -> None:
    advice = advice_for(request_for("it\n"), {"it": {"1": {**SDIST, "metadata_source": source}}})
    assert report_of(advice)["result"]["report"]["search"]["likely"] == is_likely


OLD_SDIST: dict[str, Any] = {
    "wheels": ["cp310-cp310-win_amd64"], "sdist": True, "uploaded_at": "2020-01-01T00:00:00Z",
}  # fmt: skip
INDEX: Index = {
    "app": {"2": {"requires": ["lib"], **NEW}, "1": {"requires": ["lib<2"], **NEW}},
    "lib": {"2": NEW, "1.1": OLD_SDIST, "1": {**OLD_SDIST, "yanked": True}},
    "other": {"2": NEW, "1": OLD_SDIST},
    "tool": {"1": {"requires": ["far"], **NEW}},
    "far": {"1": NEW},
}


class CountedSearches:
    """Resolves in this process, and counts the searches."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(
        self, universe: Universe, budget: Budget | None = None, *, count: int = 1
    ) -> Resolution:
        self.count += 1
        return in_this_process(universe, budget, count=count)


def test_old_source_distribution_is_used_only_if_there_is_no_other_stack() -> None:
    assert advice_for(request_for("app\nlib\n"), INDEX).best.versions() == {"app": "2", "lib": "2"}
    advice = advice_for(request_for("app\nlib<2\n"), INDEX)
    assert advice.best.versions() == {"app": "2", "lib": "1.1"}
    assert advice.resolution.status is ResolutionStatus.OPTIMAL
    assert check_resolution(advice.universe, advice.resolution) == []
    assert advice.unbounded == frozenset()


def test_snapshot_of_a_feasible_request_has_no_old_source_distributions() -> None:
    request = request_for("app\n")
    snapshot = snapshot_for(request, INDEX)
    advice = advise(request, snapshot, NOTHING)
    assert advice.snapshot is snapshot
    assert [it.version for it in snapshot.packages["lib"]] == ["2"]
    assert {it.reason for it in snapshot.excluded["lib"]} == {ExclusionReason.SDIST_TOO_OLD}


@pytest.mark.parametrize("manifest", ["lib<2\n", "app==2\nlib<2\n", "lib<1\n", "other<2\nlib>2\n"])
def test_advice_can_be_reproduced_from_its_stored_snapshot(manifest: str) -> None:
    request = request_for(manifest)
    advice = advice_for(request, INDEX)
    assert advice.snapshot.revision == revision_of(advice.snapshot)
    snapshot = Snapshot.from_json(advice.snapshot.to_json())
    again = advise(request, snapshot, NOTHING)
    assert report_of(again) == report_of(advice)
    if advice.best is not None:
        assert not check_offline(report_of(advice), snapshot, advice.evidence).problems


def test_old_source_distributions_are_not_tried_for_unrelated_conflicts() -> None:
    index: Index = {**INDEX, "app": {"2": {"requires": ["lib", "tool>1"], **NEW}}}
    for manifest, searches in (("app\n", 1), ("lib<2\n", 2), ("lib<1\n", 2)):
        request, resolver = request_for(manifest), CountedSearches()
        advise(request, snapshot_for(request, index), NOTHING, resolver=resolver)
        assert resolver.count == searches, manifest


def test_request_for_wheels_only_stays_infeasible_despite_source_distributions() -> None:
    advice = advice_for(request_for("lib<2\n", only_wheels=True), INDEX)
    assert advice.resolution.status is ResolutionStatus.INFEASIBLE


def test_old_source_distribution_is_usable_only_if_its_requirements_are_known() -> None:
    lists: Index = {"lib": {"2": NEW, "1": {**OLD_SDIST, "requires": ["far"]}}, "far": {"1": NEW}}
    alone = snapshot_for(request_for("lib<2\n"), lists)
    assert alone.with_old_sdists(["lib"]) is alone
    both = snapshot_for(request_for("lib<2\nfar\n"), lists).with_old_sdists(["lib"])
    assert [it.version for it in both.packages["lib"]] == ["2", "1"]
    assert both.excluded["lib"] == ()


#: Its source distribution is newer than its wheel that fits, and both are older than this Python.
EARLIER: dict[str, Any] = {"2": OLD_SDIST, "1": {"uploaded_at": "2013-01-01T00:00:00Z"}}


def test_old_source_distributions_are_admitted_only_for_packages_that_need_them() -> None:
    index: Index = {
        "one": {"1": OLD_SDIST},
        "two": {"1": OLD_SDIST},
        "lib": EARLIER,
        "app": {"2": {"requires": ["lib", "one>1"], **NEW}, "1": {"requires": ["lib"], **NEW}},
    }
    for manifest in ("one\nlib\n", "one\ntwo\nlib\n", "app\none\nlib\n", "two\napp\n"):
        advice = advice_for(request_for(manifest), index)
        assert advice.best.versions()["lib"] == "1", manifest
        assert check_resolution(advice.universe, advice.resolution) == []
    request = request_for("one\nlib\n")
    for_all = snapshot_for(request, index).with_old_sdists(index)
    assert advise(request, for_all, NOTHING).best.versions() == {"one": "1", "lib": "2"}


def test_only_one_of_several_alternatives_gets_an_old_source_distribution() -> None:
    index: Index = {
        "app": {"1": {"requires": ["one<2", "two"], **NEW}},
        "one": {"2": NEW, "1.1": OLD_SDIST, "1": {"requires": ["two<2"], **NEW}},
        "two": {**EARLIER, "3": {"requires": ["one>1"], **NEW}, "1": {"requires": ["one>1"]}},
    }
    advice = advice_for(request_for("app\n"), index)
    assert advice.best.versions() == {"app": "1", "one": "1.1", "two": "3"}
    assert advice.snapshot.old_sdists == {"two"}
