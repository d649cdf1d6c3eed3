"""Analysts' questions to the graph: they can read and nothing else."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api.audit import wrote_nothing
from api.authentication import needs
from api.errors import ApiError, Problem
from api.request_context import from_data
from api.resources.base import Resources
from api.schemas.work import CypherSchema, RowsSchema
from api.service import service
from api.waiting import answer_within
from graph.engine import graph_database
from graph.query_results import as_document
from graph.reader import QueryResult, open_reader, run_query
from graph.record.freshness import progress
from graph.record.tokens import Scope

blueprint = Resources("cypher", __name__, description="Questions to the graph.")


@blueprint.route("/cypher")
class CypherResource(MethodView):
    """Questions to the graph."""

    @needs(Scope.CYPHER)
    @blueprint.arguments(CypherSchema)
    @blueprint.response(200, RowsSchema)
    def post(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Run a query that reads, within limits of time and rows."""
        wrote_nothing()
        settings = service().settings
        timeout_s = _within("timeout_s", asked["timeout_s"], settings.query_timeout_s)
        row_limit = int(_within("limit", asked["limit"], settings.query_row_limit))
        query = asked["query"].strip().removesuffix(";").rstrip()
        if not query:
            raise ApiError(400, Problem.INVALID_QUERY, "the query is empty")
        with service().reading() as connection:
            from_data(progress(connection))
        # The store ends the query at its limit; this is for one that does not answer at all.
        longest_s = timeout_s + 4 * settings.connect_timeout_s

        def ask() -> QueryResult:
            with open_reader(settings) as driver:
                return run_query(
                    driver, query, asked["parameters"],
                    timeout_s=timeout_s, row_limit=row_limit, database=graph_database(settings),
                )  # fmt: skip

        return as_document(answer_within(longest_s, ask))


def _within(field: str, wanted: float | None, most: float) -> float:
    if wanted is not None and wanted > most:
        raise ApiError(400, Problem.INVALID_REQUEST, f"{field}: at most {most:g} here")
    return most if wanted is None else wanted
