"""The tasks of workers, under the names that jobs are enqueued with, and their schedules."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import wraps
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, cast

import procrastinate
from procrastinate import Blueprint, JobContext, RetryDecision, utils
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.periodic import PeriodicDeferrer, PeriodicRegistry
from procrastinate.retry import BaseRetryStrategy

from adviser.exports.parquet import export_nightly
from api.health.monitoring import job_span
from api.jobs.queue import BULK_S, NAMESPACE, REQUEST_WORK, QueueJob, QueueName
from api.jobs.request_run import (
    LONGEST_PAUSE_S,
    MAX_ATTEMPTS,
    PASSING,
    SHORTEST_PAUSE_S,
    Postponed,
    Work,
    WorkerContext,
    run,
)
from api.jobs.upkeep import prune as prune_all
from common.settings import Settings
from common.tracing import TRACEPARENT
from graph.embedded.home import disk_errors
from graph.projection import sync
from ingest.advisories.sync import run_sync
from ingest.crawl.runs import packages_document, refresh
from ingest.runs import run_nightly as ingest_nightly
from loop.night import run_night
from loop.notices import deliver_notices
from loop.pack_exchange import read_followed_addresses
from model.errors import InvalidSettings, StoreUnavailable
from model.redaction import absolute_source

P = ParamSpec("P")

#: Limit of the nightly jobs.
_NIGHT_S = 24 * 3600.0
#: Far longer than a round of deliveries.
_NOTICES_S = 600.0
#: Sends the notices of events that a job has recorded. A round takes seconds, and a bulk job hours.
NOTICES = QueueJob(
    "cron.notices", QueueName.PEOPLE, {"timestamp": 0}, key="cron.notices", priority=-10
)
#: Key under which tasks get the context of their worker.
CONTEXT = "worker"

_LOG = logging.getLogger(__name__)


class RetryPolicy(BaseRetryStrategy):
    """Retries postponed jobs; retries jobs with temporary errors a bounded number of times."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        """Retry after the requested delay, or after 1, 4, 9 … seconds."""
        if isinstance(exception, Postponed):
            return RetryDecision(retry_in={"seconds": exception.delay_s})
        if not isinstance(exception, PASSING) or job.attempts + 1 >= MAX_ATTEMPTS:
            return None
        return RetryDecision(retry_in={"seconds": (job.attempts + 1) ** 2})


blueprint = Blueprint()

Task = Callable[Concatenate[JobContext, P], None]


def _task(name: str, limit_s: float) -> Callable[[Task[P]], Task[P]]:
    """Turn a function into a task; a worker that runs it for longer than ``limit_s`` exits."""

    def decorate(work: Task[P]) -> Task[P]:
        @wraps(work)
        def watched(context: JobContext, /, *args: P.args, **kwargs: P.kwargs) -> None:
            trace = cast(str | None, kwargs.pop(TRACEPARENT, None))
            queue = context.job.queue
            with _worker(context).watch.over(name, limit_s), job_span(name, queue, trace):
                try:
                    with disk_errors():
                        work(context, *args, **kwargs)
                except (Postponed, *PASSING):
                    if not _another_waits(context):
                        raise

        blueprint.task(name=name, pass_context=True, retry=RetryPolicy())(watched)
        return watched

    return decorate


def _another_waits(context: JobContext) -> bool:
    """Whether another job with the same key waits; that job will do the same work."""
    key, service = context.job.queueing_lock, _worker(context).service
    if key is None:
        return False
    try:
        with service.reading() as connection:
            return service.queue.is_waiting(connection, key)
    except StoreUnavailable:
        return False


def _answering(function: str) -> Task[[str]]:
    """The task that answers a request with a function of :class:`api.jobs.queue.RequestWork`."""

    def answer(context: JobContext, analysis_id: str) -> None:
        module, _, name = function.partition(":")
        work: Work = getattr(import_module(module), name)
        try:
            with disk_errors():
                job = context.job
                run(_worker(context), analysis_id, work, job.id or 0, job.attempts + 1)
        except StoreUnavailable as error:  # while the state of the analysis was read or written
            raise _postponed(context, error, SHORTEST_PAUSE_S) from error

    return answer


for _work in REQUEST_WORK.values():
    _task(_work.task, _work.limit_s)(_answering(_work.function))


@_task("graph.project", BULK_S)
def project_graph(context: JobContext) -> None:
    """Project the record into the graph; if the graph is unavailable, wait without a time limit.

    It does not wait for another projector, so that this worker can do other jobs.
    """
    service = _worker(context).service
    try:
        with disk_errors(), service.stores() as stores:
            sync(
                stores.engine, stores.driver, database=stores.database,
                wait_s=0.0, may_rebuild=service.settings.graph_rebuild,
            )  # fmt: skip
    except StoreUnavailable as error:
        pause_s = SHORTEST_PAUSE_S if error.transient else LONGEST_PAUSE_S
        raise _postponed(context, error, pause_s) from error


@_task("cron.refresh", _NIGHT_S)
def refresh_packages(context: JobContext, timestamp: int) -> None:
    """Fetch new releases from the indexes, as ``thoth packages refresh`` does."""
    _log_report("refresh", packages_document(refresh(_worker(context).settings)), timestamp)


@_task("cron.nightly", _NIGHT_S)
def run_nightly(context: JobContext, timestamp: int) -> None:
    """Ingest all sources, as ``thoth ingest nightly`` does."""
    settings = _worker(context).settings
    places = [absolute_source(it) for it in settings.ingest_sources]
    outcome = ingest_nightly(
        settings, places, lambda: None, export_nightly, read_packs=read_followed_addresses
    )
    _log_report("nightly", outcome.as_json(**outcome.report.as_json()), timestamp)


@_task("cron.advisories", _NIGHT_S)
def sync_advisories(context: JobContext, timestamp: int) -> None:
    """Ingest new advisories of ``ADVISORIES``, as ``thoth advisories sync`` does."""
    settings = _worker(context).settings
    if settings.advisories is None:
        raise InvalidSettings("CRON_ADVISORIES: ADVISORIES is not set")
    place = absolute_source(settings.advisories)
    outcome = run_sync(settings, place, lambda: None)
    _log_report("advisories", outcome.as_json(advisories=outcome.report.as_json()), timestamp)


@_task("cron.loop", _NIGHT_S)
def run_loop(context: JobContext, timestamp: int) -> None:
    """Run a night of the loop, as ``thoth loop run`` does."""
    worker = _worker(context)
    report = run_night(worker.settings, worker.resolver.resolve)
    counts = {it.step: dict(it.output) for it in report.steps}
    _log_report("loop", {"night": report.night, "problem": report.problem, **counts}, timestamp)


@_task("cron.notices", _NOTICES_S)
def send_notices(context: JobContext, timestamp: int) -> None:
    """Write the notices of new events, and send due notices."""
    worker = _worker(context)
    counts = deliver_notices(worker.service.engine, worker.settings)
    for target, reason in counts.unusable.items():
        _LOG.error("notice_target_unusable", extra={"target": target, "error": reason})
    if counts.planned or counts.delivered or counts.failed or counts.given_up:
        _log_report("notices", asdict(counts), timestamp)


@blueprint.task(name="cron.prune", pass_context=True)
async def prune(context: JobContext, timestamp: int) -> None:
    """Delete expired data: ended jobs, ingested uploads, old requests."""
    await prune_all(context.app, _worker(context))


def _log_report(name: str, report: dict[str, Any], timestamp: int) -> None:
    _LOG.info("cron_finished", extra={"cron": name, "due": timestamp, "report": report})


def _postponed(context: JobContext, error: StoreUnavailable, delay_s: int) -> Postponed:
    """Uncount the attempt if PostgreSQL answers, and return the error that postpones the job."""
    # A transient one is not away: another process projects, or another transaction came first.
    level = logging.INFO if error.transient else logging.WARNING
    _LOG.log(level, "store_away", extra={"error": str(error)})
    service = _worker(context).service
    with suppress(StoreUnavailable), service.writing() as connection:
        service.queue.uncount(connection, context.job.id or 0)
    return Postponed(delay_s)


def _worker(context: JobContext) -> WorkerContext:
    shared: dict[str, Any] = context.additional_context
    return cast(WorkerContext, shared[CONTEXT])


_NOW = "SELECT now() AS now"
#: Longest pause between two looks at the clock of PostgreSQL, s.
_CLOCK_INTERVAL_S = 30.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task that is enqueued regularly.

    :param cron: minute, hour, day, month and weekday in UTC
    """

    task: str
    cron: str
    queue: QueueName


