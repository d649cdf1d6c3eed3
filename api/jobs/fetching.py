"""Packages read from indexes: what a person asks for, and what an advice turned out to lack."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any

import orjson

from adviser.advise import Advice
from adviser.answering.missing_packages import MissingPackage, lacks_of
from api.jobs.analysis_run import store_result
from api.jobs.queue import Overloaded, QueueJob, QueueName
from api.jobs.worker_context import WorkerContext
from common.errors import IndexFault, IndexProblem
from common.settings import Settings
from common.terminal import first_few
from graph.record.analyses import Analysis
from graph.record.indexes import (
    IndexAnswer,
    answers_of,
    asked_since,
)
from ingest.crawl.crawl_request import CrawlBounds
from ingest.crawl.runs import add_packages, packages_document, roots_of, unanswered

TASK = "packages.fetch"
#: Names that one request may have an index asked for, closure included.
MAX_PACKAGES = 250
#: Packages that one advice may have fetched; a project lacks a handful or knows nothing at all.
MAX_FETCHES = 50
#: An index that was asked for a package is not asked again sooner.
ASKED_AGAIN_AFTER = timedelta(hours=1)
#: Behind all that a worker of several queues may take.
_LAST = -10
#: Names in a line; the rest is counted.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class QueuedFetches:
    """What became of packages that an advice lacks.

    :param names: whose fetch is in the queue now
    :param left_out: how many others have to wait for the next request
    """

    names: tuple[str, ...]
    left_out: int = 0

    def __str__(self) -> str:
        rest = f"; {self.left_out} more packages wait for your next request"
        shown = first_few(self.names, _SHOWN)
        queued = f"queued for ingestion: {shown}; ask again when they are read"
        return queued + rest * bool(self.left_out)


def fetch(
    settings: Settings, index: str | None, requirements: Sequence[str], *, prereleases: bool = False
) -> dict[str, Any]:
    """Read packages, and all that they need, from a configured index.

    :returns: the report of ``thoth packages add --json``
    :raises InvalidArgument: if there is no such index, or a requirement cannot be followed
    :raises IndexProblem: if the index does not answer
    """
    bounds = CrawlBounds(max_packages=MAX_PACKAGES, prereleases=prereleases)
    outcome = add_packages(settings, roots_of(requirements), bounds, index=index, watching=False)
    if unanswered(outcome.report):
        raise IndexProblem(IndexFault.UNREACHABLE, "the index does not answer")
    # Codes are keys of some members, and a document has texts.
    return dict(
        orjson.loads(orjson.dumps(packages_document(outcome), option=orjson.OPT_NON_STR_KEYS))
    )


def fetch_asked(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Read what a person asked for.

    :returns: the identifier of the report's document
    """
    report = fetch(
        worker.settings,
        request["index"],
        request["requirements"],
        prereleases=request["prereleases"],
    )
    return store_result(worker, analysis, report)


def fetch_lacking(worker: WorkerContext, advice: Advice) -> QueuedFetches | None:
    """Enqueue the reading of what an advice lacks, from indexes of this machine alone.

    Of a package and an index one fetch waits at most, and an index that was asked a while ago
    is not asked again: what it does not have stays lacking.

    :returns: ``None`` if nothing was enqueued
    """
    jobs = dict(_jobs(worker, advice)) if worker.settings.fetch_missing else {}
    if not jobs:
        return None
    names = []
    with worker.service.writing() as connection:
        for name, job in islice(jobs.items(), MAX_FETCHES):
            try:
                worker.service.queue.admit(connection, job.queue)
            except Overloaded:
                break
            # One that waits already is as good.
            worker.service.queue.enqueue(connection, job)
            names.append(name)
    return QueuedFetches(tuple(names), len(jobs) - len(names)) if names else None


def _jobs(worker: WorkerContext, advice: Advice) -> Iterator[tuple[str, QueueJob]]:
    """By name of the package, in name order."""
    request = advice.request.resolver_request({})
    known = [it.name for it in advice.request.options.indexes if it.known]
    names = list(advice.snapshot.revisions)
    with worker.service.reading() as connection:
        answers = answers_of(connection, names)
        recent = asked_since(connection, names, ASKED_AGAIN_AFTER)
    for lack in lacks_of(advice.snapshot, request, answers):
        index = _turn(lack, known, recent, answers)
        if index is not None:
            arguments = {
                "index": index,
                "requirements": list(lack.texts),
                "prereleases": request.all_prereleases or lack.name in request.prereleases,
            }
            key = f"{TASK}:{index}:{lack.name}"
            yield lack.name, QueueJob(TASK, QueueName.FETCHES, arguments, key, _LAST)


def _turn(
    lack: MissingPackage,
    known: Sequence[str],
    recent: Collection[tuple[str, str]],
    answers: Mapping[tuple[str, str], IndexAnswer],
) -> str | None:
    """The first index whose turn it is and that was not asked a while ago."""
    due = (it for it in known if lack.may_be_asked(it, answers, known))
    return next((it for it in due if (it, lack.name) not in recent), None)
