"""Projects advice with its request, its claims, its stacks and the observations it is based on."""

from __future__ import annotations

from collections.abc import Iterable

import neo4j
from sqlalchemy import Connection, Text, any_, literal, select, union
from sqlalchemy.dialects.postgresql import ARRAY

from graph.projection.inspections import OBSERVATION, canonical_parameters, project_inspections
from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    Row,
    listed,
    rows_of,
    utc_text,
)
from graph.projection.packages import PACKAGE, STACK, project_stacks
from graph.projection.upsert import (
    ImmutableNode,
    MutableNode,
    chunks,
    create_missing,
    missing,
    upsert,
)
from graph.tables import (
    AdviceClaim,
    AdviceObservation,
    AdviceRow,
    AdvisedStack,
    ClaimPackage,
    ClaimRow,
    ObservationRow,
    RequestRow,
)


def _complete(row: Row) -> None:
    row[_PARAMETERS] = canonical_parameters(row[_PARAMETERS])


CLAIM = NodeKind(
    label="Claim",
    rows=select(
        ClaimRow.claim_id,
        ClaimRow.package,
        ClaimRow.verdict,
        ClaimRow.indicator,
        ClaimRow.comparison_key,
        ClaimRow.hardware_digest.label("hardware"),
        ClaimRow.python_version,
        ClaimRow.same_hardware,
        ClaimRow.same_python,
        ClaimRow.parameters.cast(Text).label("parameters"),
        ClaimRow.device,
        ClaimRow.unit,
        ClaimRow.effect_pct,
        ClaimRow.observed_pct,
        ClaimRow.interval_low_pct,
        ClaimRow.interval_high_pct,
        ClaimRow.delta_pct,
        ClaimRow.p_value,
        ClaimRow.method,
        ClaimRow.jobs,
        ClaimRow.baseline_jobs,
        ClaimRow.runs,
        ClaimRow.baseline_runs,
        ClaimRow.pairs,
        ClaimRow.hosts,
        ClaimRow.needs,
        ClaimRow.jobs_missing,
        ClaimRow.baseline_jobs_missing,
        ClaimRow.scored,
        utc_text(ClaimRow.as_of).label("as_of"),
        ClaimRow.document_id,
    ),
    owner=ClaimRow.claim_id,
    times=frozenset({"as_of"}),
    complete=_complete,
)
_PARAMETERS = CLAIM.properties.index("parameters")

CANDIDATE = EdgeKind(
    type="CANDIDATE",
    start=CLAIM,
    end=STACK,
    rows=select(ClaimRow.claim_id.label("start"), ClaimRow.stack_digest.label("end")),
    owner=ClaimRow.claim_id,
)

BASELINE = EdgeKind(
    type="BASELINE",
    start=CLAIM,
    end=STACK,
    rows=select(ClaimRow.claim_id.label("start"), ClaimRow.baseline_digest.label("end")),
    owner=ClaimRow.claim_id,
)

DIFFERS_IN = EdgeKind(
    type="DIFFERS_IN",
    start=CLAIM,
    end=PACKAGE,
    rows=select(
        ClaimPackage.claim_id.label("start"),
        ClaimPackage.name.label("end"),
        ClaimPackage.version,
        ClaimPackage.index_name.label("index"),
        ClaimPackage.version_key,
        ClaimPackage.baseline_version,
        ClaimPackage.baseline_index_name.label("baseline_index"),
        ClaimPackage.baseline_version_key,
    ),
    owner=ClaimPackage.claim_id,
)

CLAIM_SUBJECT = MutableNode(node=CLAIM, edges=(CANDIDATE, BASELINE, DIFFERS_IN))


def project_claims(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Update the claims of ``keys``, and create their missing stacks and packages first."""
    keys = list(keys)
    wanted = ClaimRow.claim_id == any_(literal(keys, ARRAY(Text)))
    stacks = union(
        select(ClaimRow.stack_digest).where(wanted), select(ClaimRow.baseline_digest).where(wanted)
    )
    project_stacks(connection, session, connection.scalars(stacks).all())
    upsert(connection, session, CLAIM_SUBJECT, keys)


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

REQUEST = NodeKind(
    label="Request",
    rows=select(
        RequestRow.document_id.label("request_id"),
        RequestRow.recommendation_type,
        RequestRow.python_version,
        RequestRow.platform,
        RequestRow.hardware_digest.label("hardware"),
        listed(RequestRow.requirements).label("requirements"),
        listed(RequestRow.packages).label("packages"),
        RequestRow.stack_count,
        RequestRow.document_id,
    ),
    owner=RequestRow.document_id,
)

ANSWERS = EdgeKind(
    type="ANSWERS",
    start=ADVICE,
    end=REQUEST,
    rows=select(AdviceRow.advice_id.label("start"), RequestRow.document_id.label("end")).join(
        RequestRow, RequestRow.document_id == AdviceRow.request_document_id
    ),
    owner=AdviceRow.advice_id,
)

CLAIMS = EdgeKind(
    type="CLAIMS",
    start=ADVICE,
    end=CLAIM,
    rows=select(AdviceClaim.advice_id.label("start"), AdviceClaim.claim_id.label("end")),
    owner=AdviceClaim.advice_id,
)

REQUESTS = MutableNode(node=REQUEST)
ADVICES = ImmutableNode(node=ADVICE, edges=(RECOMMENDED, BASED_ON, CLAIMS, ANSWERS))


def project_advice(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing advice among ``keys``, and the missing nodes that it points at first.

    Advice that the record no longer has is deleted from the graph.
    """
    keys = list(keys)
    _forget(connection, session, keys)
    for some in chunks(missing(session, ADVICE, keys)):
        # Usually they exist by the order of the outbox; a lost entry must not lose an edge.
        project_stacks(connection, session, _ends(connection, RECOMMENDED, some))
        project_inspections(connection, session, _inspections(connection, some))
        claims = missing(session, CLAIM, _ends(connection, CLAIMS, some))
        project_claims(connection, session, claims)
        requests = missing(session, REQUEST, _ends(connection, ANSWERS, some))
        upsert(connection, session, REQUESTS, requests)
        create_missing(connection, session, ADVICES, some)


def _forget(connection: Connection, session: neo4j.Session, keys: list[str]) -> None:
    query = select(AdviceRow.advice_id).where(AdviceRow.advice_id.in_(keys))
    gone = sorted(set(keys).difference(connection.scalars(query)))
    if gone:
        session.run(ADVICE.delete_some, keys=gone).consume()


def _ends(connection: Connection, kind: EdgeKind, keys: list[str]) -> list[str]:
    return [row.end for row in connection.execute(rows_of(kind, keys))]


def _inspections(connection: Connection, keys: list[str]) -> list[str]:
    """Inspections with observations that the advice is based on."""
    observed = rows_of(BASED_ON, keys).subquery()
    query = select(ObservationRow.document_id).join(
        observed, observed.c.end == ObservationRow.observation_id
    )
    return list(connection.scalars(query.distinct()))
