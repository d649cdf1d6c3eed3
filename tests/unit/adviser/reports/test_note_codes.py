"""Every code is explained where its notes say: on a page, at an anchor of its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from adviser.projects.project import WarningCode
from adviser.provenance import IssueId, ProvenanceIssue
from adviser.reports.note_codes import PAGES, NoteCode, link_of, project_code
from adviser.reports.version_rationale import RationaleCode
from adviser.scoring.assessment_types import JustificationCode, NoteLevel

ROOT = Path(__file__).parents[4]


def anchors(page: str) -> list[str]:
    return re.findall(r'<a id="([^"]+)"></a>', (ROOT / page).read_text(encoding="utf-8"))


def test_no_two_codes_are_the_same() -> None:
    codes = [*NoteCode, *RationaleCode, *JustificationCode, *map(project_code, WarningCode)]
    assert len(codes) == len(set(codes)) == len(PAGES)


@pytest.mark.parametrize("code", sorted(PAGES))
def test_the_link_of_a_code_leads_to_its_anchor(code: str) -> None:
    page, _, anchor = link_of(code).partition("#")
    assert anchors(page).count(anchor) == 1


@pytest.mark.parametrize("issue", IssueId)
def test_the_link_of_an_issue_leads_to_its_anchor(issue: IssueId) -> None:
    link = str(ProvenanceIssue(issue, NoteLevel.ERROR, "", "").document()["link"])
    page, _, anchor = link.partition("#")
    assert anchors(page).count(anchor) == 1


def test_no_anchor_is_of_a_code_that_there_is_not() -> None:
    known = {*PAGES, *(it.value.lower() for it in IssueId)}
    assert {it for page in set(PAGES.values()) for it in anchors(page)} <= known
