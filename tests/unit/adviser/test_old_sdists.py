"""Source distributions that are older than this Python: the last resort of a request."""

from __future__ import annotations

from typing import Any

import pytest

from adviser.advise import Advice, advise, in_this_process
from adviser.reports.checking import check_offline
from adviser.resolver.checker import check_resolution
from adviser.resolver.resolver_request import Budget
from adviser.resolver.results import Resolution, ResolutionStatus
from adviser.resolver.universe import Universe
from model.packages.candidates import ExclusionReason
from model.packages.snapshot import Snapshot, revision_of
from tests.factories.reports import report_of
from tests.factories.requests import NOTHING, advice_for, request_for, snapshot_for
from tests.factories.universes import Index

OLD: dict[str, Any] = {
    "wheels": ["cp310-cp310-win_amd64"], "sdist": True, "uploaded_at": "2020-01-01T00:00:00Z",
}  # fmt: skip
NEW = {"uploaded_at": "2026-01-01T00:00:00Z"}
INDEX: Index = {
    "app": {"2": {"requires": ["lib"], **NEW}, "1": {"requires": ["lib<2"], **NEW}},
    "lib": {"2": NEW, "1.1": OLD, "1": {**OLD, "yanked": True}},
    "other": {"2": NEW, "1": OLD},
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


def versions(advice: Advice) -> dict[str, str]:
    return advice.best.versions()


def test_an_old_source_distribution_counts_only_if_there_is_no_other_stack() -> None:
    assert versions(advice_for(request_for("app\nlib\n"), INDEX)) == {"app": "2", "lib": "2"}
    advice = advice_for(request_for("app\nlib<2\n"), INDEX)
    assert versions(advice) == {"app": "2", "lib": "1.1"}
    assert advice.resolution.status is ResolutionStatus.OPTIMAL
    assert check_resolution(advice.universe, advice.resolution) == []
    assert advice.unbounded == frozenset()


def test_a_request_with_a_stack_has_the_snapshot_without_old_source_distributions() -> None:
    request = request_for("app\n")
    snapshot = snapshot_for(request, INDEX)
    advice = advise(request, snapshot, NOTHING)
    assert advice.snapshot is snapshot
    assert [it.version for it in snapshot.packages["lib"]] == ["2"]
    assert {it.reason for it in snapshot.excluded["lib"]} == {ExclusionReason.SDIST_TOO_OLD}


@pytest.mark.parametrize("manifest", ["lib<2\n", "app==2\nlib<2\n", "lib<1\n", "other<2\nlib>2\n"])
def test_the_snapshot_of_an_advice_gives_the_same_advice_again(manifest: str) -> None:
    request = request_for(manifest)
    advice = advice_for(request, INDEX)
    assert advice.snapshot.revision == revision_of(advice.snapshot)
    snapshot = Snapshot.from_json(advice.snapshot.to_json())
    again = advise(request, snapshot, NOTHING)
    assert report_of(again) == report_of(advice)
    if advice.best is not None:
        assert not check_offline(report_of(advice), snapshot, advice.evidence).problems


def test_a_conflict_of_other_packages_is_not_searched_again() -> None:
    index: Index = {**INDEX, "app": {"2": {"requires": ["lib", "tool>1"], **NEW}}}
    for manifest, searches in (("app\n", 1), ("lib<2\n", 2), ("lib<1\n", 2)):
        request, resolver = request_for(manifest), CountedSearches()
        advise(request, snapshot_for(request, index), NOTHING, resolver=resolver)
        assert resolver.count == searches, manifest


def test_without_builds_there_is_still_no_stack() -> None:
    advice = advice_for(request_for("lib<2\n", only_wheels=True), INDEX)
    assert advice.resolution.status is ResolutionStatus.INFEASIBLE


def test_only_versions_count_whose_requirements_the_snapshot_lists() -> None:
    lists: Index = {"lib": {"2": NEW, "1": {**OLD, "requires": ["far"]}}, "far": {"1": NEW}}
    alone = snapshot_for(request_for("lib<2\n"), lists)
    assert alone.with_old_sdists(["lib"]) is alone
    both = snapshot_for(request_for("lib<2\nfar\n"), lists).with_old_sdists(["lib"])
    assert [it.version for it in both.packages["lib"]] == ["2", "1"]
    assert both.excluded["lib"] == ()


#: Its source distribution is newer than its wheel that fits, and both are older than this Python.
EARLIER: dict[str, Any] = {"2": OLD, "1": {"uploaded_at": "2013-01-01T00:00:00Z"}}


def test_the_rule_is_lifted_only_for_packages_that_no_stack_can_do_without() -> None:
    index: Index = {
        "one": {"1": OLD},
        "two": {"1": OLD},
        "lib": EARLIER,
        "app": {"2": {"requires": ["lib", "one>1"], **NEW}, "1": {"requires": ["lib"], **NEW}},
    }
    for manifest in ("one\nlib\n", "one\ntwo\nlib\n", "app\none\nlib\n", "two\napp\n"):
        advice = advice_for(request_for(manifest), index)
        assert versions(advice)["lib"] == "1", manifest
        assert check_resolution(advice.universe, advice.resolution) == []
    request = request_for("one\nlib\n")
    for_all = snapshot_for(request, index).with_old_sdists(index)
    assert versions(advise(request, for_all, NOTHING)) == {"one": "1", "lib": "2"}


def test_of_packages_that_can_stand_in_for_each_other_only_one_is_built_although_it_is_old() -> (
    None
):
    index: Index = {
        "app": {"1": {"requires": ["one<2", "two"], **NEW}},
        "one": {"2": NEW, "1.1": OLD, "1": {"requires": ["two<2"], **NEW}},
        "two": {**EARLIER, "3": {"requires": ["one>1"], **NEW}, "1": {"requires": ["one>1"]}},
    }
    advice = advice_for(request_for("app\n"), index)
    assert versions(advice) == {"app": "1", "one": "1.1", "two": "3"}
    assert advice.snapshot.old_sdists == {"two"}
