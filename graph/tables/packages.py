"""Package versions and the stacks that they make."""

from __future__ import annotations

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


class PackageVersionRow(Base):
    """One release of one package, as one named index serves it."""

    __tablename__ = "package_versions"
    __table_args__ = (Index("ix_package_versions_name", "name"),)

    purl: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[str]
    index_name: Mapped[str]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class StackRow(Base):
    """A set of package versions, named by its digest."""

    __tablename__ = "stacks"

    digest: Mapped[str] = mapped_column(primary_key=True)
    package_count: Mapped[int]
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class StackPackage(Base):
    """That a stack includes a package version."""

    __tablename__ = "stack_packages"
    __table_args__ = (Index("ix_stack_packages_purl", "purl"),)

    stack_digest: Mapped[str] = mapped_column(ForeignKey("stacks.digest"), primary_key=True)
    purl: Mapped[str] = mapped_column(ForeignKey("package_versions.purl"), primary_key=True)
