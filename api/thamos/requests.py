"""Requests of the ``thamos`` client for advice and provenance checks, and their results.

Bodies and queries become the requests that workers process.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson
from flask import Response
from marshmallow import INCLUDE, Schema, fields, pre_load, validate

from adviser.advice_request import RequestOptions, StackRequest
from adviser.answering.index_selection import indexes_to_search
from adviser.projects.indexes import public_text, public_values
from adviser.projects.parsing import CONSTRAINTS, PIPFILE, PIPFILE_LOCK
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectIndex
from adviser.scoring.criteria import RecommendationType
from api.access import needs, require_token, token
from api.http.errors import ApiError, ProblemType, not_found
from api.http.openapi import Routes
from api.http.project_files import (
    MAX_MANIFEST,
    check_constraints,
    check_lock,
    public_file,
    public_project,
    refuse_foreign_indexes,
)
from api.http.schema_fields import NULL_BY_DEFAULT, LenientSchema, ResultDocumentSchema, described
from api.jobs import request_submission
from api.jobs.request_submission import status_document
from api.jobs.stored_requests import AdviceRequest, ProvenanceRequest
from api.store_access import service
from common.index.configuration import configured_indexes
from common.settings import Settings
from graph.record.access import Scope, Token
from graph.record.analyses import AnalysisKind, log_of
from model.errors import InvalidArgument
from model.packages.environments import Environment, environment, platform_of
from model.packages.identity import DEFAULT_INDEX

#: Machines that a platform may end in, in the notation of clients and of wheel tags.
MACHINES = ("x86_64", "aarch64", "ppc64le", "s390x", "riscv64")
_STACK_FILES = {"requirements": PIPFILE, "requirements_lock": PIPFILE_LOCK}
#: Fields of a body that hold files, from which credentials are removed by their format.
_TEXTS = ("application_stack", "constraints")
_NOTE_TYPES = ("INFO", "WARNING", "ERROR")


def advice_request(
    settings: Settings,
    query: Mapping[str, Any],
    body: Mapping[str, Any],
    token: Token | None,
    *,
    may_fetch: bool,
) -> AdviceRequest:
    """Parse a request for advice.

    :param token: of the client; without one its origin and source type are not stored
    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field of the runtime environment or the note
    :raises ApiError: 400 if the project names an index that is not configured
    """
    values = {k: public_values(v) for k, v in body.items() if k not in _TEXTS}
    project = _with_source(settings, _project(settings, body))
    described = values.get("runtime_environment") or {}
    options = RequestOptions(
        dev=query["dev"],
        debug=query["debug"],
        indexes=indexes_to_search(settings, project),
        labels=values.get("labels") or {},
        described=described,
        stack_info=_notes(values, "stack_info"),
        justification=_notes(values, "justification"),
    )
    kind = RecommendationType(query["recommendation_type"])
    stack_request = StackRequest(project, environment_of(described), kind, options)
    _ = stack_request.roots  # rejects invalid requirements before anything is stored
    hardware = described.get("hardware")
    usage = (values.get("library_usage") or {}).get("report") or {}
    return AdviceRequest(
        stack_request,
        described_hardware=hardware if isinstance(hardware, Mapping) else {},
        may_fetch=may_fetch,
        origin=_sender(query, "origin", token),
        source_type=_sender(query, "source_type", token),
        library_usage={module: tuple(sorted(names)) for module, names in usage.items()},
    )


def provenance_request(
    settings: Settings, query: Mapping[str, Any], body: Mapping[str, Any], token: Token | None
) -> ProvenanceRequest:
    """Parse a request for a provenance check.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: if there is no lock whose packages are all pinned
    :raises ApiError: 400 if the project names an index that is not configured
    """
    project = _project(settings, body)
    if project.locked is None:
        message = "application_stack.requirements_lock: no lock whose packages are all pinned"
        raise InvalidArgument(message)
    files = {name: public_file(name, text) for name, text in _files(body).items()}
    return ProvenanceRequest(
        project,
        requirements=public_values(tomllib.loads(files[PIPFILE])),
        requirements_locked=public_values(orjson.loads(files[PIPFILE_LOCK])),
        debug=query["debug"],
        origin=_sender(query, "origin", token),
    )


def _files(body: Mapping[str, Any]) -> dict[str, str]:
    stack = body["application_stack"]
    texts = {name: stack.get(key) for key, name in _STACK_FILES.items()}
    texts[CONSTRAINTS] = body.get("constraints")
    return {name: text for name, text in texts.items() if text}


def _project(settings: Settings, body: Mapping[str, Any]) -> Project:
    project = public_project(_files(body), PIPFILE)
    refuse_foreign_indexes(settings, project)
    return project


def _with_source(settings: Settings, project: Project) -> Project:
    """Add the service's default index to a Pipfile that names no index.

    Otherwise, a client would silently install from an index of its own choice.
    """
    index = configured_indexes(settings).get(DEFAULT_INDEX)
    if project.indexes or project.manifest is None or index is None or index.is_local:
        return project
    secure = index.url.startswith("https:")
    source = {"name": index.name, "url": index.url, "verify_ssl": secure}
    manifest = {**project.manifest, "source": [source]}
    added = ProjectIndex(index.name, index.url, verify_ssl=secure, default=True)
    hashes = (pipfile_hash(manifest),)
    return replace(project, indexes=(added,), manifest=manifest, manifest_hashes=hashes)


def _notes(values: Mapping[str, Any], name: str) -> tuple[dict[str, str], ...]:
    """Return the client's notes, each with type, message and link; they precede the report's notes.

    :raises InvalidArgument: naming the invalid note
    """
    notes = []
    for position, note_fields in enumerate(values.get(name) or ()):
        note = {key: value for key, value in note_fields.items() if value is not None}
        if not all(isinstance(it, str) for it in note.values()):
            raise InvalidArgument(f"{name}[{position}]: the values of a note must be strings")
        if note.get("type", "INFO") not in _NOTE_TYPES:
            raise InvalidArgument(f"{name}[{position}].type: not INFO, WARNING or ERROR")
        notes.append({"type": "INFO", "message": "", "link": "", **note})
    return tuple(notes)


def _sender(query: Mapping[str, Any], name: str, token: Token | None) -> str | None:
    value = query.get(name)
    return public_text(value) if token is not None and value else None


def environment_of(described: Mapping[str, Any] | None) -> Environment:
    """Convert a runtime environment of ``thamos``.

    A known distribution determines the C library; otherwise, the platform is ``linux_<machine>``.
    Missing fields never default to the server's own values.

    :raises InvalidArgument: naming the invalid field
    """
    described_fields = described or {}
    python = _string(described_fields, "python_version")
    platform_text = _platform(described_fields)
    machine = next(
        (it for it in MACHINES if platform_text and platform_text.endswith(it)), "x86_64"
    )
    system = described_fields.get("operating_system") or {}
    if not isinstance(system, Mapping):
        raise InvalidArgument("runtime_environment.operating_system: not an object")
    platform = None
    if (name := _string(system, "name")) is not None:
        platform = platform_of(name, _string(system, "version"), machine)
    if platform is None and platform_text is not None and "-" not in platform_text:
        platform = platform_text
    cuda = _string(described_fields, "cuda_version")
    if cuda is not None:
        cuda = ".".join(cuda.split(".")[:2])  # 12.4 of 12.4.1
    try:
        return environment(python, platform or f"linux_{machine}", cuda)
    except InvalidArgument as error:
        raise InvalidArgument(f"runtime_environment: {error}") from error


def _platform(described_fields: Mapping[str, Any]) -> str | None:
    """Return the platform. Old clients send a list: the whole text, or its letters."""
    platform = described_fields.get("platform")
    if isinstance(platform, list):
        whole = bool(platform) and len(str(platform[0])) > 1
        platform = platform[0] if whole else "".join(map(str, platform))
    if platform is not None and not isinstance(platform, str):
        raise InvalidArgument("runtime_environment.platform: not a string")
    return platform or None


def _string(described_fields: Mapping[str, Any], name: str) -> str | None:
    value = described_fields.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        raise InvalidArgument(f"runtime_environment.{name}: not a string")
    return str(value)


#: Maximum length of one file in a request.
_MAX_TEXT = 3 * 1024**2
#: Maximum length of a query parameter, and of the URL of a project.
_MAX_NAME, _MAX_ORIGIN = 100, 2000


class CapitalBoolean(fields.Boolean):
    """A boolean in a query, also as Python writes it: ``True``, ``False``."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._deserialize(
            value.lower() if isinstance(value, str) else value, *args, **kwargs
        )


