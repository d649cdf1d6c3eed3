"""What workers do: one task a kind of job, by the names that jobs are enqueued with."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from procrastinate import Blueprint, JobContext, RetryDecision
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job
from procrastinate.retry import BaseRetryStrategy

from api.jobs.running import MAX_ATTEMPTS, PASSING, run
from api.jobs.workshop import Workshop
from common.errors import InvalidSettings
from graph.projection import sync
from ingest.commands.places import absolute_source

P = ParamSpec("P")
R = TypeVar("R")

#: No job of a kind takes longer unless a store answers no more. The search of an advice may take
#: a minute, jobs of an inspection a day, and building what they run some hours.
_ADVICE_S, _BULK_S, _INSPECTION_S, _NIGHT_S = 1800.0, 4 * 3600.0, 36 * 3600.0, 24 * 3600.0
#: Under this name a worker hands its workshop to its tasks.
WORKSHOP = "workshop"

_LOG = logging.getLogger(__name__)


class Retrying(BaseRetryStrategy):
    """Again after a store that was away, or after the worker had to stop; a bounded number."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Wait 1, 4, 9 … seconds."""
        again = isinstance(exception, (*PASSING, JobAborted))
        if not again or job.attempts + 1 >= MAX_ATTEMPTS:
            return None
        return RetryDecision(retry_in={"seconds": (job.attempts + 1) ** 2})


def _limited(limit_s: float) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Have the worker end itself if it is at such a job for longer."""

    def decorate(work: Callable[P, R]) -> Callable[P, R]:
        @wraps(work)
        def watched(*args: P.args, **kwargs: P.kwargs) -> R:
            context = cast(JobContext, args[0])
            with _workshop(context).watch.over(work.__name__, limit_s):
                return work(*args, **kwargs)

        return watched

    return decorate


tasks = Blueprint()


@tasks.task(name="advice.make", pass_context=True, retry=Retrying())
@_limited(_ADVICE_S)
def make_advice(context: JobContext, analysis_id: str) -> None:
    """Answer a request for advice."""
    from api.jobs.advice import make_advice as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="provenance.check", pass_context=True, retry=Retrying())
@_limited(_ADVICE_S)
def check_provenance(context: JobContext, analysis_id: str) -> None:
    """Check where the files of a lock come from."""
    from api.jobs.provenance import check_provenance as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="advice.replay", pass_context=True, retry=Retrying())
@_limited(_ADVICE_S)
def replay_advice(context: JobContext, analysis_id: str) -> None:
    """Answer a recorded request for advice again."""
    from api.jobs.questions import replay_advice as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="advice.why_not", pass_context=True, retry=Retrying())
@_limited(_ADVICE_S)
def explain_why_not(context: JobContext, analysis_id: str) -> None:
    """Say what a requirement would cost a stack."""
    from api.jobs.questions import explain_why_not as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="uploads.ingest", pass_context=True, retry=Retrying())
@_limited(_BULK_S)
def ingest_upload(context: JobContext, analysis_id: str) -> None:
    """Take in the inspections of an upload."""
    from api.jobs.uploads import ingest_upload as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="inspections.run", pass_context=True, retry=Retrying())
@_limited(_INSPECTION_S)
def run_inspection(context: JobContext, analysis_id: str) -> None:
    """Build a stack, measure it, and take the results in."""
    from api.jobs.inspections import run_inspection as work

    run(_workshop(context), analysis_id, work)


@tasks.task(name="packages.fetch", pass_context=True, retry=Retrying())
@_limited(_BULK_S)
def fetch_packages(
    context: JobContext,
    analysis_id: str | None = None,
    index: str | None = None,
    requirements: Sequence[str] = (),
    prereleases: bool = False,
) -> None:
    """Read packages from an index: what a person asked for, or what an advice lacks."""
    from api.jobs.fetching import fetch, fetch_asked

    if analysis_id is not None:
        run(_workshop(context), analysis_id, fetch_asked)
    else:
        fetch(_workshop(context).settings, index, requirements, prereleases=prereleases)


@tasks.task(name="graph.project", pass_context=True, retry=Retrying())
@_limited(_BULK_S)
def project_graph(context: JobContext) -> None:
    """Have the graph show what is recorded."""
    with _workshop(context).service.stores() as stores:
        sync(stores.engine, stores.driver, database=stores.database)


@tasks.task(name="cron.refresh", pass_context=True, retry=Retrying())
@_limited(_NIGHT_S)
def refresh_packages(context: JobContext, timestamp: int) -> None:
    """Ask the indexes what is new: ``thoth packages refresh``."""
    from ingest.crawl.runs import refresh

    _tell("refresh", refresh(_workshop(context).settings).as_json(), timestamp)


@tasks.task(name="cron.nightly", pass_context=True, retry=Retrying())
@_limited(_NIGHT_S)
def run_nightly(context: JobContext, timestamp: int) -> None:
    """Take in all sources: ``thoth ingest nightly``."""
    from ingest.runs import run_nightly as work

    settings = _workshop(context).settings
    places = [absolute_source(it) for it in settings.ingest_sources]
    _tell("nightly", work(settings, places, lambda: None).as_json(), timestamp)


@tasks.task(name="cron.advisories", pass_context=True, retry=Retrying())
@_limited(_NIGHT_S)
def sync_advisories(context: JobContext, timestamp: int) -> None:
    """Take in what is new in ``ADVISORIES``: ``thoth advisories sync``."""
    from ingest.advisories.runs import run_sync

    settings = _workshop(context).settings
    if settings.advisories is None:
        raise InvalidSettings("CRON_ADVISORIES: ADVISORIES is not set")
    place = absolute_source(settings.advisories)
    _tell("advisories", run_sync(settings, place, lambda: None).as_json(), timestamp)


@tasks.task(name="cron.prune", pass_context=True)
async def prune(context: JobContext, timestamp: int) -> None:
    """Delete what nobody needs any more: ended jobs, and uploads that were taken in."""
    from api.jobs.upkeep import prune as work

    await work(context.app, _workshop(context))


def _tell(name: str, report: dict[str, Any], timestamp: int) -> None:
    _LOG.info("cron_finished", extra={"cron": name, "due": timestamp, "report": report})


def _workshop(context: JobContext) -> Workshop:
    shared: dict[str, Any] = context.additional_context
    return cast(Workshop, shared[WORKSHOP])
