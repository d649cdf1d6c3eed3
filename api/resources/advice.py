"""Advice that was given, and its reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from flask import Response
from flask.views import MethodView
from marshmallow import Schema, fields, validate
from packaging.utils import canonicalize_name

from adviser.answering.indexes import asked_indexes
from adviser.asked import Asked, Options
from adviser.projects.indexes import public_values
from adviser.projects.project import Project
from adviser.request_values import parse_bounds, parse_dependencies, parse_moment, parse_overrides
from adviser.scoring.criteria import RecommendationType
from api import analyses
from api.accepted_requests import AdviceRequest
from api.authentication import needs, require_token
from api.credential_removal import public_project
from api.errors import not_found
from api.index_policy import refuse_foreign_indexes
from api.jobs.queue import QueueJob, QueueName
from api.paging import Cursor, freshness, page
from api.project_files import (
    MAX_FILES,
    MAX_NAME,
    ProjectFiles,
    check_name,
)
from api.request_context import reading
from api.resources.base import Resources, filters, members
from api.resources.requests import (
    ForceQuerySchema,
    RequestSchema,
    accepted,
)
from api.schema_fields import (
    FreshnessSchema,
    PageQuerySchema,
    PageSchema,
    ResultDocumentSchema,
    StrictSchema,
    asked,
    asked_choice,
    choice,
    count,
    described,
    moment,
    no_nul,
    number,
    text,
)
from api.service import service
from common.environments import Environment, environment
from common.errors import InvalidArgument
from common.formats.json_documents import digest
from common.settings import Settings
from graph.record.advice import (
    AdviceFilter,
    advice_named,
    browse_advice,
    evidence_count,
    report_document_of,
    stacks_of,
)
from graph.record.analyses import AnalysisKind
from graph.record.documents import body_of
from graph.record.tokens import Scope

_TYPES = [it.value for it in RecommendationType]
#: How a search can end.
_STATUSES = ["optimal", "feasible", "infeasible", "unknown"]
_DIGEST = "sha256:1f2e3d4c5b6a79880f1e2d3c4b5a69788f0e1d2c3b4a59687e0f1d2c3b4a5968"


class AdviceListQuerySchema(PageQuerySchema):
    """Which advice is asked for."""

    recommendation_type = asked_choice("What it was to be good at.", _TYPES)
    status = asked_choice("How the search ended.", _STATUSES)
    python_version = asked("Of the environment that was asked about.", "3.11")
    platform = asked("Of the same, as a wheel tag names it.", "manylinux_2_28_x86_64")
    stack = asked("Digest of a stack that it recommends.", _DIGEST)


class AdviceItemSchema(Schema):
    """An advice in a list."""

    advice_id = text("Its identifier.", "adviser-260101000000-5f0c9d2be417a863")
    recommendation_type = choice("What it was to be good at.", _TYPES)
    status = choice("How the search ended.", _STATUSES)
    snapshot_revision = text("Names what was known of packages.", _DIGEST)
    result_digest = text("Of what does not depend on when it was made.", _DIGEST)
    created_at = moment("When it was given.")
    python_version = text("Of the environment that was asked about.", "3.11", null=True)
    platform = text("Of the same, as a wheel tag names it.", null=True)


class AdvicePageSchema(PageSchema):
    """Advice, newest first."""

    items = fields.List(fields.Nested(AdviceItemSchema), required=True)


class RecommendedStackSchema(Schema):
    """A stack that an advice recommends."""

    rank = count("The best is at 1.", 1)
    stack_digest = text("The stack.", _DIGEST)
    score = number("In points.", 812.5)


class AdviceDetailSchema(FreshnessSchema, AdviceItemSchema):
    """An advice."""

    stacks = fields.List(fields.Nested(RecommendedStackSchema), required=True)
    evidence = count("Observations that its claims name.", 20)


blueprint = Resources("advice", __name__, description="Advice that was given.")

_ADVICE = Cursor("advice", {"created_at": datetime, "advice_id": str})


@blueprint.route("/advice")
class AdviceListResource(MethodView):
    """Advice: what others asked, so that nobody lists it without a token."""

    @needs(Scope.READ, anonymous=False)
    @blueprint.arguments(AdviceListQuerySchema, location="query")
    @blueprint.response(200, AdvicePageSchema)
    def get(self, query: dict[str, Any]) -> dict[str, Any]:
        """List advice that the token asked for, or all with the scope `admin`; newest first."""
        shown = require_token()
        whose = None if shown.may(Scope.ADMIN) else shown.token_id
        wanted = AdviceFilter(**filters(query), token_id=whose)
        with reading() as (connection, progress):
            return page(query, _ADVICE, partial(browse_advice, connection, wanted), progress)


@blueprint.route("/advice/<string:advice_id>")
class AdviceResource(MethodView):
    """One advice."""

    @needs(Scope.ADVISE)
    @blueprint.response(200, AdviceDetailSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> dict[str, Any]:
        """Say which stacks an advice recommends, best first."""
        with reading() as (connection, progress):
            found = advice_named(connection, advice_id)
            if found is None:
                raise not_found("advice", advice_id)
            return {
                **members(found),
                "stacks": stacks_of(connection, advice_id),
                "evidence": evidence_count(connection, advice_id),
                **freshness(progress),
            }


@blueprint.route("/advice/<string:advice_id>/report")
class AdviceReportResource(MethodView):
    """The report of an advice."""

    @needs(Scope.ADVISE)
    @blueprint.response(200, ResultDocumentSchema)
    @blueprint.alt_response(404, "NOT_FOUND")
    def get(self, advice_id: str) -> Response:
        """Give the report of an advice, as it was recorded."""
        with reading() as (connection, _):
            document = report_document_of(connection, advice_id)
            body = document and body_of(connection, service().settings, document)
        if not body:
            raise not_found("advice", advice_id)
        return Response(body, mimetype="application/json")


#: Of one text, and of all lists.
_MAX_TEXT = 3 * 1024**2
_MAX_ITEMS = 1_000
#: Seconds that a search may take: who waits longer runs it at home.
_MAX_TIME_S = 60.0


def _names(description: str, example: str) -> fields.List[Any]:
    return fields.List(
        fields.String(validate=validate.Length(1, 500)),
        load_default=list,
        validate=validate.Length(max=_MAX_ITEMS),
        metadata={"description": description, "example": [example]},
    )


class WhereSchema(StrictSchema):
    """Where a stack is to run."""

    python = fields.String(
        validate=validate.Length(1, 50),
        metadata=described("A version; the project's, else the service's.", "3.11"),
    )
    platform = fields.String(
        validate=validate.Length(1, 100),
        metadata=described("A wheel's tag; linux_x86_64 unless given.", "manylinux_2_28_x86_64"),
    )
    cuda = fields.String(
        validate=validate.Length(1, 20),
        metadata=described("The newest CUDA that the driver runs.", "12.4"),
    )
    hardware = fields.String(
        validate=validate.Regexp(r"(?:sha256:)?[0-9a-f]{1,64}\Z"),
        metadata=described("The beginning of a hardware class' digest.", "sha256:1f2e"),
    )


class ProjectSchema(StrictSchema):
    """A project as files, and what is wanted of its stack; options as of ``thoth advise``."""

    files = ProjectFiles(
        keys=fields.String(),
        values=fields.String(validate=validate.And(validate.Length(max=_MAX_TEXT), no_nul)),
        required=True,
        metadata={
            **described("Texts by path within the project.", {"requirements.txt": "flask>=3\n"}),
            "minProperties": 1,
            "maxProperties": MAX_FILES,
        },
    )
    manifest = fields.String(
        validate=validate.And(validate.Length(1, MAX_NAME), check_name),
        metadata=described("The file that says what is required; found unless given.", "Pipfile"),
    )
    type = fields.String(
        load_default="latest",
        validate=validate.OneOf([it.value for it in RecommendationType]),
        metadata=described("What is wanted of a stack.", "stable"),
    )
    count = fields.Integer(
        load_default=1,
        strict=True,
        validate=validate.Range(1, 20),
        metadata=described("How many stacks, best first.", 1),
    )
    environment = fields.Nested(WhereSchema, load_default=dict)
    dev = fields.Boolean(
        load_default=False, metadata=described("With what development needs.", False)
    )
    extras = _names("Extras of the project.", "docs")
    groups = _names("Dependency groups of the project.", "test")
    constraints = _names("Bounds for packages if they are installed.", "numpy<2")
    exclusions = _names("Versions that are not to be chosen.", "flask==3.0.1")
    overrides = _names("What replaces whatever anybody asks of a package.", "protobuf<5")
    prereleases = _names("Packages whose pre-releases are taken like any other.", "torch")
    allowed_vulnerabilities = _names("Identifiers that are accepted.", "CVE-2024-0001")
    indexes = _names("Configured indexes by name, in this order; else the project's.", "pypi")
    newer_than = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 50),
        metadata=described("Only releases since a date, or of so many days.", "90d"),
    )
    older_than = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 50),
        metadata=described("Only releases before a date, or at least so old.", "7d"),
    )
    labels = fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(max=500), no_nul)),
        load_default=dict,
        validate=validate.Length(max=100),
        metadata=described("Kept with the advice.", {"team": "blue"}),
    )
    time_limit_s = fields.Float(
        load_default=10.0,
        validate=validate.Range(0, _MAX_TIME_S, min_inclusive=False),
        metadata=described("Seconds that the search may take.", 10.0),
    )


class WhyNotQuerySchema(ForceQuerySchema):
    """What is asked about."""

    requirement = fields.String(
        required=True,
        validate=validate.And(validate.Length(1, 500), no_nul),
        metadata=described("A name with a specifier.", "numpy==1.26.4"),
    )


request_routes = Resources("advising", __name__, description="Advice asked for.")


@request_routes.route("/advice")
class AdviceRequestsResource(MethodView):
    """Requests for advice."""

    @needs(Scope.ADVISE)
    @request_routes.arguments(ForceQuerySchema, location="query")
    @request_routes.arguments(ProjectSchema)
    @request_routes.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask for the best stacks for a project."""
        request = advice_request(service().settings, body, may_fetch=analyses.may_fetch())
        parameters = {
            "recommendation_type": body["type"],
            "dev": body["dev"],
            "count": body["count"],
            "files": sorted(body["files"]),
        }
        new = analyses.new_analysis(
            AnalysisKind.ADVICE, request.to_document(), parameters, request.cache_key
        )
        job = QueueJob("advice.make", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))


