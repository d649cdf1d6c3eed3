"""Runtime environments, with the images they start from and what these install."""

from __future__ import annotations

from sqlalchemy import func, select

from graph.projection.model import EdgeKind, NodeKind, Subject
from graph.tables import RuntimeEnvironmentRow

_DIGEST = RuntimeEnvironmentRow.digest
_IMAGE = RuntimeEnvironmentRow.base_image

#: One row for each native package of each environment; a list may name one twice.
_INSTALLED = (
    select(
        _DIGEST,
        func.unnest(RuntimeEnvironmentRow.native_packages).label("name"),
        RuntimeEnvironmentRow.document_id,
    )
    .distinct()
    .subquery()
)

RUNTIME_ENVIRONMENT = NodeKind(
    label="RuntimeEnvironment",
    rows=select(
        _DIGEST,
        RuntimeEnvironmentRow.os_name,
        RuntimeEnvironmentRow.os_version,
        RuntimeEnvironmentRow.python_version,
        RuntimeEnvironmentRow.cuda_version,
        RuntimeEnvironmentRow.document_id,
    ),
    owner=_DIGEST,
)

BASE_IMAGE = NodeKind(
    label="BaseImage",
    rows=select(
        _IMAGE.label("name"), func.min(RuntimeEnvironmentRow.document_id).label("document_id")
    )
    .where(_IMAGE.is_not(None))
    .group_by(_IMAGE),
    owner=_DIGEST,
    shared=True,
)

NATIVE_PACKAGE = NodeKind(
    label="NativePackage",
    rows=select(
        _INSTALLED.c.name, func.min(_INSTALLED.c.document_id).label("document_id")
    ).group_by(_INSTALLED.c.name),
    owner=_INSTALLED.c.digest,
    shared=True,
)

FROM_IMAGE = EdgeKind(
    type="FROM_IMAGE",
    start=RUNTIME_ENVIRONMENT,
    end=BASE_IMAGE,
    rows=select(_DIGEST.label("start"), _IMAGE.label("end")).where(_IMAGE.is_not(None)),
    owner=_DIGEST,
)

INSTALLS = EdgeKind(
    type="INSTALLS",
    start=RUNTIME_ENVIRONMENT,
    end=NATIVE_PACKAGE,
    rows=select(_INSTALLED.c.digest.label("start"), _INSTALLED.c.name.label("end")),
    owner=_INSTALLED.c.digest,
)

RUNTIME_ENVIRONMENTS = Subject(
    node=RUNTIME_ENVIRONMENT, shared=(BASE_IMAGE, NATIVE_PACKAGE), edges=(FROM_IMAGE, INSTALLS)
)
