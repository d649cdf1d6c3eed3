"""What is to be done about one project, by its page and by what the record knows of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from common.index.project_pages import IndexFile, ProjectPage
from common.packages import version_of
from common.releases import ReleaseState
from graph.record.crawls import (
    IndexEvent,
    ProjectRow,
    QueueRow,
)
from graph.record.release_merging import KnownRelease
from ingest.crawl.bounds import Bounds
from ingest.crawl.files import metadata_files
from ingest.crawl.release_documents import (
    INVALID_VERSION,
    NO_FILES,
    Told,
    release_document,
    told_by_record,
)
from ingest.crawl.selection import Listed, invalid, needed, newest

#: Events that a person should look at: a project without files that had some, and a file
#: that one page lists with two hashes.
EMPTIED, CONFLICT = "emptied", "conflicting_hash"


@dataclass(frozen=True, slots=True)
class Ask:
    """What a crawl wants of a project.

    :param bounds: newest releases to read; ``None`` for those only that are new on the page
    :param specifiers: that have to find a release
    :param chosen: versions that were selected before in this crawl
    :param all_known: whether also what the record or the queue has of it is followed: a refresh
    :param again: whether to look once more at what was found broken, or waits after a failure
    """

    bounds: Bounds | None
    specifiers: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()
    all_known: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a project.

    :param selected: versions whose requirements are followed
    :param to_read: those of them whose metadata is not known
    :param documents: releases of which the page alone tells something new
    :param waiting: versions that failed and whose time has not come, or that were given up
    :param stale: versions in the queue that the index lists no more
    """

    selected: frozenset[str]
    to_read: tuple[str, ...]
    documents: tuple[dict[str, Any], ...] = ()
    waiting: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    events: tuple[IndexEvent, ...] = ()


def listed_on(page: ProjectPage) -> list[Listed]:
    """The releases of a page; one without files takes nobody's place, like a yanked one."""
    return [
        Listed(version, _uploaded(files), all(file.yanked for file in files))
        for version, files in page.releases.items()
    ]


def offered_on(page: ProjectPage) -> set[str]:
    """The releases of a page that have files."""
    return {version for version, files in page.releases.items() if files}


def as_listed(
    known: Mapping[str, KnownRelease], versions: Collection[str]
) -> dict[str, KnownRelease]:
    """``known`` by the versions as a page spells them, where it spells equal ones otherwise."""
    listed = {version_of(it): it for it in versions if version_of(it) is not None}
    return {listed.get(version_of(it), it): release for it, release in known.items()} | {
        it: known[it] for it in known.keys() & set(versions)
    }


def plan(
    index: str,
    page: ProjectPage,
    ask: Ask,
    known: Mapping[str, KnownRelease],
    queue: Mapping[str, QueueRow],
    before: ProjectRow | None,
    now: datetime,
) -> Plan:
    """Choose what to read, and write what need not be read.

    :param known: releases in the record, by version
    :param queue: releases of the project that wait to be read
    :param before: the project as the index answered last
    """
    listed, offered = listed_on(page), offered_on(page)
    selected = _selected(listed, offered, ask, known, queue, before)
    unread = {
        it for it in selected if needs_reading(known.get(it), it, page.releases[it], ask.again)
    }
    waiting = {it for it in unread if it in queue and not (ask.again or queue[it].is_due(now))}
    gone = set() if before is None else set(before.listed) - offered
    told = _told_of_unknown(selected - unread, known)
    told |= _told_again(page, known, before, unread - waiting)
    documents = [
        *(release_document(index, page.name, it, page.releases[it], told[it]) for it in told),
        *(
            release_document(index, page.name, it, (), told_by_record(known[it]))
            for it in sorted(gone)
            if it in known and it not in told and _is_read(known[it])
        ),
    ]
    return Plan(
        selected=frozenset(selected),
        to_read=tuple(sorted(unread - waiting)),
        documents=tuple(documents),
        waiting=tuple(sorted(waiting)),
        stale=tuple(sorted(queue.keys() - (unread if ask.all_known else offered))),
        events=(*_conflicts(index, page, before), *_events(index, page, offered, before, gone)),
    )


