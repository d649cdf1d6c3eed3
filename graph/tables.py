"""The tables of the record (PostgreSQL); migrations compare this module with the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: Constraints have systematic names, so that a migration can drop them.
_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """Base of all tables; text has no length limit and every time has a zone."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map = {str: Text(), datetime: DateTime(timezone=True)}  # noqa: RUF012


def table_of(model: type[Base]) -> Table:
    """The table behind a mapped class, for statements on whole tables."""
    return cast(Table, model.__table__)


# Documents, quarantine, outbox and verification of the record


class Document(Base):
    """A delivered document, stored once, identified by the digest of its content.

    The body is compressed here, or at ``location`` in the document store if it is large.
    """

    __tablename__ = "documents"
    __table_args__ = (
        CheckConstraint("(body IS NULL) <> (location IS NULL)", name="body_or_location"),
        # For the time of the newest knowledge in each response; requests and results do not count.
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

    document_id: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    schema_version: Mapped[str]
    #: Source of the first delivery.
    source: Mapped[str]
    #: Program or database that made it; ``None`` if unknown.
    collector: Mapped[str | None]
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    location: Mapped[str | None]
    ingested_at: Mapped[datetime] = mapped_column(server_default=func.now())
    #: Version of the parsers that made the rows (:mod:`common.parser_version`); 0 if unknown.
    parser_version: Mapped[int] = mapped_column(server_default=text("0"))


class RecordCheckRow(Base):
    """Progress of ``thoth record verify``: a single row.

    Documents are compared in the order of their identifiers, in rounds.
    """

    __tablename__ = "record_checks"
    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    #: Last compared document; empty at the start of a round.
    position: Mapped[str] = mapped_column(server_default=text("''"))
    round_began_at: Mapped[datetime | None]
    #: Start and end of the last complete round.
    complete_since: Mapped[datetime | None]
    completed_at: Mapped[datetime | None]


class QuarantinedDocument(Base):
    """A refused document with the reason and the number of attempts.

    There is one row for each field, because a source may contain several refused documents. A
    successful retry sets ``resolved_at``.
    """

    __tablename__ = "quarantine"
    __table_args__ = (
        Index("uq_quarantine_source_place_field", "source", "place", "field", unique=True),
        Index("ix_quarantine_open", "reason", postgresql_where=text("resolved_at IS NULL")),
    )

    quarantine_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str]
    source: Mapped[str]
    #: Position inside the source: a member of an archive, a key of a dictionary, or empty.
    place: Mapped[str]
    reason: Mapped[str]
    field: Mapped[str]
    message: Mapped[str]
    attempts: Mapped[int] = mapped_column(server_default=text("1"))
    first_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    resolved_at: Mapped[datetime | None]


class OutboxEntry(Base):
    """A change that is not in the graph yet; deleted when it is.

    Written in the transaction of the change. Entries of transactions that commit late are found,
    because the projector does not remember a position.
    """

    __tablename__ = "outbox"
    __table_args__ = (Index("ix_outbox_package", "key", postgresql_where=text("kind = 'package'")),)

    entry_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    kind: Mapped[str]
    key: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


# Packages, releases, their files and requirements; stacks


