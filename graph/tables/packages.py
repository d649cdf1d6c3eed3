"""Packages, their versions, what these require, their files, and the stacks that they make."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class PackageRow(Base):
    """A package: one that has versions, or that a version requires."""

    __tablename__ = "packages"
    __table_args__ = (Index("ix_packages_document_id", "document_id", postgresql_using="hash"),)

    name: Mapped[str] = mapped_column(primary_key=True)
    #: Digest of all that could change an answer about it; ``None`` without versions.
    revision: Mapped[str | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class PackageVersionRow(Base):
    """One release of one package, as one named index serves it."""

    __tablename__ = "package_versions"
    __table_args__ = (
        Index("ix_package_versions_name", "name"),
        # For documents that are deleted.
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
    #: The document that it was first seen in.
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
    #: ``None`` as long as no index told its files.
    has_sdist: Mapped[bool | None]
    files_complete: Mapped[bool] = mapped_column(server_default=text("false"))
    #: The release document that spoke last.
    release_document_id: Mapped[str | None] = mapped_column(ForeignKey("documents.document_id"))
    #: Digest of what could change an answer.
    facts: Mapped[str | None]
    #: When an index spoke last.
    as_of: Mapped[datetime | None]
    #: Who told each part: :class:`graph.record.release_merging.Ranks`.
    ranks: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=text("'{}'"))


class RequirementRow(Base):
    """One line of what a version requires, raw and normalised."""

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
    """A file of a version; the hash that was seen first is never overwritten."""

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
    #: ``false`` once the index offers it no more; its hash may still not change.
    listed: Mapped[bool] = mapped_column(server_default=text("true"))
    #: Of the list that told it, unless that is the last complete one.
    rank: Mapped[str | None]


class StackRow(Base):
    """A set of package versions, named by its digest."""

    __tablename__ = "stacks"
    # For documents that are deleted.
    __table_args__ = (Index("ix_stacks_document_id", "document_id", postgresql_using="hash"),)

    digest: Mapped[str] = mapped_column(primary_key=True)
    package_count: Mapped[int]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class StackPackage(Base):
    """That a stack includes a package version."""

    __tablename__ = "stack_packages"
    __table_args__ = (Index("ix_stack_packages_purl", "purl"),)

    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"), primary_key=True)
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)


class PackageEvent(Base):
    """Something that changed in an index: a release, a yank, a hash."""

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
