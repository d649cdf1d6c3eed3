"""Requests for advice, replays and why-not questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from flask.views import MethodView
from marshmallow import fields, validate
from packaging.utils import canonicalize_name

from adviser.answering.index_selection import indexes_to_search
from adviser.projects.indexes import public_values
from adviser.projects.project import Project
from adviser.scoring.criteria import RecommendationType
from adviser.stack_request import (
    RequestOptions,
    StackRequest,
    parse_bounds,
    parse_dependencies,
    parse_moment,
    parse_overrides,
)
from api.access.authentication import needs
from api.http.errors import ApiError, ProblemType, not_found
from api.http.project_files import (
    MAX_FILES,
    MAX_NAME,
    ProjectFiles,
    check_name,
    public_project,
    refuse_foreign_indexes,
)
from api.http.schema_fields import StrictSchema, described, no_nul
from api.jobs import request_submission
from api.jobs.request_submission import AdviceRequest
from api.resources.accepted_requests import (
    ForceQuerySchema,
    RequestSchema,
    request_document,
    submit_request,
)
from api.resources.base import Resources
from api.service import service
from common.formats.locks.entries import LockSelection
from common.settings import Settings
from graph.record.access import Scope
from graph.record.advice import report_document_of
from graph.record.analyses import AnalysisKind, latest_answer
from model.errors import InvalidArgument
from model.packages.environments import Environment, environment

Text = TypeVar("Text")
Value = TypeVar("Value")

#: Platform of a request that names none; never that of the server.
_PLATFORM = "linux_x86_64"
#: Maximum length of one file and of one list.
_MAX_TEXT = 3 * 1024**2
_MAX_ITEMS = 1_000
#: Maximum time limit of a search, s. Longer searches belong on the user's own machine.
_MAX_TIME_S = 60.0


def _names(description: str, example: str) -> fields.List[Any]:
    return fields.List(
        fields.String(validate=validate.Length(1, 500)),
        load_default=list,
        validate=validate.Length(max=_MAX_ITEMS),
        metadata={"description": description, "example": [example]},
    )


class EnvironmentSchema(StrictSchema):
    """Environment in which a stack is to run."""

    python = fields.String(
        validate=validate.Length(1, 50),
        metadata=described(
            "Python version; by default the project's, else that of the service.", "3.11"
        ),
    )
    platform = fields.String(
        validate=validate.Length(1, 100),
        metadata=described(
            "Platform as a wheel tag; default linux_x86_64.", "manylinux_2_28_x86_64"
        ),
    )
    cuda = fields.String(
        validate=validate.Length(1, 20),
        metadata=described("Newest CUDA version that the driver supports.", "12.4"),
    )
    hardware = fields.String(
        validate=validate.Regexp(r"(?:sha256:)?[0-9a-f]{1,64}\Z"),
        metadata=described("Digest of a hardware class, or its first digits.", "sha256:1f2e"),
    )


class ProjectSchema(StrictSchema):
    """A project as files, and the options of ``thoth advise``."""

    files = ProjectFiles(
        keys=fields.String(),
        values=fields.String(validate=validate.And(validate.Length(max=_MAX_TEXT), no_nul)),
        required=True,
        metadata={
            **described(
                "Content of files by path within the project.", {"requirements.txt": "flask>=3\n"}
            ),
            "minProperties": 1,
            "maxProperties": MAX_FILES,
        },
    )
    manifest = fields.String(
        validate=validate.And(validate.Length(1, MAX_NAME), check_name),
        metadata=described("File that lists the requirements; detected by default.", "Pipfile"),
    )
    type = fields.String(
        load_default=RecommendationType.BEST.value,
        validate=validate.OneOf([it.value for it in RecommendationType]),
        metadata=described("Recommendation type.", "stable"),
    )
    count = fields.Integer(
        load_default=1,
        strict=True,
        validate=validate.Range(1, 20),
        metadata=described("Number of stacks to return, best first.", 1),
    )
    environment = fields.Nested(EnvironmentSchema, load_default=dict)
    dev = fields.Boolean(
        load_default=False, metadata=described("Include development requirements.", False)
    )
    extras = _names("Extras of the project to include.", "docs")
    groups = _names("Dependency groups of the project to include.", "test")
    constraints = _names("Constraints on packages, which do not install them.", "numpy<2")
    exclusions = _names("Versions to exclude.", "flask==3.0.1")
    overrides = _names("Requirements that replace all others for the same package.", "protobuf<5")
    prereleases = _names("Packages whose pre-releases are allowed.", "torch")
    allowed_vulnerabilities = _names("Vulnerabilities to accept, by identifier.", "CVE-2024-0001")
    only_wheels = fields.Boolean(
        load_default=False,
        metadata=described("Leave out versions that would have to be built.", False),
    )
    indexes = _names(
        "Names of configured indexes in order of preference; by default the project's.", "pypi"
    )
    newer_than = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 50),
        metadata=described("Only releases after a date, or of the last days.", "90d"),
    )
    older_than = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 50),
        metadata=described("Only releases before a date, or of at least this age.", "7d"),
    )
    labels = fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(max=500), no_nul)),
        load_default=dict,
        validate=validate.Length(max=100),
        metadata=described("Labels to store with the advice.", {"team": "blue"}),
    )
    time_limit_s = fields.Float(
        load_default=10.0,
        validate=validate.Range(0, _MAX_TIME_S, min_inclusive=False),
        metadata=described("Time limit of the search, s.", 10.0),
    )


class WhyNotAnswerQuerySchema(StrictSchema):
    """An answered why-not question."""

    requirement = fields.String(
        required=True,
        validate=validate.And(validate.Length(1, 500), no_nul),
        metadata=described("Package name with a specifier.", "numpy==1.26.4"),
    )


class WhyNotQuerySchema(WhyNotAnswerQuerySchema, ForceQuerySchema):
    """A why-not question."""


blueprint = Resources("advising", __name__, description="Requests for advice.")


@blueprint.route("/advice")
class AdviceRequestsResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.arguments(ForceQuerySchema, location="query")
    @blueprint.arguments(ProjectSchema)
    @blueprint.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Request the best stacks for a project."""
        request = advice_request(service().settings, body, may_fetch=request_submission.may_fetch())
        parameters = {
            "recommendation_type": body["type"],
            "dev": body["dev"],
            "count": body["count"],
            "files": sorted(body["files"]),
        }
        return submit_request(
            AnalysisKind.ADVICE,
            request.to_document(),
            request.cache_key,
            parameters=parameters,
            force=query.get("force", False),
        )