def needs_reading(
    known: KnownRelease | None, version: str, files: Sequence[IndexFile], again: bool = False
) -> bool:
    """Whether the metadata of a release has to be read.

    What was read once is never read again; what only a solver told was not read. A file that
    was looked at in vain is not either: only when another one is the first choice, such as a
    wheel that was added later. Nor is that of a version which is none: it could not be chosen.

    :param again: whether to look at a file again that was looked at in vain
    """
    if known is not None and known.requirements_known and not known.told_by_solver:
        return False
    candidates = metadata_files(files) if version_of(version) else []
    if not candidates:
        return False
    if again or known is None or known.state is ReleaseState.UNREAD:
        return True
    return known.metadata_file != candidates[0].filename


def _selected(
    listed: Sequence[Listed],
    offered: Collection[str],
    ask: Ask,
    known: Mapping[str, KnownRelease],
    queue: Mapping[str, QueueRow],
    before: ProjectRow | None,
) -> set[str]:
    on_page = {it.version for it in listed}
    selected = set(ask.chosen)
    if ask.all_known:
        selected |= known.keys() | queue.keys()
    if ask.bounds is not None:
        selected |= {*newest(listed, ask.bounds), *invalid(listed, ask.bounds)}
    if ask.all_known and before is not None:
        fresh = [it for it in listed if it.version in offered]
        selected |= _appeared(fresh, ask.bounds or Bounds(), before)
    selected &= on_page
    return selected | needed(ask.specifiers, listed, selected)


def _appeared(listed: Sequence[Listed], bounds: Bounds, before: ProjectRow) -> set[str]:
    """The newest of those that were not listed before."""
    everything = newest(listed, replace(bounds, max_versions=len(listed)))
    return set([it for it in everything if it not in before.listed][: bounds.max_versions])


def _told_of_unknown(read: Collection[str], known: Mapping[str, KnownRelease]) -> dict[str, Told]:
    """Releases of which there is nothing to read."""
    return {
        it: NO_FILES if version_of(it) else INVALID_VERSION
        for it in sorted(read)
        if it not in known or not _is_read(known[it])
    }


def _told_again(
    page: ProjectPage,
    known: Mapping[str, KnownRelease],
    before: ProjectRow | None,
    read: Collection[str],
) -> dict[str, Told]:
    """Releases in the record whose files may have changed, less those that are ``read`` now."""
    same = before is not None and before.page_digest == page.digest
    return {
        it: told_by_record(known[it])
        for it in sorted(known.keys() & page.releases.keys() - set(read))
        if _is_read(known[it]) and not (same and known[it].files_complete)
    }


def _is_read(known: KnownRelease) -> bool:
    return known.state is not ReleaseState.UNREAD


def _events(
    index: str,
    page: ProjectPage,
    offered: Collection[str],
    before: ProjectRow | None,
    gone: Collection[str],
) -> list[IndexEvent]:
    """What appeared and what vanished since the index answered last."""
    if before is None or before.page_digest is None:
        return []
    appeared = sorted(set(offered) - before.listed)
    emptied = [IndexEvent(EMPTIED, index, page.name, "", {"releases": len(gone)})]
    return [
        *(emptied if gone and not offered else ()),
        *(IndexEvent("new_release", index, page.name, version) for version in appeared),
        *(IndexEvent("removed", index, page.name, version) for version in sorted(gone)),
    ]


def _conflicts(index: str, page: ProjectPage, before: ProjectRow | None) -> list[IndexEvent]:
    """Files with two hashes, told when the page is another than before."""
    if before is not None and before.page_digest == page.digest:
        return []
    return [
        IndexEvent(
            CONFLICT, index, page.name, version, {"file": file, "known": first, "offered": other}
        )
        for version, file, first, other in page.conflicts
    ]


def _uploaded(files: Sequence[IndexFile]) -> datetime | None:
    return min((file.uploaded_at for file in files if file.uploaded_at), default=None)
