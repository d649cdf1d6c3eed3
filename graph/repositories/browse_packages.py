"""Packages and their releases, page by page, for those who look around in the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from packaging.version import Version
from sqlalchemy import Connection, any_, func, or_, select

from common.errors import InvalidDocument
from common.packages import package_version, version_of
from common.releases import ReleaseFile, Requirement
from graph.repositories.affected import texts
from graph.repositories.known_releases import spellings_of
from graph.tables import (
    AffectedVersion,
    IndexProject,
    PackageRow,
    PackageVersionRow,
    ReleaseFileRow,
    RequirementRow,
)


@dataclass(frozen=True, slots=True)
class PackageHead:
    """What a list of packages shows.

    :param versions: how many are known, on all indexes together
    :param indexes: that serve one of them, sorted
    """

    name: str
    versions: int = 0
    indexes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """What an index last said when it was asked for a package.

    :param state: ``known``, ``missing`` or ``failed``, then with its problem and message
    """

    index: str
    state: str
    as_of: datetime | None
    problem: str | None
    message: str | None


@dataclass(frozen=True, slots=True)
class PackageDetail:
    """A package.

    :param revision: digest of all that could change an answer about it; ``None`` without versions
    :param document_id: the document that it was first seen in
    """

    name: str
    versions: int
    indexes: tuple[str, ...]
    revision: str | None
    document_id: str
    answers: tuple[IndexAnswer, ...]


@dataclass(frozen=True, slots=True)
class VersionHead:
    """What a list of releases shows; ``vulnerabilities`` is how many affect it."""

    purl: str
    name: str
    version: str
    index: str
    state: str
    yanked: bool
    uploaded_at: datetime | None
    requires_python: str | None
    vulnerabilities: int = 0


@dataclass(frozen=True, slots=True)
class VersionDetail:
    """One release as one index serves it, with what it requires in the order of its metadata."""

    purl: str
    name: str
    version: str
    index: str
    state: str
    problem: str | None
    problem_message: str | None
    requires_python: str | None
    extras: tuple[str, ...]
    license: str | None
    yanked: bool
    yanked_reason: str | None
    uploaded_at: datetime | None
    metadata_source: str | None
    metadata_file: str | None
    wheels: tuple[str, ...]
    has_sdist: bool | None
    files_complete: bool
    document_id: str
    as_of: datetime | None
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a release; ``listed`` is ``False`` once its index offers it no more."""

    file: ReleaseFile
    listed: bool


def browse_packages(
    connection: Connection,
    *,
    like: str | None = None,
    index: str | None = None,
    after: str | None = None,
    limit: int,
) -> list[PackageHead]:
    """Packages in the order of their names.

    :param like: part of a name
    :param index: that serves a version
    """
    query = select(PackageRow.name)
    if after is not None:
        query = query.where(PackageRow.name > after)
    if like is not None:
        query = query.where(PackageRow.name.contains(like, autoescape=True))
    if index is not None:
        version = PackageVersionRow
        served = select(version.purl).where(
            version.name == PackageRow.name, version.index_name == index
        )
        query = query.where(served.exists())
    names = connection.scalars(query.order_by(PackageRow.name).limit(limit)).all()
    known = _served(connection, names)
    return [PackageHead(name, *known.get(name, (0, ()))) for name in names]


def package_detail(connection: Connection, name: str) -> PackageDetail | None:
    """A package by its normalised name, or ``None``."""
    row = connection.execute(
        select(PackageRow.revision, PackageRow.document_id).where(PackageRow.name == name)
    ).one_or_none()
    if row is None:
        return None
    versions, indexes = _served(connection, [name]).get(name, (0, ()))
    project = IndexProject
    answers = connection.execute(
        select(project.index_name, project.state, project.as_of, project.problem, project.message)
        .where(project.name == name)
        .order_by(project.index_name)
    )
    said = tuple(IndexAnswer(*it) for it in answers)
    return PackageDetail(name, versions, indexes, row.revision, row.document_id, said)


def _served(connection: Connection, names: Sequence[str]) -> dict[str, tuple[int, tuple[str, ...]]]:
    version = PackageVersionRow
    rows = connection.execute(
        select(version.name, version.index_name, func.count())
        .where(version.name == any_(texts(names)))
        .group_by(version.name, version.index_name)
        .order_by(version.name, version.index_name)
    )
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for name, index, count in rows:
        before = found.get(name, (0, ()))
        found[name] = (before[0] + count, (*before[1], index))
    return found


