"""Native interfaces: what binary artifacts need, and what environments provide."""

from __future__ import annotations

from sqlalchemy import ARRAY, ForeignKey, Index, Text
from sqlalchemy.orm import Mapped, mapped_column

from graph.tables.base import Base


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
    """A wheel whose native libraries were read, by its content."""

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
    #: Native libraries that it brings along.
    bundled: Mapped[list[str]] = mapped_column(ARRAY(Text))
    document_id: Mapped[str] = mapped_column(ForeignKey("documents.document_id"))


class ArtifactInterface(Base):
    """That an artifact needs a native interface and does not bring it along."""

    __tablename__ = "artifact_interfaces"
    __table_args__ = (Index("ix_artifact_interfaces_interface", "interface"),)

    sha256: Mapped[str] = mapped_column(ForeignKey("artifacts.sha256"), primary_key=True)
    interface: Mapped[str] = mapped_column(
        ForeignKey("native_interfaces.interface"), primary_key=True
    )


class NativeEnvironmentRow(Base):
    """A machine or an image, by the interfaces that it provides."""

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
    """That an environment provides a native interface."""

    __tablename__ = "native_environment_interfaces"
    __table_args__ = (Index("ix_native_environment_interfaces_interface", "interface"),)

    digest: Mapped[str] = mapped_column(ForeignKey("native_environments.digest"), primary_key=True)
    interface: Mapped[str] = mapped_column(
        ForeignKey("native_interfaces.interface"), primary_key=True
    )
