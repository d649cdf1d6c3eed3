"""Claims: the verdicts of advice, the stacks that they are about, and in what these differ."""

from __future__ import annotations

from collections.abc import Iterable

import neo4j
from sqlalchemy import Connection, Text, any_, literal, select, union
from sqlalchemy.dialects.postgresql import ARRAY

from graph.projection.inspections import canonical_parameters
from graph.projection.model import EdgeKind, NodeKind, Row, utc_text
from graph.projection.mutable import Mutable, project_mutable
from graph.projection.packages import PACKAGE
from graph.projection.stacks import STACK, project_stacks
from graph.tables import ClaimPackage, ClaimRow


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

CLAIM_SUBJECT = Mutable(node=CLAIM, edges=(CANDIDATE, BASELINE, DIFFERS_IN))


def project_claims(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Bring the claims of ``keys`` to what the record says, and before them their stacks.

    With the stacks come the packages in which they differ.
    """
    keys = list(keys)
    wanted = ClaimRow.claim_id == any_(literal(keys, ARRAY(Text)))
    stacks = union(
        select(ClaimRow.stack_digest).where(wanted), select(ClaimRow.baseline_digest).where(wanted)
    )
    project_stacks(connection, session, connection.scalars(stacks).all())
    project_mutable(connection, session, CLAIM_SUBJECT, keys)
