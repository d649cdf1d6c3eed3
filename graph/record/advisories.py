"""Stores advisories and their vulnerabilities, and keeps the state of their sources."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, bindparam, delete, select, text
from sqlalchemy.dialects.postgresql import insert

from common.settings import Settings
from graph.record.bulk import add_entries, columns_of, copy_rows, insert_new, update_rows
from graph.record.documents import DeliveredDocument, add_documents, delete_documents
from graph.record.freshness import HAS_ADVISORIES
from graph.record.packages import refresh_revisions
from graph.record.postgresql_helpers import storable, texts
from graph.record.vulnerabilities import hold_advisories, match_vulnerabilities
from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AdvisorySource,
    Document,
    VulnerabilityRow,
    table_of,
)
from model.advisories import (
    Advisory,
    AdvisoryHead,
    AffectedPackage,
    Rating,
    Severity,
    Vulnerability,
    merge_advisories,
)

HEAD_COLUMNS = columns_of(AdvisoryRow)
VULNERABILITY_COLUMNS = columns_of(VulnerabilityRow)
PACKAGE_COLUMNS = columns_of(AdvisoryPackage)


def recorded_heads(
    connection: Connection, condition: ColumnElement[bool]
) -> tuple[dict[str, AdvisoryHead], dict[str, str]]:
    """Advisories by identifier, each with the vulnerability that it describes."""
    columns = table_of(AdvisoryRow).c
    query = select(*(columns[name] for name in HEAD_COLUMNS)).where(condition)
    heads, vulnerabilities = {}, {}
    for row in connection.execute(query):
        severity = Severity(row.severity) if row.severity in set(Severity) else None
        heads[row.advisory_id] = AdvisoryHead(
            row.advisory_id, tuple(row.aliases), row.summary,
            Rating(severity, row.score, row.vector),
            row.published_at, row.modified_at, row.withdrawn_at, row.document_id,
        )  # fmt: skip
        vulnerabilities[row.advisory_id] = row.vulnerability_id
    return heads, vulnerabilities


def head_row(head: AdvisoryHead, vulnerability_id: str) -> tuple[Any, ...]:
    """The values of an advisory's row, in the order of :data:`HEAD_COLUMNS`."""
    return (
        head.advisory_id, vulnerability_id, list(head.aliases), head.summary,
        *_rating_row(head.rating), head.published_at, head.modified_at, head.withdrawn_at,
        head.document_id,
    )  # fmt: skip


def vulnerability_row(vulnerability: Vulnerability) -> tuple[Any, ...]:
    """The values of a vulnerability's row, in the order of :data:`VULNERABILITY_COLUMNS`."""
    return (
        vulnerability.vulnerability_id, list(vulnerability.aliases), vulnerability.summary,
        *_rating_row(vulnerability.rating), vulnerability.published_at, vulnerability.modified_at,
        vulnerability.withdrawn_at, vulnerability.document_id,
    )  # fmt: skip


def package_rows(advisory: Advisory) -> list[tuple[Any, ...]]:
    """A row for each affected package, in the order of :data:`PACKAGE_COLUMNS`."""
    return [
        (advisory.head.advisory_id, position, it.name, _ranges(it), list(it.versions))
        for position, it in enumerate(advisory.packages)
    ]


def _ranges(package: AffectedPackage) -> list[list[dict[str, str]]]:
    return [[{it.kind.value: it.version} for it in events] for events in package.ranges]


def _rating_row(rating: Rating) -> tuple[str | None, float | None, str | None]:
    severity = None if rating.severity is None else rating.severity.value
    return severity, rating.score, rating.vector


#: Documents of ``osv-1`` may contain credits and addresses of persons.
KIND, SCHEMA_VERSION, COLLECTOR = "advisory", "osv-2", "osv"

#: Vulnerabilities with one of these identifiers, or with a withdrawn advisory that mentions one.
#: These groups are complete: an advisory with these identifiers cannot join any other group.
_NAMED = text(
    "SELECT vulnerability_id FROM vulnerabilities, unnest(aliases) AS known (alias)"
    " WHERE known.alias = ANY(:identifiers)"
    " UNION SELECT vulnerability_id FROM advisories, unnest(aliases) AS named (alias)"
    " WHERE withdrawn_at IS NOT NULL AND named.alias = ANY(:identifiers)"
).bindparams(bindparam("identifiers", type_=ARRAY(Text)))

#: Packages with a changed version, or with a version that a changed vulnerability affects.
_PACKAGES_OF = text(
    "SELECT name FROM package_versions WHERE purl = ANY(:purls)"
    " UNION SELECT name FROM package_versions JOIN affected_versions USING (purl)"
    " WHERE vulnerability_id = ANY(:ids)"
).bindparams(bindparam("purls", type_=ARRAY(Text)), bindparam("ids", type_=ARRAY(Text)))


@dataclass(frozen=True, slots=True)
class AdvisoryDelivery:
    """An advisory and its source."""

    advisory: Advisory
    source: str


