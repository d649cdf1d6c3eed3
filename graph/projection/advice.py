"""Advice: the stacks that it recommends, and the observations that it rests on."""

from __future__ import annotations

from collections.abc import Iterable

import neo4j
from sqlalchemy import Connection, select

from graph.projection.inspections import OBSERVATION, project_inspections
from graph.projection.model import EdgeKind, NodeKind, Subject, rows_of, utc_text
from graph.projection.stacks import STACK, project_stacks
from graph.projection.write import chunks, missing, project_subject
from graph.tables import AdviceObservation, AdviceRow, AdvisedStack, ObservationRow

ADVICE = NodeKind(
    label="Advice",
    rows=select(
        AdviceRow.advice_id,
        AdviceRow.recommendation_type,
        AdviceRow.status,
        AdviceRow.python_version,
        AdviceRow.platform,
        AdviceRow.snapshot_revision,
        AdviceRow.result_digest,
        utc_text(AdviceRow.created_at).label("created_at"),
        AdviceRow.report_document_id.label("document_id"),
    ),
    owner=AdviceRow.advice_id,
    times=frozenset({"created_at"}),
)

RECOMMENDED = EdgeKind(
    type="RECOMMENDED",
    start=ADVICE,
    end=STACK,
    rows=select(
        AdvisedStack.advice_id.label("start"),
        AdvisedStack.stack_digest.label("end"),
        AdvisedStack.rank,
        AdvisedStack.score,
    ),
    owner=AdvisedStack.advice_id,
)

BASED_ON = EdgeKind(
    type="BASED_ON",
    start=ADVICE,
    end=OBSERVATION,
    rows=select(
        AdviceObservation.advice_id.label("start"), AdviceObservation.observation_id.label("end")
    ),
    owner=AdviceObservation.advice_id,
)

ADVICES = Subject(node=ADVICE, edges=(RECOMMENDED, BASED_ON))


def project_advice(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the advice of ``keys`` that is missing, and before it what it points at.

    What the record does not have any more is deleted from the graph.
    """
    keys = list(keys)
    _forget(connection, session, keys)
    for some in chunks(missing(session, ADVICE, keys)):
        stacks = [row.end for row in connection.execute(rows_of(RECOMMENDED, some))]
        # By the outbox's order these are there; a lost entry must not lose an edge.
        project_stacks(connection, session, stacks)
        project_inspections(connection, session, _inspections(connection, some))
        project_subject(connection, session, ADVICES, some)


def _forget(connection: Connection, session: neo4j.Session, keys: list[str]) -> None:
    query = select(AdviceRow.advice_id).where(AdviceRow.advice_id.in_(keys))
    gone = sorted(set(keys).difference(connection.scalars(query)))
    if gone:
        session.run(ADVICE.delete_some, keys=gone).consume()


def _inspections(connection: Connection, keys: list[str]) -> list[str]:
    """The inspections that made the observations that some advice rests on."""
    observed = rows_of(BASED_ON, keys).subquery()
    query = select(ObservationRow.document_id).join(
        observed, observed.c.end == ObservationRow.observation_id
    )
    return list(connection.scalars(query.distinct()))
