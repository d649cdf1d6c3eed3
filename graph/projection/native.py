"""Projects native interfaces: those that artifacts need and environments provide."""

from __future__ import annotations

from sqlalchemy import select

from graph.projection.kinds import (
    EdgeKind,
    NodeKind,
    listed,
    origin,
)
from graph.projection.packages import PACKAGE_VERSION, PACKAGE_VERSIONS
from graph.projection.upsert import MutableNode
from graph.tables import (
    ArtifactInterface,
    ArtifactRow,
    Document,
    NativeEnvironmentInterface,
    NativeEnvironmentRow,
    NativeInterfaceRow,
)

NATIVE_INTERFACE = NodeKind(
    label="NativeInterface",
    rows=select(
        NativeInterfaceRow.interface,
        NativeInterfaceRow.library,
        NativeInterfaceRow.version,
        NativeInterfaceRow.document_id,
    ),
    owner=NativeInterfaceRow.interface,
)

ARTIFACT = NodeKind(
    label="Artifact",
    rows=select(
        ArtifactRow.sha256,
        ArtifactRow.filename,
        listed(ArtifactRow.imports).label("imports"),
        listed(ArtifactRow.bundled).label("bundled"),
        ArtifactRow.document_id,
        *origin(),
    ).join(Document, Document.document_id == ArtifactRow.document_id),
    owner=ArtifactRow.sha256,
    times=frozenset({"ingested_at"}),
)

NATIVE_ENVIRONMENT = NodeKind(
    label="NativeEnvironment",
    rows=select(
        NativeEnvironmentRow.digest,
        NativeEnvironmentRow.kind,
        NativeEnvironmentRow.name,
        NativeEnvironmentRow.architecture,
        NativeEnvironmentRow.os_name,
        NativeEnvironmentRow.os_version,
        NativeEnvironmentRow.document_id,
        *origin(),
    ).join(Document, Document.document_id == NativeEnvironmentRow.document_id),
    owner=NativeEnvironmentRow.digest,
    times=frozenset({"ingested_at"}),
)

BUILT_AS = EdgeKind(
    type="BUILT_AS",
    start=PACKAGE_VERSION,
    end=ARTIFACT,
    rows=select(ArtifactRow.purl.label("start"), ArtifactRow.sha256.label("end")),
    owner=ArtifactRow.sha256,
    of_end=True,
)

NEEDS = EdgeKind(
    type="NEEDS",
    start=ARTIFACT,
    end=NATIVE_INTERFACE,
    rows=select(ArtifactInterface.sha256.label("start"), ArtifactInterface.interface.label("end")),
    owner=ArtifactInterface.sha256,
)

PROVIDES = EdgeKind(
    type="PROVIDES",
    start=NATIVE_ENVIRONMENT,
    end=NATIVE_INTERFACE,
    rows=select(
        NativeEnvironmentInterface.digest.label("start"),
        NativeEnvironmentInterface.interface.label("end"),
    ),
    owner=NativeEnvironmentInterface.digest,
)

NATIVE_INTERFACES = MutableNode(node=NATIVE_INTERFACE)
ARTIFACTS = MutableNode(
    node=ARTIFACT, edges=(BUILT_AS, NEEDS), needs=(PACKAGE_VERSIONS, NATIVE_INTERFACES)
)
NATIVE_ENVIRONMENTS = MutableNode(
    node=NATIVE_ENVIRONMENT, edges=(PROVIDES,), needs=(NATIVE_INTERFACES,)
)
