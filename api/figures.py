"""Figures that the stores know, read when Prometheus asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import Connection

from api.jobs.queue import QueueName
from api.service import Service
from common.errors import ProjectError
from graph.record.analyses import (
    states,
    times,
    workers,
)
from graph.record.freshness import backlog

#: As long as a worker may be silent before its jobs are others'.
_ALIVE = timedelta(seconds=20)


class StoreFigures(Collector):
    """The queue, the projection and the requests; only whether it answers if PostgreSQL is away."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Everything, with one connection."""
        try:
            with self._service.reading() as connection:
                found = [*self._waiting(connection), *_analyses(connection)]
        except ProjectError:
            found = []
        up = GaugeMetricFamily("thoth_record_up", "Whether PostgreSQL answers.")
        up.add_metric([], 1.0 if found else 0.0)
        yield from (up, *found)

    def _waiting(self, connection: Connection) -> Iterator[Metric]:
        jobs = GaugeMetricFamily("thoth_queue_jobs", "Jobs that wait.", labels=["queue"])
        for name in QueueName:
            jobs.add_metric([name.value], self._service.queue.waiting(connection, name))
        yield jobs
        behind = backlog(connection)
        yield GaugeMetricFamily(
            "thoth_outbox_entries", "Entries of the record that the graph does not show.",
            value=behind.waiting,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "thoth_outbox_age_seconds", "How long the oldest of them has waited.",
            value=behind.lag_s,
        )  # fmt: skip
        yield GaugeMetricFamily(
            "thoth_workers", "Workers that gave a sign of life within 20 seconds.",
            value=workers(connection, _ALIVE),
        )  # fmt: skip


def _analyses(connection: Connection) -> Iterator[Metric]:
    number = GaugeMetricFamily(
        "thoth_analyses", "Requests of the last day, and all that wait or run.",
        labels=["kind", "state"],
    )  # fmt: skip
    for kind, state, count in states(connection):
        number.add_metric([kind, state], count)
    yield number
    labels = ["kind", "quantile"]
    waited = GaugeMetricFamily(
        "thoth_analysis_wait_seconds", "How long requests of the last day waited.", labels=labels
    )
    ran = GaugeMetricFamily(
        "thoth_analysis_run_seconds", "How long a worker took for them.", labels=labels
    )
    for it in times(connection):
        for place, quantile in enumerate(("0.5", "0.99")):
            waited.add_metric([it.kind, quantile], it.waited_s[place])
            ran.add_metric([it.kind, quantile], it.ran_s[place])
    yield from (waited, ran)
