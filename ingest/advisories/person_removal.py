"""Removes credits and addresses from advisories that an earlier release stored with them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime

import orjson
from sqlalchemy import Connection, Engine, any_, select, update

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.advisories import (
    SCHEMA_VERSION,
    AdvisoryDelivery,
    known_advisories,
    replace_documents,
)
from graph.record.documents import delete_unreferenced_bodies, unpacked_body
from graph.record.postgresql_helpers import texts
from graph.tables import Document
from ingest.advisories.osv import advisory_of, without_persons
from model.errors import DamagedDocument, InvalidDocument
from model.json_documents import digest_bytes
from model.measurements.inspection import DocumentId

#: Documents in a transaction.
_BATCH = 500

_LOG = logging.getLogger(__name__)


def remove_stored_persons(settings: Settings, engine: Engine) -> Collection[str]:
    """Replace advisories that name persons; the graph follows with its next update.

    :returns: identifiers of all advisory documents in the record afterwards
    """
    with relational_errors(settings):
        known = _known(engine)
        outdated = sorted(key for key, schema in known.items() if schema != SCHEMA_VERSION)
        for start in range(0, len(outdated), _BATCH):
            with engine.begin() as connection:
                _replace(connection, settings, outdated[start : start + _BATCH])
        # Also those that an interrupted run left.
        delete_unreferenced_bodies(settings, engine)
        return _known(engine) if outdated else known


def _known(engine: Engine) -> dict[str, str]:
    with engine.connect() as connection:
        return known_advisories(connection)


def _replace(connection: Connection, settings: Settings, document_ids: Collection[str]) -> None:
    now = datetime.now(UTC)
    replacements: dict[str, AdvisoryDelivery] = {}
    clean: list[str] = []
    query = select(Document).where(Document.document_id == any_(texts(document_ids)))
    for row in connection.execute(query):
        try:
            body = unpacked_body(settings, row)
            value, canonical = without_persons(orjson.loads(body), body)
            if canonical == body:
                clean.append(row.document_id)
                continue
            document_id = DocumentId(digest_bytes(canonical))
            advisory = advisory_of(value, canonical, document_id, now)
        except (DamagedDocument, InvalidDocument) as error:
            # `thoth record verify` names it.
            _LOG.warning("advisory_kept", extra={"error": str(error)})
        else:
            replacements[row.document_id] = AdvisoryDelivery(advisory, row.source)
    same = update(Document).where(Document.document_id == any_(texts(clean)))
    connection.execute(same.values(schema_version=SCHEMA_VERSION))
    replace_documents(connection, settings, replacements)
