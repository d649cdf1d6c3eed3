"""Stores and lists analyses of the native interfaces of wheels and environments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from common.settings import Settings
from graph.record.affected_versions import share_advisories
from graph.record.bulk import insert_new
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.outbox import add_entries
from graph.record.packages import add_unread_versions
from graph.record.postgresql_helpers import columns_for, matching
from graph.tables import (
    ArtifactInterface,
    ArtifactRow,
    Base,
    Document,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
)
from model.packages.native_interfaces import (
    ANALYSIS_SCHEMA,
    Analysis,
    EnvironmentAnalysis,
    Interface,
    WheelAnalysis,
)

_ARTIFACT_COLUMNS = ("sha256", "filename", "purl", "imports", "bundled", "document_id")
_ENVIRONMENT_COLUMNS = (
    "digest", "kind", "name", "architecture", "os_name", "os_version", "document_id",
)  # fmt: skip
_INTERFACE_COLUMNS = ("interface", "library", "version", "document_id")


@dataclass(frozen=True, slots=True)
class KnownArtifact:
    """An analysed wheel."""

    sha256: str
    filename: str
    purl: str


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """An analysed machine or image."""

    digest: str
    name: str
    architecture: str


def add_analysis(
    connection: Connection, settings: Settings, analysis: Analysis, source: str
) -> bool:
    """Store an analysis once; the caller owns the transaction.

    The package version of a wheel is inserted if it does not exist. An earlier analysis of the same
    file or environment is kept.

    :param source: the analysed file, machine or image
    :returns: ``False`` if the document exists already
    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    share_advisories(connection)  # before the first write, to avoid deadlocks
    document = DeliveredDocument(
        analysis.document_id, "analysis", ANALYSIS_SCHEMA, source, analysis.body
    )
    if not add_documents(connection, settings, [document]):
        return False
    if isinstance(analysis, WheelAnalysis):
        _add_artifact(connection, analysis)
    else:
        _add_environment(connection, analysis)
    return True


def _add_artifact(connection: Connection, analysis: WheelAnalysis) -> None:
    package = analysis.package
    add_unread_versions(
        connection,
        [(package.purl, package.name, package.version, package.index, analysis.document_id)],
    )
    row = _artifact_row(analysis)
    if not insert_new(connection, ArtifactRow, [row], _ARTIFACT_COLUMNS, "sha256"):
        return
    _add_interfaces(connection, analysis.needs, analysis.document_id)
    insert_new(
        connection, ArtifactInterface, [(analysis.sha256, it.key) for it in analysis.needs],
        ("sha256", "interface"),
    )  # fmt: skip
    add_entries(connection, {"artifact": [analysis.sha256]})


def _add_environment(connection: Connection, analysis: EnvironmentAnalysis) -> None:
    row = _environment_row(analysis)
    if not insert_new(connection, NativeEnvironmentRow, [row], _ENVIRONMENT_COLUMNS, "digest"):
        return
    _add_interfaces(connection, analysis.provides, analysis.document_id)
    insert_new(
        connection, NativeEnvironmentInterface,
        [(analysis.digest, it.key) for it in analysis.provides], ("digest", "interface"),
    )  # fmt: skip
    add_entries(connection, {"native_environment": [analysis.digest]})


def _add_interfaces(
    connection: Connection, interfaces: Iterable[Interface], document_id: str
) -> None:
    rows = {it.key: _interface_row(it, document_id) for it in interfaces}
    insert_new(connection, NativeInterfaceRow, list(rows.values()), _INTERFACE_COLUMNS)


