"""The state of the service and its nightly loop, and the age of its data."""

import shutil
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from marshmallow import Schema, fields, validate
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from sqlalchemy import Connection
from sqlalchemy import text as sql

from api.access import needs, wrote, wrote_nothing
from api.health.checks import readiness
from api.http.errors import ApiError, ProblemType
from api.http.request_context import reading
from api.http.schema_fields import (
    FreshnessSchema,
    bounded_text,
    count,
    described,
    json_object,
    moment,
    number,
    schema_of,
    text,
    texts,
)
from api.jobs.queue import NAMESPACE, QueueName
from api.jobs.tasks import schedules
from api.resources.base import INDEX_NAME, Resources, freshness, members
from api.store_access import service
from common import __version__
from common.index.configuration import index_of
from graph.record import analyses
from graph.record.access import Scope
from graph.record.analyses import RequestTimes
from graph.record.events import NoticeLag, notice_lag
from graph.record.freshness import (
    COUNTED,
    NEVER,
    SourceSuccess,
    lag_of,
    source_successes,
    source_times,
)
from graph.record.loop import ReleaseKey, ReleaseSource, add_releases_seen
from graph.record.quarantine import count_refusals
from graph.record.watches import watched_names
from loop.status import status_document

#: A worker without a heartbeat for this long is not counted.
ALIVE = timedelta(seconds=20)
_LARGEST_TABLES = sql(
    """
    SELECT relname AS name, pg_total_relation_size(oid) AS size_bytes
    FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
    ORDER BY size_bytes DESC, name LIMIT 5
    """
)
# The row of a job that succeeded is deleted.
_LAST_RUNS = sql(
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

    queue = text("Name of the queue.", "people")
    waiting = count("Number of jobs that are due now or within a minute.", 0)
    limit = count("Requests are refused while this number of jobs waits.", 200)


class RequestCountSchema(Schema):
    """Requests of the last day, and all that wait or run."""

    kind = text("Kind of request.", "adviser")
    state = text("State of the requests.", "succeeded")
    requests = count("Number of requests.", 12)


RequestTimesSchema = schema_of("RequestTimes", RequestTimes)
NoticeLagSchema = schema_of("NoticeLag", NoticeLag)


class LagSchema(Schema):
    """How far the graph is behind the record."""

    waiting = count("Number of changes that the graph does not contain yet.", 0)
    lag_s = number("How long the oldest of these changes has waited, s.", 0.0)


class DiskSchema(Schema):
    """The disk with the data of the service."""

    total_bytes = count("Size of the disk.", 64_000_000_000)
    free_bytes = count("Free space.", 20_000_000_000)


class TableSizeSchema(Schema):
    """One of the largest tables of PostgreSQL."""

    name = text("Name of the table.", "observations")
    size_bytes = count("Size with its indexes.", 8_192)


class ScheduleSchema(Schema):
    """Work that the workers start regularly."""

    task = text("Name of the task.", "cron.nightly")
    cron = text("Minute, hour, day, month and weekday, UTC.", "17 2 * * *")
    due_at = moment("When the task was due last; null if unknown.", null=True)
    state = text("State of that run; the state `finished` includes deleted jobs.", null=True)


class OperationSchema(FreshnessSchema):
    """The state of the running service."""

    status = text("`ready`, `degraded` or `unavailable`, as `/readyz` says.", "ready")
    version = text("Version of the service.", "0.1.0")
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
@needs(Scope.ADMIN, anonymous=False)
@blueprint.response(200, OperationSchema)
def get_operation() -> dict[str, Any]:
    """Get queues, workers, stores, disk and schedules, for the operator."""
    _, ready = readiness()
    queue, limit = service().queue, service().settings.queue_limit
    home = service().settings.home
    disk = shutil.disk_usage(home) if home.exists() else None
    with reading() as (connection, progress):
        lag = lag_of(connection, COUNTED)
        return {
            **ready,
            "workers": analyses.workers(connection, ALIVE),
            "queues": [
                {"queue": it.value, "waiting": queue.waiting(connection, it), "limit": limit}
                for it in QueueName
            ],
            "requests": [
                {"kind": kind, "state": state, "requests": requests}
                for kind, state, requests in analyses.states(connection)
            ],
            "times": [asdict(it) for it in analyses.times(connection)],
            "notices": asdict(notice_lag(connection)),
            "graph": {"waiting": lag.count, "lag_s": lag.oldest_s},
            "disk": disk and {"total_bytes": disk.total, "free_bytes": disk.free},
            "database_bytes": connection.scalar(sql("SELECT pg_database_size(current_database())")),
            "tables": [row._asdict() for row in connection.execute(_LARGEST_TABLES)],
            "schedules": _schedules(connection),
            **freshness(progress),
        }


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


class SourceKindSchema(Schema):
    """How current one kind of knowledge is."""

    kind = text(
        "What is read (`index`, `inspections`, `advisories`), verified (`record`, `graph`),"
        " finished (a night of the `loop`) or written (a complete `backup`).",
        "index",
    )
    sources = count("Number of its sources.", 1)
    read_at = moment(
        "Time of the last success (of several sources, the oldest); null if one never succeeded.",
        null=True,
    )


class ServiceStatusSchema(FreshnessSchema):
    """Version of the service and state of its graph."""

    version = text("Version of the service.", "0.1.0")
    asked_at = moment("Time of the last request to an index.", null=True)
    answered_at = moment("Time of the last answer of an index or advisory source.", null=True)
    sources = fields.List(fields.Nested(SourceKindSchema), required=True)
    quarantine = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(),
        required=True,
        metadata=described("Number of refused documents by reason.", {"invalid_json": 1}),
    )
    waiting = count("Number of changes that the graph does not contain yet.", 0)
    waiting_since = moment("When the oldest of these changes was recorded.", null=True)
    lag_s = number("Age of the oldest of these changes, s; 0 if nothing waits.", 0.0)


