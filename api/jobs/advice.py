"""Advice as a job: the adviser on what the worker keeps warm."""

from __future__ import annotations

from typing import Any

from adviser.answering.answers import answer, store
from api.jobs.workshop import Workshop
from api.thamos.stacks import asked_of
from graph.repositories.advice import report_document_of
from graph.repositories.analyses import Analysis


def make_advice(shop: Workshop, analysis: Analysis, request: dict[str, Any]) -> str:
    """Answer a request and store its report under the analysis' identifier.

    :returns: the identifier of the report's document
    """
    with shop.service.stores() as stores:
        with stores.engine.connect() as connection:
            # A worker may have died between the report and the end of the analysis.
            stored = report_document_of(connection, analysis.analysis_id)
        if stored is not None:
            return stored
        asked = asked_of(shop.settings, request)
        made = answer(
            stores, asked, shop.resolver.resolve,
            reader=shop.known_of, advice_id=analysis.analysis_id,
        )  # fmt: skip
        return store(stores, made)
