"""Files of releases as the record has them, for locks and for checks of locks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import ARRAY, CollectionAggregate, Connection, Text, any_, literal, select

from common.packages import Purl
from common.releases import ReleaseFile, ReleaseState
from graph.tables import PackageVersionRow, ReleaseFileRow

_COLUMNS = (
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


def files_of(connection: Connection, purls: Iterable[Purl]) -> dict[Purl, tuple[ReleaseFile, ...]]:
    """The files that indexes offer of some releases, by name; one query."""
    query = (
        select(ReleaseFileRow.purl, *_COLUMNS)
        .where(ReleaseFileRow.purl == _any(purls))
        .where(ReleaseFileRow.listed)
        .order_by(ReleaseFileRow.purl, ReleaseFileRow.filename)
    )
    rows = groupby(connection.execute(query), lambda row: Purl(row[0]))
    return {purl: tuple(ReleaseFile(*row[1:]) for row in files) for purl, files in rows}


@dataclass(frozen=True, slots=True)
class RecordedListing:
    """A release with its files, as the record has it of one index.

    :param gone: files that the index offered once
    :param complete: whether all of its files are known
    """

    name: str
    index: str
    files: tuple[ReleaseFile, ...]
    gone: tuple[ReleaseFile, ...]
    complete: bool
    yanked: bool
    yanked_reason: str | None
    as_of: datetime | None


def recorded_listings(connection: Connection, versions: Mapping[str, str]) -> list[RecordedListing]:
    """One version of each of some packages, on every index that has it; two queries."""
    version = PackageVersionRow
    rows = [
        row
        for row in connection.execute(
            select(
                version.purl,
                version.name,
                version.version,
                version.index_name,
                version.state,
                version.files_complete,
                version.yanked,
                version.yanked_reason,
                version.as_of,
            )
            .where(version.name == _any(versions), version.version == _any(versions.values()))
            .order_by(version.name, version.index_name)
        )
        if versions[row.name] == row.version and row.state != ReleaseState.UNREAD
    ]
    files: dict[str, list[tuple[bool, ReleaseFile]]] = defaultdict(list)
    for purl, listed, *facts in connection.execute(
        select(ReleaseFileRow.purl, ReleaseFileRow.listed, *_COLUMNS)
        .where(ReleaseFileRow.purl == _any(row.purl for row in rows))
        .order_by(ReleaseFileRow.purl, ReleaseFileRow.filename)
    ):
        files[purl].append((listed, ReleaseFile(*facts)))
    return [
        RecordedListing(
            name=row.name,
            index=row.index_name,
            files=tuple(file for listed, file in files[row.purl] if listed),
            gone=tuple(file for listed, file in files[row.purl] if not listed),
            complete=row.files_complete,
            yanked=row.yanked,
            yanked_reason=row.yanked_reason,
            as_of=row.as_of,
        )
        for row in rows
    ]


def _any(values: Iterable[str]) -> CollectionAggregate[Any]:
    return any_(literal(sorted(set(values)), ARRAY(Text)))
