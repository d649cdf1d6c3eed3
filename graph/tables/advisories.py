"""Security advisories, the vulnerabilities that they are about, and the versions affected."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, Double, ForeignKey, Index, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class VulnerabilityRow(Base):
    """One vulnerability: all advisories that are aliases of each other."""

    __tablename__ = "vulnerabilities"
    __table_args__ = (
        Index("ix_vulnerabilities_aliases", "aliases", postgresql_using="gin"),
        Index("ix_vulnerabilities_document_id", "document_id", postgresql_using="hash"),
    )

    vulnerability_id: Mapped[str] = mapped_column(primary_key=True)
    #: Every identifier it is known by, its own included, sorted.
    aliases: Mapped[list[str]] = mapped_column(ARRAY(Text))
    summary: Mapped[str | None]
    #: ``none``, ``low``, ``medium``, ``high`` or ``critical``; ``None`` if nobody said.
    severity: Mapped[str | None]
    #: CVSS base score, 0 to 10, and the vector that it comes from.
    score: Mapped[float | None] = mapped_column(Double)
    vector: Mapped[str | None]
    published_at: Mapped[datetime | None]
    modified_at: Mapped[datetime | None]
    #: Set if every advisory was withdrawn; it then affects nothing.
    withdrawn_at: Mapped[datetime | None]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class AdvisoryRow(Base):
    """One advisory, as its newest document says."""

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
    """Which versions of a package an advisory is about."""

    __tablename__ = "advisory_packages"
    __table_args__ = (Index("ix_advisory_packages_name", "name"),)

    advisory_id: Mapped[str] = mapped_column(ForeignKey("advisories.advisory_id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    #: Lists of events, each ``{"introduced": …}``, ``{"fixed": …}`` or ``{"last_affected": …}``.
    ranges: Mapped[list[list[dict[str, Any]]]] = mapped_column(JSONB)
    versions: Mapped[list[str]] = mapped_column(ARRAY(Text))


class AffectedVersion(Base):
    """That a vulnerability affects a version that is known here."""

    __tablename__ = "affected_versions"
    __table_args__ = (Index("ix_affected_versions_purl", "purl"),)

    vulnerability_id: Mapped[str] = mapped_column(
        ForeignKey("vulnerabilities.vulnerability_id"), primary_key=True
    )
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)


class AdvisorySource(Base):
    """An archive of advisories: how far it was read."""

    __tablename__ = "advisory_sources"

    source: Mapped[str] = mapped_column(primary_key=True)
    #: Validators of the server's last answer, for a conditional request.
    etag: Mapped[str | None]
    last_modified: Mapped[str | None]
    sha256: Mapped[str | None]
    advisories: Mapped[int]
    as_of: Mapped[datetime]
