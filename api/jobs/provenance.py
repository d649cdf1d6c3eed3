"""The job of provenance checks: compares a lock with the recorded files of the indexes."""

from __future__ import annotations

import time
from typing import Any

from adviser.answering.answers import metadata
from adviser.answering.file_listings import recorded_listings
from adviser.answering.index_selection import called_indexes
from adviser.provenance import KnownIndexes, check_lock
from api.access.index_policy import public_indexes
from api.jobs.request_run import store_result
from api.jobs.request_types import ProvenanceRequest
from api.jobs.worker_context import WorkerContext
from common.index.configuration import configured_indexes
from graph.record.analyses import Analysis

SCHEMA_VERSION = "provenance-1"


def check_provenance(worker: WorkerContext, analysis: Analysis, document: dict[str, Any]) -> str:
    """Check a lock and store the report.

    :param document: a stored :class:`ProvenanceRequest`
    :returns: the identifier of the report's document
    :raises InvalidArgument: if another version of the service stored the request
    """
    began = time.perf_counter()
    request = ProvenanceRequest.from_document(document)
    project = request.project
    with worker.service.relational() as stores:
        listings = recorded_listings(stores, project.lock_entries)
    allowed = list(configured_indexes(worker.settings))
    called = called_indexes(worker.settings, project)
    unread = {(it.name, it.version) for it in project.lock_entries}
    issues = check_lock(project, KnownIndexes(listings, allowed, called, unread=unread))
    # Equal requests share a report, whoever sends them.
    shown = public_indexes(worker.settings, anonymous=True)
    result = {
        "error": False,
        "error_msg": None,
        "input": None,
        "report": [it.document() for it in issues],
        "parameters": {
            "project": {
                "requirements": request.requirements,
                "requirements_locked": request.requirements_locked,
                "constraints": [],
                "runtime_environment": {},
            },
            "whitelisted_sources": list(shown.values()),
        },
    }
    timings = {"total_s": time.perf_counter() - began}
    report = {"metadata": metadata(timings, analysis.analysis_id), "result": result}
    return store_result(worker, analysis, report, "provenance-report", SCHEMA_VERSION)
