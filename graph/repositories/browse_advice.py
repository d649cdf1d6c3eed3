"""Advice that was given, page by page, and the stacks that each recommends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, func, select, tuple_

from graph.advice import AdviceHead
from graph.tables import AdviceObservation, AdviceRow, AdvisedStack, AnalysisRow


@dataclass(frozen=True, slots=True)
class AdvisedStackHead:
    """A stack that an advice recommends, the best of them at rank 1; the score in points."""

    rank: int
    stack_digest: str
    score: float


@dataclass(frozen=True, slots=True)
class AdviceFilter:
    """Which advice is asked for; ``None`` for any.

    :param stack: digest of a stack that it recommends
    :param token_id: of who asked for it
    """

    recommendation_type: str | None = None
    status: str | None = None
    python_version: str | None = None
    platform: str | None = None
    stack: str | None = None
    token_id: str | None = None


def browse_advice(
    connection: Connection,
    wanted: AdviceFilter,
    *,
    after: tuple[datetime, str] | None = None,
    limit: int,
) -> list[AdviceHead]:
    """Advice, newest first.

    :param after: when the last one before was given, and its identifier
    """
    row = AdviceRow
    query = _advice()
    for column, value in (
        (row.recommendation_type, wanted.recommendation_type),
        (row.status, wanted.status),
        (row.python_version, wanted.python_version),
        (row.platform, wanted.platform),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.stack is not None:
        advised = select(AdvisedStack.advice_id).where(AdvisedStack.stack_digest == wanted.stack)
        query = query.where(row.advice_id.in_(advised))
    if wanted.token_id is not None:
        query = query.where(row.advice_id.in_(advice_of(wanted.token_id)))
    if after is not None:
        query = query.where(tuple_(row.created_at, row.advice_id) < tuple_(*after))
    order = row.created_at.desc(), row.advice_id.desc()
    return [AdviceHead(*it) for it in connection.execute(query.order_by(*order).limit(limit))]


def advice_named(connection: Connection, advice_id: str) -> AdviceHead | None:
    """What a list shows of an advice, or ``None``."""
    found = connection.execute(_advice().where(AdviceRow.advice_id == advice_id)).one_or_none()
    return None if found is None else AdviceHead(*found)


def stacks_of(connection: Connection, advice_id: str) -> list[AdvisedStackHead]:
    """The stacks that an advice recommends, best first; none where it found none."""
    row = AdvisedStack
    rows = connection.execute(
        select(row.rank, row.stack_digest, row.score)
        .where(row.advice_id == advice_id)
        .order_by(row.rank)
    )
    return [AdvisedStackHead(*it) for it in rows]


def evidence_count(connection: Connection, advice_id: str) -> int:
    """How many observations an advice names as its evidence."""
    query = select(func.count()).where(AdviceObservation.advice_id == advice_id)
    return connection.scalar(query) or 0


def advice_of(token_id: str) -> Select[str]:
    """Identifiers of what a token asked for."""
    return select(AnalysisRow.analysis_id).where(AnalysisRow.token_id == token_id)


def _advice() -> Select[*tuple[Any, ...]]:
    row = AdviceRow
    return select(
        row.advice_id, row.recommendation_type, row.status, row.snapshot_revision,
        row.result_digest, row.created_at, row.python_version, row.platform,
    )  # fmt: skip
