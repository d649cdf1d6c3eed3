"""Requests that a worker answers, and how far they are."""

from __future__ import annotations

from typing import Any

from marshmallow import RAISE, Schema, ValidationError, fields, validate

from adviser.scoring.criteria import RecommendationType
from api.schema_fields import (
    QuerySchema,
    asked_flag,
    choice,
    count,
    flag,
    free,
    moment,
    text,
    texts,
)
from api.schemas.project_files import MAX_FILES, MAX_NAME, ProjectFiles, check_name

#: Of one text, and of all lists.
_MAX_TEXT = 3 * 1024**2
_MAX_ITEMS = 1_000
#: Seconds that a search may take: who waits longer runs it at home.
_MAX_TIME_S = 60.0
_STATES = ["pending", "running", "succeeded", "failed", "error"]


def _names(description: str, example: str) -> fields.List[Any]:
    return fields.List(
        fields.String(validate=validate.Length(1, 500)),
        load_default=list,
        validate=validate.Length(max=_MAX_ITEMS),
        metadata={"description": description, "example": [example]},
    )


def _told(description: str, example: Any) -> dict[str, Any]:
    return {"description": description, "example": example}


def no_nul(value: str) -> None:
    """Texts are stored, and no store keeps a NUL."""
    if "\0" in value:
        raise ValidationError("holds a NUL")


class _Strict(Schema):
    """What is misspelt is refused rather than passed over."""

    class Meta:
        """Every member means something."""

        unknown = RAISE


class WhereSchema(_Strict):
    """Where a stack is to run."""

    python = fields.String(
        validate=validate.Length(1, 50),
        metadata=_told("A version; the project's, else the service's.", "3.11"),
    )
    platform = fields.String(
        validate=validate.Length(1, 100),
        metadata=_told("A wheel's tag; linux_x86_64 unless given.", "manylinux_2_28_x86_64"),
    )
    cuda = fields.String(
        validate=validate.Length(1, 20),
        metadata=_told("The newest CUDA that the driver runs.", "12.4"),
    )
    hardware = fields.String(
        validate=validate.Regexp(r"(?:sha256:)?[0-9a-f]{1,64}\Z"),
        metadata=_told("The beginning of a hardware class' digest.", "sha256:1f2e"),
    )


class ProjectSchema(_Strict):
    """A project as files, and what is wanted of its stack; options as of ``thoth advise``."""

    files = ProjectFiles(
        keys=fields.String(),
        values=fields.String(validate=validate.And(validate.Length(max=_MAX_TEXT), no_nul)),
        required=True,
        metadata={
            **_told("Texts by path within the project.", {"requirements.txt": "flask>=3\n"}),
            "minProperties": 1,
            "maxProperties": MAX_FILES,
        },
    )
    manifest = fields.String(
        validate=validate.And(validate.Length(1, MAX_NAME), check_name),
        metadata=_told("The file that says what is required; found unless given.", "Pipfile"),
    )
    type = fields.String(
        load_default="latest",
        validate=validate.OneOf([it.value for it in RecommendationType]),
        metadata=_told("What is wanted of a stack.", "stable"),
    )
    count = fields.Integer(
        load_default=1,
        strict=True,
        validate=validate.Range(1, 20),
        metadata=_told("How many stacks, best first.", 1),
    )
    environment = fields.Nested(WhereSchema, load_default=dict)
    dev = fields.Boolean(load_default=False, metadata=_told("With what development needs.", False))
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
        metadata=_told("Only releases since a date, or of so many days.", "90d"),
    )
    older_than = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 50),
        metadata=_told("Only releases before a date, or at least so old.", "7d"),
    )
    labels = fields.Dict(
        keys=fields.String(validate=validate.And(validate.Length(1, 200), no_nul)),
        values=fields.String(validate=validate.And(validate.Length(max=500), no_nul)),
        load_default=dict,
        validate=validate.Length(max=100),
        metadata=_told("Kept with the advice.", {"team": "blue"}),
    )
    time_limit_s = fields.Float(
        load_default=10.0,
        validate=validate.Range(0, _MAX_TIME_S, min_inclusive=False),
        metadata=_told("Seconds that the search may take.", 10.0),
    )


class ForceQuerySchema(QuerySchema):
    """Whether an equal request of a while ago will do."""

    force = asked_flag("Do it again although the same was asked a while ago.")


class WhyNotQuerySchema(ForceQuerySchema):
    """What is asked about."""

    requirement = fields.String(
        required=True,
        validate=validate.And(validate.Length(1, 500), no_nul),
        metadata=_told("A name with a specifier.", "numpy==1.26.4"),
    )


class RequestSchema(Schema):
    """A request that was accepted."""

    analysis_id = text("Under which it is found.", "adviser-240611083015-5f0c9d2be417a863")
    kind = text("What it asks for.", "adviser")
    state = choice("How far it is; the last three are ends.", _STATES)
    reason = text("Why it ended otherwise than in success.", null=True)
    cached = flag("Whether it is an equal request of a while ago.")
    parameters = free("What was asked.")
    accepted_at = moment("When it was accepted.")
    started_at = moment("When a worker took it first.", null=True)
    finished_at = moment("When it ended.", null=True)
    attempts = count("How often a worker took it.", 1)
    as_of = moment("Of the newest knowledge that the result may rest on.", null=True)
    graph_revision = count("How far the graph was by then.", 1804, null=True)
    result = text("Address of the result, once there is one.", null=True)
    log = text("Address of what people are shown of the run.")


class LogSchema(Schema):
    """What people are shown of a run."""

    analysis_id = text("Of the request.", "adviser-240611083015-5f0c9d2be417a863")
    lines = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "In order, with `asctime`, `levelname` and `message`."},
    )


class TakenInSchema(Schema):
    """What became of documents that were taken in at once."""

    documents = texts("Their identifiers, in order.", ["sha256:1f2e"])
    new = count("Of these, not known before.", 1)
    known = count("Of these, known before.", 0)


class FetchSchema(_Strict):
    """Packages that are to be read, with all that they need."""

    requirements = fields.List(
        fields.String(validate=validate.Length(1, 500)),
        required=True,
        validate=validate.Length(1, 100),
        metadata=_told("Names, with extras and a specifier if need be.", ["flask>=3"]),
    )
    index = fields.String(
        load_default=None,
        allow_none=True,
        validate=validate.Length(1, 200),
        metadata=_told("A configured index by name; else the default one.", "pypi"),
    )
    prereleases = fields.Boolean(
        load_default=False, metadata=_told("Read pre-releases also where there are others.", False)
    )


class CypherSchema(_Strict):
    """A question to the graph, and its limits."""

    query = fields.String(
        required=True,
        validate=validate.Length(1, 100_000),
        metadata=_told("One statement that reads.", "MATCH (p:Package) RETURN p.name LIMIT 3"),
    )
    parameters = fields.Dict(
        keys=fields.String(),
        load_default=dict,
        metadata=_told("Values by name.", {"name": "flask"}),
    )
    timeout_s = fields.Float(
        load_default=None,
        allow_none=True,
        validate=validate.Range(0, min_inclusive=False),
        metadata=_told("End the query after so long.", 5.0),
    )
    limit = fields.Integer(
        load_default=None,
        allow_none=True,
        strict=True,
        validate=validate.Range(1),
        metadata=_told("Give no more rows.", 100),
    )


class RowsSchema(Schema):
    """What a query gave."""

    columns = texts("In the query's order.", ["p.name"])
    rows = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "Values by column; nodes with labels and properties."},
    )
    truncated = flag("Whether there were more rows than the limit.")