@dataclass(slots=True)
class AdvisoriesAdded:
    """Result of storing a batch of advisories.

    :param older: number of advisories with a newer document in the record
    :param foreign: number of advisories without Python packages, which are not stored
    :param vulnerabilities: identifiers of new and changed vulnerabilities
    :param removed: identifiers of vulnerabilities that were merged into others
    :param versions: package URLs of versions whose vulnerabilities changed
    """

    new: int = 0
    updated: int = 0
    known: int = 0
    older: int = 0
    foreign: int = 0
    vulnerabilities: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)


def add_advisories(
    connection: Connection, settings: Settings, deliveries: Sequence[AdvisoryDelivery]
) -> AdvisoriesAdded:
    """Store each advisory once and update vulnerabilities; the caller owns the transaction.

    If an advisory has several documents, the document with the latest modification date counts,
    whatever the order of delivery. The number of statements does not depend on the number of
    deliveries.

    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    added = AdvisoriesAdded()
    hold_advisories(connection)
    recorded = _recorded(connection, {it.advisory.head.advisory_id for it in deliveries})
    # An advisory that is no longer about Python is kept if it was stored before.
    relevant = recorded.keys() | {_id(it) for it in deliveries if it.advisory.packages}
    kept = [it for it in deliveries if _id(it) in relevant]
    added.foreign = len(deliveries) - len(kept)
    fresh = _add_documents(connection, settings, kept)
    added.known = len(kept) - len(fresh)
    newest = _newest(fresh, recorded)
    added.older = len(fresh) - len(newest)
    added.updated = len(newest.keys() & recorded.keys())
    added.new = len(newest) - added.updated
    if newest:
        _merge(connection, newest, added)
    return added


def restore_advisories(connection: Connection, advisories: Collection[Advisory]) -> None:
    """Write the rows of advisories again, and all rows that depend on them.

    :param advisories: each of them parsed from its newest document
    """
    hold_advisories(connection)
    _merge(connection, {it.head.advisory_id: it for it in advisories}, AdvisoriesAdded())


def replace_documents(
    connection: Connection, settings: Settings, replacements: Mapping[str, AdvisoryDelivery]
) -> None:
    """Store documents in place of others, and write the rows of their advisories again.

    :param replacements: by identifier of the document to delete; see
        :func:`graph.record.documents.delete_documents`
    """
    hold_advisories(connection)
    deliveries = list(replacements.values())
    recorded = _recorded(connection, {_id(it) for it in deliveries})
    others = {key: it for key, it in recorded.items() if it.document_id not in replacements}
    _add_documents(connection, settings, deliveries)
    newest = _newest([it.advisory for it in deliveries if _id(it) in recorded], others)
    if newest:
        _merge(connection, newest, AdvisoriesAdded())
    delete_documents(connection, Document.document_id == any_(texts(replacements)))


def _id(delivery: AdvisoryDelivery) -> str:
    return delivery.advisory.head.advisory_id


def _recorded(connection: Connection, advisory_ids: Collection[str]) -> dict[str, AdvisoryHead]:
    return recorded_heads(connection, AdvisoryRow.advisory_id == any_(texts(advisory_ids)))[0]


def _add_documents(
    connection: Connection, settings: Settings, deliveries: Sequence[AdvisoryDelivery]
) -> list[Advisory]:
    """Store the documents; return the unique advisories whose documents are new."""
    unique = {it.advisory.head.document_id: it for it in deliveries}
    documents = (
        DeliveredDocument(document_id, KIND, SCHEMA_VERSION, it.source, it.advisory.body, COLLECTOR)
        for document_id, it in unique.items()
    )
    new = add_documents(connection, settings, documents)
    return [it.advisory for document_id, it in unique.items() if document_id in new]


def _newest(fresh: Sequence[Advisory], recorded: dict[str, AdvisoryHead]) -> dict[str, Advisory]:
    """Advisories that are newer than their recorded version, by identifier."""
    newest: dict[str, Advisory] = {}
    for advisory in sorted(fresh, key=lambda it: it.head.age):
        known = recorded.get(advisory.head.advisory_id)
        if known is None or known.age < advisory.head.age:
            newest[advisory.head.advisory_id] = advisory
    return newest


def _merge(connection: Connection, newest: dict[str, Advisory], added: AdvisoriesAdded) -> None:
    """Merge changed advisories with the groups of all their current and former aliases."""
    changed = {key: advisory.head for key, advisory in newest.items()}
    touched, heads, before = _groups_of(connection, changed.values())
    heads |= changed
    # Withdrawn advisories may move to another group, so the groups of their aliases are read, too.
    withdrawn = [head for head in heads.values() if head.withdrawn_at is not None]
    touched, heads, before = _groups_of(connection, [*changed.values(), *withdrawn])
    heads |= changed
    vulnerabilities = {it.vulnerability_id: it for it in merge_advisories(list(heads.values()))}
    added.removed = set(touched) - vulnerabilities.keys()
    added.vulnerabilities = _write_vulnerabilities(connection, vulnerabilities, touched)
    _write_heads(connection, heads, vulnerabilities.values(), before, newest)
    ids = texts(newest)
    connection.execute(delete(AdvisoryPackage).where(AdvisoryPackage.advisory_id == any_(ids)))
    table = table_of(AdvisoryPackage)
    rows = [row for key in sorted(newest) for row in package_rows(newest[key])]
    copy_rows(connection, table.name, table, rows, PACKAGE_COLUMNS)
    added.versions = match_vulnerabilities(connection, vulnerabilities.keys() | added.removed)
    connection.execute(
        delete(VulnerabilityRow).where(
            VulnerabilityRow.vulnerability_id == any_(texts(added.removed))
        )
    )
    add_entries(connection, {"vulnerability": added.vulnerabilities | added.removed})
    changes = {"purls": sorted(added.versions), "ids": sorted(added.vulnerabilities)}
    refresh_revisions(connection, connection.scalars(_PACKAGES_OF, changes).all())


def _groups_of(
    connection: Connection, heads: Iterable[AdvisoryHead]
) -> tuple[list[str], dict[str, AdvisoryHead], dict[str, str]]:
    """Vulnerabilities with these identifiers, their advisories, and the group of each advisory."""
    identifiers = {alias for head in heads for alias in (head.advisory_id, *head.aliases)}
    touched = list(connection.scalars(_NAMED, {"identifiers": sorted(identifiers)}))
    return touched, *recorded_heads(
        connection, AdvisoryRow.vulnerability_id == any_(texts(touched))
    )


def _write_vulnerabilities(
    connection: Connection, vulnerabilities: dict[str, Vulnerability], touched: Sequence[str]
) -> set[str]:
    """Insert and update vulnerabilities; return the identifiers of changed ones."""
    columns = (table_of(VulnerabilityRow).c[name] for name in VULNERABILITY_COLUMNS)
    query = select(*columns).where(VulnerabilityRow.vulnerability_id == any_(texts(touched)))
    before = {row[0]: tuple(row) for row in connection.execute(query)}
    rows = {key: vulnerability_row(it) for key, it in vulnerabilities.items()}
    changed = [row for key, row in rows.items() if key in before and before[key] != row]
    new = [row for key, row in rows.items() if key not in before]
    update_rows(connection, VulnerabilityRow, changed, VULNERABILITY_COLUMNS)
    insert_new(connection, VulnerabilityRow, new, VULNERABILITY_COLUMNS)
    return {row[0] for row in (*changed, *new)}


def _write_heads(
    connection: Connection,
    heads: dict[str, AdvisoryHead],
    vulnerabilities: Collection[Vulnerability],
    before: dict[str, str],
    newest: dict[str, Advisory],
) -> None:
    """Insert and update advisories that are new, changed, or moved to another vulnerability."""
    rows = [
        head_row(heads[key], it.vulnerability_id)
        for it in vulnerabilities
        for key in it.advisory_ids
        if key in newest or before[key] != it.vulnerability_id
    ]
    update_rows(connection, AdvisoryRow, [row for row in rows if row[0] in before], HEAD_COLUMNS)
    insert_new(connection, AdvisoryRow, [row for row in rows if row[0] not in before], HEAD_COLUMNS)


_COLUMNS = ("source", "etag", "last_modified", "sha256", "advisories", "as_of")


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of a source when it was last read completely.

    :param etag: HTTP header of the version that was read, like ``last_modified``
    :param sha256: of the archive; ``None`` if the source is not a single file
    :param advisories: number of advisories about Python packages
    :param as_of: time of the version that was read
    """

    source: str
    etag: str | None
    last_modified: str | None
    sha256: str | None
    advisories: int
    as_of: datetime


def source_states(connection: Connection) -> list[SourceState]:
    """The states of all sources that were read completely, by name."""
    columns = (getattr(AdvisorySource, name) for name in _COLUMNS)
    query = select(*columns).where(HAS_ADVISORIES).order_by(AdvisorySource.source)
    return [SourceState(*row) for row in connection.execute(query)]


def save_source(connection: Connection, state: SourceState) -> None:
    """Store the state of a source, which replaces its previous state."""
    values = dict(zip(_COLUMNS, astuple(state), strict=True)) | {"source": storable(state.source)}
    statement = insert(AdvisorySource).values(values)
    others = {name: statement.excluded[name] for name in _COLUMNS[1:]}
    connection.execute(statement.on_conflict_do_update(index_elements=["source"], set_=others))


def known_advisories(connection: Connection) -> dict[str, str]:
    """Schema version of each advisory document in the record, by identifier.

    No index lists these documents, so the rows of all documents are read.
    """
    query = select(Document.document_id, Document.schema_version).where(Document.kind == KIND)
    return {row[0]: row[1] for row in connection.execute(query)}
