"""Requests that a worker answers: their state, result and log; and uploads of inspections.

Small documents are ingested immediately, archives by a worker.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import orjson
from flask import Response, jsonify, request, url_for
from marshmallow import Schema, fields, validate
from sqlalchemy import Connection

from adviser.answering.index_resolution import ResolutionProgress
from api.access import needs, require, security, wrote, wrote_nothing
from api.http.errors import ApiError, ProblemType
from api.http.schema_fields import (
    StrictSchema,
    count,
    described,
    filter_flag,
    flag,
    schema_of,
    text,
    texts,
)
from api.jobs import request_submission
from api.jobs.ingestion import upload_id
from api.jobs.queue import PROJECT, REQUEST_WORK
from api.resources.base import Resources, members, or_404
from api.store_access import service
from graph.record.access import Scope
from graph.record.analyses import Analysis, AnalysisKind, analysis_of, log_of
from graph.record.documents import UPLOAD, DeliveredDocument, add_documents
from graph.record.inspections import InspectionDelivery, add_inspections
from ingest.inspections.parsing import parse_inspections
from ingest.sources.source_items import MEBIBYTE, RawDocument, RefusedDocument
from model.json_documents import digest_bytes


class ForceQuerySchema(StrictSchema):
    """Controls the cache."""

    force = filter_flag("Do not answer from the cache.")


class WaitQuerySchema(StrictSchema):
    """Whether to wait for a result."""

    wait = fields.Float(
        load_default=0.0,
        validate=validate.Range(0, request_submission.LONGEST_WAIT_S),
        metadata=described(
            "Wait up to this number of seconds for the result. If many clients wait already, the"
            " answer is sent at once.",
            10.0,
        ),
    )


IndexProgressSchema = schema_of("IndexProgress", ResolutionProgress)
RequestSchema = schema_of(
    "Request",
    Analysis,
    progress=fields.Nested(
        IndexProgressSchema,
        required=True,
        allow_none=True,
        metadata={"description": "What was read from the indexes; null if nothing had to be read."},
    ),
    cached=flag("Whether the answer comes from the cache."),
    result=text("Address of the result; null if there is none yet.", null=True),
    log=text("Address of the log."),
)


class LogSchema(Schema):
    """Log of a request."""

    analysis_id = text("Identifier of the request.", "adviser-240611083015-5f0c9d2be417a863")
    lines = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "Lines in order, with `asctime`, `levelname` and `message`."},
    )


blueprint = Resources("requests", __name__, description="Requests that a worker answers.")

#: Reading a request needs the scope that sending one needs, which depends on its kind.
_SECURITY = security(*dict.fromkeys(it.scope for it in REQUEST_WORK.values()))


@blueprint.route("/requests/<string:analysis_id>")
@blueprint.doc(security=_SECURITY)
@blueprint.response(200, RequestSchema)
def get_request(analysis_id: str) -> dict[str, Any]:
    """Get the state of a request."""
    return request_document(_analysis(analysis_id))


@blueprint.route("/requests/<string:analysis_id>/result")
@blueprint.doc(security=_SECURITY)
@blueprint.arguments(WaitQuerySchema, location="query")
@blueprint.response(200, {"type": "object"})
@blueprint.alt_response(202, description="Not finished: try again.")
def get_request_result(query: dict[str, Any], analysis_id: str) -> Response:
    """Get the result of a request; 202 if it is not finished."""
    body = request_submission.result_body(_analysis(analysis_id), query["wait"])
    return Response(body, mimetype="application/json")


@blueprint.route("/requests/<string:analysis_id>/log")
@blueprint.doc(security=_SECURITY)
@blueprint.response(200, LogSchema)
def get_request_log(analysis_id: str) -> dict[str, Any]:
    """Get the log of a request; it is empty until a worker starts."""
    analysis = _analysis(analysis_id)
    with service().reading() as connection:
        log = log_of(connection, analysis.analysis_id)
    return {
        "analysis_id": analysis.analysis_id,
        "lines": [orjson.loads(line) for line in log.splitlines()],
    }


def submit_request(
    kind: AnalysisKind, request: Mapping[str, Any], cache_key: str | None = None, **options: Any
) -> Any:
    """Submit a request; answer 202 with its state and the URL of that."""
    analysis, cached = request_submission.submit(kind, request, cache_key, **options)
    location = url_for("v2-requests.get_request", analysis_id=analysis.analysis_id)
    return request_document(analysis, cached=cached), 202, {"Location": location}


def request_document(analysis: Analysis, *, cached: bool = False) -> dict[str, Any]:
    """Return a request in the format of :class:`RequestSchema`."""
    name = analysis.analysis_id
    has_result = analysis.result_document_id is not None
    result = url_for("v2-requests.get_request_result", analysis_id=name) if has_result else None
    return {
        **members(analysis),
        "kind": analysis.kind.value,
        "state": analysis.state.value,
        "cached": cached,
        "result": result,
        "log": url_for("v2-requests.get_request_log", analysis_id=name),
    }


def _analysis(analysis_id: str) -> Analysis:
    """:raises ApiError: 404 if there is none, 401 or 403 without the scope for its kind"""
    with service().reading() as connection:
        analysis = or_404(analysis_of(connection, analysis_id), "request", analysis_id)
    require(REQUEST_WORK[analysis.kind].scope)
    return analysis


class TakenInSchema(Schema):
    """Documents that were ingested immediately."""

    documents = texts("Identifiers of the documents, in order.", ["sha256:1f2e"])
    new = count("Number of new documents.", 1)
    known = count("Number of documents that were known before.", 0)


upload_routes = Resources("uploads", __name__, description="Uploads of inspections.")

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


@upload_routes.route("/inspections", methods=["POST"])
@needs(Scope.INGEST)
@upload_routes.doc(requestBody=_BODY)
@upload_routes.arguments(ForceQuerySchema, location="query")
@upload_routes.response(202, RequestSchema)
@upload_routes.alt_response(201, schema=TakenInSchema, description="Ingested at once.")
@upload_routes.alt_response(200, schema=TakenInSchema, description="Already known.")
def post_uploads(query: dict[str, Any]) -> Any:
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