class _Submitted(LenientSchema):
    """Query parameters of every request."""

    debug = CapitalBoolean(load_default=False)
    force = CapitalBoolean(
        load_default=False, metadata={"description": "Do not answer from the cache."}
    )
    origin = fields.String(
        **NULL_BY_DEFAULT,
        validate=validate.Length(max=_MAX_ORIGIN),
        metadata={"description": "URL of the project; stored only with a token."},
    )

    @pre_load
    def absent(self, data: Any, **_: Any) -> dict[str, Any]:
        """Treat ``origin=None`` and an empty value as absent."""
        return {k: v for k, v in data.items() if not (k == "origin" and v in ("", "None"))}


class AdviceQuerySchema(_Submitted):
    """Query parameters of a request for advice."""

    recommendation_type = fields.String(
        required=True, validate=validate.OneOf([it.value for it in RecommendationType])
    )
    dev = CapitalBoolean(load_default=False)
    source_type = fields.String(
        **NULL_BY_DEFAULT,
        validate=validate.Length(max=_MAX_NAME),
        metadata=described("Kind of client; stored only with a token.", "cli"),
    )


class ProvenanceQuerySchema(_Submitted):
    """Query parameters of a provenance check."""


class ApplicationStackSchema(LenientSchema):
    """A Pipfile as TOML, and a Pipfile.lock as JSON or null."""

    requirements = fields.String(required=True, validate=validate.Length(1, MAX_MANIFEST))
    requirements_lock = fields.String(
        required=True, allow_none=True, validate=[validate.Length(max=_MAX_TEXT), check_lock]
    )
    requirements_format = fields.String(load_default="pipenv", validate=validate.OneOf(["pipenv"]))


