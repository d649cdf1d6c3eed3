"""What the record should have of a release, as far as one of its documents says."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from sqlalchemy import Connection, any_, func, select

from common.releases import Release, ReleaseFile
from graph.repositories.affected import texts
from graph.repositories.merging import PARTS, HashAlarm, KnownRelease, mark_of, part_of
from graph.tables import Document, PackageEvent, PackageVersionRow


def corrected(
    known: KnownRelease, release: Release, alarms: Collection[HashAlarm] = ()
) -> KnownRelease:
    """``known``, with every part as ``release`` says it whose rank names its document.

    Parts that another delivery told are left as they are.

    :param release: in the record's spelling, with the identifier of its stored document
    :param alarms: that were raised; the record keeps the file that it knew before
    """
    mark = mark_of(release.document_id)
    told = {
        name: value
        for part in PARTS
        if getattr(known.ranks, part).endswith(mark)
        for name, value in part_of(release, part).items()
    }
    offered = {it.filename: it for it in release.files}
    whole_list = known.ranks.files.endswith(mark)
    files = {}
    for name in {**known.files, **(offered if whole_list else {})}:
        told_here = known.added[name].endswith(mark) if name in known.added else whole_list
        if told_here and name in offered:
            files[name] = _file(known, known.files.get(name), offered[name], alarms)
        elif not told_here:
            files[name] = known.files[name]
    return replace(
        known,
        name=release.name,
        version=release.version,
        index=release.index,
        files=files,
        gone={name: it for name, it in known.gone.items() if name not in files},
        **told,
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
    """Alarms about files of some releases."""
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


def untold(connection: Connection, releases: Collection[KnownRelease]) -> list[KnownRelease]:
    """Releases with a part that no stored document told, or of which nobody told anything."""
    marks = {it.purl: _marks(it) for it in releases}
    column = func.right(Document.document_id, len(mark_of("sha256:" + "0" * 64)))
    wanted = {mark for some in marks.values() for mark in some}
    query = select(column).where(Document.kind == "release", column == any_(texts(wanted)))
    stored = set(connection.scalars(query)) if wanted else set()
    return [it for it in releases if not it.ranks.listing or not marks[it.purl] <= stored]


def _marks(known: KnownRelease) -> set[str]:
    """What ranks name, but for the document that spoke last: that one is a foreign key."""
    ranks = {rank for rank in (*known.ranks, *known.added.values()) if rank}
    return {rank.rpartition(" ")[2] for rank in ranks} - {mark_of(known.document_id or "")}


def spoken_last(connection: Connection, document_ids: Collection[str]) -> list[tuple[str, str]]:
    """Documents that are said to have spoken last, with the package URL of which release."""
    version = PackageVersionRow
    query = select(version.release_document_id, version.purl).where(
        version.release_document_id == any_(texts(document_ids))
    )
    return [(str(row[0]), row[1]) for row in connection.execute(query)]