def browse_versions(
    connection: Connection,
    name: str,
    *,
    index: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int,
) -> list[VersionHead]:
    """The releases of a package, newest first by PEP 440; of one version, by index.

    Versions do not sort in PostgreSQL, so that all of the package are read, without the rest of
    their rows.

    :param after: version and index of the last one before
    """
    row = PackageVersionRow
    query = select(row.purl, row.version, row.index_name).where(row.name == name)
    if index is not None:
        query = query.where(row.index_name == index)
    known = sorted(connection.execute(query), key=lambda it: it.index_name)
    known.sort(key=lambda it: _order(it.version), reverse=True)
    if after is not None:
        version, served_by = _order(after[0]), after[1]
        known = [
            it
            for it in known
            if _order(it.version) < version
            or (_order(it.version) == version and it.index_name > served_by)
        ]
    purls = [it.purl for it in known[:limit]]
    heads = {it.purl: it for it in _heads(connection, purls)}
    return [heads[purl] for purl in purls if purl in heads]


def _order(version: str) -> tuple[bool, Version, str]:
    """Versions that are none come last."""
    parsed = version_of(version)
    return (False, Version("0"), version) if parsed is None else (True, parsed, version)


def _heads(connection: Connection, purls: Sequence[str]) -> list[VersionHead]:
    row = PackageVersionRow
    counted = connection.execute(
        select(AffectedVersion.purl, func.count())
        .where(AffectedVersion.purl == any_(texts(purls)))
        .group_by(AffectedVersion.purl)
    )
    harms: dict[str, int] = dict(counted.all())
    rows = connection.execute(
        select(
            row.purl, row.name, row.version, row.index_name, row.state, row.yanked,
            row.uploaded_at, row.requires_python,
        ).where(row.purl == any_(texts(purls)))
    )  # fmt: skip
    return [VersionHead(*it, harms.get(it.purl, 0)) for it in rows]


def purl_of(connection: Connection, name: str, version: str, index: str) -> str | None:
    """Package URL under which a release is known, however its version is written, or ``None``."""
    row = PackageVersionRow
    try:
        spelt = spellings_of(package_version(name, version, index).purl)
    except InvalidDocument:
        spelt = []
    query = select(row.purl).where(
        row.name == name,
        row.index_name == index,
        or_(row.purl == any_(texts(spelt)), row.version == version),
    )
    return connection.scalar(query.order_by(row.purl).limit(1))


def version_detail(connection: Connection, purl: str) -> VersionDetail | None:
    """A release by its package URL, or ``None``."""
    row, line = PackageVersionRow, RequirementRow
    found = connection.execute(
        select(
            row.purl, row.name, row.version, row.index_name, row.state, row.problem,
            row.problem_message, row.requires_python, row.extras, row.license, row.yanked,
            row.yanked_reason, row.uploaded_at, row.metadata_source, row.metadata_file,
            row.wheels, row.has_sdist, row.files_complete,
            func.coalesce(row.release_document_id, row.document_id), row.as_of,
        ).where(row.purl == purl)
    ).one_or_none()  # fmt: skip
    if found is None:
        return None
    lines = connection.execute(
        select(
            line.raw, line.name, line.specifier, line.marker, line.extras, line.for_extras,
            line.url, line.problem,
        )
        .where(line.purl == purl)
        .order_by(line.position)
    )  # fmt: skip
    facts: list[Any] = [*found, tuple(_requirement(it) for it in lines)]
    return VersionDetail(*facts)


def _requirement(row: Any) -> Requirement:
    return Requirement(
        row.raw, row.name, row.specifier, row.marker, tuple(row.extras), tuple(row.for_extras),
        row.url, row.problem,
    )  # fmt: skip


def browse_files(
    connection: Connection, purl: str, *, after: str | None = None, limit: int
) -> list[KnownFile]:
    """The files of a release by name, those that its index offers no more among them."""
    row = ReleaseFileRow
    query = select(
        row.filename, row.sha256, row.kind, row.size_bytes, row.requires_python, row.yanked,
        row.yanked_reason, row.uploaded_at, row.metadata_sha256, row.attested, row.listed,
    ).where(row.purl == purl)  # fmt: skip
    if after is not None:
        query = query.where(row.filename > after)
    rows = connection.execute(query.order_by(row.filename).limit(limit))
    return [_file(tuple(it)) for it in rows]


def _file(row: tuple[Any, ...]) -> KnownFile:
    *facts, listed = row
    return KnownFile(ReleaseFile(*facts), listed)


def package_names(
    connection: Connection, *, like: str | None = None, offset: int, limit: int
) -> list[str]:
    """Names of packages in order, for clients that count pages; ``like`` is part of a name."""
    query = select(PackageRow.name)
    if like is not None:
        query = query.where(PackageRow.name.contains(like, autoescape=True))
    return list(connection.scalars(query.order_by(PackageRow.name).offset(offset).limit(limit)))
