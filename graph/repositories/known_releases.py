"""Releases as the record has them, read back whole."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    literal,
    select,
)

from common.packages import Purl
from common.releases import Release, ReleaseFile, ReleaseState, Requirement
from graph.repositories.merging import KnownRelease, Ranks
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

#: Whether the index offers a file, the rank of the list that told it, and the file.
_Listed = tuple[bool, str | None, ReleaseFile]


def known_releases(connection: Connection, index_name: str, name: str) -> dict[str, KnownRelease]:
    """Every release of a package that an index is known to serve, by version; three queries."""
    version = PackageVersionRow
    query = select(version.__table__).where(version.index_name == index_name, version.name == name)
    return {known.version: known for known in _read(connection, query).values()}


@dataclass(frozen=True, slots=True)
class StoredReleases:
    """What the record has of some releases.

    :param locked: by package URL
    :param spelt: package URL and version of those that are known by others than their own
    """

    locked: dict[str, KnownRelease]
    spelt: dict[str, tuple[Purl, str]]

    def as_known(self, release: Release) -> Release:
        """``release`` as the record spells it: an index serves 1.0 and 1.0.0 as one."""
        if release.purl not in self.spelt:
            return release
        purl, version = self.spelt[release.purl]
        return replace(release, purl=purl, version=version)


def stored_releases(
    connection: Connection, releases: Iterable[Release], *, lock: bool = True
) -> StoredReleases:
    """What is in the record of ``releases``, locked in the order of package URLs until the end.

    :param lock: ``False`` for who only reads
    """
    wanted = {release.purl: release.version for release in releases}
    spellings = {purl: spellings_of(purl) for purl in wanted}
    known = PackageVersionRow
    query = select(known.purl, known.version).where(
        _among(known.purl, [it for some in spellings.values() for it in some])
    )
    there: dict[str, str] = {row.purl: row.version for row in connection.execute(query)}
    first: dict[str, tuple[Purl, str]] = {}
    for purl, version in sorted(there.items()):
        first.setdefault(spellings_of(purl)[0], (Purl(purl), version))
    spelt: dict[str, tuple[Purl, str]] = {}
    for purl, version in wanted.items():
        if purl not in there:
            as_first = first.setdefault(spellings[purl][0], (purl, version))
            if as_first[0] != purl:
                spelt[purl] = as_first
    known_as = {spelt[purl][0] if purl in spelt else purl for purl in wanted}
    return StoredReleases(_locked(connection, sorted(known_as & there.keys()), lock), spelt)


#: A package URL up to the last digit of the release number that is no final zero, and these.
_NUMBER = re.compile(r"([^@]*@(?:\d+%21)?\d+(?:\.\d+)*?)((?:\.0)*)(?!\.?\d)")
#: Numbers that an index may have filled up with zeros have at most so many parts.
_PARTS = 4


def spellings_of(purl: str) -> list[str]:
    """Package URLs of versions that are equal to that of ``purl``, the shortest first.

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


def _locked(connection: Connection, purls: Sequence[str], lock: bool) -> dict[str, KnownRelease]:
    query = (
        select(PackageVersionRow.__table__)
        .where(_among(PackageVersionRow.purl, purls))
        .order_by(collate(PackageVersionRow.purl, "C"))
    )
    return _read(connection, query.with_for_update(key_share=True) if lock else query)


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


def _files(connection: Connection, purls: Sequence[str]) -> dict[str, tuple[_Listed, ...]]:
    query = (
        select(ReleaseFileRow.purl, ReleaseFileRow.listed, ReleaseFileRow.rank, *_FILE_COLUMNS)
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
    row: Any, requirements: tuple[Requirement, ...], files: Sequence[_Listed]
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
        files={file.filename: file for listed, _, file in files if listed},
        gone={file.filename: file for listed, _, file in files if not listed},
        added={file.filename: rank for _, rank, file in files if rank is not None},
        as_of=row.as_of,
        ranks=Ranks(*row.ranks[: len(Ranks._fields)]),
    )
