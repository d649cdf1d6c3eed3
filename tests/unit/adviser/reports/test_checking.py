"""A report next to its record: no leaf is edited unnoticed, and why a replay may differ."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from adviser.advise import Advice, assess_candidates
from adviser.answering.recorded_advice import check_stored, why_it_may_differ
from adviser.reports.checking import check_offline, check_report
from adviser.reports.serialization import code_version
from adviser.resolver.results import ResolutionStatus
from model.errors import InvalidDocument
from model.json_documents import digest
from model.measurements.evidence import Evidence
from tests.factories.reports import made, material_of, problems, report_of, stored_report

#: What only a search can tell: without the record it has to be believed.
SEARCHED = (
    "certificate.bound", "certificate.gap", "certificate.status", "certificate.settled",
    "certificate.complete", "certificate.limit", "certificate.model", "certificate.solver",
    "search.sizes",
)  # fmt: skip

ADVICE, CONFLICT = made(), made("web>=3\ntool\n")
REPORT, FAILURE = report_of(ADVICE), report_of(CONFLICT)

Place = tuple[str | int, ...]


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    if not isinstance(value, dict | list) or not value:
        yield place
        return
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, one in inner:
        yield from leaves(one, (*place, key))


def kind(place: Place) -> str:
    return ".".join("[]" if isinstance(it, int) else it for it in place)


def edited(report: dict[str, Any], place: Place) -> dict[str, Any]:
    """The report with one leaf changed, and the digest mended as a careful forger does."""
    found = dict(report)
    at: Any = found
    for key in place[:-1]:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[place[-1]] = _other(at[place[-1]])
    if place[0] == "result":
        found["metadata"] = {**found["metadata"], "result_digest": digest(found["result"])}
    return found


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    return "x" if value is None else ["x"]


def of_kinds(report: dict[str, Any]) -> list[tuple[str, list[Place]]]:
    found: dict[str, list[Place]] = {}
    for place in leaves(report):
        if place != ("schema_version",):
            found.setdefault(kind(place), []).append(place)
    return list(found.items())


CASES = [
    *((name, REPORT, ADVICE, places) for name, places in of_kinds(REPORT)),
    *((f"failure.{name}", FAILURE, CONFLICT, places) for name, places in of_kinds(FAILURE)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda it: it[0])
def test_edit_of_any_report_value_is_detected_by_comparison_with_the_record(
    case: tuple[str, dict[str, Any], Advice, list[Place]],
) -> None:
    _, report, advice, places = case
    record = stored_report(advice, report)
    for place in places:
        found = check_stored(record, edited(report, place))
        assert any("not as recorded" in it for it in found.problems), place


REBUILT = [
    (name, places)
    for name, places in of_kinds(REPORT)
    if name.startswith("result.") and not any(it in name for it in SEARCHED)
]


MATERIAL = material_of(ADVICE)
ASSESSMENT = assess_candidates(
    MATERIAL.request, MATERIAL.snapshot, MATERIAL.evidence, MATERIAL.premises
)


@pytest.mark.parametrize("case", REBUILT, ids=lambda it: it[0])
def test_report_edits_are_detected_without_the_record_unless_a_search_is_needed(
    case: tuple[str, list[Place]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The assessment of the candidates, half of the work, depends on no report.
    monkeypatch.setattr("adviser.reports.checking.assess_candidates", lambda *_: ASSESSMENT)
    for place in case[1]:
        forged = edited(REPORT, place)
        try:
            found = check_report(forged, MATERIAL)
        except InvalidDocument:
            continue
        assert found, place


def test_unchanged_reports_are_verified() -> None:
    for report, advice in ((REPORT, ADVICE), (FAILURE, CONFLICT)):
        found = check_stored(stored_report(advice, report), report)
        assert (found.problems, found.unverified) == ((), ())
        assert found.verified
        assert problems(report, advice) == []


def test_added_or_removed_report_fields_are_detected() -> None:
    more = copy.deepcopy(REPORT)
    more["metadata"]["signed_by"] = "somebody"
    less = copy.deepcopy(REPORT)
    del less["result"]["report"]["stack_info"][0]
    less["metadata"]["result_digest"] = digest(less["result"])
    record = stored_report(ADVICE, REPORT)
    (problem,) = check_stored(record, more).problems
    assert problem == "not as recorded: metadata.signed_by is unexpected"
    assert any("stack_info has" in it for it in check_stored(record, less).problems)


@pytest.mark.parametrize("value", [None, 1, [], "x"])
def test_report_field_of_a_wrong_type_is_reported_without_a_crash(value: Any) -> None:
    for key in REPORT["result"]["report"]:
        broken = copy.deepcopy(REPORT)
        broken["result"]["report"][key] = value
        found = check_stored(stored_report(ADVICE, REPORT), broken)
        assert found.problems or value == REPORT["result"]["report"][key]


def test_offline_check_lists_verified_and_unverified_parts() -> None:
    alone = check_offline(REPORT)
    assert alone.problems == ()
    assert len(alone.unverified) == 3
    assert ADVICE.snapshot.revision in alone.unverified[0]
    with_snapshot = check_offline(REPORT, ADVICE.snapshot)
    assert with_snapshot.problems == ()
    assert [len(with_snapshot.verified), len(with_snapshot.unverified)] == [2, 2]
    assert ADVICE.evidence.revision in with_snapshot.unverified[0]
    both = check_offline(REPORT, ADVICE.snapshot, ADVICE.evidence)
    assert both.problems == ()
    assert [len(both.verified), len(both.unverified)] == [3, 1]


def test_version_outside_the_snapshot_is_detected_offline() -> None:
    forged = copy.deepcopy(REPORT)
    product = forged["result"]["report"]["products"][0]
    web = next(it for it in product["packages"] if it["name"] == "web")
    product["passed_over"] -= web["place"]
    web |= {"version": "3.0", "purl": "pkg:pypi/web@3.0", "place": 0}
    locked = product["project"]["requirements_locked"]["default"]
    locked["web"]["version"] = "==3.0"
    forged["metadata"]["result_digest"] = digest(forged["result"])
    assert check_offline(forged).problems == ()
    found = check_offline(forged, ADVICE.snapshot).problems
    assert any("is not within >=2" in it for it in found)


def test_wrong_score_is_detected_with_snapshot_and_evidence() -> None:
    forged = copy.deepcopy(REPORT)
    product = forged["result"]["report"]["products"][0]
    product["packages"][0]["contributions"][0] += 10_000
    product["criteria"][0]["contribution"] += 1.0
    total = sum(sum(it["contributions"]) for it in product["packages"])
    product["score"] = total / 10_000
    product["levels"][-1] += 10_000
    forged["result"]["report"]["certificate"] |= dict.fromkeys(
        ("objective", "bound"), product["levels"]
    )
    product["criteria"][0]["contribution"] = (
        sum(it["contributions"][0] for it in product["packages"]) / 10_000
    )
    forged["metadata"]["result_digest"] = digest(forged["result"])
    for evidence, known in ((None, False), (ADVICE.evidence, True)):
        found = check_offline(forged, ADVICE.snapshot, evidence).problems
        assert any("the contributions are" in it for it in found) is known


def test_self_contradicting_report_is_detected_without_the_record() -> None:
    forged = copy.deepcopy(REPORT)
    forged["result"]["report"]["products"][0]["score"] += 1
    forged["metadata"]["result_digest"] = digest(forged["result"])
    assert check_offline(forged).problems == (
        "stack 1: the score is not the sum of its contributions",
    )


def test_check_with_a_different_snapshot_or_evidence_reports_the_mismatch() -> None:
    other = made("web\n")
    found = check_offline(REPORT, other.snapshot, Evidence(as_of=datetime(2026, 1, 1, tzinfo=UTC)))
    assert any(other.snapshot.revision in it for it in found.problems)
    assert any("it is based on evidence" in it for it in found.problems)


def test_report_of_another_thoth_version_is_only_compared_with_the_record() -> None:
    older = copy.deepcopy(REPORT)
    older["metadata"]["analyzer_version"] = "0.0.1"
    older["result"]["report"]["stack_info"][0]["message"] = "worded as of old"
    older["metadata"]["result_digest"] = digest(older["result"])
    record = stored_report(ADVICE, older)
    result = check_stored(record, older)
    assert (result.problems, len(result.verified), len(result.unverified)) == ((), 1, 1)
    assert result.unverified[0].endswith("the report was written by Thoth 0.0.1")
    assert check_stored(record, REPORT).problems
    offline = check_offline(older, ADVICE.snapshot, ADVICE.evidence)
    assert (offline.problems, len(offline.verified), len(offline.unverified)) == ((), 2, 2)


SEARCH, BASELINE = "the search ended at its limit", "the search for the baseline ended at its limit"


def test_replay_must_be_equal_for_settled_advice_of_the_same_version() -> None:
    record = stored_report(ADVICE, REPORT)
    assert why_it_may_differ(record, ADVICE) is None
    assert why_it_may_differ(stored_report(CONFLICT, FAILURE), CONFLICT) is None
    unsettled = replace(ADVICE.resolution, settled=False, status=ResolutionStatus.FEASIBLE)
    assert why_it_may_differ(record, replace(ADVICE, resolution=unsettled)) == SEARCH
    premises = replace(ADVICE.premises, settled=False)
    assert why_it_may_differ(record, replace(ADVICE, premises=premises)) == BASELINE
    for key, expected in (("certificate", SEARCH), ("baseline", BASELINE)):
        report = copy.deepcopy(REPORT)
        report["result"]["report"][key]["settled"] = False
        assert why_it_may_differ(stored_report(ADVICE, report), ADVICE) == expected
    report = copy.deepcopy(REPORT)
    report["metadata"]["analyzer_version"] = "0.0.1"
    reason = why_it_may_differ(stored_report(ADVICE, report), ADVICE)
    assert reason == f"it was written by Thoth 0.0.1, and this is {code_version()}"
