"""Scores recorded advice with what is known now; entry point :func:`score_past_advice`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson
from sqlalchemy import Connection, Engine

from adviser.advise import Resolver
from adviser.answering.recorded_advice import inputs_in, recorded_errors
from adviser.ledger import (
    PastAdvice,
    evidence_since,
    knowledge_digest,
    ledger_months,
    score_advice,
    snapshot_since,
)
from adviser.packs.stored_packs import PackReader
from common.settings import Settings
from graph.record.advice import advice_of
from graph.record.affected_versions import vulnerabilities_of_listed
from graph.record.evidence import evidence_for
from graph.record.ledger import (
    add_score,
    advice_to_score,
    identical_pairs,
    is_scored,
    latest_scores,
)
from model.advice import StoredAdvice
from model.errors import InvalidDocument
from model.ledger import AdviceScore, LedgerMonth
from model.packages.identity import Purl
from model.packages.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ScoringCounts:
    """What a run of :func:`score_past_advice` did.

    :param known: pieces of advice that already had a score for this knowledge
    :param unreadable: pieces of advice whose documents this version cannot read
    """

    scored: int = 0
    known: int = 0
    unreadable: int = 0


def score_past_advice(
    engine: Engine,
    settings: Settings,
    resolver: Resolver,
    *,
    now: datetime | None = None,
    on_advice: Callable[[int, int], object] = lambda _done, _advices: None,
) -> ScoringCounts:
    """Score all recorded advice that has no score for what is known now.

    Each score is stored in a transaction of its own, so a run may be interrupted and
    repeated at any time. Without new knowledge it stores nothing.

    :param now: the time of the evidence; by default the current time
    :param on_advice: called with the numbers of finished pieces of advice and of all
    :raises StoreUnavailable: if a store cannot be read
    """
    moment = now or datetime.now(UTC)
    with engine.connect() as connection:
        identifiers = advice_to_score(connection)
    scored = known = unreadable = 0
    for done, advice_id in enumerate(identifiers, 1):
        try:
            score = _score(engine, settings, advice_id, moment, resolver)
        except InvalidDocument:
            unreadable += 1
        else:
            if score is None:
                known += 1
            else:
                with engine.begin() as connection:
                    scored += add_score(connection, score)
        on_advice(done, len(identifiers))
    return ScoringCounts(scored, known, unreadable)


def _score(
    engine: Engine, settings: Settings, advice_id: str, now: datetime, resolver: Resolver
) -> AdviceScore | None:
    """The score of an advice; ``None`` if it is known or the advice was deleted meanwhile."""
    with engine.connect() as connection:
        stored = advice_of(connection, settings, advice_id)
        if stored is None:
            return None
        past = _past_advice(stored)
        snapshot = _snapshot_now(connection, past.inputs.snapshot)
        own = evidence_for(connection, snapshot, now)
        packs = PackReader(connection, settings, now)
        evidence = packs.with_packs(own, snapshot)
        known = evidence_since(past.inputs.evidence, evidence)
        knowledge = knowledge_digest(known, snapshot)
        if is_scored(connection, advice_id, knowledge):
            return None
    with recorded_errors():
        result = score_advice(past, known, resolver, snapshot)
    return AdviceScore(
        advice_id, stored.head.created_at, knowledge, result.outcome,
        result.regret_points, result.regret_pct, result.claims,
    )  # fmt: skip


def _snapshot_now(connection: Connection, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the vulnerabilities of the advisories that are stored now."""
    purls = {
        name: {it.version: it.purl for it in candidates}
        for name, candidates in snapshot.packages.items()
    }
    return snapshot_since(snapshot, vulnerabilities_of_listed(connection, purls))


def _past_advice(stored: StoredAdvice) -> PastAdvice:
    inputs = inputs_in(stored)
    with recorded_errors():
        product = orjson.loads(stored.report)["result"]["report"]["products"][0]
        return PastAdvice(inputs, frozenset(Purl(it["purl"]) for it in product["packages"]))


def recorded_ledger(engine: Engine) -> list[LedgerMonth]:
    """The ledger by month, newest first."""
    with engine.connect() as connection:
        return ledger_months(latest_scores(connection), identical_pairs(connection))