def schedules(settings: Settings) -> Iterator[Schedule]:
    """The schedules; a task that reads other services is scheduled only if its setting exists."""
    yield Schedule("cron.prune", "17 * * * *", QueueName.BULK)
    for task, cron in (
        ("cron.refresh", settings.cron_refresh),
        ("cron.nightly", settings.cron_nightly),
        ("cron.advisories", settings.cron_advisories),
    ):
        if cron is not None:
            yield Schedule(task, cron, QueueName.BULK)
    if settings.webhooks or settings.notice_targets:
        yield Schedule(NOTICES.task, "* * * * *", NOTICES.queue)
    if settings.cron_loop is not None:
        # The night measures, so it must not run beside submitted inspections.
        yield Schedule("cron.loop", settings.cron_loop, QueueName.INSPECTIONS)


def scheduled_tasks(app: procrastinate.App, settings: Settings) -> PeriodicRegistry:
    """The tasks of ``app`` with their schedules; at most one job of each task waits."""
    registry = PeriodicRegistry()  # type: ignore[no-untyped-call]
    for schedule in schedules(settings):
        registry.register_task(
            task=app.tasks[f"{NAMESPACE}:{schedule.task}"],
            cron=schedule.cron,
            periodic_id="",
            configure_kwargs={"queue": schedule.queue.value, "queueing_lock": schedule.task},
        )
    return registry


async def keep_scheduling(app: procrastinate.App, registry: PeriodicRegistry) -> None:
    """Enqueue the tasks that are due; other workers may do the same at the same time."""
    deferrer = PeriodicDeferrer(registry)
    while True:
        now = (await _database_now(app.job_manager)).timestamp()
        await deferrer.defer_jobs(deferrer.get_previous_tasks(at=now))
        await asyncio.sleep(min(_CLOCK_INTERVAL_S, deferrer.get_next_tick(at=now)))


class DatabaseClockManager(JobManager):
    """Postpones jobs by the clock of PostgreSQL, and reports when a worker looks for a job."""

    before_fetch: Callable[[], None] = staticmethod(lambda: None)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """The next job, if there is one."""
        self.before_fetch()
        return await super().fetch_job(queues, worker_id)

    async def retry_job_by_id_async(
        self,
        job_id: int,
        retry_at: datetime,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Let a job be tried again after the time from now to ``retry_at`` on this machine."""
        delay = retry_at - utils.utcnow()
        due = await _database_now(self) + delay
        await super().retry_job_by_id_async(job_id, due, priority, queue, lock)


async def _database_now(manager: JobManager) -> datetime:
    row = await manager.connector.execute_query_one_async(_NOW)
    return cast(datetime, row["now"])
