"""Reads releases from the record, to merge them with new deliveries and to verify them."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Text,
    any_,
    collate,
    func,
    literal,
    select,
)

from graph.record.postgresql_helpers import columns_for, texts
from graph.record.release_merging import PARTS, HashAlarm, KnownRelease, Ranks, mark_of, part_of
from graph.tables import Document, PackageEvent, PackageVersionRow, ReleaseFileRow, RequirementRow
from model.packages.identity import Purl
from model.packages.import_names import ImportNames, ImportSource
from model.packages.releases import Release, ReleaseFile, ReleaseState, Requirement

FILE_COLUMNS = columns_for(ReleaseFile, ReleaseFileRow)
_REQUIREMENT_COLUMNS = columns_for(Requirement, RequirementRow)

#: Columns that have the name and the value of a field of :class:`KnownRelease`.
_SAME_COLUMNS = (
    "problem", "problem_message", "requires_python", "license", "yanked", "yanked_reason",
    "uploaded_at", "metadata_source", "metadata_file", "as_of",
)  # fmt: skip

#: Whether the index offers a file, the rank of its list, and the file.
ListedFile = tuple[bool, str | None, ReleaseFile]


def known_releases(connection: Connection, index_name: str, name: str) -> dict[str, KnownRelease]:
    """All known releases of a package on an index, by version; three queries."""
    version = PackageVersionRow
    query = select(version.__table__).where(version.index_name == index_name, version.name == name)
    return {known.version: known for known in _read(connection, query).values()}


def last_answers(
    connection: Connection, index_name: str, names: Collection[str]
) -> dict[tuple[str, str], datetime]:
    """When an index last answered about releases whose metadata is known, by name and version."""
    row = PackageVersionRow
    query = select(row.name, row.version, row.as_of).where(
        row.index_name == index_name,
        row.name == any_(texts(names)),
        row.state != ReleaseState.UNREAD.value,
    )
    rows = connection.execute(query)
    return {(name, version): as_of for name, version, as_of in rows if as_of is not None}


@dataclass(frozen=True, slots=True)
class StoredReleases:
    """Releases in the record.

    :param locked: releases by package URL
    :param stored_as: stored package URL and version of releases with another spelling, by package
        URL
    """

    locked: dict[str, KnownRelease]
    stored_as: dict[str, tuple[Purl, str]]

    def as_known(self, release: Release) -> Release:
        """``release`` as the record spells its version: 1.0 and 1.0.0 are the same release."""
        if release.purl not in self.stored_as:
            return release
        purl, version = self.stored_as[release.purl]
        return replace(release, purl=purl, version=version)


def stored_releases(
    connection: Connection, releases: Iterable[Release], *, lock: bool = True
) -> StoredReleases:
    """Read ``releases`` and lock them until the transaction ends, in the order of package URLs.

    :param lock: ``False`` for reading only
    """
    wanted = {release.purl: release.version for release in releases}
    spellings = {purl: spellings_of(purl) for purl in wanted}
    known = PackageVersionRow
    query = select(known.purl, known.version).where(
        _among(known.purl, [it for purls in spellings.values() for it in purls])
    )
    stored: dict[str, str] = {row.purl: row.version for row in connection.execute(query)}
    #: Spelling in the record by shortest spelling; a new release keeps the first delivered
    #: spelling.
    first: dict[str, tuple[Purl, str]] = {}
    for purl, version in sorted(stored.items()):
        first.setdefault(spellings_of(purl)[0], (Purl(purl), version))
    stored_as: dict[str, tuple[Purl, str]] = {}
    for purl, version in wanted.items():
        if purl not in stored:
            spelling = first.setdefault(spellings[purl][0], (purl, version))
            if spelling[0] != purl:
                stored_as[purl] = spelling
    purls = {stored_as[purl][0] if purl in stored_as else purl for purl in wanted}
    rows = (
        select(known.__table__)
        .where(_among(known.purl, sorted(purls & stored.keys())))
        .order_by(collate(known.purl, "C"))
    )
    rows = rows.with_for_update(key_share=True) if lock else rows
    return StoredReleases(_read(connection, rows), stored_as)


#: A package URL up to the last significant number of the version, then its trailing zeros.
_NUMBER = re.compile(r"([^@]*@(?:\d+%21)?\d+(?:\.\d+)*?)((?:\.0)*)(?!\.?\d)")
#: Versions are padded with zeros to at most this many numbers.
_PARTS = 4


def spellings_of(purl: str) -> list[str]:
    """Package URLs of all spellings of the version in ``purl``, the shortest first.

    >>> spellings_of("pkg:pypi/flask@2.0rc1?index=builds")[:2]
    ['pkg:pypi/flask@2rc1?index=builds', 'pkg:pypi/flask@2.0rc1?index=builds']
    >>> spellings_of("pkg:pypi/flask@10.1.2.3")
    ['pkg:pypi/flask@10.1.2.3']
    """
    number = _NUMBER.match(purl)
    if number is None:
        return [purl]
    head, zeros, rest = number[1], len(number[2]) // 2, purl[number.end() :]
    most = max(zeros, _PARTS - 1 - head.rpartition("@")[2].count("."))
    return [f"{head}{'.0' * count}{rest}" for count in range(most + 1)]


def _among(column: Any, keys: Sequence[str]) -> ColumnElement[bool]:
    among: ColumnElement[bool] = column == any_(literal(list(keys), ARRAY(Text)))
    return among


def _read(connection: Connection, query: Select[Any]) -> dict[str, KnownRelease]:
    rows = connection.execute(query).all()
    if not rows:
        return {}
    purls = [row.purl for row in rows]
    requirements = requirements_of(connection, purls)
    files = listed_files(connection, purls)
    return {
        row.purl: _known(row, requirements.get(row.purl, ()), files.get(row.purl, ()))
        for row in rows
    }


def requirements_of(
    connection: Connection, purls: Sequence[str]
) -> dict[str, tuple[Requirement, ...]]:
    """The requirements of releases in the order of their metadata, by package URL."""
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


def listed_files(connection: Connection, purls: Sequence[str]) -> dict[str, tuple[ListedFile, ...]]:
    """The files of releases by package URL, sorted by name; one query."""
    query = (
        select(ReleaseFileRow.purl, ReleaseFileRow.listed, ReleaseFileRow.rank, *FILE_COLUMNS)
        .where(_among(ReleaseFileRow.purl, purls))
        .order_by(ReleaseFileRow.purl, ReleaseFileRow.filename)
    )
    return {
        purl: tuple((row[1], row[2], ReleaseFile(*row[3:])) for row in rows)
        for purl, rows in _grouped(connection, query)
    }


def _grouped(connection: Connection, query: Any) -> Iterator[tuple[str, Iterator[Any]]]:
    return groupby(connection.execute(query), lambda row: str(row[0]))


def _known(
    row: Any, requirements: tuple[Requirement, ...], files: Sequence[ListedFile]
) -> KnownRelease:
    return KnownRelease(
        purl=Purl(row.purl),
        name=row.name,
        version=row.version,
        index=row.index_name,
        state=ReleaseState(row.state),
        document_id=row.release_document_id,
        requirements=requirements,
        extras=tuple(row.extras),
        imports=_import_names(row.imports, row.imports_source),
        files={file.filename: file for listed, _, file in files if listed},
        gone={file.filename: file for listed, _, file in files if not listed},
        added={file.filename: rank for _, rank, file in files if rank is not None},
        ranks=Ranks(*row.ranks[: len(Ranks._fields)]),
        **{name: getattr(row, name) for name in _SAME_COLUMNS},
    )


def _import_names(names: Sequence[str] | None, source: str | None) -> ImportNames | None:
    """The recorded import names; ``None`` also if somebody wrote an invalid source into the row."""
    if names is None or source is None or source not in list(ImportSource):
        return None
    return ImportNames(tuple(names), ImportSource(source))


def correct_release(
    known: KnownRelease, release: Release, alarms: Collection[HashAlarm] = ()
) -> KnownRelease:
    """Replace the parts of ``known`` that come from the document of ``release``.

    Parts from other deliveries are kept.

    :param release: in the spelling of the record, with the identifier of its stored document
    :param alarms: raised alarms; the record keeps the earlier files that caused the alarms
    """
    mark = mark_of(release.document_id)
    parts = {
        name: value
        for part in PARTS
        if getattr(known.ranks, part).endswith(mark)
        for name, value in part_of(release, part).items()
    }
    offered = {it.filename: it for it in release.files}
    whole_list = known.ranks.files.endswith(mark)
    files = {}
    for name in {**known.files, **(offered if whole_list else {})}:
        from_document = known.added[name].endswith(mark) if name in known.added else whole_list
        if not from_document:
            files[name] = known.files[name]
        elif name in offered:
            files[name] = _file(known, known.files.get(name), offered[name], alarms)
    return replace(
        known,
        name=release.name,
        version=release.version,
        index=release.index,
        files=files,
        gone={name: it for name, it in known.gone.items() if name not in files},
        **parts,
    )


def _file(
    owner: KnownRelease,
    known: ReleaseFile | None,
    offered: ReleaseFile,
    alarms: Collection[HashAlarm],
) -> ReleaseFile:
    if known is None:
        return offered
    if known.sha256 and offered.sha256 and known.sha256 != offered.sha256:
        alarm = HashAlarm(owner.purl, known.filename, known.sha256, offered.sha256)
        return known if alarm in alarms else offered
    return replace(offered, sha256=offered.sha256 or known.sha256)


def raised_alarms(connection: Connection, releases: Iterable[KnownRelease]) -> set[HashAlarm]:
    """Raised alarms about files of these releases."""
    purls = {(it.index, it.name, it.version): it.purl for it in releases}
    event = PackageEvent
    query = select(event.index_name, event.name, event.version, event.detail).where(
        event.kind == "changed_hash", event.name == any_(texts({name for _, name, _ in purls}))
    )
    return {
        HashAlarm(purls[row[0], row[1], row[2]], *map(row[3].get, ("file", "known", "offered")))
        for row in connection.execute(query)
        if (row[0], row[1], row[2]) in purls
    }


def without_source(
    connection: Connection, releases: Collection[KnownRelease]
) -> list[KnownRelease]:
    """Releases with a part that comes from no stored document, or with more ranks than parts."""
    marks = {it.purl: _marks(it) for it in releases}
    column = func.right(Document.document_id, len(mark_of("sha256:" + "0" * 64)))
    wanted = {mark for of_release in marks.values() for mark in of_release}
    query = select(column).where(Document.kind == "release", column == any_(texts(wanted)))
    stored = set(connection.scalars(query)) if wanted else set()
    more = select(PackageVersionRow.purl).where(
        PackageVersionRow.purl == any_(texts(marks)),
        func.cardinality(PackageVersionRow.ranks) > len(Ranks._fields),
    )
    too_many = set(connection.scalars(more))
    return [
        it
        for it in releases
        if not it.ranks.listing or not marks[it.purl] <= stored or it.purl in too_many
    ]


def _marks(known: KnownRelease) -> set[str]:
    """Marks of the documents in the ranks, except the latest document, which has a foreign key."""
    ranks = {rank for rank in (*known.ranks, *known.added.values()) if rank}
    return {rank.rpartition(" ")[2] for rank in ranks} - {mark_of(known.document_id or "")}


def latest_documents(
    connection: Connection, document_ids: Collection[str]
) -> list[tuple[str, str]]:
    """Pairs of a document and the package URL of the release whose latest document it is."""
    version = PackageVersionRow
    query = select(version.release_document_id, version.purl).where(
        version.release_document_id == any_(texts(document_ids))
    )
    return [(str(row[0]), row[1]) for row in connection.execute(query)]
