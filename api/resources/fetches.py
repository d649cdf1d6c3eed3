"""Packages asked for: read from a configured index by a worker."""

from __future__ import annotations

from typing import Any

from flask.views import MethodView

from api import analyses
from api.authentication import needs
from api.jobs.fetching import TASK
from api.jobs.queue import Job, QueueName
from api.resources.base import Resources
from api.resources.requests import accepted, new_request
from api.schemas.work import FetchSchema, ForceQuerySchema, RequestSchema
from api.service import service
from common.formats.json_documents import digest
from common.index.configuration import index_of
from graph.record.analyses import Kind
from graph.record.tokens import Scope
from ingest.crawl.runs import roots_of

blueprint = Resources("fetches", __name__, description="Packages asked for.")


@blueprint.route("/packages")
class FetchesResource(MethodView):
    """Packages asked for."""

    @needs(Scope.INGEST)
    @blueprint.arguments(ForceQuerySchema, location="query")
    @blueprint.arguments(FetchSchema)
    @blueprint.response(202, RequestSchema)
    def post(self, query: dict[str, Any], body: dict[str, Any]) -> Any:
        """Ask for packages, and all that they need, to be read from a configured index."""
        index = index_of(service().settings, body["index"]).name
        roots_of(body["requirements"])  # what names no package needs no worker to say so
        asked = {**body, "index": index}
        new = new_request(Kind.FETCH, asked, asked, digest(asked))
        job = Job(TASK, QueueName.BULK, {"analysis_id": new.analysis_id})
        return accepted(*analyses.submit(new, job, force=query.get("force", False)))
