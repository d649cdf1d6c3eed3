"""Claims of advice: verdicts on measured stacks, identified by their content and stored once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, any_, delete, exists, select

from graph.record.bulk import insert_new
from graph.record.postgresql_helpers import texts
from graph.tables import (
    AdviceClaim,
    AdviceRow,
    Base,
    ClaimPackage,
    ClaimRow,
    PackageVersionRow,
    StackPackage,
)
from model.advice import RecordedClaim
from model.packages.identity import version_key

_COLUMNS = tuple(field.name for field in fields(RecordedClaim))
_PACKAGE_COLUMNS = (
    "claim_id", "name", "version", "index_name", "version_key", "baseline_version",
    "baseline_index_name", "baseline_version_key",
)  # fmt: skip

#: Version and index of each package in a stack, by name.
_Versions = Mapping[str, tuple[str, str]]


def add_claims(
    connection: Connection, advice_id: str, document_id: str, claims: Iterable[RecordedClaim]
) -> None:
    """Store the claims of an advice; the caller owns the transaction.

    No outbox entries are written, because the claims are projected together with the advice.

    :param document_id: the report of the advice
    """
    unique = {it.claim_id: it for it in claims}
    if not unique:
        return
    # Locked: an existing claim must not be deleted before the advice refers to it.
    query = select(ClaimRow.claim_id).where(ClaimRow.claim_id == any_(texts(unique)))
    known = set(connection.scalars(query.with_for_update(read=True, key_share=True)))
    new = insert_new(
        connection, ClaimRow,
        [(*_values(it), document_id) for key, it in unique.items() if key not in known],
        (*_COLUMNS, "document_id"), "claim_id",
    )  # fmt: skip
    insert_new(
        connection, ClaimPackage,
        list(_differences(connection, [unique[key] for key in new])), _PACKAGE_COLUMNS,
    )  # fmt: skip
    insert_new(
        connection, AdviceClaim, [(advice_id, key) for key in unique], ("advice_id", "claim_id")
    )


@dataclass(frozen=True, slots=True)
class ClaimSubject:
    """What a recorded claim compares; the fields are named like those of a claim in a report."""

    claim_id: str
    comparison_key: str
    python_version: str | None
    stack: str
    baseline_stack: str


def claims_starting(
    connection: Connection, start: str, *, advice_id: str | None = None, limit: int
) -> list[ClaimSubject]:
    """The recorded claims whose identifiers begin with ``start``, sorted.

    :param advice_id: only claims of this advice
    """
    row = ClaimRow
    query = select(
        row.claim_id, row.comparison_key, row.python_version, row.stack_digest,
        row.baseline_digest,
    ).where(row.claim_id.startswith(start, autoescape=True))  # fmt: skip
    if advice_id is not None:
        query = query.join(AdviceClaim, AdviceClaim.claim_id == row.claim_id).where(
            AdviceClaim.advice_id == advice_id
        )
    rows = connection.execute(query.order_by(row.claim_id).limit(limit))
    return [ClaimSubject(*it) for it in rows]


def newest_advice_with(connection: Connection, claim_id: str) -> str | None:
    """The newest advice with a claim, or ``None``."""
    query = (
        select(AdviceRow.advice_id)
        .join(AdviceClaim, AdviceClaim.advice_id == AdviceRow.advice_id)
        .where(AdviceClaim.claim_id == claim_id)
        .order_by(AdviceRow.created_at.desc(), AdviceRow.advice_id.desc())
        .limit(1)
    )
    return connection.scalar(query)


def claim_rows(
    connection: Connection, advice_id: str, document_id: str, claims: Sequence[RecordedClaim]
) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_claims` writes, as values by column; runs one query."""
    for claim in claims:
        yield (
            ClaimRow,
            dict(zip(_COLUMNS, _values(claim), strict=True)) | {"document_id": document_id},
        )
        yield AdviceClaim, {"advice_id": advice_id, "claim_id": claim.claim_id}
    for row in _differences(connection, claims):
        yield ClaimPackage, dict(zip(_PACKAGE_COLUMNS, row, strict=True))


def forget_claims(connection: Connection, claim_ids: Collection[str]) -> dict[str, str]:
    """Delete the claims among ``claim_ids`` that no advice refers to any more.

    :returns: the report that first contained each deleted claim, by claim
    """
    unreferenced = (
        select(ClaimRow.claim_id, ClaimRow.document_id)
        .where(
            ClaimRow.claim_id == any_(texts(claim_ids)),
            ~exists().where(AdviceClaim.claim_id == ClaimRow.claim_id),
        )
        # A transaction that is about to refer to a claim has locked it.
        .with_for_update(skip_locked=True)
    )
    deleted: dict[str, str] = dict(connection.execute(unreferenced).all())
    connection.execute(delete(ClaimPackage).where(ClaimPackage.claim_id == any_(texts(deleted))))
    connection.execute(delete(ClaimRow).where(ClaimRow.claim_id == any_(texts(deleted))))
    return deleted


def _values(claim: RecordedClaim) -> tuple[Any, ...]:
    return tuple(getattr(claim, name) for name in _COLUMNS)


def _differences(
    connection: Connection, claims: Sequence[RecordedClaim]
) -> Iterator[tuple[str | None, ...]]:
    """The rows of :class:`ClaimPackage`: each package in which the two stacks of a claim differ."""
    stacks = _stacks(connection, {key for it in claims for key in _both(it)})
    for claim in claims:
        ours, theirs = (stacks.get(key, {}) for key in _both(claim))
        for name in sorted(ours.keys() | theirs):
            if ours.get(name) != theirs.get(name):
                yield (claim.claim_id, name, *_release(ours, name), *_release(theirs, name))


def _both(claim: RecordedClaim) -> tuple[str, str]:
    return claim.stack_digest, claim.baseline_digest


def _release(stack: _Versions, name: str) -> tuple[str | None, str | None, str | None]:
    """Version, index and sort key of a package; ``None`` if the stack lacks it."""
    if name not in stack:
        return None, None, None
    version, index = stack[name]
    return version, index, version_key(version)


def _stacks(connection: Connection, digests: Collection[str]) -> Mapping[str, _Versions]:
    query = (
        select(
            StackPackage.stack_digest, PackageVersionRow.name, PackageVersionRow.version,
            PackageVersionRow.index_name,
        )
        .join(PackageVersionRow, PackageVersionRow.purl == StackPackage.purl)
        .where(StackPackage.stack_digest == any_(texts(digests)))
        .order_by(StackPackage.purl)
    )  # fmt: skip
    stacks: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for digest, name, version, index in connection.execute(query):
        stacks[digest][name] = version, index
    return stacks
