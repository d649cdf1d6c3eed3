"""Jobs that fetch packages from indexes: requested packages, and packages that an advice lacked."""

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
from graph.record.indexes import IndexAnswer, answers_of, asked_since
from ingest.crawl.crawl_request import CrawlBounds
from ingest.crawl.runs import add_packages, packages_document, roots_of, unanswered

TASK = "packages.fetch"
#: Maximum number of packages that one request fetches, including dependencies.
MAX_PACKAGES = 250
#: Maximum number of packages that one advice fetches; projects lack few packages or nearly all.
MAX_FETCHES = 50
#: Minimum time between two requests for a package to the same index.
ASKED_AGAIN_AFTER = timedelta(hours=1)
#: Priority below all other jobs of a worker with several queues.
_LAST = -10
#: Number of names in a log line; the rest is counted.
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class QueuedFetches:
    """Enqueued fetches of packages that an advice lacked.

    :param names: enqueued packages
    :param left_out: number of packages that wait for the next request
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
    """Fetch packages and their dependencies from a configured index.

    :returns: the report of ``thoth packages add --json``
    :raises InvalidArgument: if there is no such index, or a requirement is invalid
    :raises IndexProblem: if the index does not answer
    """
    bounds = CrawlBounds(max_packages=MAX_PACKAGES, prereleases=prereleases)
    outcome = add_packages(settings, roots_of(requirements), bounds, index=index, watching=False)
    if unanswered(outcome.report):
        raise IndexProblem(IndexFault.UNREACHABLE, "the index does not answer")
    # Turns the enumeration members among the keys into strings.
    return dict(
        orjson.loads(orjson.dumps(packages_document(outcome), option=orjson.OPT_NON_STR_KEYS))
    )


def fetch_asked(worker: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Fetch the packages of a request.

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
    """Enqueue fetches of the packages that an advice lacked, from configured indexes.

    At most one fetch per package and index waits. An index that recently got a request for a
    package gets no other for that package.

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
            # Does nothing if a fetch of the same package waits already.
            worker.service.queue.enqueue(connection, job)
            names.append(name)
    return QueuedFetches(tuple(names), len(jobs) - len(names)) if names else None


def _jobs(worker: WorkerContext, advice: Advice) -> Iterator[tuple[str, QueueJob]]:
    """Fetch jobs with the names of their packages, ordered by name."""
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
    """Return the next index to fetch a package from; ``None`` if all were tried recently."""
    due = (it for it in known if lack.may_be_asked(it, answers, known))
    return next((it for it in due if (it, lack.name) not in recent), None)
