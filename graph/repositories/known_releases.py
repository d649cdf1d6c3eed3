"""Releases as the record has them, read back whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import ARRAY, ColumnElement, Connection, Select, Text, any_, literal, select

from common.packages import Purl
from common.releases import ReleaseFile, ReleaseState, Requirement
from graph.repositories.merging import KnownRelease
from graph.tables import PackageVersionRow, ReleaseFileRow, RequirementRow

_FILE_COLUMNS = (
    ReleaseFileRow.filename,
    ReleaseFileRow.sha256,
    ReleaseFileRow.kind,
    ReleaseFileRow.size_bytes,
    ReleaseFileRow.requires_python,
    ReleaseFileRow.yanked,
    ReleaseFileRow.yanked_reason,
    ReleaseFileRow.uploaded_at,
    ReleaseFileRow.metadata_sha256,
    ReleaseFileRow.attested,
)
_REQUIREMENT_COLUMNS = (
    RequirementRow.raw,
    RequirementRow.name,
    RequirementRow.specifier,
    RequirementRow.marker,
    RequirementRow.extras,
    RequirementRow.for_extras,
    RequirementRow.url,
    RequirementRow.problem,
)


def known_releases(connection: Connection, index_name: str, name: str) -> dict[str, KnownRelease]:
    """Every release of a package that an index is known to serve, by version; three queries."""
    version = PackageVersionRow
    query = select(version.__table__).where(version.index_name == index_name, version.name == name)
    return {known.version: known for known in _read(connection, query).values()}


def locked_releases(connection: Connection, purls: Sequence[str]) -> dict[str, KnownRelease]:
    """Those of ``purls`` that are in the record, locked in their order until the end."""
    query = (
        select(PackageVersionRow.__table__)
        .where(_among(PackageVersionRow.purl, purls))
        .order_by(PackageVersionRow.purl)
        .with_for_update(key_share=True)
    )
    return _read(connection, query)


def _among(column: Any, keys: Sequence[str]) -> ColumnElement[bool]:
    among: ColumnElement[bool] = column == any_(literal(list(keys), ARRAY(Text)))
    return among


def _read(connection: Connection, query: Select[Any]) -> dict[str, KnownRelease]:
    rows = connection.execute(query).all()
    if not rows:
        return {}
    purls = [row.purl for row in rows]
    asked = _requirements(connection, purls)
    files = _files(connection, purls)
    return {row.purl: _known(row, asked.get(row.purl, ()), files.get(row.purl, ())) for row in rows}


def _requirements(
    connection: Connection, purls: Sequence[str]
) -> dict[str, tuple[Requirement, ...]]:
    query = (
        select(RequirementRow.purl, *_REQUIREMENT_COLUMNS)
        .where(_among(RequirementRow.purl, purls))
        .order_by(RequirementRow.purl, RequirementRow.position)
    )
    return {
        purl: tuple(_requirement(*row[1:]) for row in rows)
        for purl, rows in _grouped(connection, query)
    }


def _requirement(
    raw: str, name: str | None, specifier: str, marker: str | None, *others: Any
) -> Requirement:
    extras, for_extras, url, problem = others
    return Requirement(raw, name, specifier, marker, tuple(extras), tuple(for_extras), url, problem)


def _files(
    connection: Connection, purls: Sequence[str]
) -> dict[str, tuple[tuple[bool, ReleaseFile], ...]]:
    query = (
        select(ReleaseFileRow.purl, ReleaseFileRow.listed, *_FILE_COLUMNS)
        .where(_among(ReleaseFileRow.purl, purls))
        .order_by(ReleaseFileRow.purl, ReleaseFileRow.filename)
    )
    return {
        purl: tuple((row[1], ReleaseFile(*row[2:])) for row in rows)
        for purl, rows in _grouped(connection, query)
    }


def _grouped(connection: Connection, query: Any) -> Iterator[tuple[str, Iterator[Any]]]:
    return groupby(connection.execute(query), lambda row: str(row[0]))


def _known(
    row: Any, requirements: tuple[Requirement, ...], files: Sequence[tuple[bool, ReleaseFile]]
) -> KnownRelease:
    return KnownRelease(
        purl=Purl(row.purl),
        name=row.name,
        version=row.version,
        index=row.index_name,
        state=ReleaseState(row.state),
        document_id=row.release_document_id,
        problem=row.problem,
        problem_message=row.problem_message,
        requires_python=row.requires_python,
        requirements=requirements,
        extras=tuple(row.extras),
        license=row.license,
        yanked=row.yanked,
        yanked_reason=row.yanked_reason,
        uploaded_at=row.uploaded_at,
        metadata_source=row.metadata_source,
        metadata_file=row.metadata_file,
        files={file.filename: file for listed, file in files if listed},
        gone={file.filename: file for listed, file in files if not listed},
        files_complete=row.files_complete,
        as_of=row.as_of,
    )
