"""What there is: systems, modules of wheels and images that the record knows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select

from graph.repositories.affected import texts
from graph.tables import (
    ArtifactRow,
    Document,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
    PackageVersionRow,
    RuntimeEnvironmentRow,
)


@dataclass(frozen=True, slots=True)
class KnownSystem:
    """An operating system and a Python that something was measured on."""

    os_name: str
    os_version: str
    python_version: str


@dataclass(frozen=True, slots=True)
class ProvidedModule:
    """That a release brings a module that can be imported."""

    name: str
    version: str
    index: str
    module: str


@dataclass(frozen=True, slots=True)
class KnownImage:
    """A container image whose native libraries were read."""

    digest: str
    name: str
    os_name: str | None
    os_version: str | None
    document_id: str
    analysed_at: datetime


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """Which images are asked for; ``None`` for any.

    :param library: that it provides, such as ``libssl.so.3``
    :param symbol: a version of a library's symbols, such as ``GLIBC_2.34``
    """

    os_name: str | None = None
    os_version: str | None = None
    name: str | None = None
    library: str | None = None
    symbol: str | None = None


def known_systems(connection: Connection) -> list[KnownSystem]:
    """Systems that inspections ran on, sorted; those that did not say are left out."""
    table = RuntimeEnvironmentRow
    columns = table.os_name, table.os_version, table.python_version
    query = select(*columns).where(*(it.is_not(None) for it in columns)).distinct()
    rows = connection.execute(query.order_by(*columns))
    return [KnownSystem(str(name), str(version), str(python)) for name, version, python in rows]


def providers_of(connection: Connection, module: str) -> list[ProvidedModule]:
    """Releases whose wheels have a top-level module, by the wheels that were analysed.

    :param module: such as ``sklearn``; case matters, as it does to an import
    """
    table = PackageVersionRow
    query = (
        select(table.name, table.version, table.index_name)
        .where(
            table.purl.in_(
                select(ArtifactRow.purl).where(ArtifactRow.imports.op("@>")(texts([module])))
            )
        )
        .order_by(table.name, table.version)
    )
    return [ProvidedModule(*row, module) for row in connection.execute(query)]


def known_images(
    connection: Connection, wanted: ImageFilter, *, offset: int, limit: int
) -> list[KnownImage]:
    """Images that were analysed, the newest first."""
    table = NativeEnvironmentRow
    query = (
        select(
            table.digest,
            table.name,
            table.os_name,
            table.os_version,
            table.document_id,
            Document.ingested_at,
        )
        .join(Document, Document.document_id == table.document_id)
        .where(table.kind == "image")
    )
    for column, value in (
        (table.os_name, wanted.os_name),
        (table.os_version, wanted.os_version),
        (table.name, wanted.name),
    ):
        if value is not None:
            query = query.where(column == value)
    for column, value in (
        (NativeInterfaceRow.library, wanted.library),
        (NativeInterfaceRow.version, wanted.symbol),
    ):
        if value is not None:
            provided = (
                select(NativeEnvironmentInterface.digest)
                .join(
                    NativeInterfaceRow,
                    NativeInterfaceRow.interface == NativeEnvironmentInterface.interface,
                )
                .where(column == value)
            )
            query = query.where(table.digest.in_(provided))
    query = query.order_by(Document.ingested_at.desc(), table.digest).offset(offset).limit(limit)
    return [KnownImage(*row) for row in connection.execute(query)]