@blueprint.route("/advice/<string:advice_id>/replay")
class ReplaysResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.response(202, RequestSchema)
    def post(self, advice_id: str) -> Any:
        """Answer a recorded request again with the data of that time, and compare the reports."""
        return submit_request(AnalysisKind.REPLAY, {"advice_id": _existing(advice_id)}, force=True)


@blueprint.route("/advice/<string:advice_id>/why-not")
class WhyNotResource(MethodView):
    @needs(Scope.ADVISE)
    @blueprint.arguments(WhyNotAnswerQuerySchema, location="query")
    @blueprint.response(200, RequestSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], advice_id: str) -> dict[str, Any]:
        """Get the last answered request with this question; its `result` is the answer.

        The answer holds for the data of its time; POST asks again.
        """
        question = {"advice_id": _existing(advice_id), "requirement": query["requirement"]}
        with service().reading() as connection:
            analysis = latest_answer(connection, AnalysisKind.WHY_NOT, question)
        if analysis is None:
            detail = "nobody asked this about the advice yet, or the answer was deleted: POST asks"
            raise ApiError(404, ProblemType.NOT_FOUND, detail)
        return request_document(analysis)

    @needs(Scope.ADVISE)
    @blueprint.arguments(WhyNotQuerySchema, location="query")
    @blueprint.response(202, RequestSchema)
    def post(self, query: dict[str, Any], advice_id: str) -> Any:
        """Ask what a requirement would change in the stack, or why it cannot be met."""
        _parsed(parse_dependencies, [query["requirement"]], "requirement")
        question = {"advice_id": _existing(advice_id), "requirement": query["requirement"]}
        return submit_request(
            AnalysisKind.WHY_NOT,
            {**question, "may_fetch": request_submission.may_fetch()},
            parameters=question,
            force=query.get("force", False),
        )


def _existing(advice_id: str) -> str:
    """:raises ApiError: 404 if there is no such advice"""
    with service().reading() as connection:
        report = report_document_of(connection, advice_id)
    if report is None:
        raise not_found("advice", advice_id)
    return advice_id


def advice_request(
    settings: Settings, body: Mapping[str, Any], *, may_fetch: bool
) -> AdviceRequest:
    """Parse a request for advice. Ages in days are relative to now.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field
    :raises ApiError: 400 if an index is not configured
    """
    selection = LockSelection.of(extras=body["extras"], groups=body["groups"])
    project = public_project(body["files"], body.get("manifest"), selection)
    refuse_foreign_indexes(settings, project)
    fields = {name: public_values(value) for name, value in body.items() if name != "files"}
    now = datetime.now(UTC)

    def moment_of(name: str) -> datetime | None:
        return _parsed(lambda text: parse_moment(text, now), fields[name], name)

    options = RequestOptions(
        count=fields["count"],
        dev=fields["dev"],
        extras=tuple(fields["extras"]),
        groups=tuple(fields["groups"]),
        constraints=_parsed(parse_bounds, fields["constraints"], "constraints"),
        exclusions=_parsed(parse_bounds, fields["exclusions"], "exclusions"),
        overrides=_parsed(parse_overrides, fields["overrides"], "overrides"),
        prereleases=frozenset(map(canonicalize_name, fields["prereleases"])),
        published_before=moment_of("older_than") or project.published_before,
        published_after=moment_of("newer_than"),
        allowed_vulnerabilities=frozenset(fields["allowed_vulnerabilities"]),
        only_wheels=fields["only_wheels"],
        indexes=indexes_to_search(settings, project, fields["indexes"]),
        labels=fields["labels"],
        time_s=fields["time_limit_s"],
    )
    described = fields["environment"]
    request = StackRequest(
        project, _environment(project, described), RecommendationType(fields["type"]), options
    )
    _ = request.roots  # rejects invalid requirements and extras before anything is stored
    return AdviceRequest(request, hardware_prefix=described.get("hardware"), may_fetch=may_fetch)


def _parsed(parse: Callable[[Text], Value], text: Text, field: str) -> Value:
    """:raises InvalidArgument: naming the field"""
    try:
        return parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}") from error


def _environment(project: Project, described: Mapping[str, Any]) -> Environment:
    """Return the requested environment; a complete Python version of the project is the default."""
    platform, cuda = described.get("platform") or _PLATFORM, described.get("cuda")
    python = described.get("python")
    if python is None and project.python is not None:
        try:
            return environment(project.python, platform, cuda)
        except InvalidArgument:
            pass  # a project may give an incomplete version, such as "3"
    return environment(python, platform, cuda)
