"""Advice: requests for it, replays and why-not questions, reports, and the basis of claims."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from flask import Response
from flask.views import MethodView
from marshmallow import fields, validate
from packaging.utils import canonicalize_name

from adviser.advice_request import (
    RequestOptions,
    StackRequest,
    parse_bounds,
    parse_dependencies,
    parse_moment,
    parse_overrides,
)
from adviser.answering.index_selection import indexes_to_search
from adviser.answering.recorded_advice import UnknownClaim, explained_claim
from adviser.claim_details import ClaimDetails, EffectDetails, JobPair, PartialEffect, UsedJob
from adviser.projects.indexes import public_values
from adviser.projects.project import Project
from adviser.scoring.assessment_types import PackageDifference
from adviser.scoring.criteria import RecommendationType
from api.access import needs, require_token
from api.http.errors import ApiError, ProblemType, not_found
from api.http.project_files import (
    MAX_FILES,
    MAX_NAME,
    ProjectFiles,
    check_name,
    public_project,
    refuse_foreign_indexes,
)
from api.http.request_context import reading
from api.http.schema_fields import (
    NULL_BY_DEFAULT,
    FreshnessSchema,
    ResultDocumentSchema,
    StrictSchema,
    bounded_text,
    choice,
    count,
    described,
    filter_choice,
    fresh,
    json_object,
    no_nul,
    page_of,
    query_of,
    schema_of,
    text,
    texts,
)
from api.jobs import request_submission
from api.jobs.stored_requests import AdviceRequest
from api.resources.accepted_requests import (
    ForceQuerySchema,
    RequestSchema,
    request_document,
    submit_request,
)
from api.resources.base import Cursor, Resources, browse_page, filters, freshness, members, or_404
from api.store_access import service
from common.formats.locks.entries import LockSelection
from common.settings import Settings
from graph.record.access import Scope
from graph.record.advice import (
    AdviceFilter,
    AdvisedStackHead,
    advice_named,
    browse_advice,
    evidence_count,
    report_document_of,
    stacks_of,
)
from graph.record.analyses import AnalysisKind, latest_answer
from graph.record.documents import body_of
from model.advice import AdviceHead
from model.errors import InvalidArgument
from model.packages.environments import Environment, environment

_TYPES = [it.value for it in RecommendationType]
#: Outcomes of a search.
_STATUSES = ["optimal", "feasible", "infeasible", "unknown"]

AdviceListQuerySchema = query_of(
    "AdviceListQuery",
    AdviceFilter,
    recommendation_type=filter_choice("Recommendation type of the request.", _TYPES),
    status=filter_choice("How the search ended.", _STATUSES),
)
AdviceItemSchema = schema_of(
    "AdviceItem",
    AdviceHead,
    recommendation_type=choice("Recommendation type of the request.", _TYPES),
    status=choice("How the search ended.", _STATUSES),
)
AdvicePageSchema = page_of("AdvicePage", AdviceItemSchema)
RecommendedStackSchema = schema_of("RecommendedStack", AdvisedStackHead)
AdviceDetailSchema = fresh(
    "AdviceDetail",
    AdviceItemSchema,
    stacks=fields.List(fields.Nested(RecommendedStackSchema), required=True),
    evidence=count("Number of observations that support its claims.", 20),
)

blueprint = Resources("advice", __name__, description="Recorded advice.")

_ADVICE = Cursor("advice", {"created_at": datetime, "advice_id": str})


@blueprint.route("/advice")
@needs(Scope.READ, anonymous=False)
@blueprint.arguments(AdviceListQuerySchema, location="query")
@blueprint.response(200, AdvicePageSchema)
def get_advice_list(query: dict[str, Any]) -> dict[str, Any]:
    """List advice requested with this token, newest first; scope `admin` lists all advice."""
    client = require_token()
    token_id = None if client.may(Scope.ADMIN) else client.token_id
    selection = AdviceFilter(**filters(query), token_id=token_id)
    return browse_page(query, _ADVICE, browse_advice, selection)


@blueprint.route("/advice/<string:advice_id>")
@needs(Scope.ADVISE)
@blueprint.response(200, AdviceDetailSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_advice(advice_id: str) -> dict[str, Any]:
    """Get one advice with its recommended stacks, best first."""
    with reading() as (connection, progress):
        advice = or_404(advice_named(connection, advice_id), "advice", advice_id)
        return {
            **members(advice),
            "stacks": stacks_of(connection, advice_id),
            "evidence": evidence_count(connection, advice_id),
            **freshness(progress),
        }


@blueprint.route("/advice/<string:advice_id>/report")
@needs(Scope.ADVISE)
@blueprint.response(200, ResultDocumentSchema)
@blueprint.alt_response(404, "NOT_FOUND")
def get_advice_report(advice_id: str) -> Response:
    """Get the report of an advice, as it was recorded."""
    with reading() as (connection, _):
        document = report_document_of(connection, advice_id)
        body = document and body_of(connection, service().settings, document)
    if not body:
        raise not_found("advice", advice_id)
    return Response(body, mimetype="application/json")


_ENDED_AT = text("End of the last job; null if unknown.", "2026-01-01T00:00:00Z", null=True)
ClaimEffectSchema = schema_of("ClaimEffect", EffectDetails)
ClaimDifferenceSchema = schema_of("ClaimDifference", PackageDifference)
schema_of("PartialEffect", PartialEffect, ended_at=_ENDED_AT)
JobPairSchema = schema_of("JobPair", JobPair, ended_at=_ENDED_AT)
UsedJobSchema = schema_of("UsedJob", UsedJob, ended_at=_ENDED_AT)
ExplainedClaimSchema = schema_of(
    "ExplainedClaim",
    ClaimDetails,
    base=FreshnessSchema,
    advice_id=text("Identifier of the advice.", "adviser-260101000000-5f0c9d2be417a863"),
    other_version=text(
        "Version of Thoth that wrote the advice, if this version computes other values.", null=True
    ),
    claim=json_object("The claim with the keys of a report."),
    sentences=texts("Sentences with the result of the claim and its computation."),
)

claim_routes = Resources("claims", __name__, description="Claims of recorded advice.")


@claim_routes.route("/advice/<string:advice_id>/claims/<string:claim_id>")
@needs(Scope.ADVISE)
@claim_routes.response(200, ExplainedClaimSchema)
@claim_routes.alt_response(404, "NOT_FOUND")
def get_claim(advice_id: str, claim_id: str) -> dict[str, Any]:
    """Explain a claim of an advice: its pairs, hosts, inspections, contexts and error rate.

    The first digits of the identifier suffice if no other claim of the advice has them.
    """
    with reading() as (connection, progress):

        def explain() -> dict[str, Any]:
            settings = service().settings
            return explained_claim(connection, settings, claim_id, advice_id).document()

        # Judging thousands of comparisons takes seconds.
        key = "claim", advice_id, claim_id
        try:
            document = service().record_value(connection, key, explain)
        except UnknownClaim as error:
            raise not_found("claim of this advice", claim_id) from error
    return {**document, **freshness(progress)}


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

    python = bounded_text(
        "Python version; by default the project's, else that of the service.", "3.11", 50
    )
    platform = bounded_text(
        "Platform as a wheel tag; default linux_x86_64.", "manylinux_2_28_x86_64", 100
    )
    cuda = bounded_text("Newest CUDA version that the driver supports.", "12.4", 20)
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
    overrides = _names("Requirements that replace all others on their package.", "protobuf<5")
    prereleases = _names("Packages whose pre-releases are allowed.", "torch")
    allowed_vulnerabilities = _names("Vulnerabilities to accept, by identifier.", "CVE-2024-0001")
    only_wheels = fields.Boolean(
        load_default=False,
        metadata=described("Leave out versions that would have to be built.", False),
    )
    indexes = _names(
        "Names of configured indexes in order of preference; by default the project's.", "pypi"
    )
    newer_than = bounded_text(
        "Only releases after a date, or of the last days.", "90d", 50, **NULL_BY_DEFAULT
    )
    older_than = bounded_text(
        "Only releases before a date, or of at least this age.", "7d", 50, **NULL_BY_DEFAULT
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


request_routes = Resources("advising", __name__, description="Requests for advice.")


@request_routes.route("/advice", methods=["POST"])
@needs(Scope.ADVISE)
@request_routes.arguments(ForceQuerySchema, location="query")
@request_routes.arguments(ProjectSchema)
@request_routes.response(202, RequestSchema)
def post_advice_requests(query: dict[str, Any], body: dict[str, Any]) -> Any:
    """Request the best stacks for a project."""
    request = advice_request(service().settings, body, may_fetch=request_submission.may_fetch())
    parameters = {name: body[name] for name in ("dev", "count")}
    parameters |= {"recommendation_type": body["type"], "files": sorted(body["files"])}
    return submit_request(
        AnalysisKind.ADVICE, request.to_document(), request.cache_key,
        parameters=parameters, force=query.get("force", False),
    )  # fmt: skip


@request_routes.route("/advice/<string:advice_id>/replay", methods=["POST"])
@needs(Scope.ADVISE)
@request_routes.response(202, RequestSchema)
def post_replays(advice_id: str) -> Any:
    """Answer a recorded request again with the data of that time, and compare the reports."""
    return submit_request(
        AnalysisKind.REPLAY, {"advice_id": _require_advice(advice_id)}, force=True
    )


@request_routes.route("/advice/<string:advice_id>/why-not")
class WhyNotResource(MethodView):
    @needs(Scope.ADVISE)
    @request_routes.arguments(WhyNotAnswerQuerySchema, location="query")
    @request_routes.response(200, RequestSchema)
    @request_routes.alt_response(404, "NOT_FOUND")
    def get(self, query: dict[str, Any], advice_id: str) -> dict[str, Any]:
        """Get the last answered request with this question; its `result` is the answer.

        The answer holds for the data of its time; POST asks again.
        """
        question = {"advice_id": _require_advice(advice_id), "requirement": query["requirement"]}
        with service().reading() as connection:
            analysis = latest_answer(connection, AnalysisKind.WHY_NOT, question)
        if analysis is None:
            detail = "this was not asked about the advice yet, or the answer was deleted: use POST"
            raise ApiError(404, ProblemType.NOT_FOUND, detail)
        return request_document(analysis)

    @needs(Scope.ADVISE)
    @request_routes.arguments(WhyNotQuerySchema, location="query")
    @request_routes.response(202, RequestSchema)
    def post(self, query: dict[str, Any], advice_id: str) -> Any:
        """Ask what a requirement would change in the stack, or why it cannot be met."""
        _parse_field(parse_dependencies, [query["requirement"]], "requirement")
        question = {"advice_id": _require_advice(advice_id), "requirement": query["requirement"]}
        return submit_request(
            AnalysisKind.WHY_NOT,
            {**question, "may_fetch": request_submission.may_fetch()},
            parameters=question,
            force=query.get("force", False),
        )


def _require_advice(advice_id: str) -> str:
    """:raises ApiError: 404 if there is no such advice"""
    with service().reading() as connection:
        or_404(report_document_of(connection, advice_id), "advice", advice_id)
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
    ages = {
        name: _parse_field(lambda text: parse_moment(text, now), fields[name], name)
        for name in ("newer_than", "older_than")
    }
    options = RequestOptions(
        count=fields["count"],
        dev=fields["dev"],
        extras=tuple(fields["extras"]),
        groups=tuple(fields["groups"]),
        constraints=_parse_field(parse_bounds, fields["constraints"], "constraints"),
        exclusions=_parse_field(parse_bounds, fields["exclusions"], "exclusions"),
        overrides=_parse_field(parse_overrides, fields["overrides"], "overrides"),
        prereleases=frozenset(map(canonicalize_name, fields["prereleases"])),
        published_before=ages["older_than"] or project.published_before,
        published_after=ages["newer_than"],
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


def _parse_field(parse: Callable[[Text], Value], text: Text, field: str) -> Value:
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
