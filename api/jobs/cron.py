"""What is enqueued by the clock: by whichever worker is first, once each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import procrastinate

from api.jobs.queue import NAMESPACE, QueueName
from common.settings import Settings


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a task is due.

    :param cron: minute, hour, day, month and weekday in UTC
    """

    task: str
    cron: str
    queue: QueueName


def schedules(settings: Settings) -> Iterator[Schedule]:
    """What is due when; reading from others is off unless a setting says when."""
    yield Schedule("cron.prune", "17 * * * *", QueueName.BULK)
    for task, cron in (
        ("cron.refresh", settings.cron_refresh),
        ("cron.nightly", settings.cron_nightly),
        ("cron.advisories", settings.cron_advisories),
    ):
        if cron is not None:
            yield Schedule(task, cron, QueueName.BULK)


def register(app: procrastinate.App, settings: Settings) -> None:
    """Have the workers of ``app`` enqueue what is due; of each task one waits at most."""
    for it in schedules(settings):
        name = f"{NAMESPACE}:{it.task}"
        decorate = app.periodic(cron=it.cron, queue=it.queue.value, queueing_lock=it.task)
        decorate(app.tasks[name])
