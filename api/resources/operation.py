"""How the service runs: queues, workers, stores, disk, and what its schedules did last."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from flask.views import MethodView
from marshmallow import Schema, fields
from sqlalchemy import Connection, text

from api.access.authentication import needs
from api.health.checks import readiness
from api.http.paging import freshness
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    count,
    json_object,
    moment,
    number,
    schema_of,
)
from api.http.schema_fields import text as string
from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.schedules import schedules
from api.resources.base import Resources
from api.service import service
from graph.record import analyses
from graph.record.analyses import RequestTimes
from graph.record.freshness import COUNTED, lag_of
from graph.record.notices import NoticeLag, notice_lag
from graph.record.tokens import Scope

#: A worker without a heartbeat for this long is not counted.
ALIVE = timedelta(seconds=20)
_LARGEST_TABLES = text(
    """
    SELECT relname AS name, pg_total_relation_size(oid) AS size_bytes
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    ORDER BY size_bytes DESC, name LIMIT 5
    """
)
# The row of a job that succeeded is deleted.
_LAST_RUNS = text(
    """
    SELECT DISTINCT ON (defer.task_name)
        defer.task_name, to_timestamp(defer.defer_timestamp) AS due_at,
        CASE job.status WHEN 'todo' THEN 'waiting' WHEN 'doing' THEN 'running'
            WHEN 'failed' THEN 'failed' ELSE 'finished' END AS state
    FROM procrastinate_periodic_defers AS defer
    LEFT JOIN procrastinate_jobs AS job ON job.id = defer.job_id
    ORDER BY defer.task_name, defer.defer_timestamp DESC
    """
)


class QueueSchema(Schema):
    """A queue of jobs."""

    queue = string("Name of the queue.", "people")
    waiting = count("Number of jobs that are due now or within a minute.", 0)
    limit = count("Requests are refused while this number of jobs waits.", 200)


class RequestCountSchema(Schema):
    """Requests of the last day, and all that wait or run."""

    kind = string("Kind of request.", "adviser")
    state = string("State of the requests.", "succeeded")
    requests = count("Number of them.", 12)


RequestTimesSchema = schema_of("RequestTimes", RequestTimes)
NoticeLagSchema = schema_of("NoticeLag", NoticeLag)


class LagSchema(Schema):
    """How far the graph is behind the record."""

    waiting = count("Number of changes that the graph does not contain yet.", 0)
    lag_s = number("How long the oldest of them has waited, s.", 0.0)


class DiskSchema(Schema):
    """The disk with the data of the service."""

    total_bytes = count("Size of the disk.", 64_000_000_000)
    free_bytes = count("Free space.", 20_000_000_000)


class TableSizeSchema(Schema):
    """One of the largest tables of PostgreSQL."""

    name = string("Name of the table.", "observations")
    size_bytes = count("Size with its indexes.", 8_192)


class ScheduleSchema(Schema):
    """Work that the workers start regularly."""

    task = string("Name of the task.", "cron.nightly")
    cron = string("Minute, hour, day, month and weekday, UTC.", "17 2 * * *")
    due_at = moment("When it was due last; null if that has not been seen.", null=True)
    state = string("State of that run; the state `finished` includes deleted jobs.", null=True)


class OperationSchema(FreshnessSchema):
    """How the service runs."""

    status = string("`ready`, `degraded` or `unavailable`, as `/readyz` says.", "ready")
    version = string("Version of the service.", "0.1.0")
    checks = json_object("PostgreSQL, the graph and workers, as `/readyz` checks them.")
    workers = count("Number of workers with a heartbeat within 20 seconds.", 3)
    queues = fields.List(fields.Nested(QueueSchema), required=True)
    requests = fields.List(fields.Nested(RequestCountSchema), required=True)
    times = fields.List(fields.Nested(RequestTimesSchema), required=True)
    notices = fields.Nested(NoticeLagSchema, required=True)
    graph = fields.Nested(LagSchema, required=True)
    disk = fields.Nested(DiskSchema, required=True, allow_none=True)
    database_bytes = count("Size of the database in PostgreSQL.", 9_000_000)
    tables = fields.List(fields.Nested(TableSizeSchema), required=True)
    schedules = fields.List(fields.Nested(ScheduleSchema), required=True)


blueprint = Resources("operation", __name__, description="How the service runs.")


@blueprint.route("/operation")
class OperationResource(MethodView):
    @needs(Scope.ADMIN, anonymous=False)
    @blueprint.response(200, OperationSchema)
    def get(self) -> dict[str, Any]:
        """Get queues, workers, stores, disk and schedules, for the operator."""
        _, ready = readiness()
        with reading() as (connection, progress):
            lag = lag_of(connection, COUNTED)
            return {
                **ready,
                "workers": analyses.workers(connection, ALIVE),
                "queues": _queues(connection),
                "requests": [
                    {"kind": kind, "state": state, "requests": requests}
                    for kind, state, requests in analyses.states(connection)
                ],
                "times": [asdict(it) for it in analyses.times(connection)],
                "notices": asdict(notice_lag(connection)),
                "graph": {"waiting": lag.count, "lag_s": lag.oldest_s},
                "disk": _disk(),
                "database_bytes": connection.scalar(
                    text("SELECT pg_database_size(current_database())")
                ),
                "tables": [row._asdict() for row in connection.execute(_LARGEST_TABLES)],
                "schedules": _schedules(connection),
                **freshness(progress),
            }


def _queues(connection: Connection) -> list[dict[str, Any]]:
    queue, limit = service().queue, service().settings.queue_limit
    return [
        {"queue": name.value, "waiting": queue.waiting(connection, name), "limit": limit}
        for name in QueueName
    ]


def _schedules(connection: Connection) -> list[dict[str, Any]]:
    """The schedules of this service's settings, each with its last run."""
    last_runs = {row.task_name: row for row in connection.execute(_LAST_RUNS)}
    documents = []
    for schedule in schedules(service().settings):
        last = last_runs.get(f"{NAMESPACE}:{schedule.task}")
        documents.append({
            "task": schedule.task, "cron": schedule.cron,
            "due_at": last and last.due_at, "state": last and last.state,
        })  # fmt: skip
    return documents


def _disk() -> dict[str, int] | None:
    """The disk of the home folder; ``None`` if this machine has no such folder."""
    home = service().settings.home
    if not home.exists():
        return None
    usage = shutil.disk_usage(home)
    return {"total_bytes": usage.total, "free_bytes": usage.free}
