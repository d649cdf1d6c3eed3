"""Inserts, lists and looks up stacks of inspections and advice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from sqlalchemy import ColumnElement, Connection, Select, any_, func, or_, select

from graph.record.analyses import requested_by
from graph.record.bulk import insert_new
from graph.record.packages import add_unread_versions
from graph.record.postgresql_helpers import matching, texts
from graph.record.vulnerabilities import KnownVersion
from graph.tables import (
    MEASURED,
    AdvisedStack,
    AffectedVersion,
    Base,
    InspectionRow,
    ObservationRow,
    PackageVersionRow,
    StackPackage,
    StackRow,
)
from model.declared_fields import DIGEST, STACK_DIGEST, Field
from model.measurements.inspection import Stack


def stack_rows(stack: Stack, document_id: str) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_stacks` writes for ``stack``, as values by column.

    The rows of package versions contain only the identifying columns; the other columns come from
    indexes.
    """
    yield StackRow, {
        "digest": stack.digest, "package_count": len(stack.packages), "document_id": document_id,
    }  # fmt: skip
    for package in stack.packages:
        yield StackPackage, {"stack_digest": stack.digest, "purl": package.purl}
        yield PackageVersionRow, {
            "purl": package.purl, "name": package.name, "version": package.version,
            "index_name": package.index, "document_id": document_id,
        }  # fmt: skip


def add_stacks(connection: Connection, delivered: Iterable[tuple[Stack, str]]) -> list[str]:
    """Insert new stacks and their package versions.

    A stack is identified by its packages, whether it was measured or recommended. The caller writes
    the outbox entries of the stacks.

    :param delivered: pairs of a stack and its document; the first document of each stack counts
    :returns: digests of the new stacks
    """
    stacks: dict[str, tuple[Stack, str]] = {}
    for stack, document_id in delivered:
        stacks.setdefault(stack.digest, (stack, document_id))
    new = insert_new(
        connection, StackRow,
        [(key, len(stack.packages), document_id) for key, (stack, document_id) in stacks.items()],
        ("digest", "package_count", "document_id"), "digest",
    )  # fmt: skip
    # The versions of existing stacks exist, too.
    add_unread_versions(
        connection,
        (
            (package.purl, package.name, package.version, package.index, document_id)
            for stack, document_id in map(stacks.__getitem__, new)
            for package in stack.packages
        ),
    )
    insert_new(
        connection, StackPackage,
        [(key, package.purl) for key in new for package in stacks[key][0].packages],
        ("stack_digest", "purl"),
    )  # fmt: skip
    return new


@dataclass(frozen=True, slots=True)
class StackHead:
    """A set of package versions."""

    digest: Annotated[str, STACK_DIGEST]
    package_count: Annotated[int, Field("Number of packages.", 3)]
    document_id: Annotated[str, Field("First document that names the stack.", DIGEST)]
    inspections: Annotated[int, Field("Number of inspections.", 1)] = 0
    advised: Annotated[int, Field("Number of advice reports that recommend it.", 0)] = 0


@dataclass(frozen=True, slots=True)
class StackFilter:
    """Filter for stacks; a field that is ``None`` matches all stacks."""

    package: Annotated[str | None, Field("Name of a package in the stack.", "numpy")] = None
    version: Annotated[str | None, Field("Normalised version of that package.", "2.4.6")] = None
    vulnerability: Annotated[
        str | None,
        Field(
            "Main identifier of a vulnerability that affects a package in the stack.",
            "CVE-2023-30861",
        ),
    ] = None
    measured: Annotated[bool | None, Field("Whether there is a comparable measurement.")] = None


@dataclass(frozen=True, slots=True)
class StackVisibility:
    """Which recommended stacks a client may see; measured stacks are visible to all.

    :param token_id: stacks recommended for this token; ``None`` for none
    :param everything: all stacks
    """

    token_id: str | None = None
    everything: bool = False


ALL_STACKS = StackVisibility(everything=True)


def stacks_with(package: str, version: str | None = None) -> Select[str]:
    """Query for the digests of stacks that contain a package; ``None`` as version means any."""
    release = PackageVersionRow
    return (
        select(StackPackage.stack_digest)
        .join(release, release.purl == StackPackage.purl)
        .where(release.name == package, *matching({release.version: version}))
    )


def _stacks_affected_by(vulnerability_id: str) -> Select[str]:
    return (
        select(StackPackage.stack_digest)
        .join(AffectedVersion, AffectedVersion.purl == StackPackage.purl)
        .where(AffectedVersion.vulnerability_id == vulnerability_id)
    )


def browse_stacks(
    connection: Connection,
    wanted: StackFilter,
    *,
    seen_by: StackVisibility = ALL_STACKS,
    after: str | None = None,
    limit: int,
) -> list[StackHead]:
    """Stacks in the order of their digests.

    :param seen_by: hides stacks that were recommended to other clients, which would reveal their
        projects
    """
    row = StackRow
    query = select(row.digest, row.package_count, row.document_id)
    if wanted.package is not None:
        query = query.where(row.digest.in_(stacks_with(wanted.package, wanted.version)))
    if wanted.vulnerability is not None:
        query = query.where(row.digest.in_(_stacks_affected_by(wanted.vulnerability)))
    inspections = select(InspectionRow.document_id).where(InspectionRow.stack_digest == row.digest)
    if not seen_by.everything:
        own = select(AdvisedStack.stack_digest).where(
            AdvisedStack.stack_digest == row.digest,
            AdvisedStack.advice_id.in_(requested_by(seen_by.token_id or "")),
        )
        query = query.where(or_(inspections.exists(), own.exists()))
    if wanted.measured is not None:
        jobs = inspections.join(
            ObservationRow, ObservationRow.document_id == InspectionRow.document_id
        ).where(*MEASURED)
        query = query.where(jobs.exists() if wanted.measured else ~jobs.exists())
    if after is not None:
        query = query.where(row.digest > after)
    return _heads(connection, query.order_by(row.digest).limit(limit))


def stack_named(connection: Connection, digest: str) -> StackHead | None:
    """A stack by its digest, or ``None``."""
    row = StackRow
    query = select(row.digest, row.package_count, row.document_id).where(row.digest == digest)
    return next(iter(_heads(connection, query)), None)


def _heads(connection: Connection, query: Select[str, int, str]) -> list[StackHead]:
    rows = connection.execute(query).all()
    digests = [it.digest for it in rows]
    inspected = _counts(connection, InspectionRow.stack_digest, digests)
    advised = _counts(connection, AdvisedStack.stack_digest, digests)
    return [
        StackHead(digest, count, document_id, inspected.get(digest, 0), advised.get(digest, 0))
        for digest, count, document_id in rows
    ]


def inspected_stacks(connection: Connection) -> int:
    """Number of known stacks that were inspected."""
    return connection.scalar(select(func.count(InspectionRow.stack_digest.distinct()))) or 0


def packages_in(connection: Connection, digest: str) -> list[KnownVersion]:
    """The package versions of a stack, by package URL."""
    row = PackageVersionRow
    rows = connection.execute(
        select(row.purl, row.name, row.version, row.index_name)
        .join(StackPackage, StackPackage.purl == row.purl)
        .where(StackPackage.stack_digest == digest)
        .order_by(row.purl)
    )
    return [KnownVersion(*it) for it in rows]


def _counts(
    connection: Connection, column: ColumnElement[Any], digests: list[str]
) -> dict[str, int]:
    query = select(column, func.count()).where(column == any_(texts(digests))).group_by(column)
    return dict(connection.execute(query).all())
