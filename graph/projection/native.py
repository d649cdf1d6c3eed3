"""Projects native interfaces, the wheels that need them and the environments that provide them."""

from __future__ import annotations

from sqlalchemy import select

from graph.projection.kinds import (
    NodeKind,
    edge_kind,
    origin,
    properties_of,
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
    rows=select(*properties_of(NativeInterfaceRow)),
    owner=NativeInterfaceRow.interface,
)

ARTIFACT = NodeKind(
    label="Artifact",
    rows=select(*properties_of(ArtifactRow, without=("purl",)), *origin()).join(
        Document, Document.document_id == ArtifactRow.document_id
    ),
    owner=ArtifactRow.sha256,
)

NATIVE_ENVIRONMENT = NodeKind(
    label="NativeEnvironment",
    rows=select(*properties_of(NativeEnvironmentRow), *origin()).join(
        Document, Document.document_id == NativeEnvironmentRow.document_id
    ),
    owner=NativeEnvironmentRow.digest,
)

BUILT_AS = edge_kind(
    "BUILT_AS", PACKAGE_VERSION, ARTIFACT, (ArtifactRow.purl, ArtifactRow.sha256), of_end=True
)
NEEDS = edge_kind(
    "NEEDS", ARTIFACT, NATIVE_INTERFACE, (ArtifactInterface.sha256, ArtifactInterface.interface)
)
PROVIDES = edge_kind(
    "PROVIDES",
    NATIVE_ENVIRONMENT,
    NATIVE_INTERFACE,
    (NativeEnvironmentInterface.digest, NativeEnvironmentInterface.interface),
)

NATIVE_INTERFACES = MutableNode(node=NATIVE_INTERFACE)
ARTIFACTS = MutableNode(
    node=ARTIFACT, edges=(BUILT_AS, NEEDS), needs=(PACKAGE_VERSIONS, NATIVE_INTERFACES)
)
NATIVE_ENVIRONMENTS = MutableNode(
    node=NATIVE_ENVIRONMENT, edges=(PROVIDES,), needs=(NATIVE_INTERFACES,)
)
