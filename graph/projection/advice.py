"""Projects advice with its request, claims, recommended stacks and observations."""

from collections.abc import Iterable

import neo4j
from sqlalchemy import Connection, Text, any_, literal, select, union
from sqlalchemy.dialects.postgresql import ARRAY

from graph.projection.inspections import OBSERVATION, canonical_parameters, project_inspections
from graph.projection.kinds import EdgeKind, NodeKind, Row, edge_kind, properties_of, rows_of
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
        *properties_of(ClaimRow, ("stack_digest", "baseline_digest"), hardware_digest="hardware")
    ),
    owner=ClaimRow.claim_id,
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


_NOT_PROJECTED = (
    "request_document_id", "snapshot_document_id", "evidence_document_id", "files_document_id",
)  # fmt: skip

ADVICE = NodeKind(
    label="Advice",
    rows=select(*properties_of(AdviceRow, _NOT_PROJECTED, report_document_id="document_id")),
    owner=AdviceRow.advice_id,
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
    "BASED_ON", ADVICE, OBSERVATION, (AdviceObservation.advice_id, AdviceObservation.observation_id)
)

REQUEST = NodeKind(
    label="Request",
    rows=select(
        *properties_of(RequestRow, document_id="request_id", hardware_digest="hardware"),
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

NODES = (CLAIM, REQUEST, ADVICE)
EDGES = (CANDIDATE, BASELINE, DIFFERS_IN, RECOMMENDED, BASED_ON, CLAIMS, ANSWERS)


def project_advice(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the missing advice among ``keys``, after the missing target nodes of its edges.

    Advice that the record no longer has is deleted from the graph.
    """
    keys = list(keys)
    query = select(AdviceRow.advice_id).where(AdviceRow.advice_id.in_(keys))
    unrecorded = sorted(set(keys).difference(connection.scalars(query)))
    if unrecorded:
        session.run(ADVICE.delete_some, keys=unrecorded).consume()
    for chunk in chunks(missing(session, ADVICE, keys)):
        # These nodes usually exist, because their entries come first; an entry may be lost.
        project_stacks(connection, session, _ends(connection, RECOMMENDED, chunk))
        # The inspections whose observations the advice is based on.
        observed = rows_of(BASED_ON, chunk).subquery()
        query = select(ObservationRow.document_id).join(
            observed, observed.c.end == ObservationRow.observation_id
        )
        project_inspections(connection, session, connection.scalars(query.distinct()).all())
        claims = missing(session, CLAIM, _ends(connection, CLAIMS, chunk))
        project_claims(connection, session, claims)
        requests = missing(session, REQUEST, _ends(connection, ANSWERS, chunk))
        upsert(connection, session, REQUESTS, requests)
        create_missing(connection, session, ADVICES, chunk)


def _ends(connection: Connection, kind: EdgeKind, keys: list[str]) -> list[str]:
    return [row.end for row in connection.execute(rows_of(kind, keys))]
