"""Uploads of inspections: small documents are ingested immediately, archives by a worker."""

from __future__ import annotations

import zlib
from typing import Any

from flask import Response, jsonify, request
from flask.views import MethodView
from marshmallow import Schema
from sqlalchemy import Connection

from api.access.audit import wrote, wrote_nothing
from api.access.authentication import needs
from api.http.errors import ApiError, ProblemType
from api.http.schema_fields import count, texts
from api.jobs.inspections import upload_id
from api.jobs.queue import PROJECT
from api.resources.accepted_requests import ForceQuerySchema, RequestSchema, submit_request
from api.resources.base import Resources
from api.service import service
from graph.record.access import Scope
from graph.record.analyses import AnalysisKind
from graph.record.documents import UPLOAD, DeliveredDocument, add_documents
from graph.record.inspections import InspectionDelivery, add_inspections
from ingest.inspections.parsing import parse_inspections
from ingest.sources.source_items import MEBIBYTE, RawDocument, RefusedDocument
from model.json_documents import digest_bytes


class TakenInSchema(Schema):
    """Documents that were ingested immediately."""

    documents = texts("Identifiers of the documents, in order.", ["sha256:1f2e"])
    new = count("Number of new documents.", 1)
    known = count("Number of documents that were known before.", 0)


blueprint = Resources("uploads", __name__, description="Uploads of inspections.")

#: Larger ones are left to a worker.
AT_ONCE_BYTES = 1 * MEBIBYTE
#: Names of the quarantine and of sources.
_SOURCE = "upload"
_JSON = "application/json"
_GZIP = frozenset({"application/gzip", "application/x-gzip", "application/x-gtar"})
_SUFFIXES = {_JSON: ".json", "application/zip": ".zip", "application/x-tar": ".tar"}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_BODY = {
    "required": True,
    "description": "A document as JSON, or an archive of documents and inspection folders.",
    "content": {
        _JSON: {"schema": {"type": "object"}},
        "application/gzip": _BINARY,
        "application/zip": _BINARY,
        "application/x-tar": _BINARY,
    },
}


@blueprint.route("/inspections")
class UploadsResource(MethodView):
    @needs(Scope.INGEST)
    @blueprint.doc(requestBody=_BODY)
    @blueprint.arguments(ForceQuerySchema, location="query")
    @blueprint.response(202, RequestSchema)
    @blueprint.alt_response(201, schema=TakenInSchema, description="Ingested at once.")
    @blueprint.alt_response(200, schema=TakenInSchema, description="Already known.")
    def post(self, query: dict[str, Any]) -> Any:
        """Ingest inspections: a small document immediately, an archive in a worker."""
        body = request.get_data(cache=False)
        if not body:
            raise ApiError(400, ProblemType.INVALID_REQUEST, "the body is empty")
        suffix = _suffix(body)
        if suffix == ".json" and len(body) <= AT_ONCE_BYTES:
            return _ingest(body)
        return _enqueue(body, suffix, force=query.get("force", False))


def _ingest(body: bytes) -> Response:
    """Ingest all inspections of a document, or none.

    :raises InvalidDocument: for the first invalid inspection
    """
    deliveries = []
    for inspection in parse_inspections(RawDocument(_SOURCE, data=body)):
        if isinstance(inspection, RefusedDocument):
            raise inspection.error
        deliveries.append(InspectionDelivery(inspection, _SOURCE))
    stores = service()
    with stores.writing() as connection:
        new = add_inspections(connection, stores.settings, deliveries).documents
        if new:
            stores.queue.enqueue(connection, PROJECT)
    documents = [str(delivery.document.document_id) for delivery in deliveries]
    counts = {"new": len(new), "known": len(documents) - len(new)}
    if new:
        others = f" and {len(documents) - 1} more" if documents[1:] else ""
        wrote(f"{documents[0]}{others}")
    else:
        wrote_nothing()
    response = jsonify(TakenInSchema().dump({"documents": documents, **counts}))
    response.status_code = 201 if new else 200
    return response


def _enqueue(body: bytes, suffix: str, *, force: bool) -> Any:
    """Store the upload with its request in one transaction; a worker ingests it."""
    content = digest_bytes(body)

    def store_body(connection: Connection, analysis_id: str) -> None:
        document_id = upload_id(analysis_id)
        document = DeliveredDocument(document_id, UPLOAD, "upload-1", analysis_id, body)
        add_documents(connection, service().settings, [document])

    upload = {"document_id": content, "suffix": suffix, "bytes": len(body)}
    return submit_request(AnalysisKind.UPLOAD, upload, content, force=force, also=store_body)


def _suffix(body: bytes) -> str:
    """Suffix of a file with this content.

    :raises ApiError: 415 if its format is not supported
    """
    kind = request.mimetype
    if kind in _GZIP:
        return ".tar.gz" if _is_tar(body) else ".json.gz"
    if kind not in _SUFFIXES:
        known = ", ".join([*_SUFFIXES, "application/gzip"])
        detail = f"Content-Type: {kind!r} is not one of {known}"
        raise ApiError(415, ProblemType.UNSUPPORTED_MEDIA_TYPE, detail)
    return _SUFFIXES[kind]


def _is_tar(body: bytes) -> bool:
    """Whether gzipped data is a tar archive (POSIX.1-1988: ``ustar`` at offset 257)."""
    try:
        head = zlib.decompressobj(wbits=31).decompress(body[:65_536], 512)
    except zlib.error:
        return True  # damaged: the reader of archives reports how
    return head[257:262] == b"ustar"