class PackageRow(Base):
    """A package that has versions, or that a version requires."""

    __tablename__ = "packages"
    __table_args__ = (Index("ix_packages_document_id", "document_id", postgresql_using="hash"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    #: Changes whenever advice about the package could; ``None`` without versions.
    revision: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class PackageVersionRow(Base):
    """A release of a package on one index."""

    __tablename__ = "package_versions"
    __table_args__ = (
        Index("ix_package_versions_name", "name"),
        # For deleting documents.
        Index("ix_package_versions_document_id", "document_id", postgresql_using="hash"),
        Index("ix_package_versions_release", "release_document_id", postgresql_using="hash"),
        Index("ix_package_versions_state", "state", postgresql_where=text("state <> 'solved'")),
        CheckConstraint(
            "state IN ('unread', 'solved', 'unsolvable', 'unparsable')", name="state_known"
        ),
    )

    purl: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[str]
    index_name: Mapped[str]
    #: The first document that contained it.
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    state: Mapped[str] = mapped_column(server_default=text("'unread'"))
    problem: Mapped[str | None]
    problem_message: Mapped[str | None]
    requires_python: Mapped[str | None]
    extras: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    license: Mapped[str | None]
    yanked: Mapped[bool] = mapped_column(server_default=text("false"))
    yanked_reason: Mapped[str | None]
    uploaded_at: Mapped[datetime | None]
    metadata_source: Mapped[str | None]
    metadata_file: Mapped[str | None]
    #: Compressed tag sets of its wheels, such as ``py3-none-any``.
    wheels: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    #: ``None`` if no index listed its files yet.
    has_sdist: Mapped[bool | None]
    files_complete: Mapped[bool] = mapped_column(server_default=text("false"))
    #: The latest release document.
    release_document_id: Mapped[str | None] = mapped_column(ForeignKey("documents.document_id"))
    #: Digest of everything that could change advice.
    facts: Mapped[str | None]
    #: Time of the latest answer of an index.
    as_of: Mapped[datetime | None]
    #: Delivery of each part: :class:`graph.record.release_merging.Ranks`.
    ranks: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))


class RequirementRow(Base):
    """A requirement of a version, raw and normalised."""

    __tablename__ = "requirements"
    __table_args__ = (Index("ix_requirements_name", "name"),)

    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    raw: Mapped[str]
    name: Mapped[str | None]
    specifier: Mapped[str]
    marker: Mapped[str | None]
    extras: Mapped[list[str]] = mapped_column(ARRAY(Text))
    for_extras: Mapped[list[str]] = mapped_column(ARRAY(Text))
    url: Mapped[str | None]
    problem: Mapped[str | None]


class ReleaseFileRow(Base):
    """A file of a version; its first hash is never overwritten."""

    __tablename__ = "release_files"
    __table_args__ = (Index("ix_release_files_sha256", "sha256"),)

    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)
    filename: Mapped[str] = mapped_column(primary_key=True)
    sha256: Mapped[str | None]
    kind: Mapped[str]
    size_bytes: Mapped[int | None] = mapped_column(BigInteger)
    requires_python: Mapped[str | None]
    yanked: Mapped[bool]
    yanked_reason: Mapped[str | None]
    uploaded_at: Mapped[datetime | None]
    metadata_sha256: Mapped[str | None]
    attested: Mapped[bool | None]
    #: ``false`` if the index no longer offers it; its hash must still not change.
    listed: Mapped[bool] = mapped_column(server_default=text("true"))
    #: Rank of its list, unless it is the last complete list.
    rank: Mapped[str | None]


class StackRow(Base):
    """A set of package versions, identified by its digest."""

    __tablename__ = "stacks"
    # For deleting documents.
    __table_args__ = (Index("ix_stacks_document_id", "document_id", postgresql_using="hash"),)

    digest: Mapped[str] = mapped_column(primary_key=True)
    package_count: Mapped[int]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class StackPackage(Base):
    """A package version in a stack."""

    __tablename__ = "stack_packages"
    __table_args__ = (Index("ix_stack_packages_purl", "purl"),)

    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"), primary_key=True)
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)


class PackageEvent(Base):
    """A change on an index: a release, a yank, a hash."""

    __tablename__ = "package_events"
    __table_args__ = (Index("ix_package_events_name", "name"),)

    event_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    #: ``new_release``, ``removed``, ``yanked``, ``unyanked``, ``new_files``,
    #: ``changed_requirements``, ``changed_hash``, ``conflicting_hash`` or ``emptied``, which is
    #: of a project and has no version.
    kind: Mapped[str]
    index_name: Mapped[str]
    name: Mapped[str]
    version: Mapped[str]
    detail: Mapped[dict[str, Any]] = mapped_column(JSONB)
    occurred_at: Mapped[datetime] = mapped_column(server_default=func.now())


# Inspections and what they measured


