"""The state of the loop as JSON values, for the command and the service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from common.releases import as_json_time
from common.settings import Settings
from graph.migrate import migrated_stores
from graph.record.loop import (
    BatchState,
    LoopBatch,
    LoopRelease,
    LoopState,
    Night,
    batches_in,
    batches_of_night,
    latest_nights,
    releases_in,
    steps_of,
)
from graph.record.watches import AdviceWatch, watches

_NIGHTS = 10


def status_document(connection: Connection, limit: int = 1000) -> dict[str, Any]:
    """States of releases, newest first, of watches, and of the last nights.

    :param limit: largest number of releases
    """
    running = batches_in(connection, [BatchState.PLANNED])
    return {
        "releases": [_release_values(it, running) for it in releases_in(connection, limit=limit)],
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
        "state": night.state,
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


def is_idle(settings: Settings) -> tuple[bool, tuple[Any, ...]]:
    """Whether no release and no batch waits for another night, and what waits.

    :returns: the second value changes whenever a night makes progress
    """
    with migrated_stores(settings, graph=False) as stores, stores.engine.connect() as connection:
        states = [it for it in LoopState if not it.is_terminal]
        releases = [(it.key, it.state, it.nights) for it in releases_in(connection, states)]
        batches = [it.batch_id for it in batches_in(connection, [BatchState.PLANNED])]
    return not releases and not batches, (*releases, *batches)
