"""Queues of workers, durations of tokens, exit codes of crawls."""

import pytest

from api.jobs.queue import QueueName
from cli.access import duration
from cli.packages import crawl_exit_code
from cli.service import queue_sets
from graph.record.release_merging import HashAlarm
from ingest.crawl.crawler import CrawlFailure, CrawlReport
from model.errors import IndexFault, IndexProblem, InvalidArgument
from model.packages.identity import Purl


@pytest.mark.parametrize("processes", [2, 3, 4, 7])
def test_one_worker_process_serves_only_interactive_requests(processes: int) -> None:
    sets = queue_sets(processes)
    assert len(sets) == processes
    assert sets[0] == [QueueName.PEOPLE]
    assert {it for queues in sets for it in queues} == set(QueueName)
    assert all(QueueName.PEOPLE not in queues for queues in sets[1:] if len(queues) > 1)


def test_single_worker_process_serves_all_queues() -> None:
    (queues,) = queue_sets(1)
    assert sorted(queues) == sorted(QueueName)


@pytest.mark.parametrize("text", ["", "30", "d", "0d", "-1d", "1.5h", "30 d", "99999w", "１d"])
def test_invalid_token_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="--expires"):
        duration(text)


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
def test_each_crawl_outcome_has_its_exit_code(report: CrawlReport, wanted: int) -> None:
    assert code(report) == wanted


def test_crawl_with_one_silent_index_of_several_exits_with_1() -> None:
    silent = CrawlReport("a", lost=IndexProblem(IndexFault.TIMEOUT, "silence"))
    assert code(silent, CrawlReport("b", packages=1)) == 1
    assert code() == 0
