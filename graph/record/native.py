"""Stores and lists analyses of the native interfaces of wheels and environments.

The graph shows which interfaces a wheel needs and an environment lacks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from neo4j import ManagedTransaction
from sqlalchemy import Connection, select

from common.settings import Settings
from graph.record.bulk import add_entries, insert_new
from graph.record.documents import DeliveredDocument, add_documents
from graph.record.packages import add_unread_versions
from graph.record.postgresql_helpers import columns_for, matching
from graph.record.vulnerabilities import share_advisories
from graph.tables import (
    ArtifactInterface,
    ArtifactRow,
    Base,
    Document,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
)
from model.packages.native_libraries import ANALYSIS_SCHEMA, Analysis, WheelAnalysis


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
        package = analysis.package
        add_unread_versions(
            connection,
            [(package.purl, package.name, package.version, package.index, analysis.document_id)],
        )
    tables: dict[type[Base], list[dict[str, Any]]] = {}
    for model, row in analysis_rows(analysis):
        tables.setdefault(model, []).append(row)
    (owner, (row,)), *others = tables.items()
    (key, value), *_ = row.items()
    if insert_new(connection, owner, [tuple(row.values())], tuple(row), key):
        for model, rows in others:
            insert_new(connection, model, [tuple(it.values()) for it in rows], tuple(rows[0]))
        kind = "artifact" if owner is ArtifactRow else "native_environment"
        add_entries(connection, {kind: [value]})
    return True


def analysis_rows(analysis: Analysis) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_analysis` writes for ``analysis``, as values by column.

    The row of the wheel or environment comes first, then interfaces before those that refer to
    them.
    """
    origin = analysis.document_id
    if isinstance(analysis, WheelAnalysis):
        yield ArtifactRow, {
            "sha256": analysis.sha256, "filename": analysis.filename,
            "purl": analysis.package.purl, "imports": analysis.imports,
            "bundled": analysis.bundled, "document_id": origin,
        }  # fmt: skip
        interfaces, owner = analysis.needs, {"sha256": analysis.sha256}
        link: type[Base] = ArtifactInterface
    else:
        yield NativeEnvironmentRow, {
            "digest": analysis.digest, "kind": analysis.kind.value, "name": analysis.name,
            "architecture": analysis.architecture, "os_name": analysis.os_name,
            "os_version": analysis.os_version, "document_id": origin,
        }  # fmt: skip
        interfaces, owner = analysis.provides, {"digest": analysis.digest}
        link = NativeEnvironmentInterface
    unique = {it.key: it for it in interfaces}
    for key, interface in unique.items():
        yield NativeInterfaceRow, {
            "interface": key, "library": interface.library, "version": interface.version or None,
            "document_id": origin,
        }  # fmt: skip
    for key in unique:
        yield link, {**owner, "interface": key}


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


#: Returns a row of nulls if nothing is missing, and no row if the wheel or environment is unknown.
MISSING_INTERFACES = """
MATCH (artifact:Artifact {sha256: $sha256})
MATCH (environment:NativeEnvironment {digest: $digest})
OPTIONAL MATCH (artifact)-[:NEEDS]->(needed:NativeInterface)
WHERE NOT EXISTS { (needed)<-[:PROVIDES]-(environment) }
RETURN needed.interface AS interface, needed.library AS library, needed.version AS version
ORDER BY interface
"""

BROUGHT_BY = """
MATCH (version:PackageVersion)-[:BUILT_AS]->(artifact:Artifact)
UNWIND artifact.bundled AS library
WITH library, version.name AS package
WHERE library IN $libraries
RETURN library, collect(DISTINCT package) AS packages
"""


@dataclass(frozen=True, slots=True)
class MissingInterface:
    """An interface that an environment lacks.

    :param version: symbol version; ``None`` if the whole library is missing
    :param brought_by: packages with an analysed wheel that bundles the library, sorted
    """

    interface: str
    library: str
    version: str | None
    brought_by: tuple[str, ...] = ()


def missing_interfaces(
    tx: ManagedTransaction, sha256: str, digest: str
) -> list[MissingInterface] | None:
    """Interfaces that the wheel needs and the environment lacks, sorted by name.

    :param sha256: SHA-256 of the wheel
    :param digest: digest of the environment
    :returns: ``None`` if the wheel or the environment is not in the graph
    """
    rows = [record.data() for record in tx.run(MISSING_INTERFACES, sha256=sha256, digest=digest)]
    if not rows:
        return None
    interfaces = [MissingInterface(**row) for row in rows if row["interface"] is not None]
    libraries = sorted({it.library for it in interfaces})
    bundling = tx.run(BROUGHT_BY, libraries=libraries) if libraries else ()
    packages = {row["library"]: tuple(sorted(row["packages"])) for row in bundling}
    return [
        MissingInterface(it.interface, it.library, it.version, packages.get(it.library, ()))
        for it in interfaces
    ]