status_routes = Resources("status", __name__, description="State of the service.")


@status_routes.route("/status")
@needs(Scope.READ)
@status_routes.response(200, ServiceStatusSchema)
def get_status() -> dict[str, Any]:
    """Get the state of the service; reads PostgreSQL only."""
    with reading() as (connection, progress):
        behind, times = lag_of(connection, COUNTED), source_times(connection)
        successes, refusals = source_successes(connection), count_refusals(connection)
    return {
        "version": __version__,
        **members(times),
        "sources": _kinds(successes),
        "quarantine": refusals,
        "waiting": behind.count,
        "waiting_since": behind.since,
        "lag_s": behind.oldest_s,
        **freshness(progress),
    }


def _kinds(successes: Iterable[SourceSuccess]) -> list[dict[str, Any]]:
    """The sources by kind, without their addresses, which may name files of the operator."""
    times = defaultdict(list)
    for success in successes:
        times[success.kind].append(success.succeeded_at)
    return [
        {"kind": kind, "sources": len(ends), "read_at": None if NEVER in ends else min(ends)}
        for kind, ends in times.items()
    ]


class NightBudgetSchema(Schema):
    """The limits of a night."""

    jobs = count("Number of jobs.", 400)
    minutes = number("Time for measuring, minutes.", 240.0)


class LoopStatusSchema(FreshnessSchema):
    """The state of the loop; docs/guides/loop.md describes the fields."""

    budget = fields.Nested(NightBudgetSchema, required=True)
    releases = fields.List(
        json_object("State of a release."), metadata=described("Newest first.", [])
    )
    watches = fields.List(
        json_object("State of a watch."), metadata=described("Heaviest first.", [])
    )
    nights = fields.List(
        json_object("A night with its steps."), metadata=described("Newest first.", [])
    )


class ReportedReleaseSchema(Schema):
    """A release that came out."""

    name = bounded_text("Name of the package.", "numpy", 200, required=True)
    version = bounded_text("Version of the release.", "2.4.0", 100, required=True)
    index = INDEX_NAME


class ReportedReleasesSchema(Schema):
    """Releases that came out."""

    releases = fields.List(
        fields.Nested(ReportedReleaseSchema), required=True, validate=validate.Length(1, 100),
        metadata=described("Releases, oldest first.", [{"name": "numpy", "version": "2.4.0"}]),
    )  # fmt: skip


class NoticedReleasesSchema(Schema):
    """The reported releases that the loop noticed or ignored."""

    noticed = texts("Releases that the next night works on.", ["numpy==2.4.0"])
    ignored = count("Releases that are known, not watched, or beyond the backlog.", 0)


loop_routes = Resources("loop", __name__, description="The nightly loop.")


@loop_routes.route("/loop")
@needs(Scope.READ)
@loop_routes.response(200, LoopStatusSchema)
def get_loop() -> dict[str, Any]:
    """Get the states of releases and watched packages, and the last nights."""
    with reading() as (connection, progress):
        document = status_document(connection, limit=200)
    # Requests of others are private: a watched project is named to nobody here.
    packages = [it for it in document["watches"] if it["kind"] == "package"]
    settings = service().settings
    budget = {"jobs": settings.loop_jobs, "minutes": settings.loop_minutes}
    return {**document, "watches": packages, "budget": budget, **freshness(progress)}


@loop_routes.route("/loop/releases", methods=["POST"])
@needs(Scope.RELEASES)
@loop_routes.arguments(ReportedReleasesSchema)
@loop_routes.response(202, NoticedReleasesSchema)
def post_loop_releases(body: dict[str, Any]) -> dict[str, Any]:
    """Report releases that came out, so that the next night works on them."""
    stores = service()
    keys = [_key(number, it) for number, it in enumerate(body["releases"])]
    with stores.writing() as connection:
        names = watched_names(connection)
        new = add_releases_seen(
            connection, [it for it in keys if it.name in names], ReleaseSource.REQUEST,
            backlog=stores.settings.loop_backlog,
        )  # fmt: skip
    if new:
        wrote(new[0].subject if len(new) == 1 else f"{new[0].subject} and {len(new) - 1} more")
    else:
        wrote_nothing()
    return {"noticed": [it.subject for it in new], "ignored": len(keys) - len(new)}


def _key(number: int, release: dict[str, Any]) -> ReleaseKey:
    """:raises ApiError: 422 for an invalid version"""
    index = index_of(service().settings, release["index"]).name
    try:
        version = str(Version(release["version"]))
    except InvalidVersion as error:
        message = "not a version (PEP 440)"
        raise ApiError(
            422, ProblemType.INVALID_REQUEST, f"releases.{number}.version: {message}",
            errors={"json": {f"releases.{number}.version": [message]}},
        ) from error  # fmt: skip
    return ReleaseKey(index, str(canonicalize_name(release["name"])), version)
