"""Advice as a job: the adviser on what the worker keeps warm."""

from __future__ import annotations

from typing import Any

from adviser.advise import advise
from adviser.answering.answers import Answer, answer, knowledge, on_hardware, store
from adviser.answering.recorded import recorded, replayed, request_in, why_it_may_differ
from adviser.asked import Asked
from adviser.explain import why_not
from adviser.reports.serialization import plain
from api import asking
from api.asking import requirement_of
from api.jobs.analysis_run import store_result, tell
from api.jobs.fetching import fetch_lacking
from api.jobs.uploads import PROJECT_SOON
from api.jobs.worker_context import WorkerContext
from api.privacy import FILES, MAY_FETCH
from api.thamos.hardware import on_described_hardware
from api.thamos.stacks import asked_of
from common.formats.json_documents import digest_bytes
from graph.engine import Stores
from graph.record.advice import report_document_of
from graph.record.analyses import Analysis, supersede


def make_advice(shop: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
    """Answer a request and store its report under the analysis' identifier.

    :returns: the identifier of the report's document
    """
    with shop.service.stores() as stores:
        with stores.engine.connect() as connection:
            # A worker may have died between the report and the end of the analysis.
            stored = report_document_of(connection, analysis.analysis_id)
        if stored is not None:
            return stored
        asked = _asked(shop, stores, request)
        made = answer(
            stores, asked, shop.resolver.resolve,
            reader=shop.known_of, advice_id=analysis.analysis_id,
        )  # fmt: skip
        report = store(stores, made, lambda it: shop.service.queue.enqueue(it, PROJECT_SOON))
    _tell(made, debug=asked.options.debug)
    # Not in the report: the same request on the same knowledge gives the same bytes.
    queued = fetch_lacking(shop, made.advice) if request.get(MAY_FETCH) else None
    if queued is not None:
        tell(str(queued))
        with shop.service.writing() as connection:
            supersede(connection, analysis.analysis_id)
    return report


def _tell(made: Answer, *, debug: bool) -> None:
    """What came of it; if it is debugged, how long each step took too."""
    result = made.report["result"]
    search = result["report"]["search"]
    tell(f"{search['candidates']} versions may be chosen, {search['refused']} are refused by rules")
    if debug:
        for step, seconds in made.timings.items():
            tell(f"{step.removesuffix('_s')}: {seconds:.3f} s")
    status = result["report"]["certificate"]["status"]
    tell(f"{status}: {result['error_msg']}" if result["error"] else status)


def _asked(shop: WorkerContext, stores: Stores, request: dict[str, Any]) -> Asked:
    """What is asked, on the hardware class that the request is about."""
    if FILES in request:
        wanted = asking.asked_of(shop.settings, request)
        prefix = asking.hardware_of(request)
        return wanted if prefix is None else on_hardware(stores, wanted, prefix)
    described = request.get("runtime_environment")
    return on_described_hardware(stores, asked_of(shop.settings, request), described)


def replay_advice(shop: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
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


def explain_why_not(shop: WorkerContext, analysis: Analysis, request: dict[str, Any]) -> str:
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
