"""Inspections below ``/amun/api/v1``: submission, state, logs and results."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson
from flask import Response, request
from flask.views import MethodView
from marshmallow import Schema, fields, validate

from adviser.projects.indexes import public_text, public_values
from api.access import needs
from api.http.errors import ApiError, ProblemType, not_found
from api.http.openapi import Routes
from api.http.project_files import address_problem, list_problem, public_file, toml_problem
from api.http.request_context import json_of
from api.http.schema_fields import LAST_PAGE, LenientSchema, count, flag, json_object, text, texts
from api.jobs import request_submission
from api.jobs.ingestion import folder_of, options_of, public_parameters
from api.store_access import service
from common import __version__
from graph.record.access import Scope
from graph.record.analyses import Analysis, AnalysisKind, analyses_of, analysis_of, request_of
from model.errors import InvalidFile
from pis.amun.inspect import inspections_of
from pis.amun.inspection_folder import finished_jobs, read_build, read_job
from pis.amun.launchers import Inspection
from pis.amun.launchers.images import InvalidRecipe, recipe_of, render
from pis.amun.schema import InvalidSpecification, SpecificationProblem
from pis.amun.specification import load_specification

PREFIX = "/amun/api/v1"
#: Maximum duration of one request if all of its jobs use their whole time.
MAX_TOTAL_S = 86_400.0
#: Names of variables that usually hold a secret; `TOKENIZERS_PARALLELISM` does not match.
_SECRET = re.compile(
    r"(?:\A|_)(?:TOKEN|SECRETS?|PASS|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTH|COOKIE|"
    r"(?:API|ACCESS|PRIVATE|SECRET|AUTH|SIGNING|ENCRYPTION|ACCOUNT)_?KEY)(?:_|\Z)",
    re.IGNORECASE,
)
#: File names for the locks of a specification, which select their reader.
_LOCKS = {"requirements_txt": "requirements.txt", "pylock_toml": "pylock.toml"}
#: Fields that run exactly as they were sent.
_VERBATIM = frozenset({"script", "files"})


def refuse_secrets(value: Mapping[str, Any]) -> None:
    """Refuse variables that contain secrets; also refuse locks that take too long to read.

    Removing a secret would change what is measured; keeping the secret would store it.

    :raises InvalidSpecification: naming the fields, but not their values
    """
    if problems := [*_of_environment(value.get("environment")), *_of_lock(value.get("python"))]:
        raise InvalidSpecification(problems)


def public_specification(value: Mapping[str, Any]) -> dict[str, Any]:
    """Remove credentials from a specification; jobs use credentials of the index configuration."""
    public = {k: v if k in _VERBATIM else public_values(v) for k, v in value.items()}
    if isinstance(python := value.get("python"), Mapping):
        texts = {k: python[k] for k in _LOCKS if isinstance(python.get(k), str)}
        locks = {key: public_file(_LOCKS[key], text) for key, text in texts.items()}
        public["python"] = public["python"] | locks
    return public


def _of_environment(variables: Any) -> Iterator[SpecificationProblem]:
    why = "specifications are stored and shown"
    for number, variable in enumerate(variables if isinstance(variables, list) else ()):
        if not isinstance(variable, Mapping):
            continue
        name, value = variable.get("name"), variable.get("value")
        field = f"environment[{number}]"
        if isinstance(name, str) and _SECRET.search(name) and value:
            yield SpecificationProblem(field, f"{name[:80]} holds a secret, and {why}: remove it")
        elif isinstance(value, str) and public_text(value) != value:
            yield SpecificationProblem(
                f"{field}.value", f"a URL with credentials, and {why}: remove them"
            )


def _of_lock(python: Any) -> Iterator[SpecificationProblem]:
    fields = python if isinstance(python, Mapping) else {}
    for key, check in (("requirements_txt", list_problem), ("pylock_toml", toml_problem)):
        if not isinstance(text := fields.get(key), str):
            continue
        problem = check([text]) or address_problem([text])
        if problem is None and key == "requirements_txt":
            try:
                public_file(_LOCKS[key], text)
            except InvalidFile as error:  # quotes hide credentials
                problem = f"{error.message}: {error.hint}"
        if problem is not None:
            yield SpecificationProblem(f"python.{key}", problem)


def _parse_inspection(value: dict[str, Any], submission: str) -> Inspection:
    """Parse a specification with the parser of the executor; nothing is fetched.

    :param value: without credentials
    :param submission: random, so that the same specification can be measured again
    :raises ApiError: 400 with every problem by the path of its field
    """
    settings = service().settings
    try:
        specification = load_specification(value, dict(settings.package_indexes))
    except InvalidSpecification as error:
        raise _refusal(error) from error
    longest_s = specification.batch_size * specification.timeout_s
    if longest_s > MAX_TOTAL_S:
        message = (
            f"batch_size: {specification.batch_size} jobs of up to {specification.timeout_s:g} s "
            f"are more than {MAX_TOTAL_S:g} s: reduce batch_size or timeout_s"
        )
        raise ApiError(400, ProblemType.INVALID_REQUEST, message, parameters={})
    (inspection,) = inspections_of([specification], "local", options_of(settings, submission))
    return inspection


def _refusal(error: InvalidSpecification) -> ApiError:
    problems: dict[str, list[str]] = {}
    for problem in error.problems:
        problems.setdefault(problem.field, []).append(problem.message)
    return ApiError(400, ProblemType.INVALID_REQUEST, str(error), errors=problems, parameters={})


def _specification() -> dict[str, Any]:
    """The body without credentials, before it is stored, shown and run.

    :raises ApiError: 400 if it is not a JSON object, or with every problem by the path of its field
    """
    try:
        value = json_of(request.get_data())
    except ApiError as error:
        error.more["parameters"] = {}
        raise
    if not isinstance(value, dict):
        raise ApiError(400, ProblemType.INVALID_REQUEST, "the body is not an object", parameters={})
    try:
        refuse_secrets(value)
    except InvalidSpecification as error:
        raise _refusal(error) from error
    return public_specification(value)


def _inspection_analysis(inspection_id: str) -> Analysis:
    """:raises ApiError: 404 if there is none"""
    with service().reading() as connection:
        analysis = analysis_of(connection, inspection_id)
    if analysis is None or analysis.kind is not AnalysisKind.INSPECTION:
        raise not_found("inspection", inspection_id)
    return analysis


def _folder(inspection: Analysis) -> Path:
    """Folder of an inspection; identifiers come from the service and are safe in paths."""
    return folder_of(service().settings) / inspection.analysis_id


def _text_of(inspection: Analysis, *path: str) -> str | None:
    """Content of a file in an inspection's folder; ``None`` until the file exists."""
    try:
        return _folder(inspection).joinpath(*path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


class AmunPageQuerySchema(LenientSchema):
    """Selects a page; pages count from 1."""

    page = fields.Integer(load_default=1, validate=validate.Range(1, LAST_PAGE))
    limit = fields.Integer(load_default=25, validate=validate.Range(1, 100))


class VersionSchema(Schema):
    """Version of the service."""

    version = text("Version of the interface.", "1.0.0")
    service_version = text("Version of the service.", "1.0.0")


class AmunStatusSchema(Schema):
    """State of an inspection."""

    build = json_object("State of the build; null before it starts.", null=True)
    workflow = json_object("State of the run.", null=True)
    data_stored = flag("Whether the results were ingested.")


def _answer(name: str, **members: fields.Field[Any]) -> type[Schema]:
    """The schema of a response, which repeats the request's parameters."""
    parameters = json_object("Parameters of the request.")
    return Schema.from_dict({"parameters": parameters, **members}, name=f"{name}Schema")


_NAME = "inspection-matmul-1f2e3d4c"
SubmittedSchema = _answer("Submitted", inspection_id=text("Identifier of the inspection.", _NAME))
InspectionsSchema = _answer(
    "Inspections", inspections=texts("Identifiers, ordered by submission.", [_NAME])
)
AmunStatusDocumentSchema = _answer(
    "AmunStatusDocument", status=fields.Nested(AmunStatusSchema, required=True)
)
SpecificationDocumentSchema = _answer(
    "SpecificationDocument",
    specification=json_object("docs/reference/specification.md describes every field."),
)
AmunLogDocumentSchema = _answer("AmunLogDocument", log=text("Text of the log.", null=True))
BatchSizeDocumentSchema = _answer(
    "BatchSizeDocument", batch_size=count("Number of stored results.", 3)
)
JobResultDocumentSchema = _answer(
    "JobResultDocument", result=json_object("docs/reference/specification.md describes the fields.")
)
DockerfileSchema = _answer(
    "Dockerfile", dockerfile=text("Content of the Dockerfile.", "FROM registry.example/python:3.12")
)

blueprint = Routes(
    "amun-inspections", __name__, url_prefix=PREFIX, description="Inspections on this machine."
)
_SPECIFICATION = {
    "required": True,
    "description": "docs/reference/specification.md describes every field.",
    "content": {"application/json": {"schema": {"type": "object"}}},
}


@blueprint.after_app_request
def add_version(response: Response) -> Response:
    """Add the version of the service to a response; error responses get it, too."""
    if request.path.startswith(f"{PREFIX}/"):
        response.headers["X-Amun-Version"] = __version__
    return response


@blueprint.route("/version")
@blueprint.response(200, VersionSchema)
def get_version() -> dict[str, str]:
    """Get the version of the service."""
    return {"version": __version__, "service_version": __version__}


@blueprint.route("/inspect")
class AmunInspectionsResource(MethodView):
    @needs(Scope.INSPECT)
    @blueprint.doc(requestBody=_SPECIFICATION)
    @blueprint.response(202, SubmittedSchema)
    def post(self) -> dict[str, Any]:
        """Submit an inspection of a named indicator, or of a script that runs in a sandbox."""
        value, submission = _specification(), token_hex(16)
        inspection = _parse_inspection(value, submission)
        analysis, _ = request_submission.submit(
            AnalysisKind.INSPECTION,
            {"specification": value, "submission": submission},
            submission,
            parameters=public_parameters(inspection),
            force=True,
            analysis_id=inspection.inspection_id,
        )
        specification = inspection.specification
        parameters = {"batch_size": specification.batch_size, "timeout_s": specification.timeout_s}
        return {
            "inspection_id": analysis.analysis_id,
            "parameters": {**parameters, **specification.document},
        }

    @needs(Scope.INSPECT)
    @blueprint.arguments(AmunPageQuerySchema, location="query")
    @blueprint.response(200, InspectionsSchema)
    def get(self, query: dict[str, int]) -> dict[str, Any]:
        """List inspections, ordered by submission."""
        limit, skipped = query["limit"], (query["page"] - 1) * query["limit"]
        with service().reading() as connection:
            page = analyses_of(connection, AnalysisKind.INSPECTION, limit, skipped)
        return {"inspections": [it.analysis_id for it in page], "parameters": query}


@blueprint.route("/inspect/<string:inspection_id>/status")
@needs(Scope.INSPECT)
@blueprint.response(200, AmunStatusDocumentSchema)
def get_status(inspection_id: str) -> dict[str, Any]:
    """Get the state of an inspection."""
    analysis = _inspection_analysis(inspection_id)
    build = read_build(_folder(analysis))
    names = ("state", "reason", "started_at", "finished_at", "exit_code", "message")
    state = {"container": None, **{name: build.get(name) for name in names}}
    workflow = {
        "state": analysis.state.value,
        "reason": analysis.reason,
        "accepted_at": analysis.accepted_at.isoformat(),
        "started_at": analysis.started_at and analysis.started_at.isoformat(),
        "finished_at": analysis.finished_at and analysis.finished_at.isoformat(),
        "attempts": analysis.attempts,
        "jobs_finished": len(finished_jobs(_folder(analysis))),
    }
    stored = analysis.result_document_id is not None
    status = {"build": state if build else None, "workflow": workflow, "data_stored": stored}
    return {"status": status, "parameters": {"inspection_id": inspection_id}}


@blueprint.route("/_debug/generate-dockerfile", methods=["POST"])
@needs(Scope.INSPECT)
@blueprint.doc(requestBody=_SPECIFICATION)
@blueprint.response(200, DockerfileSchema)
def post_dockerfile() -> dict[str, Any]:
    """Get the Dockerfile of a specification's image; nothing is built."""
    value = _specification()
    parameters = {"specification": value}
    try:
        dockerfile = render(recipe_of(_parse_inspection(value, "")))
    except InvalidRecipe as error:
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, str(error), parameters=parameters
        ) from error
    return {"dockerfile": dockerfile, "parameters": parameters}


