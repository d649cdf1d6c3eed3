"""Parses stored advisories again and compares them with their rows.

A differing advisory stays in the evidence, because advice without it would miss a vulnerability.
The rows of such an advisory are written again from its document.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import orjson
from sqlalchemy import Connection, any_, select

from graph.record.advisories import (
    HEAD_COLUMNS,
    PACKAGE_COLUMNS,
    VULNERABILITY_COLUMNS,
    head_row,
    package_rows,
    restore_advisories,
    vulnerability_row,
)
from graph.record.documents import body_of
from graph.record.postgresql_helpers import texts
from graph.record.vulnerabilities import claimed_pairs, stored_pairs
from graph.tables import AdvisoryPackage, AdvisoryRow, Base, VulnerabilityRow
from graph.verification.comparison import (
    RecordDifference,
    Row,
    compare_rows,
    extra_row,
    missing_row,
    unreadable,
)
from graph.verification.run import ComparedDocuments, StoredDocument, VerificationRun, Verifier
from ingest.advisories.osv import advisory_of
from model.advisories import Advisory, merge_advisories
from model.errors import DamagedDocument, InvalidDocument
from model.measurements.inspection import DocumentId


@dataclass(frozen=True, slots=True)
class _Member:
    """A stored advisory with its vulnerability and its document."""

    vulnerability_id: str
    document_id: str
    modified_at: datetime


class AdvisoryVerifier(Verifier):
    """Compares the rows of advisories with their documents, and writes differing rows again."""

    def compare(
        self, connection: Connection, run: VerificationRun, documents: Sequence[StoredDocument]
    ) -> Iterator[RecordDifference]:
        advisories: dict[str, Advisory] = {}
        for document in documents:
            try:
                advisories[document.document_id] = _advisory(document.document_id, document.body)
            except InvalidDocument as error:
                yield unreadable(document.document_id, document.schema_version, error)
        members = _members(connection, {it.head.advisory_id for it in advisories.values()})
        made: dict[str, list[tuple[type[Base], Row]]] = {}
        for document_id, advisory in advisories.items():
            name = advisory.head.advisory_id
            member = members.get(name)
            if member is None:
                # An advisory without Python packages has rows only if an earlier version had some.
                if advisory.packages:
                    yield missing_row(document_id, "advisories", name)
            elif member.document_id == document_id:
                head = head_row(advisory.head, member.vulnerability_id)
                rows = made[document_id] = [
                    (AdvisoryRow, dict(zip(HEAD_COLUMNS, head, strict=True)))
                ]
                for row in package_rows(advisory):
                    rows.append((AdvisoryPackage, dict(zip(PACKAGE_COLUMNS, row, strict=True))))
            elif not _is_newer(member, advisory):
                stored = member.document_id
                yield RecordDifference(
                    document_id, "advisories", name, "document_id", stored, document_id
                )
        yield from compare_rows(connection, made, (AdvisoryPackage,))
        current = {key: members[advisories[key].head.advisory_id] for key in made}
        yield from _of_vulnerabilities(connection, run, advisories, current)

    def settle(
        self, connection: Connection, run: VerificationRun, compared: ComparedDocuments
    ) -> None:
        newest: dict[str, Advisory] = {}
        for document in compared.differing:
            with suppress(InvalidDocument):
                advisory = _advisory(document.document_id, document.body)
                known = newest.setdefault(advisory.head.advisory_id, advisory)
                if known.head.age < advisory.head.age:
                    newest[advisory.head.advisory_id] = advisory
        members = _members(connection, newest)
        wrong = [it for key, it in newest.items() if not _is_newer(members.get(key), it)]
        if wrong:
            # The rows of advisories in the same groups may be unreadable.
            with suppress(ValueError, TypeError, AttributeError), connection.begin_nested():
                restore_advisories(connection, wrong)
                run.counts["advisories_restored"] += len(wrong)


def _advisory(document_id: str, body: bytes) -> Advisory:
    """Parse a stored document."""
    return advisory_of(orjson.loads(body), body, DocumentId(document_id), datetime.now(UTC))


def _members(connection: Connection, advisory_ids: Collection[str]) -> dict[str, _Member]:
    table = AdvisoryRow
    columns = (table.vulnerability_id, table.document_id, table.modified_at)
    query = select(table.advisory_id, *columns).where(
        table.advisory_id == any_(texts(advisory_ids))
    )
    return {row[0]: _Member(*row[1:]) for row in connection.execute(query)}


def _is_newer(member: _Member | None, advisory: Advisory) -> bool:
    """Whether the stored row comes from a newer document than ``advisory`` does."""
    if member is None or member.document_id == advisory.head.document_id:
        return False
    return (member.modified_at, member.document_id) > advisory.head.age


def _of_vulnerabilities(
    connection: Connection,
    run: VerificationRun,
    advisories: Mapping[str, Advisory],
    current: Mapping[str, _Member],
) -> Iterator[RecordDifference]:
    """Yield differences between stored vulnerabilities and the merge of their advisories.

    :param current: advisories whose rows come from the compared document, by document
    """
    documents = {it.vulnerability_id: document_id for document_id, it in current.items()}
    made: dict[str, list[tuple[type[Base], Row]]] = defaultdict(list)
    claims = []
    groups = _groups(connection, run, advisories, documents)
    for vulnerability_id, group in groups.items():
        document_id = documents[vulnerability_id]
        for vulnerability in merge_advisories([member.head for member in group]):
            row = vulnerability_row(vulnerability)
            made[document_id].append(
                (VulnerabilityRow, dict(zip(VULNERABILITY_COLUMNS, row, strict=True)))
            )
        for member in group:
            if member.head.withdrawn_at is None:
                claims += [(vulnerability_id, package) for package in member.packages]
    yield from compare_rows(connection, made)
    stored, claimed = stored_pairs(connection, groups), claimed_pairs(connection, claims)
    for pair in sorted(claimed - stored):
        yield missing_row(documents[pair[0]], "affected_versions", " ".join(pair))
    for pair in sorted(stored - claimed):
        yield extra_row(documents[pair[0]], "affected_versions", " ".join(pair))


def _groups(
    connection: Connection,
    run: VerificationRun,
    advisories: Mapping[str, Advisory],
    vulnerability_ids: Collection[str],
) -> dict[str, list[Advisory]]:
    """Parse the documents of all advisories of some vulnerabilities.

    Vulnerabilities with an unreadable document are left out; the document itself is reported.
    """
    table = AdvisoryRow
    query = (
        select(table.vulnerability_id, table.document_id)
        .where(table.vulnerability_id == any_(texts(vulnerability_ids)))
        .order_by(table.vulnerability_id, table.advisory_id)
    )
    groups: dict[str, list[Advisory]] = defaultdict(list)
    broken = set()
    for vulnerability_id, document_id in connection.execute(query).all():
        advisory = advisories.get(document_id)
        try:
            if advisory is None:
                body = body_of(connection, run.settings, document_id) or b""
                advisory = _advisory(document_id, body)
        except (DamagedDocument, InvalidDocument):
            broken.add(vulnerability_id)
            continue
        groups[vulnerability_id].append(advisory)
    return {key: group for key, group in groups.items() if key not in broken}


VERIFIER = AdvisoryVerifier()
