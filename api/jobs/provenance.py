"""A check of provenance as a job: a lock against what the record has of the indexes."""

from __future__ import annotations

import time
import tomllib
from typing import Any

import orjson

from adviser.answering.answers import metadata
from adviser.answering.indexes import called_indexes
from adviser.answering.listings import recorded_listings
from adviser.projects.indexes import public_values
from adviser.provenance import Served, check_lock
from api.index_policy import public_indexes
from api.jobs.worker_context import WorkerContext
from api.thamos.stacks import project_of
from common.errors import InvalidArgument
from common.formats.json_documents import canonical_json, digest_bytes
from common.index.configuration import configured_indexes
from graph.record.analyses import Analysis
from graph.record.documents import DeliveredDocument, add_documents

SCHEMA_VERSION = "provenance-1"


def check_provenance(shop: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Check a lock and store what was found.

    :returns: the identifier of the report's document
    :raises InvalidArgument: if there is no lock whose packages are all pinned
    """
    began = time.perf_counter()
    project = project_of(shop.settings, request)
    if project.locked is None:
        raise InvalidArgument("the project has no lock whose packages are all pinned")
    with shop.service.relational() as stores:
        listings = recorded_listings(stores, project.lock_entries)
    allowed = list(configured_indexes(shop.settings))
    called = called_indexes(shop.settings, project)
    issues = check_lock(project, Served(listings, allowed, called))
    stack = request["application_stack"]
    result = {
        "error": False,
        "error_msg": None,
        "input": None,
        "report": [it.document() for it in issues],
        "parameters": {
            "project": {
                "requirements": public_values(tomllib.loads(stack["requirements"])),
                "requirements_locked": public_values(orjson.loads(stack["requirements_lock"])),
                "constraints": [],
                "runtime_environment": {},
            },
            "whitelisted_sources": list(public_indexes(shop.settings).values()),
        },
    }
    timings = {"total_s": time.perf_counter() - began}
    told = metadata(timings, analysis.analysis_id)
    body = canonical_json({"metadata": told, "result": result})
    document = DeliveredDocument(
        digest_bytes(body), "provenance-report", SCHEMA_VERSION, analysis.analysis_id, body
    )
    with shop.service.writing() as connection:
        add_documents(connection, shop.settings, [document])
    return document.document_id
