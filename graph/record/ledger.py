"""Scores of past advice: adds them, which are never edited, and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.dialects.postgresql import distinct_on, insert

from graph.tables import AdviceRow, AdviceScoreRow, LoopBatchRow
from model.ledger import AdviceOutcome, AdviceScore, ClaimScore, IdenticalPair

#: Outcomes of a search that found a stack.
_ANSWERED = ("optimal", "feasible")
#: Claims of the newest scores, each once. An index finds the scores.
_COVERAGE = text(
    """
    SELECT count(*) FILTER (WHERE contained), count(*), avg(expected)
    FROM (
        SELECT DISTINCT ON (claim->>'claim_id')
            (claim->>'contained')::boolean AS contained, (claim->>'expected')::float8 AS expected
        FROM (SELECT number, claims FROM advice_scores ORDER BY number DESC LIMIT 2000) AS newest,
            jsonb_array_elements(claims) AS claim
        WHERE jsonb_typeof(claim->'contained') = 'boolean'
        ORDER BY claim->>'claim_id', number DESC
    ) AS checked
    """
)
_RECENT_PAIRS = text(
    """
    SELECT report->>'aa_verdict' AS verdict, count(*)
    FROM loop_batches
    WHERE night > (SELECT max(night) - 30 FROM loop_nights)
        AND report->>'aa_verdict' IS NOT NULL
    GROUP BY verdict ORDER BY verdict
    """
)


@dataclass(frozen=True, slots=True)
class IntervalCoverage:
    """How many intervals of past claims contain what was measured later.

    :param checked: intervals of the newest 2,000 scores with a later estimate
    :param expected: mean of :attr:`ClaimScore.expected`; ``None`` without such intervals
    """

    contained: int
    checked: int
    expected: float | None


def advice_to_score(connection: Connection) -> list[str]:
    """Identifiers of all advice with a stack, oldest first."""
    row = AdviceRow
    query = select(row.advice_id).where(row.status.in_(_ANSWERED))
    return list(connection.scalars(query.order_by(row.created_at, row.advice_id)))


def is_scored(connection: Connection, advice_id: str, knowledge: str) -> bool:
    """Whether an advice has a score for this knowledge."""
    row = AdviceScoreRow
    query = select(row.number).where(row.advice_id == advice_id, row.knowledge == knowledge)
    return connection.scalar(query) is not None


def add_score(connection: Connection, score: AdviceScore) -> bool:
    """Add a score; the caller owns the transaction.

    :returns: ``False`` if the advice has a score for this knowledge, which stays as it is
    """
    values = asdict(score) | {"outcome": score.outcome.value}
    statement = (
        insert(AdviceScoreRow)
        .values(**values)
        .on_conflict_do_nothing(index_elements=["advice_id", "knowledge"])
        .returning(AdviceScoreRow.number)
    )
    return connection.scalar(statement) is not None


def latest_scores(connection: Connection) -> list[AdviceScore]:
    """The latest score of each advice, in the order of the identifiers."""
    row = AdviceScoreRow
    query = (
        select(
            row.advice_id, row.advised_at, row.knowledge, row.outcome, row.regret_points,
            row.regret_pct, row.claims,
        )
        .ext(distinct_on(row.advice_id))
        .order_by(row.advice_id, row.number.desc())
    )  # fmt: skip
    return [
        AdviceScore(
            name, advised_at, known, AdviceOutcome(outcome), points, pct, tuple(_claims(claims))
        )
        for name, advised_at, known, outcome, points, pct, claims in connection.execute(query)
    ]


def _claims(documents: Iterable[dict[str, Any]]) -> Iterator[ClaimScore]:
    return (ClaimScore(**it) for it in documents)


def identical_pairs(connection: Connection) -> list[IdenticalPair]:
    """The A/A pairs of the loop's batches, oldest first."""
    row = LoopBatchRow
    verdict = row.report["aa_verdict"].astext
    query = select(row.state_at, verdict).where(verdict.is_not(None))
    return [IdenticalPair(*it) for it in connection.execute(query.order_by(row.state_at))]


def interval_coverage(connection: Connection) -> IntervalCoverage:
    """The coverage of the intervals in the newest scores, for monitoring."""
    return IntervalCoverage(*connection.execute(_COVERAGE).one())


def recent_identical_pairs(connection: Connection) -> dict[str, int]:
    """Numbers of the A/A pairs of the last 30 nights by verdict, for monitoring."""
    rows = connection.execute(_RECENT_PAIRS)
    return {str(verdict): int(number) for verdict, number in rows}
