"""Results of analyses that are documents of ours: stored once, by their content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.jobs.worker_context import Workshop
from common.formats.json_documents import canonical_json, digest_bytes
from graph.record.analyses import Analysis
from graph.record.documents import DeliveredDocument, add_documents

#: Of all of them; what is in one depends on the kind of its analysis.
SCHEMA_VERSION = "analysis-result-1"


def store_result(shop: Workshop, analysis: Analysis, result: Mapping[str, Any]) -> str:
    """Store what an analysis found.

    :returns: the identifier of the document
    """
    body = canonical_json(result)
    document = DeliveredDocument(
        digest_bytes(body), f"{analysis.kind}-result", SCHEMA_VERSION, analysis.analysis_id, body
    )
    with shop.service.writing() as connection:
        add_documents(connection, shop.settings, [document])
    return document.document_id