result_routes = Routes(
    "amun-results", __name__, url_prefix=f"{PREFIX}/inspect/<string:inspection_id>",
    description="Results of inspections.",
)  # fmt: skip


@result_routes.route("/specification")
@needs(Scope.INSPECT)
@result_routes.response(200, SpecificationDocumentSchema)
def get_specification(inspection_id: str) -> dict[str, Any]:
    """Get the specification of an inspection; once built, the specification as it runs."""
    analysis, stores = _inspection_analysis(inspection_id), service()
    written = _text_of(analysis, "build", "specification")
    if written is not None:
        specification = orjson.loads(written)
    else:
        with stores.reading() as connection:
            request = orjson.loads(request_of(connection, stores.settings, analysis))
        specification = request["specification"]
    return {"specification": specification, "parameters": {"inspection_id": inspection_id}}


@result_routes.route("/build/log")
@needs(Scope.INSPECT)
@result_routes.response(200, AmunLogDocumentSchema)
def get_build_log(inspection_id: str) -> dict[str, Any]:
    """Get the log of the build; null before the build ends."""
    log = _text_of(_inspection_analysis(inspection_id), "build", "log")
    return {"log": log, "parameters": {"inspection_id": inspection_id}}


@result_routes.route("/job/batch-size")
@needs(Scope.INSPECT)
@result_routes.response(200, BatchSizeDocumentSchema)
def get_batch_size(inspection_id: str) -> dict[str, Any]:
    """Get the number of stored results of an inspection."""
    stored = len(finished_jobs(_folder(_inspection_analysis(inspection_id))))
    return {"batch_size": stored, "parameters": {"inspection_id": inspection_id}}


@result_routes.route("/job/<int:item>/result")
@needs(Scope.INSPECT)
@result_routes.response(200, JobResultDocumentSchema)
def get_job_result(inspection_id: str, item: int) -> dict[str, Any]:
    """Get the result of one job; jobs count from 0."""
    result = read_job(_folder(_inspection_analysis(inspection_id)), item)
    if not result:
        raise not_found("result", f"{inspection_id}/{item}")
    return {"result": result, "parameters": {"inspection_id": inspection_id, "item": item}}


@result_routes.route("/job/<int:item>/log")
@needs(Scope.INSPECT)
@result_routes.response(200, AmunLogDocumentSchema)
def get_job_log(inspection_id: str, item: int) -> dict[str, Any]:
    """Get the log of one job; jobs count from 0."""
    log = _text_of(_inspection_analysis(inspection_id), "results", str(item), "log")
    if log is None:
        raise not_found("result", f"{inspection_id}/{item}")
    return {"log": log, "parameters": {"inspection_id": inspection_id, "item": item}}


def blueprints() -> tuple[Routes, ...]:
    """The blueprints of ``/amun/api/v1``."""
    return blueprint, result_routes