class RuntimeEnvironmentSchema(Schema):
    """A runtime environment of ``.thoth.yaml``; unknown members are kept."""

    class Meta:
        unknown = INCLUDE

    name = fields.String(allow_none=True)
    python_version = fields.String(allow_none=True)
    operating_system = fields.Dict(keys=fields.String(), allow_none=True)
    hardware = fields.Dict(keys=fields.String(), allow_none=True)


class LibraryUsageSchema(LenientSchema):
    """Names that a project uses from each module."""

    version = fields.String(allow_none=True)
    report = fields.Dict(
        keys=fields.String(), values=fields.List(fields.String()), **NULL_BY_DEFAULT
    )


class AdviceRequestSchema(LenientSchema):
    """Body of a request for advice."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    runtime_environment = fields.Nested(RuntimeEnvironmentSchema, **NULL_BY_DEFAULT)
    library_usage = fields.Nested(LibraryUsageSchema, **NULL_BY_DEFAULT)
    constraints = fields.String(
        **NULL_BY_DEFAULT, validate=[validate.Length(max=MAX_MANIFEST), check_constraints]
    )
    labels = fields.Dict(keys=fields.String(), values=fields.String(), **NULL_BY_DEFAULT)
    justification = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    stack_info = fields.List(fields.Dict(keys=fields.String()), allow_none=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)
    callback_info = fields.Dict(keys=fields.String(), allow_none=True)


class ProvenanceRequestSchema(LenientSchema):
    """Body of a provenance check."""

    application_stack = fields.Nested(ApplicationStackSchema, required=True)
    kebechet_metadata = fields.Dict(keys=fields.String(), allow_none=True)


class AcceptedSchema(Schema):
    """An accepted request with its identifier."""

    analysis_id = fields.String(required=True)
    cached = fields.Boolean(required=True)
    authenticated = fields.Boolean(required=True)
    parameters = fields.Dict(keys=fields.String(), required=True)


class StatusSchema(Schema):
    """State of an analysis."""

    state = fields.String(
        required=True,
        validate=validate.OneOf(["pending", "running", "succeeded", "failed", "error"]),
    )
    reason = fields.String(allow_none=True)
    started_at = fields.String(allow_none=True)
    finished_at = fields.String(allow_none=True)


class StatusDocumentSchema(Schema):
    """State of an analysis, with the parameters of the query."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    status = fields.Nested(StatusSchema, required=True)


class LogDocumentSchema(Schema):
    """Log of an analysis."""

    parameters = fields.Dict(keys=fields.String(), required=True)
    log = fields.String(required=True, allow_none=True)


