"""Package versions, with the packages and the indexes that they belong to."""

from __future__ import annotations

from sqlalchemy import func, select

from graph.projection.model import EdgeKind, NodeKind, Subject
from graph.tables import PackageVersionRow

_DOCUMENT = func.min(PackageVersionRow.document_id).label("document_id")
_INDEX = PackageVersionRow.index_name

PACKAGE = NodeKind(
    label="Package",
    rows=select(PackageVersionRow.name, _DOCUMENT).group_by(PackageVersionRow.name),
    owner=PackageVersionRow.purl,
    shared=True,
)

PACKAGE_INDEX = NodeKind(
    label="PackageIndex",
    rows=select(_INDEX.label("name"), _DOCUMENT).group_by(_INDEX),
    owner=PackageVersionRow.purl,
    shared=True,
)

PACKAGE_VERSION = NodeKind(
    label="PackageVersion",
    rows=select(
        PackageVersionRow.purl,
        PackageVersionRow.name,
        PackageVersionRow.version,
        _INDEX.label("index"),
        PackageVersionRow.document_id,
    ),
    owner=PackageVersionRow.purl,
)

HAS_VERSION = EdgeKind(
    type="HAS_VERSION",
    start=PACKAGE,
    end=PACKAGE_VERSION,
    rows=select(PackageVersionRow.name.label("start"), PackageVersionRow.purl.label("end")),
    owner=PackageVersionRow.purl,
)

PUBLISHED_ON = EdgeKind(
    type="PUBLISHED_ON",
    start=PACKAGE_VERSION,
    end=PACKAGE_INDEX,
    rows=select(PackageVersionRow.purl.label("start"), _INDEX.label("end")),
    owner=PackageVersionRow.purl,
)

PACKAGE_VERSIONS = Subject(
    node=PACKAGE_VERSION, shared=(PACKAGE, PACKAGE_INDEX), edges=(HAS_VERSION, PUBLISHED_ON)
)
