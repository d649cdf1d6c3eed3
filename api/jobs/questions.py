"""Questions about recorded advice as jobs: the same again, and why not something else."""

from __future__ import annotations

from typing import Any

from adviser.advise import advise
from adviser.answering.answers import knowledge
from adviser.answering.recorded import recorded, replayed, request_in, why_it_may_differ
from adviser.explain import why_not
from adviser.reports.serialization import plain
from api.asking import requirement_of
from api.jobs.results import store_result
from api.jobs.worker_context import Workshop
from common.formats.json_documents import digest_bytes
from graph.record.analyses import Analysis


def replay_advice(shop: Workshop, analysis: Analysis, request: dict[str, Any]) -> str:
    """Answer a recorded request again on what was known then, and compare the bytes.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if there is no such advice
    """
    with shop.service.relational() as stores:
        stored = recorded(stores, request["advice_id"])
    advice, report = replayed(stored)
    same = report == stored.report
    result = {
        "advice_id": request["advice_id"],
        "same": same,
        "recorded_digest": digest_bytes(stored.report),
        "replayed_digest": digest_bytes(report),
        "reason": None if same else why_it_may_differ(stored, advice),
    }
    return store_result(shop, analysis, result)


def explain_why_not(shop: Workshop, analysis: Analysis, request: dict[str, Any]) -> str:
    """Say what a requirement would cost the stack of a recorded request, by what is known now.

    :returns: the identifier of the result's document
    :raises InvalidArgument: if there is no such advice
    """
    wanted = requirement_of(request["requirement"], "requirement")
    with shop.service.stores() as stores:
        asked, *_ = request_in(recorded(stores, request["advice_id"]))
        snapshot, evidence = knowledge(stores, asked, more=[wanted])
    found = advise(asked, snapshot, evidence, resolver=shop.resolver.resolve)
    told = why_not(found, wanted, resolver=shop.resolver.resolve)
    return store_result(shop, analysis, {"advice_id": request["advice_id"], **plain(told)})
