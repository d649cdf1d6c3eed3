"""Projects advice with its request, claims, recommended stacks and observations."""

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
    array_or_null,
    edge_kind,
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

CANDIDATE = edge_kind("CANDIDATE", CLAIM, STACK, (ClaimRow.claim_id, ClaimRow.stack_digest))
BASELINE = edge_kind("BASELINE", CLAIM, STACK, (ClaimRow.claim_id, ClaimRow.baseline_digest))
DIFFERS_IN = edge_kind(
    "DIFFERS_IN",
    CLAIM,
    PACKAGE,
    (ClaimPackage.claim_id, ClaimPackage.name),
    ClaimPackage.version,
    ClaimPackage.index_name.label("index"),
    ClaimPackage.version_key,
    ClaimPackage.baseline_version,
    ClaimPackage.baseline_index_name.label("baseline_index"),
    ClaimPackage.baseline_version_key,
)

CLAIM_SUBJECT = MutableNode(node=CLAIM, edges=(CANDIDATE, BASELINE, DIFFERS_IN))


def project_claims(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Update the claims with these ``keys``; missing stacks and packages are created first."""
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

RECOMMENDED = edge_kind(
    "RECOMMENDED",
    ADVICE,
    STACK,
    (AdvisedStack.advice_id, AdvisedStack.stack_digest),
    AdvisedStack.rank,
    AdvisedStack.score,
)
BASED_ON = edge_kind(
    "BASED_ON",
    ADVICE,
    OBSERVATION,
    (AdviceObservation.advice_id, AdviceObservation.observation_id),
)

REQUEST = NodeKind(
    label="Request",
    rows=select(
        RequestRow.document_id.label("request_id"),
        RequestRow.recommendation_type,
        RequestRow.python_version,
        RequestRow.platform,
        RequestRow.hardware_digest.label("hardware"),
        array_or_null(RequestRow.requirements).label("requirements"),
        array_or_null(RequestRow.packages).label("packages"),
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

CLAIMS = edge_kind("CLAIMS", ADVICE, CLAIM, (AdviceClaim.advice_id, AdviceClaim.claim_id))

REQUESTS = MutableNode(node=REQUEST)
ADVICES = ImmutableNode(node=ADVICE, edges=(RECOMMENDED, BASED_ON, CLAIMS, ANSWERS))


def project_advice(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing advice among ``keys``, after the missing target nodes of its edges.

    Advice that the record no longer has is deleted from the graph.
    """
    keys = list(keys)
    _delete_unrecorded(connection, session, keys)
    for chunk in chunks(missing(session, ADVICE, keys)):
        # These nodes usually exist, because their entries come first; an entry may be lost.
        project_stacks(connection, session, _ends(connection, RECOMMENDED, chunk))
        project_inspections(connection, session, _inspections(connection, chunk))
        claims = missing(session, CLAIM, _ends(connection, CLAIMS, chunk))
        project_claims(connection, session, claims)
        requests = missing(session, REQUEST, _ends(connection, ANSWERS, chunk))
        upsert(connection, session, REQUESTS, requests)
        create_missing(connection, session, ADVICES, chunk)


def _delete_unrecorded(connection: Connection, session: neo4j.Session, keys: list[str]) -> None:
    query = select(AdviceRow.advice_id).where(AdviceRow.advice_id.in_(keys))
    unrecorded = sorted(set(keys).difference(connection.scalars(query)))
    if unrecorded:
        session.run(ADVICE.delete_some, keys=unrecorded).consume()


def _ends(connection: Connection, kind: EdgeKind, keys: list[str]) -> list[str]:
    return [row.end for row in connection.execute(rows_of(kind, keys))]


def _inspections(connection: Connection, keys: list[str]) -> list[str]:
    """The inspections whose observations the advice is based on."""
    observed = rows_of(BASED_ON, keys).subquery()
    query = select(ObservationRow.document_id).join(
        observed, observed.c.end == ObservationRow.observation_id
    )
    return list(connection.scalars(query.distinct()))
