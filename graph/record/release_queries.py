"""Details of releases for the API and the adviser: versions, files, requirements."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import Connection, Select, any_, func, or_, select

from graph.record.freshness import knows_advisories
from graph.record.known_releases import FILE_COLUMNS, listed_files, requirements_of, spellings_of
from graph.record.postgresql_helpers import columns_for, matching, texts
from graph.tables import AffectedVersion, IndexProject, PackageVersionRow, ReleaseFileRow
from model.declared_fields import (
    INDEX,
    PACKAGE,
    PURL,
    REQUIRES_PYTHON,
    UPLOADED_AT,
    VERSION,
    YANKED,
    Field,
    public,
)
from model.errors import InvalidDocument
from model.packages.identity import Purl, package_version, version_of, version_order
from model.packages.import_names import ImportSource
from model.packages.releases import ReleaseFile, ReleaseListing, ReleaseState, Requirement


@dataclass(frozen=True, slots=True)
class VersionHead:
    """A release with the fields that are shown in lists."""

    purl: Annotated[str, PURL]
    name: Annotated[str, PACKAGE]
    version: Annotated[str, VERSION]
    index: Annotated[str, INDEX]
    state: Annotated[
        str,
        Field("State of the release; only solved releases are recommended.", values=ReleaseState),
    ]
    yanked: Annotated[bool, YANKED]
    uploaded_at: Annotated[datetime | None, UPLOADED_AT]
    requires_python: Annotated[str | None, REQUIRES_PYTHON]
    vulnerabilities: Annotated[
        int | None,
        Field("Number of vulnerabilities that affect it; null if no advisories were read.", 0),
    ]


@dataclass(frozen=True, slots=True)
class VersionDetail:
    """A release on an index, with its requirements in the order of its metadata."""

    purl: Annotated[str, PURL]
    name: Annotated[str, PACKAGE]
    version: Annotated[str, VERSION]
    index: Annotated[str, INDEX]
    state: Annotated[str, public("What is known about the release.", values=ReleaseState)]
    problem: Annotated[str | None, public("Why it is not solved, as a code.")]
    problem_message: Annotated[str | None, Field("Why it is not solved, for people.")]
    requires_python: Annotated[str | None, REQUIRES_PYTHON]
    extras: Annotated[tuple[str, ...], public("Extras that it provides.", ["async", "dotenv"])]
    license: Annotated[str | None, public("License in its metadata.", "BSD-3-Clause")]
    yanked: Annotated[bool, YANKED]
    yanked_reason: Annotated[str | None, public("Why it is yanked.")]
    uploaded_at: Annotated[datetime | None, UPLOADED_AT]
    metadata_source: Annotated[
        str | None, public("How its requirements were read.", "metadata-file")
    ]
    metadata_file: Annotated[str | None, Field("File that the metadata is from.")]
    wheels: Annotated[tuple[str, ...], public("Tag sets of its wheels.", ["py3-none-any"])]
    has_sdist: Annotated[bool | None, public("Whether there is a source distribution.")]
    files_complete: Annotated[bool, public("Whether all of its files are known.")]
    document_id: Annotated[str, public("Newest document about the release.")]
    read_at: Annotated[datetime | None, public("When an index last served it.")]
    imports: Annotated[
        tuple[str, ...] | None,
        public("Names that it makes importable; null if unknown.", ["flask"]),
    ]
    imports_source: Annotated[str | None, Field("How these names were read.", values=ImportSource)]
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file of a release; ``listed`` is ``False`` if its index no longer offers it."""

    file: ReleaseFile
    listed: bool


def browse_versions(
    connection: Connection,
    name: str,
    *,
    index: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int,
) -> list[VersionHead]:
    """Releases of a package, newest first (PEP 440); equal versions by index.

    PostgreSQL cannot sort versions according to PEP 440, so the identifiers of all releases are
    read.

    :param after: version and index of the last release on the previous page
    """
    row = PackageVersionRow
    query = select(row.purl, row.version, row.index_name).where(
        row.name == name, *matching({row.index_name: index})
    )
    known = sorted(connection.execute(query), key=lambda it: it.index_name)
    known.sort(key=lambda it: version_order(it.version), reverse=True)
    if after is not None:
        version, served_by = version_order(after[0]), after[1]
        known = [
            it
            for it in known
            if version_order(it.version) < version
            or (version_order(it.version) == version and it.index_name > served_by)
        ]
    purls = [it.purl for it in known[:limit]]
    heads = {it.purl: it for it in _heads(connection, purls)}
    return [heads[purl] for purl in purls if purl in heads]


def _heads(connection: Connection, purls: Sequence[str]) -> list[VersionHead]:
    row = PackageVersionRow
    counted = connection.execute(
        select(AffectedVersion.purl, func.count())
        .where(AffectedVersion.purl == any_(texts(purls)))
        .group_by(AffectedVersion.purl)
    )
    counts: dict[str, int] = dict(counted.all())
    rows = connection.execute(
        select(*columns_for(VersionHead, row, index=row.index_name)).where(
            row.purl == any_(texts(purls))
        )
    )
    none = 0 if counts or knows_advisories(connection) else None
    return [VersionHead(*(*it, counts.get(it.purl, none))) for it in rows]


