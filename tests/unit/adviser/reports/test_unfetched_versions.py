"""What a person reads where packages are not known yet, or versions were not read."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from adviser.advice_request import RequestIndex
from adviser.advise import Advice, in_this_process
from adviser.reports.documents import result_document
from adviser.reports.notes import stack_notes
from adviser.reports.unfetched_versions import (
    missing_packages,
    unfetched_in,
)
from adviser.why import ForcedOutcome, why_not
from graph.engine import Stores
from graph.record.watches import AdviceWatch
from loop.stacks import NoSuchStack, WatchKnowledge, stack_with
from model.packages.candidates import Absence, AbsenceReason, Dependency
from model.packages.snapshot import with_absences
from tests.factories.golden import compare_views
from tests.factories.requests import INDEX, MAIN, advice_for, known_for, request_for, snapshot_for
from tests.factories.universes import Index

PIPFILE = """
[[source]]
name = "main"
url = "https://index.example/simple"
verify_ssl = true

[[source]]
name = "own"
url = "https://own.example/simple"
verify_ssl = true

[packages]
web = "*"
mine = {version = "*", index = "own"}
"""
OWN = RequestIndex("internal", "own", "https://own.example/simple")
UNKNOWN = RequestIndex("own", "own", "https://own.example/simple", known=False)

DATED: Index = {"core": {"2.0": {"uploaded_at": "2024-03-01T00:00:00+00:00"}}}
AFTER = {"published_after": datetime(2025, 1, 1, tzinfo=UTC)}


def conflict(manifest: str, index: Index = INDEX, **options: Any) -> Advice:
    return advice_for(request_for(manifest, **options), index)


#: An advice without a stack, and the versions that indexes list.
UNREAD: dict[str, tuple[Advice, dict[str, list[str]]]] = {
    "versions that the request admits": (conflict("core<1\n"), {"core": ["0.9", "0.8", "1.2"]}),
    "versions that the conflict rules out, read or not": (
        conflict("web>=3\ntool\n"), {"core": ["1.5", "2.5"], "web": ["0.1"]},
    ),
    "a version that could resolve the conflict": (
        conflict("web>=3\ntool\n"), {"core": ["1.5"], "tool": ["0.9"]},
    ),
    "a pre-release that nobody welcomes": (conflict("core<1\n"), {"core": ["0.9rc1"]}),
    "a pre-release that is welcome": (
        conflict("core<1\n", prereleases=frozenset({"core"})), {"core": ["0.9rc1"]},
    ),
    "a package that is not known at all": (conflict("nowhere\n"), {"nowhere": ["1.0"]}),
    "a version that is newer than one that is too old": (
        conflict("core\n", DATED, **AFTER), {"core": ["3.0", "1.9", "1.0"]},
    ),
    "versions that are older than one that is too old": (
        conflict("core\n", DATED, **AFTER), {"core": ["1.9", "1.0"]},
    ),
}  # fmt: skip


def test_report_explains_versions_that_could_not_be_read() -> None:
    views = {}
    for title, (advice, listed) in UNREAD.items():
        by_index = {name: {"pypi": versions} for name, versions in listed.items()}
        cause = advice.resolution.conflict
        views[title] = "\n".join(
            f"{it.name}: {it.count} of {it.known}, newest {it.newest}, {it.wanted}\n{it.message()}"
            for it in unfetched_in(cause, advice.request, advice.snapshot, by_index)
        )
    compare_views("unread_versions", views)


def test_missing_packages_are_reported_with_a_remedy() -> None:
    views = {
        title: "\n".join(f"{it.type} {it.code}: {it.message}" for it in stack_notes(advice))
        for title, advice in {
            "the store is empty": conflict("web\ntool\n", {}),
            "one package is missing": conflict("web\nnowhere\n"),
            "nothing is missing": advice_for(),
        }.items()
    }
    owner = replace(UNKNOWN, owns=("we*",))
    for title, index in (
        ("an index", OWN),
        ("an index that is not configured", UNKNOWN),
        ("an index that is not configured and owns the other package", owner),
    ):
        request = request_for(files={"Pipfile": PIPFILE}, indexes=(MAIN, index))
        for known, snapshot in (("", snapshot_for(request)), (", nothing known", {})):
            found = snapshot or snapshot_for(request, {})
            missing = missing_packages(request, found)
            views[f"a package that names {title}{known}"] = missing.message() if missing else ""
    compare_views("missing_packages", views)


def test_conflict_about_a_package_that_was_never_read_proves_nothing() -> None:
    never_read = ("web: no version of it was read",)
    indexes: list[tuple[Index, tuple[str, ...]]] = [
        ({}, never_read),
        ({"web": {"3.0": {"unread": True}}}, never_read),
        ({"web": {"3.0": {}}}, ()),
    ]
    for index, texts in indexes:
        advice = conflict("web>=4\n", index)
        assert advice.unread == texts
        report = result_document(advice, known_for(advice))["report"]
        shown = report["certificate"]["status"], report["certificate"]["complete"]
        assert shown == (("unknown", False) if texts else ("infeasible", True))
        forced = why_not(advice, Dependency("web", "<3")).outcome
        assert forced is (ForcedOutcome.UNKNOWN if texts else ForcedOutcome.CONFLICT)


def test_package_of_a_silent_index_is_reported_as_unread() -> None:
    silent = Absence(AbsenceReason.UNAVAILABLE, "it was not read from pypi: no answer")
    snapshot = with_absences(conflict("web>=4\n").snapshot, {"web": silent})
    assert snapshot.unread_texts() == ("web: it was not read from pypi: no answer",)
    closed = Absence(AbsenceReason.NOT_CONFIGURED, "the index own is not configured here")
    missing = replace(conflict("web\n", {}).snapshot, absences={"web": closed})
    assert missing.unread_texts() == ("web: the index own is not configured here",)
    absent = Absence(AbsenceReason.NOT_FOUND, "pypi does not have it")
    assert not replace(missing, absences={"web": absent}).unread_texts(["web"])
    assert not with_absences(snapshot, {"web": absent}).absences


def test_versions_that_a_store_did_not_read_leave_a_conflict_open() -> None:
    advice = conflict("core<1\n")
    cause = advice.resolution.conflict
    assert cause is not None
    listed = {"core": {"pypi": ["0.9", "0.8"]}}
    unread = unfetched_in(cause, advice.request, advice.snapshot, listed)
    result = result_document(advice, replace(known_for(advice), unread=unread))
    assert result["report"]["certificate"]["status"] == "unknown"
    assert result["report"]["search"]["unavailable"] == 2
    forced = why_not(advice, Dependency("web"))
    assert forced.outcome is ForcedOutcome.CONFLICT
    assert forced.with_unread(["core 0.9"]).outcome is ForcedOutcome.UNKNOWN


def test_conflict_of_a_release_is_open_if_a_required_package_was_not_read() -> None:
    index: Index = {
        "web": {"3": {"requires": ["nowhere"]}, "2": {"requires": ["core<1"]}, "1": {}},
        "core": {"1": {}},
    }
    advice = conflict("web\n", index)
    watched = WatchKnowledge(cast(AdviceWatch, None), advice, {}, ())
    unread = {}
    for version in ("3", "2"):
        with pytest.raises(NoSuchStack) as raised:
            stack_with(cast(Stores, None), watched, {"web": version}, in_this_process)
        unread[version] = raised.value.unread
    assert unread == {"3": True, "2": False}
