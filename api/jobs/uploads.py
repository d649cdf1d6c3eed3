"""Uploads as jobs: an archive's inspections are taken in, and what was refused is listed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from api.jobs.queue import Job, QueueName
from api.jobs.results import store_result
from api.jobs.workshop import Workshop
from common.errors import AlreadyRunning, InvalidArgument, InvalidDocument
from common.inspection import digest
from graph.repositories.analyses import Analysis
from graph.repositories.documents import body_of
from ingest.documents import MEBIBYTE, Limits, Refusal
from ingest.pipeline import ingest_inspections, read_inspections
from ingest.record import only_one

#: What is read of an upload; what an operator names has no such bounds.
LIMITS = Limits(
    document_bytes=64 * MEBIBYTE, archive_bytes=2048 * MEBIBYTE, members=100_000, ratio=200.0
)
#: Refusals that a result lists; the rest is counted, and all are in the quarantine.
_LISTED = 100
#: How long to wait for another worker that takes in the same.
PATIENCE_S = 600.0
_PAUSE_S = 0.5

#: Has the graph show what was recorded; of these one waits at most.
PROJECT = Job("graph.project", QueueName.BULK, key="graph.project", priority=10)
#: The same for what nobody waits to see there: one does for all of a second.
PROJECT_SOON = replace(PROJECT, key="graph.project-soon", delay_s=1)


def upload_id(analysis_id: str) -> str:
    """The identifier under which an upload waits.

    Not that of its content, for that is the identifier of the document that it may be; and each
    is kept as long as its own request needs it.
    """
    return digest(["upload", analysis_id])


def ingest_upload(shop: Workshop, analysis: Analysis, request: Mapping[str, Any]) -> str:
    """Take in the inspections of an upload.

    :returns: the identifier of the document that says what became of them
    :raises InvalidArgument: if the upload was deleted in the meantime
    """
    with shop.service.reading() as connection:
        body = body_of(connection, shop.settings, upload_id(analysis.analysis_id))
    if body is None:
        raise InvalidArgument("the upload is not kept any more: send it again")
    # The quarantine names the source: by its content, so that the same again mends it.
    name = request["document_id"].removeprefix("sha256:")
    path = shop.settings.home / "uploads" / f"{name}{request['suffix']}"
    with _alone(shop, request["document_id"]):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        try:
            result = take_in(shop, str(path))
        finally:
            path.unlink(missing_ok=True)
    return store_result(shop, analysis, result)


def lock_of(content: str) -> int:
    """The key of the lock for the content with a digest."""
    return int.from_bytes(bytes.fromhex(content.removeprefix("sha256:"))[:8], signed=True)


@contextmanager
def _alone(shop: Workshop, content: str) -> Iterator[None]:
    """Wait for another worker that takes in the same content, in the same file.

    :raises AlreadyRunning: if that takes too long
    """
    key = lock_of(content)
    until = time.monotonic() + PATIENCE_S
    with ExitStack() as held, shop.service.relational() as stores:
        while True:
            try:
                held.enter_context(only_one(stores.engine, key, "the same upload is taken in"))
                break
            except AlreadyRunning:
                if time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE_S)
        yield


def take_in(shop: Workshop, source: str) -> dict[str, Any]:
    """Take in all inspections of a file or folder of this machine, and have the graph follow."""
    with shop.service.relational() as stores:
        report = ingest_inspections(shop.settings, stores.engine, [source], LIMITS)
    if report.new:
        with shop.service.writing() as connection:
            shop.service.queue.enqueue(connection, PROJECT)
    return {**report.as_json(), "refusals": _refusals(source) if report.quarantined else []}


def _refusals(source: str) -> list[dict[str, str]]:
    """Why documents of a source are refused, in its order."""
    found = []
    for batch in read_inspections([source], LIMITS):
        found += [_told(it) for it in batch.refusals]
        if len(found) >= _LISTED:
            break
    return found[:_LISTED]


def _told(refusal: Refusal) -> dict[str, str]:
    error: InvalidDocument = refusal.error
    return {
        "place": refusal.place,
        "reason": str(error.reason),
        "field": error.field,
        "message": error.message,
    }