class HardwareRow(Base):
    """A hardware class: identities of machines whose measurements may be compared."""

    __tablename__ = "hardware"

    digest: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[str]
    identity: Mapped[dict[str, Any]] = mapped_column(JSONB)
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class RuntimeEnvironmentRow(Base):
    """Operating system, Python and image of inspections."""

    __tablename__ = "runtime_environments"

    digest: Mapped[str] = mapped_column(primary_key=True)
    os_name: Mapped[str | None]
    os_version: Mapped[str | None]
    python_version: Mapped[str | None]
    cuda_version: Mapped[str | None]
    base_image: Mapped[str | None]
    native_packages: Mapped[list[str]] = mapped_column(ARRAY(Text))
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class IndicatorRow(Base):
    """A performance indicator: a script, identified by its content."""

    __tablename__ = "indicators"

    indicator_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    component: Mapped[str | None]
    script_sha256: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class InspectionRow(Base):
    """A stack that a number of jobs measured."""

    __tablename__ = "inspections"
    __table_args__ = (Index("ix_inspections_stack_digest", "stack_digest"),)

    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"), primary_key=True)
    name: Mapped[str]
    stack_digest: Mapped[str | None] = mapped_column(ForeignKey("stacks.digest"))
    #: Why the stack is unknown, or which parts of the lock it leaves out.
    stack_note: Mapped[str | None]
    job_count: Mapped[int]
    created_at: Mapped[datetime | None]


class ObservationRow(Base):
    """One result of one job; see :class:`common.inspection.Observation` for the fields."""

    __tablename__ = "observations"
    __table_args__ = (
        Index("ix_observations_document_id", "document_id"),
        Index("ix_observations_comparison_key", "comparison_key"),
        Index("ix_observations_hardware_digest", "hardware_digest", "observation_id"),
        Index("ix_observations_indicator_id", "indicator_id", "observation_id"),
        CheckConstraint("rate > 0", name="rate_positive"),
        CheckConstraint("(outcome = 'measured') = (rate IS NOT NULL)", name="measured_has_rate"),
        CheckConstraint("(rate IS NULL) = (unit IS NULL)", name="rate_has_unit"),
    )

    observation_id: Mapped[str] = mapped_column(primary_key=True)
    document_id: Mapped[str] = mapped_column(ForeignKey("inspections.document_id"))
    job_id: Mapped[str]
    position: Mapped[int]
    outcome: Mapped[str]
    exit_code: Mapped[int]
    indicator_id: Mapped[str] = mapped_column(ForeignKey("indicators.indicator_id"))
    hardware_digest: Mapped[str] = mapped_column(ForeignKey("hardware.digest"))
    environment_digest: Mapped[str] = mapped_column(ForeignKey("runtime_environments.digest"))
    comparison_key: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    device: Mapped[str | None]
    elapsed_s: Mapped[float | None] = mapped_column(Double)
    rate: Mapped[float | None] = mapped_column(Double)
    reported_rate: Mapped[float | None] = mapped_column(Double)
    unit: Mapped[str | None]
    repetitions_s: Mapped[list[float]] = mapped_column(ARRAY(Double))
    correction: Mapped[str | None]
    quarantine_reason: Mapped[str | None]
    unstable_reason: Mapped[str | None]
    failure_reason: Mapped[str | None]
    failure_message: Mapped[str | None]
    host: Mapped[str | None]
    block: Mapped[str | None]
    turn: Mapped[int | None]
    steal_share: Mapped[float | None] = mapped_column(Double)
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    memory_bytes: Mapped[int | None] = mapped_column(BigInteger)
    user_s: Mapped[float | None] = mapped_column(Double)
    system_s: Mapped[float | None] = mapped_column(Double)
    #: Median absolute deviation of the repetitions over their median; ``None`` below two.
    spread: Mapped[float | None] = mapped_column(Double)
    minor_faults: Mapped[int | None] = mapped_column(BigInteger)
    major_faults: Mapped[int | None] = mapped_column(BigInteger)
    voluntary_switches: Mapped[int | None] = mapped_column(BigInteger)
    involuntary_switches: Mapped[int | None] = mapped_column(BigInteger)
    blocks_read: Mapped[int | None] = mapped_column(BigInteger)
    blocks_written: Mapped[int | None] = mapped_column(BigInteger)
    throttled: Mapped[bool | None]
    swapped: Mapped[bool | None]
    load: Mapped[float | None] = mapped_column(Double)
    launcher: Mapped[str | None]
    threads: Mapped[int | None]
    blas: Mapped[str | None]


