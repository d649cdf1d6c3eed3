"""Jobs that ingest uploads: the inspections of an archive, with a list of refused documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from filelock import FileLock, Timeout

from api.jobs.queue import PROJECT
from api.jobs.request_run import store_result
from api.jobs.worker_context import WorkerContext
from common.private_folders import private_folder
from common.settings import Settings
from graph.record.analyses import Analysis
from graph.record.documents import body_of
from ingest.inspections.pipeline import ingest_inspections, read_inspections
from ingest.sources.source_items import (
    MEBIBYTE,
    RefusedDocument,
    SourceLimits,
)
from model.errors import AlreadyRunning, DamagedDocument, InvalidArgument, InvalidDocument
from model.json_documents import digest, digest_bytes
from model.reasons import Reason

#: Limits for uploads; sources of the operator have none of these.
LIMITS = SourceLimits(
    document_bytes=64 * MEBIBYTE, archive_bytes=2048 * MEBIBYTE, members=100_000, ratio=200.0
)
#: Number of refused documents in a result; the quarantine has all.
_LISTED = 100
#: How long to wait for another worker that ingests the same content, s.
SAME_UPLOAD_WAIT_S = 600.0


def upload_id(analysis_id: str) -> str:
    """Identifier of the stored upload of a request.

    The identifier is not the digest of the content, because the ingested document may have that
    digest as its identifier. Uploads with the same content are stored separately, each for as long
    as its request needs it.
    """
    return digest(["upload", analysis_id])


def ingest_upload(worker: WorkerContext, analysis: Analysis, request: Mapping[str, Any]) -> str:
    """Ingest the inspections of an upload.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if the upload was deleted in the meantime, or is refused whole
    """
    with worker.service.reading() as connection:
        body = body_of(connection, worker.settings, upload_id(analysis.analysis_id))
    if body is None:
        raise InvalidArgument("the upload has been deleted: send it again")
    if digest_bytes(body) != request["document_id"]:
        raise DamagedDocument(request["document_id"], "its body has another SHA-256")
    # Named by its digest, so that a second ingest of the same content replaces its quarantine.
    name = request["document_id"].removeprefix("sha256:")
    path = private_folder(worker.settings.home / "uploads") / f"{name}{request['suffix']}"
    with _upload_lock(worker.settings, request["document_id"]):
        path.touch(0o600)
        path.write_bytes(body)
        try:
            result = take_in(worker, str(path))
        finally:
            path.unlink(missing_ok=True)
    _refuse_whole(result)
    return store_result(worker, analysis, result)


def _refuse_whole(result: Mapping[str, Any]) -> None:
    """:raises InvalidArgument: if the upload is refused, or all its paths leave the archive"""
    refusals = result["refusals"]
    nothing = not result["new"] + result["known"]
    leaving = nothing and all(it["reason"] == Reason.ARCHIVE_PATH for it in refusals)
    refusal = next((each for each in refusals if not each["place"] or leaving), None)
    if refusal is None:
        return
    at = ", ".join(filter(None, (refusal["place"], refusal["field"])))
    message = (
        f"the upload is refused: {refusal['reason']}: {at + ': ' if at else ''}{refusal['message']}"
    )
    taken = "" if nothing else f" ({result['new']} inspections before it were ingested)"
    raise InvalidArgument(message + taken)


def lock_of(settings: Settings, content: str) -> FileLock:
    """The lock for the temporary file of an upload.

    The lock is a file lock, because the upload's file is also local to this machine. The lock is
    released when its process ends. Digests with the same first digits share a lock, so that there
    are few locks.
    """
    name = content.removeprefix("sha256:")[:2]
    return FileLock(
        settings.home / "uploads" / f"{name}.lock", timeout=SAME_UPLOAD_WAIT_S, mode=0o600
    )


@contextmanager
def _upload_lock(settings: Settings, content: str) -> Iterator[None]:
    """Hold the lock of :func:`lock_of`.

    :raises AlreadyRunning: if another worker holds it for too long
    """
    try:
        with lock_of(settings, content):
            yield
    except Timeout:
        raise AlreadyRunning("the same upload is being ingested") from None


def take_in(worker: WorkerContext, source: str) -> dict[str, Any]:
    """Ingest all inspections of a local file or folder, and enqueue their projection."""
    with worker.service.relational() as stores:
        report = ingest_inspections(worker.settings, stores.engine, [source], LIMITS)
    if report.new:
        with worker.service.writing() as connection:
            worker.service.queue.enqueue(connection, PROJECT)
    return {**report.as_json(), "refusals": _refusals(source) if report.quarantined else []}


def _refusals(source: str) -> list[dict[str, str]]:
    """The refused documents of a source with the reasons, in the order of the source."""
    refusals = []
    for batch in read_inspections([source], LIMITS):
        refusals += [_refusal_document(it) for it in batch.refusals]
        if len(refusals) >= _LISTED:
            break
    return refusals[:_LISTED]


def _refusal_document(refusal: RefusedDocument) -> dict[str, str]:
    error: InvalidDocument = refusal.error
    return {
        "place": refusal.place,
        "reason": str(error.reason),
        "field": error.field,
        "message": error.message,
    }