def analysis_rows(analysis: Analysis) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_analysis` writes for ``analysis``, as values by column."""
    origin = analysis.document_id
    if isinstance(analysis, WheelAnalysis):
        artifact = zip(_ARTIFACT_COLUMNS, _artifact_row(analysis), strict=True)
        yield ArtifactRow, dict(artifact)
        interfaces = analysis.needs
        links: Iterable[tuple[type[Base], dict[str, Any]]] = (
            (ArtifactInterface, {"sha256": analysis.sha256, "interface": it.key})
            for it in interfaces
        )
    else:
        environment = zip(_ENVIRONMENT_COLUMNS, _environment_row(analysis), strict=True)
        yield NativeEnvironmentRow, dict(environment)
        interfaces = analysis.provides
        links = (
            (NativeEnvironmentInterface, {"digest": analysis.digest, "interface": it.key})
            for it in interfaces
        )
    yield from links
    for interface in interfaces:
        yield (
            NativeInterfaceRow,
            dict(zip(_INTERFACE_COLUMNS, _interface_row(interface, origin), strict=True)),
        )


def _artifact_row(it: WheelAnalysis) -> tuple[Any, ...]:
    return it.sha256, it.filename, it.package.purl, it.imports, it.bundled, it.document_id


def _environment_row(environment: EnvironmentAnalysis) -> tuple[Any, ...]:
    return (
        environment.digest, environment.kind.value, environment.name, environment.architecture,
        environment.os_name, environment.os_version, environment.document_id,
    )  # fmt: skip


def _interface_row(it: Interface, document_id: str) -> tuple[Any, ...]:
    return it.key, it.library, it.version or None, document_id


def artifacts_of(connection: Connection, purl: str) -> list[KnownArtifact]:
    """The analysed wheels of a package version, by name."""
    return _artifacts(connection, ArtifactRow.purl == purl)


def artifacts_by_hash(connection: Connection, prefix: str) -> list[KnownArtifact]:
    """The analysed wheels whose SHA-256 starts with ``prefix``."""
    return _artifacts(connection, ArtifactRow.sha256.startswith(prefix, autoescape=True))


def _artifacts(connection: Connection, condition: object) -> list[KnownArtifact]:
    query = (
        select(ArtifactRow.sha256, ArtifactRow.filename, ArtifactRow.purl)
        .where(condition)  # type: ignore[arg-type]  # a comparison of SQLAlchemy's
        .order_by(ArtifactRow.filename, ArtifactRow.sha256)
    )
    return [KnownArtifact(*row) for row in connection.execute(query)]


def environments_called(connection: Connection, wanted: str) -> list[KnownEnvironment]:
    """Analysed environments by name or by a prefix of their digest, newest first."""
    digest = NativeEnvironmentRow.digest.startswith(wanted, autoescape=True)
    bare = NativeEnvironmentRow.digest.startswith(f"sha256:{wanted}", autoescape=True)
    query = (
        select(
            NativeEnvironmentRow.digest,
            NativeEnvironmentRow.name,
            NativeEnvironmentRow.architecture,
        )
        .join(Document, Document.document_id == NativeEnvironmentRow.document_id)
        .where((NativeEnvironmentRow.name == wanted) | digest | bare)
        .order_by(Document.ingested_at.desc(), NativeEnvironmentRow.digest)
    )
    return [KnownEnvironment(*row) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class KnownImage:
    """An analysed container image."""

    digest: str
    name: str
    os_name: str | None
    os_version: str | None
    document_id: str
    analysed_at: datetime


@dataclass(frozen=True, slots=True)
class ImageFilter:
    """Filter for images; a field that is ``None`` matches all images.

    :param library: a provided library, such as ``libssl.so.3``
    :param symbol: a provided symbol version, such as ``GLIBC_2.34``
    """

    os_name: str | None = None
    os_version: str | None = None
    name: str | None = None
    library: str | None = None
    symbol: str | None = None


def known_images(
    connection: Connection, wanted: ImageFilter, *, offset: int, limit: int
) -> list[KnownImage]:
    """Analysed images, newest first."""
    table = NativeEnvironmentRow
    values = {
        table.os_name: wanted.os_name, table.os_version: wanted.os_version, table.name: wanted.name,
    }  # fmt: skip
    query = (
        select(*columns_for(KnownImage, table, analysed_at=Document.ingested_at))
        .join(Document, Document.document_id == table.document_id)
        .where(table.kind == "image", *matching(values))
    )
    # The conditions are independent: the symbol need not belong to the library.
    provided = select(NativeEnvironmentInterface.digest).join(
        NativeInterfaceRow, NativeInterfaceRow.interface == NativeEnvironmentInterface.interface
    )
    interface = {
        NativeInterfaceRow.library: wanted.library, NativeInterfaceRow.version: wanted.symbol,
    }  # fmt: skip
    for condition in matching(interface):
        query = query.where(table.digest.in_(provided.where(condition)))
    query = query.order_by(Document.ingested_at.desc(), table.digest).offset(offset).limit(limit)
    return [KnownImage(*row) for row in connection.execute(query)]