advice_routes = Routes(
    "advise", __name__, url_prefix="/api/v1/advise/python", description="Advice on stacks."
)
provenance_routes = Routes(
    "provenance",
    __name__,
    url_prefix="/api/v1/provenance/python",
    description="Checks where the files of a lock come from.",
)

#: Query parameters that responses repeat; the origin is not among them.
_PARAMETERS = ("recommendation_type", "dev", "debug", "force")


@advice_routes.route("", methods=["POST"])
@needs(Scope.ADVISE)
@advice_routes.arguments(AdviceQuerySchema, location="query")
@advice_routes.arguments(AdviceRequestSchema)
@advice_routes.response(202, AcceptedSchema)
def post_thamos_advice(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Request the best stack for a Pipfile in a runtime environment."""
    _check_kebechet(body)
    if body.get("callback_info") is not None:
        message = "callback_info: this service sends no callbacks"
        raise ApiError(400, ProblemType.INVALID_REQUEST, message)
    request = advice_request(
        service().settings, query, body, token(), may_fetch=request_submission.may_fetch()
    )
    return _submit(AnalysisKind.ADVICE, request.to_document(), request.cache_key, query)


@provenance_routes.route("", methods=["POST"])
@needs(Scope.ADVISE)
@provenance_routes.arguments(ProvenanceQuerySchema, location="query")
@provenance_routes.arguments(ProvenanceRequestSchema)
@provenance_routes.response(202, AcceptedSchema)
def post_provenance_requests(query: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Request a check of where every file of a Pipfile.lock comes from."""
    _check_kebechet(body)
    settings = service().settings
    request = provenance_request(settings, query, body, token())
    allowed = {name: index.url for name, index in configured_indexes(settings).items()}
    cache_key = request.cache_key(allowed)
    return _submit(AnalysisKind.PROVENANCE, request.to_document(), cache_key, query)


def _check_kebechet(body: Mapping[str, Any]) -> None:
    """Require a token of Kebechet, which describes its own request."""
    if body.get("kebechet_metadata") is not None:
        require_token()


def _submit(
    kind: AnalysisKind, request: dict[str, Any], cache_key: str, query: dict[str, Any]
) -> dict[str, Any]:
    parameters = {name: query[name] for name in _PARAMETERS if name in query}
    analysis, cached = request_submission.submit(
        kind, request, cache_key, parameters=parameters, force=query["force"]
    )
    return {
        "analysis_id": analysis.analysis_id,
        "cached": cached,
        "authenticated": token() is not None,
        "parameters": dict(analysis.parameters),
    }


def _serve_results(blueprint: Routes, kind: AnalysisKind) -> None:
    """Add the routes for result, state and log of the analyses of a kind."""

    @blueprint.route("/<string:analysis_id>")
    @needs(Scope.ADVISE)
    @blueprint.response(200, ResultDocumentSchema)
    @blueprint.alt_response(202, description="Not finished: try again.")
    def get_result(analysis_id: str) -> Response:
        """Get the report of a request; 202 if it is not finished."""
        analysis = request_submission.analysis_of_kind(analysis_id, kind)
        return Response(request_submission.result_body(analysis), mimetype="application/json")

    @blueprint.route("/<string:analysis_id>/status")
    @needs(Scope.ADVISE)
    @blueprint.response(200, StatusDocumentSchema)
    def get_state(analysis_id: str) -> dict[str, Any]:
        """Get the state of a request."""
        status = status_document(request_submission.analysis_of_kind(analysis_id, kind))
        return {"parameters": {"analysis_id": analysis_id}, "status": status}

    @blueprint.route("/<string:analysis_id>/log")
    @needs(Scope.ADVISE)
    @blueprint.response(200, LogDocumentSchema)
    def get_log(analysis_id: str) -> dict[str, Any]:
        """Get the log of a request."""
        analysis = request_submission.analysis_of_kind(analysis_id, kind)
        if analysis.started_at is None:  # no worker has started it
            raise not_found("log", analysis_id)
        with service().glancing() as connection:
            log = log_of(connection, analysis_id)
        return {"parameters": {"analysis_id": analysis_id}, "log": log or None}


_serve_results(advice_routes, AnalysisKind.ADVICE)
_serve_results(provenance_routes, AnalysisKind.PROVENANCE)
