"""Uploads as jobs: an archive's inspections are taken in, and what was refused is listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from filelock import FileLock, Timeout

from api.jobs.analysis_run import store_result
from api.jobs.queue import QueueJob, QueueName
from api.jobs.worker_context import WorkerContext
from common.errors import AlreadyRunning, DamagedDocument, InvalidArgument, InvalidDocument
from common.formats.json_documents import digest, digest_bytes
from common.reasons import Reason
from common.settings import Settings
from graph.record.analyses import Analysis
from graph.record.documents import body_of
from ingest.inspections.pipeline import ingest_inspections, read_inspections
from ingest.sources.documents import (
    MEBIBYTE,
    RefusedDocument,
    SourceLimits,
)

#: What is read of an upload; what an operator names has no such bounds.
LIMITS = SourceLimits(
    document_bytes=64 * MEBIBYTE, archive_bytes=2048 * MEBIBYTE, members=100_000, ratio=200.0
)
#: Refusals that a result lists; the rest is counted, and all are in the quarantine.
_LISTED = 100
#: How long to wait for another worker that takes in the same.
PATIENCE_S = 600.0

#: Has the graph show what was recorded; of these one waits at most.
PROJECT = QueueJob("graph.project", QueueName.BULK, key="graph.project", priority=10)
#: The same for what nobody waits to see there: one does for all of a second.
PROJECT_SOON = replace(PROJECT, key="graph.project-soon", delay_s=1)


def upload_id(analysis_id: str) -> str:
    """The identifier under which an upload waits.

    Not that of its content, for that is the identifier of the document that it may be; and each
    is kept as long as its own request needs it.
    """
    return digest(["upload", analysis_id])


def ingest_upload(worker: WorkerContext, analysis: Analysis, request: Mapping[str, Any]) -> str:
    """Take in the inspections of an upload.

    :returns: the identifier of the document that says what became of them
    :raises InvalidArgument: if the upload was deleted in the meantime, or is refused whole
    """
    with worker.service.reading() as connection:
        body = body_of(connection, worker.settings, upload_id(analysis.analysis_id))
    if body is None:
        raise InvalidArgument("the upload is not kept any more: send it again")
    if digest_bytes(body) != request["document_id"]:
        raise DamagedDocument(request["document_id"], "its body has another SHA-256")
    # The quarantine names the source: by its content, so that the same again mends it.
    name = request["document_id"].removeprefix("sha256:")
    path = worker.settings.home / "uploads" / f"{name}{request['suffix']}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(worker.settings, request["document_id"]):
        path.write_bytes(body)
        try:
            result = take_in(worker, str(path))
        finally:
            path.unlink(missing_ok=True)
    _refuse_whole(result)
    return store_result(worker, analysis, result)


def _refuse_whole(result: Mapping[str, Any]) -> None:
    """:raises InvalidArgument: if the upload itself was refused, or all of it left the archive"""
    refusals = result["refusals"]
    nothing = not result["new"] + result["known"]
    leaving = nothing and all(it["reason"] == Reason.ARCHIVE_PATH for it in refusals)
    found = next((it for it in refusals if not it["place"] or leaving), None)
    if found is None:
        return
    at = ", ".join(filter(None, (found["place"], found["field"])))
    words = f"the upload is refused: {found['reason']}: {at + ': ' if at else ''}{found['message']}"
    taken = "" if nothing else f" ({result['new']} inspections before it were taken in)"
    raise InvalidArgument(words + taken)


def lock_of(settings: Settings, content: str) -> FileLock:
    """What a worker holds while the content with a digest is in a file of this machine.

    A lock of the machine's, as the file is: it goes with the process that holds it, and does not
    go with PostgreSQL. Contents whose digests begin alike share one, so that there are few.
    """
    name = content.removeprefix("sha256:")[:2]
    return FileLock(settings.home / "uploads" / f"{name}.lock", timeout=PATIENCE_S, mode=0o600)


@contextmanager
def _alone(settings: Settings, content: str) -> Iterator[None]:
    """Wait for another worker that takes in the same content, in the same file.

    :raises AlreadyRunning: if that takes too long
    """
    try:
        with lock_of(settings, content):
            yield
    except Timeout:
        raise AlreadyRunning("the same upload is taken in") from None


def take_in(worker: WorkerContext, source: str) -> dict[str, Any]:
    """Take in all inspections of a file or folder of this machine, and have the graph follow."""
    with worker.service.relational() as stores:
        report = ingest_inspections(worker.settings, stores.engine, [source], LIMITS)
    if report.new:
        with worker.service.writing() as connection:
            worker.service.queue.enqueue(connection, PROJECT)
    return {**report.as_json(), "refusals": _refusals(source) if report.quarantined else []}


def _refusals(source: str) -> list[dict[str, str]]:
    """Why documents of a source are refused, in its order."""
    found = []
    for batch in read_inspections([source], LIMITS):
        found += [_told(it) for it in batch.refusals]
        if len(found) >= _LISTED:
            break
    return found[:_LISTED]


def _told(refusal: RefusedDocument) -> dict[str, str]:
    error: InvalidDocument = refusal.error
    return {
        "place": refusal.place,
        "reason": str(error.reason),
        "field": error.field,
        "message": error.message,
    }
