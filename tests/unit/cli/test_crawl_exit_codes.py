"""What a crawl's outcome means to scripts."""

from __future__ import annotations

import pytest

from cli.packages import crawl_exit_code
from graph.record.release_merging import HashAlarm
from ingest.crawl.reports import CrawlFailure, CrawlReport
from model.errors import IndexFault, IndexProblem
from model.packages.identity import Purl


def trouble(version: str | None, code: str) -> CrawlFailure:
    return CrawlFailure("app", version, code, "words")


def code(*reports: CrawlReport) -> int:
    """Exit code of `thoth packages add` and `refresh`."""
    return crawl_exit_code(reports)


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        (CrawlReport("local", packages=2), 0),
        (CrawlReport("local", packages=2, missing=["lib"]), 0),
        (CrawlReport("local", packages=2, left_out=["lib"]), 0),
        (CrawlReport("local", missing=["app"], missing_roots=["app"]), 1),
        (CrawlReport("local", unsolvable_roots=["app"]), 1),
        (CrawlReport("local", waiting=1), 1),
        (CrawlReport("local", alarms=[HashAlarm(Purl("p"), "f", "a", "b")]), 1),
        (CrawlReport("local", packages=1, failed=[trouble("1.0", "timeout")]), 1),
        (CrawlReport("local", packages=2, failed=[trouble(None, "timeout")]), 1),
        (CrawlReport("local", packages=1, failed=[trouble(None, "malformed")]), 1),
        (CrawlReport("local", packages=1, failed=[trouble(None, "timeout")]), 3),
        (CrawlReport("local", lost=IndexProblem(IndexFault.TIMEOUT, "silence")), 3),
    ],
)
def test_each_outcome_has_its_exit_code(report: CrawlReport, wanted: int) -> None:
    assert code(report) == wanted


def test_one_index_that_does_not_answer_among_others_is_worth_a_look() -> None:
    silent = CrawlReport("a", lost=IndexProblem(IndexFault.TIMEOUT, "silence"))
    assert code(silent, CrawlReport("b", packages=1)) == 1
    assert code() == 0
