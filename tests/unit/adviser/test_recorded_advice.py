"""Advice out of the record: why an answer may differ from the recorded one."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from adviser.answering.recorded_advice import why_it_may_differ
from adviser.reports.serialization import code_version
from adviser.resolver.results import ResolutionStatus
from tests.factories.reports import made, report_of, stored_report

ADVICE, CONFLICT = made(), made("web>=3\ntool\n")
REPORT, FAILURE = report_of(ADVICE), report_of(CONFLICT)
SEARCH, BASELINE = "the search ended at its limit", "the search for the baseline ended at its limit"


def test_a_settled_answer_has_to_be_the_same_again() -> None:
    assert why_it_may_differ(stored_report(ADVICE, REPORT), ADVICE) is None
    assert why_it_may_differ(stored_report(CONFLICT, FAILURE), CONFLICT) is None


def test_a_replay_that_ended_at_its_limit_may_differ() -> None:
    record = stored_report(ADVICE, REPORT)
    unsettled = replace(ADVICE.resolution, settled=False, status=ResolutionStatus.FEASIBLE)
    assert why_it_may_differ(record, replace(ADVICE, resolution=unsettled)) == SEARCH
    premises = replace(ADVICE.premises, settled=False)
    assert why_it_may_differ(record, replace(ADVICE, premises=premises)) == BASELINE


def test_a_replay_by_another_version_may_differ() -> None:
    report = copy.deepcopy(REPORT)
    report["metadata"]["analyzer_version"] = "0.0.1"
    reason = why_it_may_differ(stored_report(ADVICE, report), ADVICE)
    assert reason == f"it was written by Thoth 0.0.1, and this is {code_version()}"


@pytest.mark.parametrize(("key", "words"), [("certificate", SEARCH), ("baseline", BASELINE)])
def test_a_replay_of_an_answer_that_ended_at_its_limit_may_differ(key: str, words: str) -> None:
    report = copy.deepcopy(REPORT)
    report["result"]["report"][key]["settled"] = False
    assert why_it_may_differ(stored_report(ADVICE, report), ADVICE) == words