@request_routes.route("/advice/<string:advice_id>/replay")
class ReplaysResource(MethodView):
    """The same again."""

    @needs(Scope.ADVISE)
    @request_routes.response(202, RequestSchema)
    def post(self, advice_id: str) -> Any:
        """Answer a recorded request again on what was known then, and compare the bytes."""
        asked = {"advice_id": _known(advice_id)}
        new = analyses.new_analysis(AnalysisKind.REPLAY, asked, asked, digest(asked))
        job = QueueJob("advice.replay", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=True))


@request_routes.route("/advice/<string:advice_id>/why-not")
class WhyNotResource(MethodView):
    """What a requirement would cost."""

    @needs(Scope.ADVISE)
    @request_routes.arguments(WhyNotQuerySchema, location="query")
    @request_routes.response(202, RequestSchema)
    def post(self, query: dict[str, Any], advice_id: str) -> Any:
        """Ask what a requirement would cost the stack, or why it cannot be met now."""
        _parsed(parse_dependencies, [query["requirement"]], "requirement")
        asked = {"advice_id": _known(advice_id), "requirement": query["requirement"]}
        new = analyses.new_analysis(AnalysisKind.WHY_NOT, asked, asked, digest(asked))
        job = QueueJob("advice.why_not", QueueName.PEOPLE, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))