def purl_of(connection: Connection, name: str, version: str, index: str) -> str | None:
    """Package URL of a release, for any spelling of its version; ``None`` if it is unknown."""
    row = PackageVersionRow
    try:
        purls = spellings_of(package_version(name, version, index).purl)
    except InvalidDocument:
        purls = []
    query = select(row.purl).where(
        row.name == name,
        row.index_name == index,
        or_(row.purl == any_(texts(purls)), row.version == version),
    )
    return connection.scalar(query.order_by(row.purl).limit(1))


def select_versions() -> Select[*tuple[Any, ...]]:
    """The fields of :class:`VersionDetail`, except the requirements."""
    row = PackageVersionRow
    columns = columns_for(
        VersionDetail,
        row,
        index=row.index_name,
        document_id=func.coalesce(row.release_document_id, row.document_id),
        read_at=row.as_of,
    )
    return select(*columns)


def version_detail(connection: Connection, purl: str) -> VersionDetail | None:
    """A release by its package URL, or ``None``."""
    query = select_versions().where(PackageVersionRow.purl == purl)
    details = connection.execute(query).one_or_none()
    if details is None:
        return None
    values: list[Any] = [*details, requirements_of(connection, [purl]).get(purl, ())]
    return VersionDetail(*values)


def browse_files(
    connection: Connection, purl: str, *, after: str | None = None, limit: int
) -> list[KnownFile]:
    """The files of a release by name, including files that are no longer offered."""
    row = ReleaseFileRow
    query = select(*FILE_COLUMNS, row.listed).where(row.purl == purl)
    if after is not None:
        query = query.where(row.filename > after)
    rows = connection.execute(query.order_by(row.filename).limit(limit))
    return [KnownFile(ReleaseFile(*file), listed) for *file, listed in rows]


def files_of(connection: Connection, purls: Iterable[Purl]) -> dict[Purl, tuple[ReleaseFile, ...]]:
    """The offered files of releases, by name; one query."""
    return {
        Purl(purl): offered
        for purl, files in listed_files(connection, list(purls)).items()
        if (offered := tuple(file for listed, _, file in files if listed))
    }


def metadata_files_of(connection: Connection, purls: Iterable[Purl]) -> dict[Purl, str]:
    """The file whose metadata was read, by release; releases without one are left out."""
    row = PackageVersionRow
    query = select(row.purl, row.metadata_file).where(row.purl == any_(texts(purls)))
    return {Purl(purl): file for purl, file in connection.execute(query) if file is not None}


def licences_of(
    connection: Connection, versions: Mapping[str, str]
) -> dict[tuple[str, str], str | None]:
    """The declared licences of the given version of each package, by name and version."""
    row = PackageVersionRow
    query = select(row.name, row.version, row.license).where(
        row.name == any_(texts(versions)), row.version == any_(texts(versions.values()))
    )
    ordered = query.order_by(row.license.is_not(None), row.index_name)
    return {(name, version): licence for name, version, licence in connection.execute(ordered)}


def listings_of(
    connection: Connection, versions: Mapping[str, str]
) -> Iterator[tuple[str, ReleaseListing]]:
    """The releases of the given version of each package, on all indexes; two queries.

    :param versions: the wanted version, by package name
    :returns: pairs of a package name and the release as an index lists it
    """
    version = PackageVersionRow
    query = select(version.__table__).where(
        version.name == any_(texts(versions)), version.version == any_(texts(versions.values()))
    )
    rows = [
        row
        for row in connection.execute(query.order_by(version.name, version.index_name))
        if versions[row.name] == row.version and row.state != ReleaseState.UNREAD
    ]
    files = listed_files(connection, [row.purl for row in rows])
    for row in rows:
        known = files.get(row.purl, ())
        listing = ReleaseListing(
            index=row.index_name,
            files=tuple(file for listed, _, file in known if listed),
            gone=tuple(file for listed, _, file in known if not listed),
            complete=row.files_complete,
            yanked=row.yanked,
            yanked_reason=row.yanked_reason,
            as_of=row.as_of,
        )
        yield row.name, listing


def unread_of(
    connection: Connection, names: Collection[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Versions that the last pages of indexes list, but whose metadata was never read.

    Invalid versions are left out.

    :returns: versions by package and index, newest first; indexes without such versions are left
        out
    """
    wanted = any_(texts(sorted(names)))
    row = PackageVersionRow
    read: dict[tuple[str, str], set[str]] = defaultdict(set)
    query = select(row.name, row.index_name, row.version).where(
        row.name == wanted, row.state != ReleaseState.UNREAD.value
    )
    for name, index, version in connection.execute(query):
        read[name, index].add(version)
    pages = select(IndexProject.name, IndexProject.index_name, IndexProject.listed)
    unread: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, index, listed in connection.execute(pages.where(IndexProject.name == wanted)):
        versions = [
            (parsed, it)
            for it in set(listed) - read[name, index]
            if (parsed := version_of(it)) is not None
        ]
        if versions:
            ordered = sorted(versions, reverse=True)
            unread.setdefault(name, {})[index] = tuple(version for _, version in ordered)
    return unread
