"""What workers enqueue regularly, and when jobs are due: by the clock of PostgreSQL.

The clocks of servers and workers may be wrong. A job that such a worker put off for a few seconds
could wait for a year, and, by its key, prevent any other job of its kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

import procrastinate
from procrastinate import utils
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from procrastinate.periodic import PeriodicDeferrer, PeriodicRegistry

from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import NOTICES
from common.settings import Settings

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
    """Puts jobs off by the clock of PostgreSQL, and tells when a worker looks for a job."""

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