def _known(advice_id: str) -> str:
    """:raises ApiError: 404 if there is no such advice"""
    with service().reading() as connection:
        known = report_document_of(connection, advice_id)
    if known is None:
        raise not_found("advice", advice_id)
    return advice_id


Text = TypeVar("Text")
Value = TypeVar("Value")

#: Platform of a request that names none; never that of the machine that serves.
_PLATFORM = "linux_x86_64"


def advice_request(
    settings: Settings, body: Mapping[str, Any], *, may_fetch: bool
) -> AdviceRequest:
    """Parse a request for advice; a number of days counts from now.

    :raises InvalidFile: naming file, field and remedy
    :raises InvalidArgument: naming the field
    :raises ApiError: 400 if an index is not configured
    """
    project = public_project(body["files"], body.get("manifest"))
    refuse_foreign_indexes(settings, project)
    fields = {name: public_values(value) for name, value in body.items() if name != "files"}
    now = datetime.now(UTC)

    def moment_of(name: str) -> datetime | None:
        return _parsed(lambda text: parse_moment(text, now), fields[name], name)

    options = Options(
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
        indexes=asked_indexes(settings, project, fields["indexes"]),
        labels=fields["labels"],
        time_s=fields["time_limit_s"],
    )
    where = fields["environment"]
    asked = Asked(
        project, _environment(project, where), RecommendationType(fields["type"]), options
    )
    _ = asked.roots  # refuses invalid requirements, extras and groups before anything is stored
    return AdviceRequest(asked, hardware_prefix=where.get("hardware"), may_fetch=may_fetch)


def _parsed(parse: Callable[[Text], Value], text: Text, field: str) -> Value:
    """:raises InvalidArgument: naming the field"""
    try:
        return parse(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error}") from error


def _environment(project: Project, given: Mapping[str, Any]) -> Environment:
    """The requested environment; without a Python, the project's if that is a full version."""
    platform, cuda = given.get("platform") or _PLATFORM, given.get("cuda")
    python = given.get("python")
    if python is None and project.python is not None:
        try:
            return environment(project.python, platform, cuda)
        except InvalidArgument:
            pass  # a project may name less than a version, such as "3"
    return environment(python, platform, cuda)