# Advisories, vulnerabilities and affected versions


class VulnerabilityRow(Base):
    """A vulnerability, merged from all advisories that are aliases."""

    __tablename__ = "vulnerabilities"
    __table_args__ = (
        Index("ix_vulnerabilities_aliases", "aliases", postgresql_using="gin"),
        Index("ix_vulnerabilities_document_id", "document_id", postgresql_using="hash"),
    )

    vulnerability_id: Mapped[str] = mapped_column(primary_key=True)
    #: All its identifiers, its own included, sorted.
    aliases: Mapped[list[str]] = mapped_column(ARRAY(Text))
    summary: Mapped[str | None]
    #: ``none``, ``low``, ``medium``, ``high`` or ``critical``; ``None`` if unknown.
    severity: Mapped[str | None]
    #: CVSS base score, 0 to 10, and the vector that it comes from.
    score: Mapped[float | None] = mapped_column(Double)
    vector: Mapped[str | None]
    published_at: Mapped[datetime | None]
    modified_at: Mapped[datetime | None]
    #: Set if all advisories were withdrawn; it then affects nothing.
    withdrawn_at: Mapped[datetime | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class AdvisoryRow(Base):
    """An advisory according to its newest document."""

    __tablename__ = "advisories"
    __table_args__ = (
        Index("ix_advisories_vulnerability_id", "vulnerability_id"),
        Index("ix_advisories_document_id", "document_id", postgresql_using="hash"),
    )

    advisory_id: Mapped[str] = mapped_column(primary_key=True)
    vulnerability_id: Mapped[str] = mapped_column(ForeignKey("vulnerabilities.vulnerability_id"))
    aliases: Mapped[list[str]] = mapped_column(ARRAY(Text))
    summary: Mapped[str | None]
    severity: Mapped[str | None]
    score: Mapped[float | None] = mapped_column(Double)
    vector: Mapped[str | None]
    published_at: Mapped[datetime | None]
    modified_at: Mapped[datetime]
    withdrawn_at: Mapped[datetime | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class AdvisoryPackage(Base):
    """The affected versions of a package according to an advisory."""

    __tablename__ = "advisory_packages"
    __table_args__ = (Index("ix_advisory_packages_name", "name"),)

    advisory_id: Mapped[str] = mapped_column(ForeignKey("advisories.advisory_id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    #: Lists of events, each ``{"introduced": …}``, ``{"fixed": …}`` or ``{"last_affected": …}``.
    ranges: Mapped[list[list[dict[str, Any]]]] = mapped_column(JSONB)
    versions: Mapped[list[str]] = mapped_column(ARRAY(Text))


class AffectedVersion(Base):
    """A known version that a vulnerability affects."""

    __tablename__ = "affected_versions"
    __table_args__ = (Index("ix_affected_versions_purl", "purl"),)

    vulnerability_id: Mapped[str] = mapped_column(
        ForeignKey("vulnerabilities.vulnerability_id"), primary_key=True
    )
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)


class AdvisorySource(Base):
    """An archive of advisories and its last complete version."""

    __tablename__ = "advisory_sources"

    source: Mapped[str] = mapped_column(primary_key=True)
    #: Validators of the server's last answer, for a conditional request.
    etag: Mapped[str | None]
    last_modified: Mapped[str | None]
    sha256: Mapped[str | None]
    advisories: Mapped[int]
    as_of: Mapped[datetime]


# Native interfaces of wheels and environments


class NativeInterfaceRow(Base):
    """A library, ``libc.so.6``, or one version of its symbols, ``libc.so.6:GLIBC_2.17``."""

    __tablename__ = "native_interfaces"
    __table_args__ = (
        Index("ix_native_interfaces_document_id", "document_id", postgresql_using="hash"),
    )

    interface: Mapped[str] = mapped_column(primary_key=True)
    library: Mapped[str]
    version: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class ArtifactRow(Base):
    """A wheel whose native libraries were analysed."""

    __tablename__ = "artifacts"
    __table_args__ = (
        Index("ix_artifacts_purl", "purl"),
        Index("ix_artifacts_imports", "imports", postgresql_using="gin"),
        Index("ix_artifacts_document_id", "document_id", postgresql_using="hash"),
    )

    sha256: Mapped[str] = mapped_column(primary_key=True)
    filename: Mapped[str]
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"))
    #: Top-level names that can be imported.
    imports: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Bundled native libraries.
    bundled: Mapped[list[str]] = mapped_column(ARRAY(Text))
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class ArtifactInterface(Base):
    """A native interface that an artifact needs and does not bundle."""

    __tablename__ = "artifact_interfaces"
    __table_args__ = (Index("ix_artifact_interfaces_interface", "interface"),)

    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), primary_key=True)
    interface: Mapped[str] = mapped_column(
        ForeignKey("native_interfaces.interface"), primary_key=True
    )


class NativeEnvironmentRow(Base):
    """A machine or image with its native interfaces."""

    __tablename__ = "native_environments"

    digest: Mapped[str] = mapped_column(primary_key=True)
    #: ``host`` or ``image``.
    kind: Mapped[str]
    name: Mapped[str]
    architecture: Mapped[str]
    os_name: Mapped[str | None]
    os_version: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class NativeEnvironmentInterface(Base):
    """A native interface that an environment provides."""

    __tablename__ = "native_environment_interfaces"
    __table_args__ = (Index("ix_native_environment_interfaces_interface", "interface"),)

    digest: Mapped[str] = mapped_column(ForeignKey("native_environments.digest"), primary_key=True)
    interface: Mapped[str] = mapped_column(
        ForeignKey("native_interfaces.interface"), primary_key=True
    )


# Requests, advice and its claims


class AdviceRow(Base):
    """An advice, including one without a recommended stack.

    Its inputs are documents identified by their content, so a shared snapshot is stored once.
    """

    __tablename__ = "advice"
    __table_args__ = (
        Index("ix_advice_created_at", "created_at"),
        # Deleting a document searches all columns that may refer to it.
        *(
            Index(f"ix_advice_{it}_document_id", f"{it}_document_id", postgresql_using="hash")
            for it in ("request", "snapshot", "evidence", "files", "report")
        ),
    )

    advice_id: Mapped[str] = mapped_column(primary_key=True)
    recommendation_type: Mapped[str]
    #: How the search ended: ``optimal``, ``feasible``, ``infeasible`` or ``unknown``.
    status: Mapped[str]
    #: Of the requested environment, such as ``3.11``.
    python_version: Mapped[str | None]
    #: Platform of the requested environment as a wheel tag, such as ``manylinux_2_28_x86_64``.
    platform: Mapped[str | None]
    snapshot_revision: Mapped[str]
    request_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    snapshot_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    evidence_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    files_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    report_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    #: Digest of the report without its timestamps.
    result_digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class AdvisedStack(Base):
    """A recommended stack of an advice; rank 1 is the best."""

    __tablename__ = "advised_stacks"
    __table_args__ = (Index("ix_advised_stacks_stack_digest", "stack_digest"),)

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    score: Mapped[float] = mapped_column(Double)


class AdviceObservation(Base):
    """An observation that is evidence of an advice."""

    __tablename__ = "advice_observations"

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    observation_id: Mapped[str] = mapped_column(
        ForeignKey("observations.observation_id"), primary_key=True
    )


class RequestRow(Base):
    """A request to the adviser; equal requests share a row."""

    __tablename__ = "requests"

    #: The request itself, as canonical JSON.
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"), primary_key=True)
    recommendation_type: Mapped[str]
    python_version: Mapped[str | None]
    platform: Mapped[str | None]
    #: The requested hardware class, measured or not.
    hardware_digest: Mapped[str | None]
    #: PEP 508 texts, sorted.
    requirements: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Names of the required packages, sorted.
    packages: Mapped[list[str]] = mapped_column(ARRAY(Text))
    #: Number of requested stacks.
    stack_count: Mapped[int]


class ClaimRow(Base):
    """A verdict on a measured stack compared with another, identified by its content.

    Equal evidence gives equal claims, so many advices may share a row.
    """

    __tablename__ = "claims"
    __table_args__ = (
        Index("ix_claims_stack_digest", "stack_digest"),
        # Deleting a document searches all columns that may refer to it.
        Index("ix_claims_document_id", "document_id", postgresql_using="hash"),
    )

    claim_id: Mapped[str] = mapped_column(primary_key=True)
    #: The only package in which the stacks differ; ``None`` if they differ in several.
    package: Mapped[str | None]
    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    baseline_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"))
    indicator: Mapped[str]
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    device: Mapped[str | None]
    unit: Mapped[str]
    comparison_key: Mapped[str]
    hardware_digest: Mapped[str]
    python_version: Mapped[str | None]
    same_hardware: Mapped[bool]
    same_python: Mapped[bool]
    verdict: Mapped[str]
    effect_pct: Mapped[float | None] = mapped_column(Double)
    observed_pct: Mapped[float | None] = mapped_column(Double)
    interval_low_pct: Mapped[float | None] = mapped_column(Double)
    interval_high_pct: Mapped[float | None] = mapped_column(Double)
    delta_pct: Mapped[float] = mapped_column(Double)
    p_value: Mapped[float | None] = mapped_column(Double)
    method: Mapped[str]
    jobs: Mapped[int]
    baseline_jobs: Mapped[int]
    runs: Mapped[int]
    baseline_runs: Mapped[int]
    pairs: Mapped[int]
    hosts: Mapped[int | None]
    needs: Mapped[str | None]
    jobs_missing: Mapped[int]
    baseline_jobs_missing: Mapped[int]
    scored: Mapped[bool]
    as_of: Mapped[datetime | None]
    #: The first report that contains it.
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class ClaimPackage(Base):
    """A package in which the stacks of a claim differ; ``None`` for the stack that lacks it."""

    __tablename__ = "claim_packages"

    claim_id: Mapped[str] = mapped_column(ForeignKey("claims.claim_id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str | None]
    index_name: Mapped[str | None]
    #: Sorts by code point as versions do: :func:`common.packages.version_key`.
    version_key: Mapped[str | None]
    baseline_version: Mapped[str | None]
    baseline_index_name: Mapped[str | None]
    baseline_version_key: Mapped[str | None]


class AdviceClaim(Base):
    """A claim of an advice, also about stacks that are not recommended."""

    __tablename__ = "advice_claims"
    __table_args__ = (Index("ix_advice_claims_claim_id", "claim_id"),)

    advice_id: Mapped[str] = mapped_column(ForeignKey("advice.advice_id"), primary_key=True)
    claim_id: Mapped[str] = mapped_column(ForeignKey("claims.claim_id"), primary_key=True)


# Projects on indexes, watched packages and releases that wait to be read


class IndexProject(Base):
    """The last answer of an index about a project."""

    __tablename__ = "index_projects"
    __table_args__ = (
        CheckConstraint("state IN ('known', 'missing', 'failed')", name="state_known"),
        Index("ix_index_projects_asked_at", "asked_at"),
    )

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[str]
    #: Reason of a failure: a code, and a message.
    problem: Mapped[str | None]
    message: Mapped[str | None]
    #: Digest of the last page.
    page_digest: Mapped[str | None]
    #: Every version on that page, normalised.
    listed: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    #: Time of the last page; ``None`` without any.
    as_of: Mapped[datetime | None]
    #: Time of the last request.
    asked_at: Mapped[datetime]


class WatchedPackage(Base):
    """A watched package with the bounds of its crawls."""

    __tablename__ = "watched_packages"

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    max_versions: Mapped[int | None]
    newer_than: Mapped[datetime | None]
    #: Extras whose requirements are crawled as well.
    extras: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))
    #: Whether pre-releases are read even if there are final releases.
    prereleases: Mapped[bool] = mapped_column(server_default=text("false"))
    added_at: Mapped[datetime] = mapped_column(server_default=func.now())


class QueuedRelease(Base):
    """A release whose metadata must be read; deleted in the transaction that stores it."""

    __tablename__ = "release_queue"
    __table_args__ = (Index("ix_release_queue_retry_at", "retry_at"),)

    index_name: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    version: Mapped[str] = mapped_column(primary_key=True)
    queued_at: Mapped[datetime] = mapped_column(server_default=func.now())
    attempts: Mapped[int] = mapped_column(server_default=text("0"))
    retry_at: Mapped[datetime] = mapped_column(server_default=func.now())
    problem: Mapped[str | None]
    message: Mapped[str | None]
    #: Set after the last automatic attempt; only an explicit request retries.
    given_up_at: Mapped[datetime | None]


# The service: requests, tokens and the audit log


class TokenRow(Base):
    """A bearer token with its scopes, without the secret."""

    __tablename__ = "tokens"

    token_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    #: First characters of the secret, which identify the token in lists.
    prefix: Mapped[str]
    #: SHA-256 of the secret; a slow hash is unnecessary for a long random value.
    digest: Mapped[str] = mapped_column(unique=True)
    scopes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    #: Accurate to the minute, to avoid a write for each use.
    last_used_at: Mapped[datetime | None]


class AnalysisRow(Base):
    """An asynchronous request: advice, a provenance check, an inspection.

    Final states are ``succeeded``, ``failed`` (it cannot be answered) and ``error`` (an internal
    error).
    """

    __tablename__ = "analyses"
    __table_args__ = (
        CheckConstraint(
            "state IN ('pending', 'running', 'succeeded', 'failed', 'error')", name="state_known"
        ),
        Index("ix_analyses_cache_key", "kind", "cache_key", "accepted_at"),
        Index("ix_analyses_accepted_at", "kind", "accepted_at", "analysis_id"),
        # Open requests are few of all requests, and are queried all the time.
        Index(
            "ix_analyses_open",
            "accepted_at",
            postgresql_where=text("state IN ('pending', 'running')"),
        ),
        Index("ix_analyses_finished_at", "finished_at"),
        Index("ix_analyses_token_id", "token_id", postgresql_where=text("token_id IS NOT NULL")),
        Index("ix_analyses_request_document_id", "request_document_id", postgresql_using="hash"),
        Index("ix_analyses_result_document_id", "result_document_id", postgresql_using="hash"),
    )

    analysis_id: Mapped[str] = mapped_column(primary_key=True)
    #: Prefix of its identifier: ``adviser``, ``provenance-checker``, ``inspection``.
    kind: Mapped[str]
    state: Mapped[str] = mapped_column(server_default=text("'pending'"))
    #: Why it failed, or what it waits for, in words.
    reason: Mapped[str | None]
    #: The public part of the request.
    parameters: Mapped[dict[str, Any]] = mapped_column(JSONB)
    #: The whole request, as canonical JSON.
    request_document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))
    result_document_id: Mapped[str | None] = mapped_column(ForeignKey("documents.document_id"))
    #: Equal for equal requests.
    cache_key: Mapped[str]
    #: Log lines, one JSON object each.
    log: Mapped[str] = mapped_column(server_default=text("''"))
    #: Token of the request, if any.
    token_id: Mapped[str | None] = mapped_column(ForeignKey("tokens.token_id"))
    accepted_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    #: Since when it waits for an unavailable store.
    postponed_at: Mapped[datetime | None]
    #: Time of the newest knowledge behind the result, and revision of the graph.
    as_of: Mapped[datetime | None]
    graph_revision: Mapped[int | None] = mapped_column(BigInteger)
    #: How often a worker started it.
    attempts: Mapped[int] = mapped_column(server_default=text("0"))


class AuditRow(Base):
    """An entry of the audit log: a write through the service."""

    __tablename__ = "audit_log"
    __table_args__ = (Index("ix_audit_log_at", "at"),)

    entry_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    request_id: Mapped[str]
    token_id: Mapped[str | None]
    address: Mapped[str]
    method: Mapped[str]
    #: The route instead of the URL, which may contain private data.
    route: Mapped[str]
    status: Mapped[int]
    #: Identifier of the created or changed object, if there is one.
    subject: Mapped[str | None]


class KnowledgeRow(Base):
    """Number of changes to the knowledge: a single row, incremented by triggers at each commit.

    A timestamp could not replace it: a transaction that began early may commit late, unseen by
    readers in between.
    """

    __tablename__ = "knowledge"
    __table_args__ = (CheckConstraint("only_row", name="one_row"),)

    only_row: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    changes: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
