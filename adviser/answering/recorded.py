"""Advice out of the record: answered again, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from adviser.advise import Advice, advise, assessed
from adviser.asked import Asked
from adviser.reports.checking import check_report
from adviser.reports.documents import (
    SCHEMA_VERSION,
    Known,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.values import unpacked
from adviser.resolver.worker import Worker
from common.errors import InvalidArgument, InvalidDocument
from common.reasons import Reason
from graph.engine import Stores
from graph.evidence import Evidence
from graph.repositories.advice import StoredAdvice, advice_of
from graph.snapshot import Snapshot


def recorded(stores: Stores, advice_id: str) -> StoredAdvice:
    """An advice by its identifier.

    :raises InvalidArgument: if there is none
    """
    with stores.engine.connect() as connection:
        found = advice_of(connection, stores.settings, advice_id)
    if found is None:
        raise InvalidArgument(f"no advice is called {advice_id!r}")
    return found


def request_in(stored: StoredAdvice) -> tuple[Asked, Snapshot, Evidence, Known]:
    """What an advice was made of."""
    return (
        unpacked(stored.request, Asked),
        Snapshot.from_json(stored.snapshot),
        Evidence.from_json(stored.evidence),
        unpacked(stored.files, Known),
    )


def replayed(stored: StoredAdvice, threads: int = 1) -> tuple[Advice, bytes]:
    """The same request answered again on what was known then, and its report.

    The metadata are the recorded ones: only the result is worked out again.
    """
    asked, snapshot, evidence, known = request_in(stored)
    with Worker() as worker:
        advice = advise(asked, snapshot, evidence, resolver=worker.resolve, threads=threads)
    metadata = orjson.loads(stored.report)["metadata"]
    return advice, report_bytes(report_document(result_document(advice, known), metadata))


def read_report(path: Path) -> dict[str, Any]:
    """A report that ``thoth advise --json`` printed.

    :raises InvalidDocument: if it is none
    """
    try:
        document = orjson.loads(path.read_bytes())
        version = document["schema_version"]
        known = version == SCHEMA_VERSION
        if known and isinstance(document["metadata"]["document_id"], str):
            return dict(document)
    except (ValueError, KeyError, TypeError) as error:
        message = f"not a report: {error!r}"
        raise InvalidDocument(Reason.UNREADABLE, message, place=str(path)) from error
    raise InvalidDocument(
        Reason.UNKNOWN_SCHEMA,
        f"{version!r} is not {SCHEMA_VERSION!r}",
        field="schema_version",
        place=str(path),
    )


def check_recorded(stores: Stores, report: dict[str, Any]) -> list[str]:
    """What is wrong with a report, by the record of its advice."""
    stored = recorded(stores, report["metadata"]["document_id"])
    asked, snapshot, evidence, known = request_in(stored)
    baseline = _recorded_baseline(report, asked)
    assessment = assessed(asked, snapshot, evidence, baseline)
    return check_report(report, asked, snapshot, evidence, known, assessment)


def _recorded_baseline(report: dict[str, Any], asked: Asked) -> dict[str, str] | None:
    """What the report compares with: looking for it anew would take the solver."""
    if asked.locked is not None:
        return dict(asked.locked)
    given = report["result"]["report"]["baseline"]["versions"]
    return None if given is None else dict(given)
