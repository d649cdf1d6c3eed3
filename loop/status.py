"""The state of the loop as JSON values, for the command and the service."""

from collections.abc import Sequence
from typing import Any

import orjson
from sqlalchemy import Connection

from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.advice import report_document_of
from graph.record.documents import body_of
from graph.record.events import advice_changed_since
from graph.record.loop import (
    BatchState,
    LoopBatch,
    LoopRelease,
    LoopState,
    Night,
    batches_in,
    batches_of_night,
    latest_nights,
    latest_releases,
    releases_in,
    steps_of,
)
from graph.record.watches import AdviceWatch, watches
from loop.notice_messages import version_step
from model.json_documents import as_json_time
from model.text import first_few

_NIGHTS = 10
#: Packages and releases that a line of a summary names at most.
_NAMED = 3


def status_document(connection: Connection, limit: int = 1000) -> dict[str, Any]:
    """States of releases, newest first, of watches, and of the last nights.

    :param limit: largest number of releases
    """
    running = batches_in(connection, [BatchState.PLANNED])
    return {
        "releases": [_release_values(it, running) for it in latest_releases(connection, limit)],
        "watches": [_watch_values(it, running) for it in watches(connection)],
        "nights": [_night_values(connection, it) for it in latest_nights(connection, _NIGHTS)],
    }


def _release_values(release: LoopRelease, running: Sequence[LoopBatch]) -> dict[str, Any]:
    """:param running: batches that have not ended; their stacks run in turns"""
    now = sum(
        batch.measured_jobs // len(batch.stacks)
        for batch in running
        if any(release.key.subject in stack["releases"] for stack in batch.stacks)
    )
    return {
        "subject": release.key.subject,
        "index": release.key.index,
        "name": release.key.name,
        "version": release.key.version,
        "source": release.source.value,
        "state": release.state.value,
        "reason": release.reason,
        "measured_jobs": release.measured_jobs + now,
        "planned_jobs": release.planned_jobs,
        "nights": release.nights,
        "seen_at": as_json_time(release.seen_at),
        "state_at": as_json_time(release.state_at),
    }


def _watch_values(watch: AdviceWatch, running: Sequence[LoopBatch]) -> dict[str, Any]:
    now = sum(it.measured_jobs for it in running if it.watch_id == watch.watch_id)
    return {
        "subject": watch.name,
        "watch_id": watch.watch_id,
        "kind": watch.kind.value,
        "state": watch.state.value,
        "reason": watch.reason,
        "measured_jobs": watch.measured_jobs + now,
        "planned_jobs": watch.planned_jobs,
        "advice_id": watch.advice_id,
        "state_at": as_json_time(watch.state_at),
    }


def _night_values(connection: Connection, night: Night) -> dict[str, Any]:
    return {
        "night": night.night,
        "state": night.state.value,
        "reason": night.reason,
        "began_at": as_json_time(night.began_at),
        "ended_at": night.ended_at and as_json_time(night.ended_at),
        "steps": {
            step.step: {
                "finished": step.finished,
                "attempts": step.attempts,
                "reason": step.reason,
                "counts": dict(step.output),
            }
            for step in steps_of(connection, night.night)
        },
        "batches": [
            {
                "batch_id": batch.batch_id,
                "indicator": batch.indicator,
                "state": batch.state.value,
                "reason": batch.reason,
                "jobs": batch.jobs,
                "measured_jobs": batch.measured_jobs,
                "report": batch.report,
            }
            for batch in batches_of_night(connection, night.night)
        ],
    }


def morning_summary(connection: Connection, settings: Settings) -> list[list[str]]:
    """Five lines for each watch: its advice, why, new releases, measurements, and next steps."""
    night = next(iter(latest_nights(connection, 1)), None)
    batches = batches_of_night(connection, night.night) if night else []
    releases = latest_releases(connection)
    return [
        _watch_summary(connection, settings, watch, night, batches, releases)
        for watch in watches(connection)
    ]


def _watch_summary(
    connection: Connection,
    settings: Settings,
    watch: AdviceWatch,
    night: Night | None,
    batches: Sequence[LoopBatch],
    releases: Sequence[LoopRelease],
) -> list[str]:
    since = night and night.began_at
    steps = advice_changed_since(connection, watch.name, since) if since else []
    advice = "the advice stays as it is" if watch.advice_id else "no advice yet"
    if steps:
        advice = f"the advice has changed: {first_few(list(map(version_step, steps)), _NAMED)}"
    news = [
        f"{it.key.name} {it.key.version} ({it.state.value.replace('_', ' ')})"
        for it in releases
        if it.key.name in watch.closure
        and not (it.state.is_terminal and since and it.state_at < since)
    ]
    own = [it for it in batches if it.watch_id == watch.watch_id]
    measured = "nothing in the last night"
    if own:
        indicators = ", ".join(sorted({it.indicator for it in own}))
        jobs = f"{sum(it.measured_jobs for it in own)} of {sum(it.jobs for it in own)} jobs"
        where = watch.request.get("hardware_name")
        measured = f"{jobs} of {indicators}{f' on {where}' if where else ''}"
    waits = [it.reason for it in own if it.state is BatchState.PLANNED and it.reason]
    waits += [] if watch.advice_id else ["a night computes the first advice: `thoth loop run`"]
    return [
        f"{watch.name}: {advice}",
        f"  why           {_reason(connection, settings, watch)}",
        f"  new releases  {first_few(news, _NAMED) or 'none'}",
        f"  measured      {measured}",
        f"  next          {'; '.join(filter(None, [watch.reason, *waits])) or 'nothing waits'}",
    ]


def _reason(connection: Connection, settings: Settings, watch: AdviceWatch) -> str:
    """The first sentences of the last advice."""
    document = watch.advice_id and report_document_of(connection, watch.advice_id)
    body = body_of(connection, settings, document) if document else None
    if body is None:
        return "not known yet"
    result = orjson.loads(body)["result"]
    return result["report"].get("summary") or result["error_msg"] or "no stack is better"


def is_idle(settings: Settings) -> tuple[bool, tuple[Any, ...]]:
    """Whether no release and no batch waits for another night, and the waiting ones.

    :returns: the second value changes whenever a night makes progress
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        states = [it for it in LoopState if not it.is_terminal]
        releases = [(it.key, it.state, it.nights) for it in releases_in(connection, states)]
        batches = [it.batch_id for it in batches_in(connection, [BatchState.PLANNED])]
    return not releases and not batches, (*releases, *batches)
