"""Analyses of native interfaces: rows and their outbox entries in one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, select

from common.native import (
    ANALYSIS_SCHEMA,
    Analysis,
    EnvironmentAnalysis,
    Interface,
    WheelAnalysis,
)
from common.settings import Settings
from graph.repositories.affected import share_advisories
from graph.repositories.bulk import insert_new
from graph.repositories.documents import DeliveredDocument, add_documents
from graph.repositories.packages import add_entries, add_unread_versions
from graph.tables import (
    ArtifactInterface,
    ArtifactRow,
    Document,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
)


@dataclass(frozen=True, slots=True)
class KnownArtifact:
    """A wheel that was analysed."""

    sha256: str
    filename: str
    purl: str


@dataclass(frozen=True, slots=True)
class KnownEnvironment:
    """A machine or an image that was analysed."""

    digest: str
    name: str
    architecture: str


def add_analysis(
    connection: Connection, settings: Settings, analysis: Analysis, source: str
) -> bool:
    """Store an analysis once; the caller owns the transaction.

    A wheel's package version is inserted, unread, if nothing named it before. What is known
    of a file or an environment by its digest stays as it is.

    :param source: what was analysed, for whoever asks later
    :returns: ``False`` if the document was there already
    :raises StoreUnavailable: if a large body cannot be written to the document store
    """
    share_advisories(connection)  # before the first write, so that nobody waits in a circle
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
    row = (
        analysis.sha256, analysis.filename, package.purl, analysis.imports, analysis.bundled,
        analysis.document_id,
    )  # fmt: skip
    columns = ("sha256", "filename", "purl", "imports", "bundled", "document_id")
    if not insert_new(connection, ArtifactRow, [row], columns, "sha256"):
        return
    _add_interfaces(connection, analysis.needs, analysis.document_id)
    insert_new(
        connection, ArtifactInterface, [(analysis.sha256, it.key) for it in analysis.needs],
        ("sha256", "interface"),
    )  # fmt: skip
    add_entries(connection, {"artifact": [analysis.sha256]})


def _add_environment(connection: Connection, analysis: EnvironmentAnalysis) -> None:
    row = (
        analysis.digest, analysis.kind.value, analysis.name, analysis.architecture,
        analysis.os_name, analysis.os_version, analysis.document_id,
    )  # fmt: skip
    columns = (
        "digest", "kind", "name", "architecture", "os_name", "os_version", "document_id",
    )  # fmt: skip
    if not insert_new(connection, NativeEnvironmentRow, [row], columns, "digest"):
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
    rows = {it.key: (it.key, it.library, it.version or None, document_id) for it in interfaces}
    insert_new(
        connection, NativeInterfaceRow, list(rows.values()),
        ("interface", "library", "version", "document_id"),
    )  # fmt: skip


def artifacts_of(connection: Connection, purl: str) -> list[KnownArtifact]:
    """The analysed wheels of a package version, in the order of their names."""
    return _artifacts(connection, ArtifactRow.purl == purl)


def artifacts_by_hash(connection: Connection, prefix: str) -> list[KnownArtifact]:
    """The analysed wheels whose sha256 begins with these hexadecimal digits."""
    return _artifacts(connection, ArtifactRow.sha256.startswith(prefix, autoescape=True))


def _artifacts(connection: Connection, condition: object) -> list[KnownArtifact]:
    query = (
        select(ArtifactRow.sha256, ArtifactRow.filename, ArtifactRow.purl)
        .where(condition)  # type: ignore[arg-type]  # a comparison of SQLAlchemy's
        .order_by(ArtifactRow.filename, ArtifactRow.sha256)
    )
    return [KnownArtifact(*row) for row in connection.execute(query)]


def environments_called(connection: Connection, wanted: str) -> list[KnownEnvironment]:
    """The analysed environments of this name, or whose digest begins so; newest first."""
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
