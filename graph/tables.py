"""The tables of the record (PostgreSQL); migrations compare this module with the database.

Dataclasses with the same fields declare what a column means (:mod:`model.declared_fields`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.schema import SchemaItem

#: Constraints have systematic names, so that a migration can drop them.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
#: Column types by annotation: text has no length limit, and every time has a zone.
_TYPES = {
    "str": Text(),
    "int": Integer(),
    "float": Double(),
    "bool": Boolean(),
    "datetime": DateTime(timezone=True),
}


class _TableClass(type):
    """A metaclass that makes the table of a class from its annotations."""

    __table__: Table

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **_table: str
    ) -> _TableClass:
        return super().__new__(cls, name, bases, namespace)

    def __init__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], table: str = ""
    ) -> None:
        super().__init__(name, bases, namespace)
        if not table:
            return
        columns, indexes = [], []
        for attribute, annotation in cls.__annotations__.items():
            # An annotation is such as ``ColumnElement[int | None]``.
            kind = annotation.removeprefix("ColumnElement[").removesuffix("]")
            kind, _, optional = kind.partition(" | ")
            declared: Any = namespace.get(attribute) or ((), {})
            arguments, options = declared
            if method := options.pop("index", None):
                using = {} if method is True else {"postgresql_using": method}
                indexes.append(Index(f"ix_{table}_{attribute}", attribute, **using))
            if not arguments or isinstance(arguments[0], SchemaItem):
                arguments = (_TYPES[kind], *arguments)
            columns.append(Column(attribute, *arguments, nullable=bool(optional), **options))
        parts = (*namespace.get("__table_args__", ()), *indexes)
        cls.__table__ = Table(table, Base.metadata, *columns, *parts)
        for it in columns:
            setattr(cls, it.name, it)

    def __clause_element__(cls) -> Table:
        """The table that represents the class in SQLAlchemy statements."""
        return cls.__table__


class Base(metaclass=_TableClass):
    """Base of all tables: the annotations of a subclass become the columns of the named table.

    ``name: ColumnElement[str | None]`` declares a nullable column of text. The type of a column
    follows from the annotation, unless :func:`column` gives a type. In statements, a class stands
    for its table.

    This is a thin layer over SQLAlchemy's tables. It does not use the ORM, because nothing here
    loads objects. In measurements, the mappers of 40 tables took 0.15 s at the start of every
    command, and ORM statements took twice as long to compile.
    """

    metadata = MetaData(naming_convention=_NAMES)


def column(*arguments: Any, **options: Any) -> Any:
    """Arguments of :class:`sqlalchemy.Column`, without the name, for a declared column.

    ``index`` is true for an index of the column, or the method of the index, such as ``hash``. Hash
    indexes serve the deletion of documents, which searches all columns that may refer to them.
    """
    return arguments, options


def table_of(model: type[Base]) -> Table:
    """The table behind a class, for statements on whole tables."""
    return model.__table__


# Documents, quarantine, outbox and verification of the record


class Document(Base, table="documents"):
    """A delivered document, stored once, identified by the digest of its content.

    The compressed body is in this row or, if it is large, in the document store at ``location``.
    """

    __table_args__ = (
        CheckConstraint("(body IS NULL) <> (location IS NULL)", name="body_or_location"),
        # Finds the time of the newest knowledge for each response; requests and results do not
        # count.
        Index(
            "ix_documents_knowledge",
            "ingested_at",
            postgresql_where=text("kind IN ('inspection', 'release', 'advisory', 'analysis')"),
        ),
        # For lists of inspections in the order of arrival.
        Index(
            "ix_documents_inspections",
            "ingested_at",
            "document_id",
            postgresql_where=text("kind = 'inspection'"),
        ),
        # For deleting the oldest uploads.
        Index("ix_documents_uploads", "ingested_at", postgresql_where=text("kind = 'upload'")),
    )

    document_id: ColumnElement[str] = column(primary_key=True)
    kind: ColumnElement[str]
    schema_version: ColumnElement[str]
    #: The source that delivered the document first.
    source: ColumnElement[str]
    #: Program or database that made the document; ``None`` if unknown.
    collector: ColumnElement[str | None]
    size_bytes: ColumnElement[int] = column(BigInteger)
    body: ColumnElement[bytes | None] = column(LargeBinary)
    location: ColumnElement[str | None]
    ingested_at: ColumnElement[datetime] = column(server_default=func.now())
    #: See :mod:`graph.verification.parser_version`; 0 if unknown.
    parser_version: ColumnElement[int] = column(server_default=text("0"))


class UnreferencedBodyRow(Base, table="unreferenced_bodies"):
    """A body in the document store whose document was deleted, until the body is deleted, too.

    A document may be stored and deleted again before its first body is deleted, so an identifier
    may occur more than once.
    """

    entry_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    document_id: ColumnElement[str]


class RecordCheckRow(Base, table="record_checks"):
    """Progress of ``thoth record verify``: a single row.

    Documents are compared in the order of their identifiers, in rounds.
    """

    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: ColumnElement[bool] = column(primary_key=True, server_default=text("true"))
    #: Last compared document; empty at the start of a round.
    position: ColumnElement[str] = column(server_default=text("''"))
    round_began_at: ColumnElement[datetime | None]
    #: Start and end of the last complete round.
    complete_since: ColumnElement[datetime | None]
    completed_at: ColumnElement[datetime | None]


class QuarantinedDocument(Base, table="quarantine"):
    """A refused document with the reason and the number of attempts.

    There is one row for each invalid field, because a source may contain several refused documents.
    A successful retry sets ``resolved_at``.
    """

    __table_args__ = (
        Index("uq_quarantine_source_place_field", "source", "place", "field", unique=True),
        Index("ix_quarantine_open", "reason", postgresql_where=text("resolved_at IS NULL")),
    )

    quarantine_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    kind: ColumnElement[str]
    source: ColumnElement[str]
    #: Position inside the source: a member of an archive, a key of a dictionary, or empty.
    place: ColumnElement[str]
    reason: ColumnElement[str]
    field: ColumnElement[str]
    message: ColumnElement[str]
    attempts: ColumnElement[int] = column(server_default=text("1"))
    first_seen_at: ColumnElement[datetime] = column(server_default=func.now())
    last_seen_at: ColumnElement[datetime] = column(server_default=func.now())
    resolved_at: ColumnElement[datetime | None]


class OutboxEntry(Base, table="outbox"):
    """A change that is not in the graph yet; the entry is deleted when the graph has the change.

    An entry is written in the transaction of the change. The projector remembers no position, so it
    also finds entries of transactions that commit late.
    """

    __table_args__ = (Index("ix_outbox_package", "key", postgresql_where=text("kind = 'package'")),)

    entry_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    kind: ColumnElement[str]
    key: ColumnElement[str]
    created_at: ColumnElement[datetime] = column(server_default=func.now())


# Packages, releases, their files and requirements; stacks


class PackageRow(Base, table="packages"):
    """A package that has versions, or that a version requires."""

    name: ColumnElement[str] = column(primary_key=True)
    #: Changes whenever advice about the package could; ``None`` without versions.
    revision: ColumnElement[str | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class PackageVersionRow(Base, table="package_versions"):
    """A release of a package on one index."""

    __table_args__ = (
        Index("ix_package_versions_release", "release_document_id", postgresql_using="hash"),
        Index("ix_package_versions_state", "state", postgresql_where=text("state <> 'solved'")),
        CheckConstraint(
            "state IN ('unread', 'solved', 'unsolvable', 'unparsable')", name="state_known"
        ),
    )

    purl: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(index=True)
    version: ColumnElement[str]
    index_name: ColumnElement[str]
    #: The first document that contained the version.
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")
    state: ColumnElement[str] = column(server_default=text("'unread'"))
    problem: ColumnElement[str | None]
    problem_message: ColumnElement[str | None]
    requires_python: ColumnElement[str | None]
    extras: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    license: ColumnElement[str | None]
    yanked: ColumnElement[bool] = column(server_default=text("false"))
    yanked_reason: ColumnElement[str | None]
    uploaded_at: ColumnElement[datetime | None]
    metadata_source: ColumnElement[str | None]
    metadata_file: ColumnElement[str | None]
    wheels: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    #: ``None`` if no index listed its files yet.
    has_sdist: ColumnElement[bool | None]
    files_complete: ColumnElement[bool] = column(server_default=text("false"))
    #: The latest release document.
    release_document_id: ColumnElement[str | None] = column(ForeignKey("documents.document_id"))
    #: Digest of everything that could change advice.
    facts: ColumnElement[str | None]
    #: Time of the latest answer of an index.
    as_of: ColumnElement[datetime | None]
    #: Delivery of each part: :class:`graph.record.release_merging.Ranks`.
    ranks: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    imports: ColumnElement[list[str] | None] = column(ARRAY(Text), index="gin")
    imports_source: ColumnElement[str | None]


class RequirementRow(Base, table="requirements"):
    """A requirement of a version, raw and normalised."""

    purl: ColumnElement[str] = column(ForeignKey("package_versions.purl"), primary_key=True)
    position: ColumnElement[int] = column(primary_key=True)
    raw: ColumnElement[str]
    name: ColumnElement[str | None] = column(index=True)
    specifier: ColumnElement[str]
    marker: ColumnElement[str | None]
    extras: ColumnElement[list[str]] = column(ARRAY(Text))
    for_extras: ColumnElement[list[str]] = column(ARRAY(Text))
    url: ColumnElement[str | None]
    problem: ColumnElement[str | None]


class ReleaseFileRow(Base, table="release_files"):
    """A file of a version; its first hash is never overwritten."""

    purl: ColumnElement[str] = column(ForeignKey("package_versions.purl"), primary_key=True)
    filename: ColumnElement[str] = column(primary_key=True)
    sha256: ColumnElement[str | None] = column(index=True)
    kind: ColumnElement[str]
    size_bytes: ColumnElement[int | None] = column(BigInteger)
    requires_python: ColumnElement[str | None]
    yanked: ColumnElement[bool]
    yanked_reason: ColumnElement[str | None]
    uploaded_at: ColumnElement[datetime | None]
    metadata_sha256: ColumnElement[str | None]
    attested: ColumnElement[bool | None]
    #: ``false`` if the index no longer offers it; its hash must still not change.
    listed: ColumnElement[bool] = column(server_default=text("true"))
    #: Rank of its list, unless it is the last complete list.
    rank: ColumnElement[str | None]


class StackRow(Base, table="stacks"):
    """A set of package versions, identified by its digest."""

    digest: ColumnElement[str] = column(primary_key=True)
    package_count: ColumnElement[int]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class StackPackage(Base, table="stack_packages"):
    """A package version in a stack."""

    stack_digest: ColumnElement[str] = column(ForeignKey("stacks.digest"), primary_key=True)
    purl: ColumnElement[str] = column(
        ForeignKey("package_versions.purl"), primary_key=True, index=True
    )


class PackageEvent(Base, table="package_events"):
    """A change on an index, such as a new release, a yank or a changed hash."""

    event_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    kind: ColumnElement[str]
    index_name: ColumnElement[str]
    name: ColumnElement[str] = column(index=True)
    version: ColumnElement[str]
    detail: ColumnElement[dict[str, Any]] = column(JSONB)
    occurred_at: ColumnElement[datetime] = column(server_default=func.now())


# Inspections and what they measured


class HardwareRow(Base, table="hardware"):
    """A hardware class: identities of machines whose measurements may be compared."""

    digest: ColumnElement[str] = column(primary_key=True)
    label: ColumnElement[str]
    identity: ColumnElement[dict[str, Any]] = column(JSONB)
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))


class RuntimeEnvironmentRow(Base, table="runtime_environments"):
    """Operating system, Python and image of inspections."""

    digest: ColumnElement[str] = column(primary_key=True)
    os_name: ColumnElement[str | None]
    os_version: ColumnElement[str | None]
    python_version: ColumnElement[str | None]
    cuda_version: ColumnElement[str | None]
    base_image: ColumnElement[str | None]
    native_packages: ColumnElement[list[str]] = column(ARRAY(Text))
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))


class IndicatorRow(Base, table="indicators"):
    """A performance indicator: a script, identified by its content."""

    indicator_id: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str]
    component: ColumnElement[str | None]
    script_sha256: ColumnElement[str | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))


class InspectionRow(Base, table="inspections"):
    """An inspection: a number of jobs that measured a stack."""

    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), primary_key=True)
    name: ColumnElement[str]
    stack_digest: ColumnElement[str | None] = column(ForeignKey("stacks.digest"), index=True)
    stack_note: ColumnElement[str | None]
    job_count: ColumnElement[int]
    created_at: ColumnElement[datetime | None] = column(index=True)
    #: Libraries of each distribution; see :mod:`model.packages.native_libraries`.
    bundled: ColumnElement[dict[str, Any] | None] = column(JSONB(none_as_null=True))


class ObservationRow(Base, table="observations"):
    """One result of a job; fields as in :class:`model.measurements.inspection.Observation`."""

    __table_args__ = (
        Index("ix_observations_hardware_digest", "hardware_digest", "observation_id"),
        Index("ix_observations_indicator_id", "indicator_id", "observation_id"),
        Index(
            "ix_observations_quarantined",
            "document_id",
            postgresql_where=text("quarantine_reason IS NOT NULL"),
        ),
        CheckConstraint("rate > 0", name="rate_positive"),
        CheckConstraint("(outcome = 'measured') = (rate IS NOT NULL)", name="measured_has_rate"),
        CheckConstraint("(rate IS NULL) = (unit IS NULL)", name="rate_has_unit"),
    )

    observation_id: ColumnElement[str] = column(primary_key=True)
    document_id: ColumnElement[str] = column(ForeignKey("inspections.document_id"), index=True)
    job_id: ColumnElement[str]
    position: ColumnElement[int]
    outcome: ColumnElement[str]
    exit_code: ColumnElement[int]
    indicator_id: ColumnElement[str] = column(ForeignKey("indicators.indicator_id"))
    hardware_digest: ColumnElement[str] = column(ForeignKey("hardware.digest"))
    environment_digest: ColumnElement[str] = column(ForeignKey("runtime_environments.digest"))
    comparison_key: ColumnElement[str] = column(index=True)
    parameters: ColumnElement[dict[str, Any]] = column(JSONB)
    device: ColumnElement[str | None]
    elapsed_s: ColumnElement[float | None]
    rate: ColumnElement[float | None]
    reported_rate: ColumnElement[float | None]
    unit: ColumnElement[str | None]
    repetitions_s: ColumnElement[list[float]] = column(ARRAY(Double))
    correction: ColumnElement[str | None]
    quarantine_reason: ColumnElement[str | None]
    unstable_reason: ColumnElement[str | None]
    failure_reason: ColumnElement[str | None]
    failure_message: ColumnElement[str | None]
    host: ColumnElement[str | None]
    block: ColumnElement[str | None]
    turn: ColumnElement[int | None]
    steal_share: ColumnElement[float | None]
    started_at: ColumnElement[datetime | None]
    ended_at: ColumnElement[datetime | None] = column(index=True)
    memory_bytes: ColumnElement[int | None] = column(BigInteger)
    user_s: ColumnElement[float | None]
    system_s: ColumnElement[float | None]
    spread: ColumnElement[float | None]
    minor_faults: ColumnElement[int | None] = column(BigInteger)
    major_faults: ColumnElement[int | None] = column(BigInteger)
    voluntary_switches: ColumnElement[int | None] = column(BigInteger)
    involuntary_switches: ColumnElement[int | None] = column(BigInteger)
    blocks_read: ColumnElement[int | None] = column(BigInteger)
    blocks_written: ColumnElement[int | None] = column(BigInteger)
    throttled: ColumnElement[bool | None]
    swapped: ColumnElement[bool | None]
    load: ColumnElement[float | None]
    launcher: ColumnElement[str | None]
    threads: ColumnElement[int | None]
    blas: ColumnElement[str | None]
    tick_share: ColumnElement[float | None]
    boot: ColumnElement[str | None]
    build: ColumnElement[str | None]
    energy_j: ColumnElement[float | None]
    energy_note: ColumnElement[str | None]


#: Conditions of observations that may be compared.
MEASURED = (ObservationRow.outcome == "measured", ObservationRow.quarantine_reason.is_(None))


# Advisories, vulnerabilities and affected versions


class VulnerabilityRow(Base, table="vulnerabilities"):
    """A vulnerability; see :class:`graph.record.vulnerabilities.VulnerabilityHead`."""

    vulnerability_id: ColumnElement[str] = column(primary_key=True)
    aliases: ColumnElement[list[str]] = column(ARRAY(Text), index="gin")
    summary: ColumnElement[str | None]
    severity: ColumnElement[str | None]
    score: ColumnElement[float | None]
    vector: ColumnElement[str | None]
    published_at: ColumnElement[datetime | None]
    modified_at: ColumnElement[datetime | None]
    withdrawn_at: ColumnElement[datetime | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class AdvisoryRow(Base, table="advisories"):
    """An advisory according to its newest document."""

    advisory_id: ColumnElement[str] = column(primary_key=True)
    vulnerability_id: ColumnElement[str] = column(
        ForeignKey("vulnerabilities.vulnerability_id"), index=True
    )
    aliases: ColumnElement[list[str]] = column(ARRAY(Text))
    summary: ColumnElement[str | None]
    severity: ColumnElement[str | None]
    score: ColumnElement[float | None]
    vector: ColumnElement[str | None]
    published_at: ColumnElement[datetime | None]
    modified_at: ColumnElement[datetime]
    withdrawn_at: ColumnElement[datetime | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class AdvisoryPackage(Base, table="advisory_packages"):
    """The affected versions of a package according to an advisory."""

    advisory_id: ColumnElement[str] = column(ForeignKey("advisories.advisory_id"), primary_key=True)
    position: ColumnElement[int] = column(primary_key=True)
    name: ColumnElement[str] = column(index=True)
    #: Lists of events, each ``{"introduced": …}``, ``{"fixed": …}`` or ``{"last_affected": …}``.
    ranges: ColumnElement[list[list[dict[str, Any]]]] = column(JSONB)
    versions: ColumnElement[list[str]] = column(ARRAY(Text))


class AffectedVersion(Base, table="affected_versions"):
    """A known version that a vulnerability affects."""

    vulnerability_id: ColumnElement[str] = column(
        ForeignKey("vulnerabilities.vulnerability_id"), primary_key=True
    )
    purl: ColumnElement[str] = column(
        ForeignKey("package_versions.purl"), primary_key=True, index=True
    )


class AdvisorySource(Base, table="advisory_sources"):
    """An archive of advisories, and its last version that was read completely."""

    source: ColumnElement[str] = column(primary_key=True)
    #: Validators of the server's last answer, for a conditional request.
    etag: ColumnElement[str | None]
    last_modified: ColumnElement[str | None]
    sha256: ColumnElement[str | None]
    advisories: ColumnElement[int]
    as_of: ColumnElement[datetime]


# Evidence packs, which are apart from our own measurements


class PackRow(Base, table="packs"):
    """An evidence pack that was added; the door to knowledge reads its files."""

    #: SHA-256 of ``manifest``, which has the SHA-256 of every other file.
    digest: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str]
    #: Canonical JSON.
    manifest: ColumnElement[str]
    #: DSSE envelope as JSON; ``None`` if the pack is not signed.
    envelope: ColumnElement[str | None]
    #: Fingerprint of the key that signed it.
    key: ColumnElement[str | None]
    #: Path or URL that it was added from, without secrets.
    address: ColumnElement[str]
    added_at: ColumnElement[datetime] = column(server_default=func.now())


class PackPartRow(Base, table="pack_parts"):
    """A part of a file of a pack: a document of limited size, which packs may share."""

    pack_digest: ColumnElement[str] = column(
        ForeignKey("packs.digest", ondelete="CASCADE"), primary_key=True
    )
    #: Path of the file in the pack.
    path: ColumnElement[str] = column(primary_key=True)
    #: Position of the part in the file, from 0.
    position: ColumnElement[int] = column(primary_key=True)
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class FollowedAddressRow(Base, table="followed_addresses"):
    """An address whose new packs the nightly run adds."""

    address: ColumnElement[str] = column(primary_key=True)
    followed_at: ColumnElement[datetime] = column(server_default=func.now())
    #: When its index was last read completely.
    read_at: ColumnElement[datetime | None]


# Native interfaces of wheels and environments


class NativeInterfaceRow(Base, table="native_interfaces"):
    """A library such as ``libc.so.6``, or a symbol version such as ``libc.so.6:GLIBC_2.17``."""

    interface: ColumnElement[str] = column(primary_key=True)
    library: ColumnElement[str]
    version: ColumnElement[str | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class ArtifactRow(Base, table="artifacts"):
    """A wheel whose native libraries were analysed."""

    sha256: ColumnElement[str] = column(primary_key=True)
    filename: ColumnElement[str]
    purl: ColumnElement[str] = column(ForeignKey("package_versions.purl"), index=True)
    #: Top-level names that can be imported.
    imports: ColumnElement[list[str]] = column(ARRAY(Text), index="gin")
    #: Bundled native libraries.
    bundled: ColumnElement[list[str]] = column(ARRAY(Text))
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class ArtifactInterface(Base, table="artifact_interfaces"):
    """A native interface that an artifact needs and does not bundle."""

    sha256: ColumnElement[str] = column(ForeignKey("artifacts.sha256"), primary_key=True)
    interface: ColumnElement[str] = column(
        ForeignKey("native_interfaces.interface"), primary_key=True, index=True
    )


class NativeEnvironmentRow(Base, table="native_environments"):
    """A machine or image with its native interfaces."""

    digest: ColumnElement[str] = column(primary_key=True)
    #: ``host`` or ``image``.
    kind: ColumnElement[str]
    name: ColumnElement[str]
    architecture: ColumnElement[str]
    os_name: ColumnElement[str | None]
    os_version: ColumnElement[str | None]
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))


class NativeEnvironmentInterface(Base, table="native_environment_interfaces"):
    """A native interface that an environment provides."""

    digest: ColumnElement[str] = column(ForeignKey("native_environments.digest"), primary_key=True)
    interface: ColumnElement[str] = column(
        ForeignKey("native_interfaces.interface"), primary_key=True, index=True
    )


# Requests, advice and its claims


class AdviceRow(Base, table="advice"):
    """An advice, which may have no recommended stack.

    The inputs of an advice are documents identified by their content, so pieces of advice can
    share a snapshot.
    """

    __table_args__ = (
        # Deleting a document searches all columns that may refer to it.
        *(
            Index(f"ix_advice_{it}_document_id", f"{it}_document_id", postgresql_using="hash")
            for it in ("request", "snapshot", "evidence", "files", "report")
        ),
    )

    advice_id: ColumnElement[str] = column(primary_key=True)
    recommendation_type: ColumnElement[str]
    status: ColumnElement[str]
    python_version: ColumnElement[str | None]
    platform: ColumnElement[str | None]
    snapshot_revision: ColumnElement[str]
    request_document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))
    snapshot_document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))
    evidence_document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))
    files_document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))
    report_document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"))
    result_digest: ColumnElement[str]
    created_at: ColumnElement[datetime] = column(server_default=func.now(), index=True)


class AdvisedStack(Base, table="advised_stacks"):
    """A recommended stack of an advice; rank 1 is the best."""

    advice_id: ColumnElement[str] = column(ForeignKey("advice.advice_id"), primary_key=True)
    rank: ColumnElement[int] = column(primary_key=True, autoincrement=False)
    stack_digest: ColumnElement[str] = column(ForeignKey("stacks.digest"), index=True)
    score: ColumnElement[float]


class AdviceObservation(Base, table="advice_observations"):
    """An observation that an advice is based on."""

    advice_id: ColumnElement[str] = column(ForeignKey("advice.advice_id"), primary_key=True)
    observation_id: ColumnElement[str] = column(
        ForeignKey("observations.observation_id"), primary_key=True
    )


class RequestRow(Base, table="requests"):
    """A request to the adviser; equal requests share a row."""

    #: The request itself, as canonical JSON.
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), primary_key=True)
    recommendation_type: ColumnElement[str]
    python_version: ColumnElement[str | None]
    platform: ColumnElement[str | None]
    #: The requested hardware class, measured or not.
    hardware_digest: ColumnElement[str | None]
    #: PEP 508 texts, sorted.
    requirements: ColumnElement[list[str]] = column(ARRAY(Text))
    #: Names of the required packages, sorted.
    packages: ColumnElement[list[str]] = column(ARRAY(Text))
    #: Number of requested stacks.
    stack_count: ColumnElement[int]


class ClaimRow(Base, table="claims"):
    """A verdict on a measured stack compared with another stack; its content identifies it.

    Equal evidence gives equal claims, so several pieces of advice may share a row.
    """

    claim_id: ColumnElement[str] = column(primary_key=True)
    #: The only package in which the stacks differ; ``None`` if they differ in several.
    package: ColumnElement[str | None]
    stack_digest: ColumnElement[str] = column(ForeignKey("stacks.digest"), index=True)
    baseline_digest: ColumnElement[str] = column(ForeignKey("stacks.digest"))
    indicator: ColumnElement[str]
    parameters: ColumnElement[dict[str, Any]] = column(JSONB)
    device: ColumnElement[str | None]
    unit: ColumnElement[str]
    comparison_key: ColumnElement[str]
    hardware_digest: ColumnElement[str]
    python_version: ColumnElement[str | None]
    same_hardware: ColumnElement[bool]
    same_python: ColumnElement[bool]
    verdict: ColumnElement[str]
    effect_pct: ColumnElement[float | None]
    observed_pct: ColumnElement[float | None]
    interval_low_pct: ColumnElement[float | None]
    interval_high_pct: ColumnElement[float | None]
    delta_pct: ColumnElement[float]
    p_value: ColumnElement[float | None]
    method: ColumnElement[str]
    jobs: ColumnElement[int]
    baseline_jobs: ColumnElement[int]
    runs: ColumnElement[int]
    baseline_runs: ColumnElement[int]
    pairs: ColumnElement[int]
    hosts: ColumnElement[int | None]
    needs: ColumnElement[str | None]
    jobs_missing: ColumnElement[int]
    baseline_jobs_missing: ColumnElement[int]
    scored: ColumnElement[bool]
    as_of: ColumnElement[datetime | None]
    #: The first report that contains it.
    document_id: ColumnElement[str] = column(ForeignKey("documents.document_id"), index="hash")


class ClaimPackage(Base, table="claim_packages"):
    """A package in which the stacks of a claim differ; a stack without the package has ``None``."""

    claim_id: ColumnElement[str] = column(ForeignKey("claims.claim_id"), primary_key=True)
    name: ColumnElement[str] = column(primary_key=True)
    version: ColumnElement[str | None]
    index_name: ColumnElement[str | None]
    #: Sorted by code point, these keys are in the order of versions:
    #: :func:`model.packages.identity.version_key`.
    version_key: ColumnElement[str | None]
    baseline_version: ColumnElement[str | None]
    baseline_index_name: ColumnElement[str | None]
    baseline_version_key: ColumnElement[str | None]


class AdviceClaim(Base, table="advice_claims"):
    """A claim in an advice; it may be about stacks that the advice does not recommend."""

    advice_id: ColumnElement[str] = column(ForeignKey("advice.advice_id"), primary_key=True)
    claim_id: ColumnElement[str] = column(
        ForeignKey("claims.claim_id"), primary_key=True, index=True
    )


# Projects on indexes, watched packages and releases that wait to be read


class IndexProject(Base, table="index_projects"):
    """The last answer of an index about a project."""

    __table_args__ = (
        CheckConstraint("state IN ('known', 'missing', 'failed')", name="state_known"),
    )

    index_name: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(primary_key=True)
    state: ColumnElement[str]
    problem: ColumnElement[str | None]
    message: ColumnElement[str | None]
    #: Digest of the last page.
    page_digest: ColumnElement[str | None]
    #: Every version on that page, normalised.
    listed: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    as_of: ColumnElement[datetime | None]
    #: Time of the last request.
    asked_at: ColumnElement[datetime] = column(index=True)
    status: ColumnElement[str | None]
    status_reason: ColumnElement[str | None]


class WatchedPackage(Base, table="watched_packages"):
    """A watched package with the bounds of its crawls."""

    index_name: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(primary_key=True)
    max_versions: ColumnElement[int | None]
    newer_than: ColumnElement[datetime | None]
    #: Extras whose requirements are crawled as well.
    extras: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    #: Whether pre-releases are read even if there are final releases.
    prereleases: ColumnElement[bool] = column(server_default=text("false"))
    added_at: ColumnElement[datetime] = column(server_default=func.now())


class QueuedRelease(Base, table="release_queue"):
    """A release whose metadata must be read; storing the metadata deletes the row."""

    index_name: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(primary_key=True)
    version: ColumnElement[str] = column(primary_key=True)
    queued_at: ColumnElement[datetime] = column(server_default=func.now())
    attempts: ColumnElement[int] = column(server_default=text("0"))
    retry_at: ColumnElement[datetime] = column(server_default=func.now(), index=True)
    problem: ColumnElement[str | None]
    message: ColumnElement[str | None]
    #: Set after the last automatic attempt; only an explicit request retries.
    given_up_at: ColumnElement[datetime | None]


# Changes of performance


class ChangeRow(Base, table="changes"):
    """An entry of the list of changes; entries are never edited.

    See :class:`model.changes.PerformanceChange`.
    """

    __table_args__ = (
        CheckConstraint("(event = 'announced') = (refers_to IS NULL)", name="refers"),
    )

    number: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    change_id: ColumnElement[str] = column(unique=True)
    kind: ColumnElement[str]
    event: ColumnElement[str]
    refers_to: ColumnElement[str | None] = column(ForeignKey("changes.change_id"), index=True)
    package: ColumnElement[str | None] = column(index=True)
    host: ColumnElement[str | None]
    from_version: ColumnElement[str]
    to_version: ColumnElement[str]
    from_stack: ColumnElement[str]
    to_stack: ColumnElement[str]
    indicator: ColumnElement[str]
    parameters: ColumnElement[dict[str, Any]] = column(JSONB)
    device: ColumnElement[str | None]
    comparison_key: ColumnElement[str]
    python_version: ColumnElement[str | None]
    hardware_digest: ColumnElement[str]
    hardware_label: ColumnElement[str]
    verdict: ColumnElement[str]
    effect_pct: ColumnElement[float]
    observed_pct: ColumnElement[float]
    interval_low_pct: ColumnElement[float]
    interval_high_pct: ColumnElement[float]
    delta_pct: ColumnElement[float]
    jobs: ColumnElement[int]
    baseline_jobs: ColumnElement[int]
    comparisons: ColumnElement[int]
    look: ColumnElement[int]
    seen_at: ColumnElement[datetime | None]
    rule: ColumnElement[str]
    recorded_at: ColumnElement[datetime] = column(server_default=func.now(), index=True)


class ChangeLookRow(Base, table="change_looks"):
    """How often a comparison was judged for the list of changes, and with how many jobs."""

    change_id: ColumnElement[str] = column(primary_key=True)
    looks: ColumnElement[int]
    jobs: ColumnElement[int]


# The service: requests, tokens and the audit log


class BisectRow(Base, table="bisects"):
    """A call of ``thoth bisect``; see :class:`graph.record.bisects.RecordedBisect`."""

    __table_args__ = (Index("ix_bisects_started_at", "started_at", "bisect_id"),)

    bisect_id: ColumnElement[str] = column(primary_key=True)
    subjects: ColumnElement[list[str]] = column(ARRAY(Text))
    packages: ColumnElement[list[str]] = column(ARRAY(Text), index="gin")
    indicator: ColumnElement[str]
    parameters: ColumnElement[dict[str, str]] = column(JSONB)
    others: ColumnElement[list[str]] = column(ARRAY(Text))
    python_version: ColumnElement[str | None]
    index_name: ColumnElement[str]
    hardware_digest: ColumnElement[str]
    hardware_label: ColumnElement[str]
    command: ColumnElement[str]
    state: ColumnElement[str]
    reason: ColumnElement[str | None]
    jobs: ColumnElement[int]
    max_jobs: ColumnElement[int]
    searches: ColumnElement[list[dict[str, Any]]] = column(JSONB)
    started_at: ColumnElement[datetime]
    updated_at: ColumnElement[datetime] = column(server_default=func.now())


class TokenRow(Base, table="tokens"):
    """A bearer token with its scopes, without the secret."""

    token_id: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str]
    #: First characters of the secret, which identify the token in lists.
    prefix: ColumnElement[str]
    #: SHA-256 of the secret; a slow hash is unnecessary for a long random value.
    digest: ColumnElement[str] = column(unique=True)
    #: SHA-256 of the secret before the last rotation, which is valid until ``previous_until``.
    previous_digest: ColumnElement[str | None] = column(unique=True)
    previous_until: ColumnElement[datetime | None]
    scopes: ColumnElement[list[str]] = column(ARRAY(Text))
    created_at: ColumnElement[datetime] = column(server_default=func.now())
    expires_at: ColumnElement[datetime | None]
    revoked_at: ColumnElement[datetime | None]
    #: Accurate to the minute, to avoid a write for each use.
    last_used_at: ColumnElement[datetime | None]


class PageSessionRow(Base, table="page_sessions"):
    """A session of the web pages, which has the scopes of its token."""

    #: SHA-256 of the secret in the cookie.
    digest: ColumnElement[str] = column(primary_key=True)
    token_id: ColumnElement[str] = column(ForeignKey("tokens.token_id"))
    expires_at: ColumnElement[datetime]


class RequestCountRow(Base, table="request_counts"):
    """Requests of a client, counted by servers of 0.2.0, which may run during an upgrade."""

    key: ColumnElement[str] = column(primary_key=True)
    requests: ColumnElement[int] = column(BigInteger)
    ends_at: ColumnElement[datetime]


class SourceSuccessRow(Base, table="source_successes"):
    """When a source of knowledge was last read completely."""

    #: A constant of :mod:`graph.record.freshness`.
    kind: ColumnElement[str] = column(primary_key=True)
    source: ColumnElement[str] = column(primary_key=True)
    succeeded_at: ColumnElement[datetime]


class AnalysisRow(Base, table="analyses"):
    """An asynchronous request: for advice, a provenance check or an inspection.

    Final states are ``succeeded``, ``failed`` (the request cannot be answered) and ``error`` (an
    internal error).
    """

    __table_args__ = (
        CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'error')", name="state_known"
        ),
        Index("ix_analyses_cache_key", "kind", "cache_key", "accepted_at"),
        Index("ix_analyses_accepted_at", "kind", "accepted_at", "analysis_id"),
        # Only few of all requests are open, but these are queried all the time.
        Index(
            "ix_analyses_open",
            "accepted_at",
            postgresql_where=text("state IN ('pending', 'running')"),
        ),
        Index("ix_analyses_token_id", "token_id", postgresql_where=text("token_id IS NOT NULL")),
    )

    analysis_id: ColumnElement[str] = column(primary_key=True)
    #: Prefix of the request's identifier: ``adviser``, ``provenance-checker``, ``inspection``.
    kind: ColumnElement[str]
    state: ColumnElement[str] = column(server_default=text("'pending'"))
    reason: ColumnElement[str | None]
    parameters: ColumnElement[dict[str, Any]] = column(JSONB)
    #: The whole request, as canonical JSON.
    request_document_id: ColumnElement[str] = column(
        ForeignKey("documents.document_id"), index="hash"
    )
    result_document_id: ColumnElement[str | None] = column(
        ForeignKey("documents.document_id"), index="hash"
    )
    #: Key that equal requests share.
    cache_key: ColumnElement[str]
    #: Log lines, one JSON object each.
    log: ColumnElement[str] = column(server_default=text("''"))
    #: Token of the request, if any.
    token_id: ColumnElement[str | None] = column(ForeignKey("tokens.token_id"))
    accepted_at: ColumnElement[datetime] = column(server_default=func.now())
    started_at: ColumnElement[datetime | None]
    finished_at: ColumnElement[datetime | None] = column(index=True)
    #: Since when the request waits for an unavailable store.
    postponed_at: ColumnElement[datetime | None]
    as_of: ColumnElement[datetime | None]
    graph_revision: ColumnElement[int | None] = column(BigInteger)
    attempts: ColumnElement[int] = column(server_default=text("0"))
    progress: ColumnElement[dict[str, Any] | None] = column(JSONB)


class BenchmarkEntryRow(Base, table="benchmark_entries"):
    """A group of results of another benchmark system that share their files and their machine."""

    #: Digest of the content of the files and of what the results share.
    entry_id: ColumnElement[str] = column(primary_key=True)
    system: ColumnElement[str] = column(index=True)
    #: What the user named, without credentials.
    origin: ColumnElement[str]
    #: Path of the file or folder inside it.
    source: ColumnElement[str]
    hardware: ColumnElement[dict[str, Any]] = column(JSONB)
    accelerators: ColumnElement[int | None]
    #: Versions by name; null for a version that is not told.
    software: ColumnElement[dict[str, Any]] = column(JSONB)
    measured_at: ColumnElement[datetime | None]
    #: Path and SHA-256 of each file.
    files: ColumnElement[list[Any]] = column(JSONB)
    ingested_at: ColumnElement[datetime] = column(server_default=func.now())
    result_count: ColumnElement[int]
    #: Version of the readers, see :mod:`graph.verification.parser_version`; 0 if unknown.
    reader_version: ColumnElement[int] = column(server_default=text("0"))


class BenchmarkRow(Base, table="benchmarks"):
    """A task, model or operation of a benchmark system."""

    __table_args__ = (UniqueConstraint("system", "name"),)

    benchmark_id: ColumnElement[str] = column(primary_key=True)
    system: ColumnElement[str]
    name: ColumnElement[str]


class BenchmarkSoftwareRow(Base, table="benchmark_software"):
    """Software that entries name, with or without a version."""

    software_id: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(index=True)
    #: Null if the entry does not say it.
    version: ColumnElement[str | None]
    #: Name on the default package index; null if it is no Python package.
    package: ColumnElement[str | None] = column(index=True)
    #: Of exactly this version; null if the version is unknown.
    purl: ColumnElement[str | None] = column(index=True)


class BenchmarkEntrySoftware(Base, table="benchmark_entry_software"):
    """Software that an entry names."""

    entry_id: ColumnElement[str] = column(
        ForeignKey("benchmark_entries.entry_id"), primary_key=True
    )
    software_id: ColumnElement[str] = column(
        ForeignKey("benchmark_software.software_id"), primary_key=True, index=True
    )


class HardwarePartRow(Base, table="hardware_parts"):
    """A model of a processor or an accelerator that entries name."""

    part_id: ColumnElement[str] = column(primary_key=True)
    #: ``cpu`` or ``accelerator``.
    kind: ColumnElement[str]
    #: The name without vendor, clock and punctuation, by the SQL function ``hardware_model``.
    model: ColumnElement[str]


class BenchmarkEntryPart(Base, table="benchmark_entry_parts"):
    """A part of the machine of an entry."""

    entry_id: ColumnElement[str] = column(
        ForeignKey("benchmark_entries.entry_id"), primary_key=True
    )
    part_id: ColumnElement[str] = column(
        ForeignKey("hardware_parts.part_id"), primary_key=True, index=True
    )


class BenchmarkResultRow(Base, table="benchmark_results"):
    """One value of one metric of an entry."""

    __table_args__ = (
        CheckConstraint("validity <> 'valid' OR value IS NOT NULL", name="valid_has_value"),
        Index("ix_benchmark_results_benchmark", "benchmark", "metric", "entry_id"),
        Index("ix_benchmark_results_metric", "metric", "entry_id"),
        # Most results are valid or unknown; a list of the others must not read all.
        Index(
            "ix_benchmark_results_validity",
            "validity",
            "entry_id",
            "position",
            postgresql_where=text("validity IN ('failed', 'invalid')"),
        ),
    )

    entry_id: ColumnElement[str] = column(
        ForeignKey("benchmark_entries.entry_id"), primary_key=True
    )
    #: Order within the entry, from 0.
    position: ColumnElement[int] = column(primary_key=True)
    benchmark: ColumnElement[str]
    parameters: ColumnElement[dict[str, Any]] = column(JSONB)
    metric: ColumnElement[str]
    unit: ColumnElement[str]
    direction: ColumnElement[str]
    definition: ColumnElement[str]
    value: ColumnElement[float | None]
    samples: ColumnElement[list[float]] = column(ARRAY(Double))
    aggregate: ColumnElement[str]
    validity: ColumnElement[str]
    reason: ColumnElement[str | None]


class AuditRow(Base, table="audit_log"):
    """An entry of the audit log: a write through the service."""

    entry_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    at: ColumnElement[datetime] = column(server_default=func.now(), index=True)
    request_id: ColumnElement[str]
    token_id: ColumnElement[str | None]
    address: ColumnElement[str]
    method: ColumnElement[str]
    #: The route instead of the URL, which may contain private data.
    route: ColumnElement[str]
    status: ColumnElement[int]
    #: Identifier of the created or changed object, if there is one.
    subject: ColumnElement[str | None]


class KnowledgeRow(Base, table="knowledge"):
    """Number of changes to the knowledge: a single row, incremented by triggers at each commit.

    A timestamp could not replace this number: a transaction that began early may commit late, and
    readers in between would miss its changes.
    """

    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: ColumnElement[bool] = column(primary_key=True, server_default=text("true"))
    changes: ColumnElement[int] = column(BigInteger, server_default=text("0"))


class DocumentStoreRow(Base, table="document_store"):
    """Identifier of the document store: a single row. See :mod:`graph.record.document_store`."""

    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: ColumnElement[bool] = column(primary_key=True, server_default=text("true"))
    #: ``None`` until the store is used.
    store_id: ColumnElement[str | None]


class GraphCheckpointRow(Base, table="graph_checkpoints"):
    """The last projected batches: a single row. See :mod:`graph.checkpoints`."""

    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: ColumnElement[bool] = column(primary_key=True, server_default=text("true"))
    #: The batch that the graph had before; the same as ``batch`` if that is finished.
    previous: ColumnElement[str | None]
    #: The last batch that began.
    batch: ColumnElement[str | None]


# Events of the loop, and notices of them


class EventRow(Base, table="events"):
    """Something that happened at night, such as a settled change; rows are never changed later.

    ``noticed_at`` is the exception: the time at which the notices of the event were written.
    """

    __table_args__ = (
        Index("ix_events_unnoticed", "event_id", postgresql_where=text("noticed_at IS NULL")),
        Index(
            "ix_events_problems",
            "subject",
            "event_id",
            postgresql_where=text("kind IN ('night.failed', 'disk.full', 'problem.solved')"),
        ),
    )

    event_id: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    kind: ColumnElement[str]
    subject: ColumnElement[str]
    data: ColumnElement[dict[str, Any]] = column(JSONB)
    at: ColumnElement[datetime] = column(server_default=func.now())
    noticed_at: ColumnElement[datetime | None]


class NoticeRow(Base, table="notices"):
    """The message about one event to one target, with the state of its delivery."""

    __table_args__ = (
        CheckConstraint("state IN ('waiting', 'delivered', 'given_up')", name="state"),
        Index("uq_notices_event_id_target", "event_id", "target", unique=True),
        Index("ix_notices_due", "next_attempt_at", postgresql_where=text("state = 'waiting'")),
    )

    notice_id: ColumnElement[str] = column(primary_key=True)
    event_id: ColumnElement[int] = column(BigInteger, ForeignKey("events.event_id"))
    #: Name of the target in the settings; its URL and its secret are not stored.
    target: ColumnElement[str]
    state: ColumnElement[str] = column(server_default=text("'waiting'"))
    attempts: ColumnElement[int] = column(server_default=text("0"))
    created_at: ColumnElement[datetime] = column(server_default=func.now())
    next_attempt_at: ColumnElement[datetime] = column(server_default=func.now())
    #: Time of the final state.
    ended_at: ColumnElement[datetime | None]
    #: Why the last attempt failed.
    error: ColumnElement[str | None]


# What is watched, and the nightly loop


class WatchRow(Base, table="watches"):
    """A watched project or package, its request, and its state in the loop."""

    #: Digest of the kind and the name, or of the request if a client of the service sent it.
    watch_id: ColumnElement[str] = column(primary_key=True)
    #: ``project`` or ``package``.
    kind: ColumnElement[str]
    name: ColumnElement[str]
    #: ``person`` or ``service``; the loop watches projects of the service by itself.
    source: ColumnElement[str]
    #: Requests of the last month; 1 for what a person watches.
    weight: ColumnElement[float]
    enabled: ColumnElement[bool] = column(server_default=text("true"))
    #: The request for advice, as JSON.
    request: ColumnElement[dict[str, Any]] = column(JSONB)
    #: Names of the packages that an answer can contain.
    closure: ColumnElement[list[str]] = column(ARRAY(Text), server_default=text("'{}'"))
    #: See :class:`graph.record.loop.LoopState`.
    state: ColumnElement[str]
    reason: ColumnElement[str | None]
    measured_jobs: ColumnElement[int] = column(server_default=text("0"))
    planned_jobs: ColumnElement[int] = column(server_default=text("0"))
    #: The last advice, and the versions that it recommends, by name.
    advice_id: ColumnElement[str | None]
    versions: ColumnElement[dict[str, Any] | None] = column(JSONB)
    added_at: ColumnElement[datetime] = column(server_default=func.now())
    state_at: ColumnElement[datetime] = column(server_default=func.now())


class LoopReleaseRow(Base, table="loop_releases"):
    """A release that the loop has noticed, and its state."""

    __table_args__ = (Index("ix_loop_releases_state", "state", "seen_at"),)

    index_name: ColumnElement[str] = column(primary_key=True)
    name: ColumnElement[str] = column(primary_key=True)
    version: ColumnElement[str] = column(primary_key=True)
    #: ``refresh``, or ``request`` if a client of the service reported it.
    source: ColumnElement[str]
    #: See :class:`graph.record.loop.LoopState`.
    state: ColumnElement[str]
    reason: ColumnElement[str | None]
    measured_jobs: ColumnElement[int] = column(server_default=text("0"))
    planned_jobs: ColumnElement[int] = column(server_default=text("0"))
    #: Nights that worked on it, and the last of them.
    nights: ColumnElement[int] = column(server_default=text("0"))
    last_night: ColumnElement[int | None]
    #: How often its comparison was judged, and with how many jobs the last time.
    looks: ColumnElement[int] = column(server_default=text("0"))
    look_jobs: ColumnElement[int] = column(server_default=text("0"))
    seen_at: ColumnElement[datetime] = column(server_default=func.now())
    state_at: ColumnElement[datetime] = column(server_default=func.now())


class LoopNightRow(Base, table="loop_nights"):
    """A night: one round of the loop. At most one is open."""

    __table_args__ = (
        Index("uq_loop_nights_open", "open", unique=True, postgresql_where=text("open")),
    )

    night: ColumnElement[int] = column(primary_key=True)
    open: ColumnElement[bool] = column(server_default=text("true"))
    #: ``running``, ``finished`` or ``failed``.
    state: ColumnElement[str]
    reason: ColumnElement[str | None]
    began_at: ColumnElement[datetime] = column(server_default=func.now())
    ended_at: ColumnElement[datetime | None]


class LoopStepRow(Base, table="loop_steps"):
    """A step of a night; a finished step is not run again."""

    night: ColumnElement[int] = column(ForeignKey("loop_nights.night"), primary_key=True)
    step: ColumnElement[str] = column(primary_key=True)
    #: Number of failed attempts.
    attempts: ColumnElement[int] = column(server_default=text("0"))
    finished: ColumnElement[bool] = column(server_default=text("false"))
    #: Why the last attempt failed.
    reason: ColumnElement[str | None]
    #: Counts for people.
    output: ColumnElement[dict[str, Any]] = column(JSONB, server_default=text("'{}'"))
    ended_at: ColumnElement[datetime | None]


class LoopBatchRow(Base, table="loop_batches"):
    """Stacks that are measured together, in turns, with one indicator."""

    #: Digest of the specifications and the first night.
    batch_id: ColumnElement[str] = column(primary_key=True)
    #: The night that planned it.
    night: ColumnElement[int] = column(ForeignKey("loop_nights.night"))
    watch_id: ColumnElement[str] = column(ForeignKey("watches.watch_id"))
    #: Specifications, labels and releases of the stacks; the first two stacks are the reference.
    stacks: ColumnElement[list[Any]] = column(JSONB)
    indicator: ColumnElement[str]
    #: Jobs of each stack, and of all stacks.
    blocks: ColumnElement[int]
    jobs: ColumnElement[int]
    measured_jobs: ColumnElement[int] = column(server_default=text("0"))
    #: ``planned``, ``measured``, ``ingested`` or ``given_up``.
    state: ColumnElement[str] = column(index=True)
    reason: ColumnElement[str | None]
    attempts: ColumnElement[int] = column(server_default=text("0"))
    #: The quality report, made when the batch ends.
    report: ColumnElement[dict[str, Any] | None] = column(JSONB)
    state_at: ColumnElement[datetime] = column(server_default=func.now())


class AdviceScoreRow(Base, table="advice_scores"):
    """A past advice, scored by release 0.2.0, which writes this while it is upgraded.

    Nothing reads the scores. The next release drops the table.
    """

    __table_args__ = (
        Index("uq_advice_scores_advice_id_knowledge", "advice_id", "knowledge", unique=True),
    )

    number: ColumnElement[int] = column(BigInteger, Identity(), primary_key=True)
    advice_id: ColumnElement[str]
    advised_at: ColumnElement[datetime]
    knowledge: ColumnElement[str]
    outcome: ColumnElement[str]
    regret_points: ColumnElement[float | None]
    regret_pct: ColumnElement[float | None]
    claims: ColumnElement[list[Any]] = column(JSONB)
    scored_at: ColumnElement[datetime] = column(server_default=func.now())
