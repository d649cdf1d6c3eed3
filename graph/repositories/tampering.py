"""Observations that are refused as evidence, because the record differs from their document."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from sqlalchemy import ARRAY, Connection, Text, any_, bindparam, select, text

from common.reasons import Reason
from graph.repositories.affected import texts
from graph.repositories.packages import add_entries
from graph.tables import ObservationRow

_REFUSE = text(
    "UPDATE observations SET quarantine_reason = :reason"
    " WHERE document_id = ANY(:documents) AND quarantine_reason IS DISTINCT FROM :reason"
    " RETURNING document_id"
)

_ACCEPT = text(
    "UPDATE observations SET quarantine_reason = new.reason"
    " FROM unnest(:observations, :reasons) AS new (observation_id, reason)"
    " WHERE observations.observation_id = new.observation_id AND document_id = :document"
    " AND quarantine_reason = 'tampered'"
    " RETURNING document_id"
).bindparams(bindparam("observations", type_=ARRAY(Text)), bindparam("reasons", type_=ARRAY(Text)))


def refuse_observations(connection: Connection, document_ids: Collection[str]) -> int:
    """Have no observation of these documents count; the caller owns the transaction.

    :returns: how many counted until now, or were refused for another reason
    """
    values = {"reason": Reason.TAMPERED.value, "documents": list(document_ids)}
    changed = connection.scalars(_REFUSE, values).all() if document_ids else []
    _tell(connection, changed)
    return len(changed)


def refused_documents(connection: Connection, document_ids: Collection[str]) -> set[str]:
    """Those of some documents that have refused observations."""
    query = select(ObservationRow.document_id).where(
        ObservationRow.document_id == any_(texts(document_ids)),
        ObservationRow.quarantine_reason == Reason.TAMPERED.value,
    )
    return set(connection.scalars(query.distinct()))


def accept_observations(
    connection: Connection, document_id: str, reasons: Mapping[str, str | None]
) -> int:
    """Have the observations of a document count again as it says.

    :param reasons: by observation, why nothing is compared with it, if there is a reason
    :returns: how many were refused until now
    """
    values = {
        "document": document_id, "observations": list(reasons), "reasons": list(reasons.values()),
    }  # fmt: skip
    changed = connection.scalars(_ACCEPT, values).all()
    _tell(connection, changed)
    return len(changed)


def _tell(connection: Connection, document_ids: Iterable[str]) -> None:
    """Have the graph follow."""
    if changed := set(document_ids):
        add_entries(connection, {"corrected_inspection": changed})
