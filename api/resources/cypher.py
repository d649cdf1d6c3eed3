"""Read-only Cypher queries, within limits of time, rows and bytes."""

from typing import Any

from flask import Response
from marshmallow import Schema, fields, validate

from api.access import needs, token, wrote_nothing
from api.http.errors import ApiError, ProblemType
from api.http.request_context import from_data
from api.http.schema_fields import StrictSchema, choice, described, flag, texts
from api.jobs.request_submission import sender
from api.resources.base import Resources
from api.store_access import answer_within, service
from graph.analyst_queries import (
    LONGEST_QUERY,
    Cut,
    QueryResult,
    json_parts,
    open_reader,
    run_query,
)
from graph.checkpoints import stores_agree
from graph.engine import graph_database
from graph.record.access import Scope
from graph.record.freshness import progress
from graph.snapshot_reader import CheckTime
from model.errors import GraphMismatch


class CypherSchema(StrictSchema):
    """A query with its limits."""

    query = fields.String(
        required=True,
        validate=validate.Length(1, LONGEST_QUERY),
        metadata=described("One read-only statement.", "MATCH (p:Package) RETURN p.name LIMIT 3"),
    )
    parameters = fields.Dict(
        keys=fields.String(),
        load_default=dict,
        metadata=described("Values of parameters by name.", {"name": "flask"}),
    )
    timeout_s = fields.Float(
        load_default=None,
        allow_none=True,
        validate=validate.Range(0, min_inclusive=False),
        metadata=described("Time limit of the query, s.", 5.0),
    )
    limit = fields.Integer(
        load_default=None,
        allow_none=True,
        strict=True,
        validate=validate.Range(1),
        metadata=described("Maximum number of rows.", 100),
    )


class RowsSchema(Schema):
    """Result of a query."""

    columns = texts("Names of columns, in the query's order.", ["p.name"])
    rows = fields.List(
        fields.Dict(keys=fields.String()),
        required=True,
        metadata={"description": "Values by column; nodes have labels and properties."},
    )
    truncated = flag("Whether there were more rows than a limit allows.")
    truncated_by = choice("The limit that cut the rows, if one did.", list(Cut), null=True)
    warnings = texts(
        "Names in the query that the graph does not have.",
        ["the graph has no label Packge (did you mean Package?)"],
    )


blueprint = Resources("cypher", __name__, description="Queries to the graph.")


@blueprint.route("/cypher", methods=["POST"])
@needs(Scope.CYPHER)
@blueprint.arguments(CypherSchema)
@blueprint.response(200, RowsSchema)
def post_cypher(body: dict[str, Any]) -> Response:
    """Run a read-only query within limits of time, rows and bytes."""
    wrote_nothing()
    stores = service()
    settings = stores.settings
    timeout_s = _within("timeout_s", body["timeout_s"], settings.query_timeout_s)
    row_limit = int(_within("limit", body["limit"], settings.query_row_limit))
    query = body["query"].strip().removesuffix(";").rstrip()
    if not query:
        raise ApiError(400, ProblemType.INVALID_QUERY, "the query is empty")
    with stores.reading() as connection:
        from_data(progress(connection))
    # The store ends the query at its limit; this bound is for a store that hangs.
    longest_s = timeout_s + 4 * settings.connect_timeout_s

    def ask(_: CheckTime) -> QueryResult:
        with stores.stores() as opened:
            if not stores_agree(opened):
                raise GraphMismatch
        with open_reader(settings) as driver:
            return run_query(
                driver, query, body["parameters"],
                timeout_s=timeout_s, row_limit=row_limit,
                byte_limit=settings.query_byte_limit, database=graph_database(settings),
            )  # fmt: skip

    # Encoded while it is sent: the rows and their JSON are never both in memory.
    with stores.analysts.place_for(sender(token())):
        parts = json_parts(answer_within(longest_s, ask))
    return Response(parts, mimetype="application/json")


def _within(field: str, value: float | None, most: float) -> float:
    if value is not None and value > most:
        raise ApiError(
            400, ProblemType.INVALID_REQUEST, f"{field}: at most {most:g} on this service"
        )
    return most if value is None else value
