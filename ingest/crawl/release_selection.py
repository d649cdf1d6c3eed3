"""Selects which releases of a package are read: the newest, and those that a requirement needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from common.index.project_pages import IndexFile, ProjectPage
from common.packages import version_of
from common.releases import ReleaseState
from graph.record.crawls import (
    IndexEvent,
    ProjectRow,
    QueueRow,
)
from graph.record.release_merging import KnownRelease
from ingest.crawl.crawl_request import CrawlBounds
from ingest.crawl.release_metadata import (
    INVALID_VERSION,
    NO_FILES,
    ReleaseMetadata,
    metadata_files,
    release_draft,
    told_by_record,
)
from ingest.releases.parsing import ReleaseDraft

#: Releases that are read for a requirement which none of the newest meets.
CANDIDATES = 2


@dataclass(frozen=True, slots=True)
class ListedRelease:
    """A release as an index lists it.

    :param version: normalised, or as it was written if it is not a version
    :param yanked: whether all its files are
    """

    version: str
    uploaded_at: datetime | None = None
    yanked: bool = False


def newest_first(listed: Iterable[ListedRelease]) -> list[ListedRelease]:
    """Those whose version is one, the newest first."""
    known = [(version, it) for it in listed if (version := version_of(it.version)) is not None]
    return [it for _, it in sorted(known, key=lambda pair: (pair[0], pair[1].version))[::-1]]


def newest(listed: Iterable[ListedRelease], bounds: CrawlBounds) -> list[str]:
    """The versions that are read in any case, newest first.

    Pre-releases are taken if they are asked for or if there is nothing else. Releases that
    were yanked count for nothing, but those between the others are read as well: an answer
    can then say that they are.

    >>> listed = [ListedRelease(it) for it in ("1.0", "2.0rc1", "0.9")]
    >>> newest([*listed, ListedRelease("1.1", yanked=True)], CrawlBounds(max_versions=2))
    ['1.1', '1.0', '0.9']
    """
    ordered = newest_first(listed)
    if not bounds.prereleases:
        stable = [it for it in ordered if not _is_prerelease(it.version)]
        ordered = stable if any(not it.yanked for it in stable) else ordered
    chosen, counted, yanked = [], 0, 0
    for it in ordered:
        if counted >= bounds.max_versions:
            break
        if _is_older(it, bounds.newer_than):
            continue
        yanked += it.yanked
        counted += not it.yanked
        if not it.yanked or yanked <= bounds.max_versions:
            chosen.append(it.version)
    return chosen


def invalid(listed: Iterable[ListedRelease], bounds: CrawlBounds) -> list[str]:
    """Versions that are none by PEP 440, at most as many as others: kept, never chosen."""
    names = sorted(it.version for it in listed if version_of(it.version) is None)
    return names[-bounds.max_versions :] if bounds.max_versions else []


def needed(
    specifiers: Iterable[str], listed: Sequence[ListedRelease], selected: Collection[str]
) -> set[str]:
    """Versions to read so that each specifier has candidates, if the index has any.

    >>> listed = [ListedRelease(version) for version in ("1.8", "1.9", "1.7", "2")]
    >>> sorted(needed(["<2", ">=1"], listed, ["2"]))
    ['1.8', '1.9']
    """
    offered = [it.version for it in listed if it.version in selected and not it.yanked]
    ordered = newest_first(listed)
    found: set[str] = set()
    for specifier in sorted(set(specifiers)):
        wanted = _specifier(specifier)
        if wanted is None or any(_meets(wanted, version) for version in (*offered, *found)):
            continue
        found.update(_candidates(wanted, ordered))
    return found - set(selected)


def _candidates(wanted: SpecifierSet, ordered: Sequence[ListedRelease]) -> list[str]:
    """The newest that are in ``wanted``: stable ones before others, yanked ones last."""
    offered = [it for it in ordered if _meets(wanted, it.version)]
    kept = [it for it in offered if not it.yanked]
    stable = [it for it in kept if not _is_prerelease(it.version)]
    return [it.version for it in (stable or kept or offered)[:CANDIDATES]]


def _meets(wanted: SpecifierSet, version: str) -> bool:
    return wanted.contains(version, prereleases=True)


@lru_cache(maxsize=65_536)
def _specifier(text: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        return None


def _is_prerelease(text: str) -> bool:
    version = version_of(text)
    return version is not None and version.is_prerelease


def _is_older(listed: ListedRelease, than: datetime | None) -> bool:
    return than is not None and listed.uploaded_at is not None and listed.uploaded_at < than


#: Events that a person should look at: a project without files that had some, and a file
#: that one page lists with two hashes.
EMPTIED, CONFLICT = "emptied", "conflicting_hash"


@dataclass(frozen=True, slots=True)
class ProjectNeeds:
    """What a crawl wants of a project.

    :param bounds: newest releases to read; ``None`` for those only that are new on the page
    :param specifiers: that have to find a release
    :param chosen: versions that were selected before in this crawl
    :param all_known: whether also what the record or the queue has of it is followed: a refresh
    :param again: whether to look once more at what was found broken, or waits after a failure
    """

    bounds: CrawlBounds | None
    specifiers: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()
    all_known: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """What to do about a project.

    :param selected: versions whose requirements are followed
    :param to_read: those of them whose metadata is not known
    :param drafts: releases that changed and need no metadata
    :param waiting: versions that failed and whose time has not come, or that were given up
    :param stale: versions in the queue that the index lists no more
    """

    selected: frozenset[str]
    to_read: tuple[str, ...]
    drafts: tuple[ReleaseDraft, ...] = ()
    waiting: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    events: tuple[IndexEvent, ...] = ()


def listed_on(page: ProjectPage) -> list[ListedRelease]:
    """The releases of a page; one without files takes nobody's place, like a yanked one."""
    return [
        ListedRelease(version, _uploaded(files), all(file.yanked for file in files))
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
    ask: ProjectNeeds,
    known: Mapping[str, KnownRelease],
    queue: Mapping[str, QueueRow],
    before: ProjectRow | None,
    now: datetime,
) -> ProjectPlan:
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
    drafts = [
        *(release_draft(index, page.name, it, page.releases[it], told[it]) for it in told),
        *(
            release_draft(index, page.name, it, (), told_by_record(known[it]))
            for it in sorted(gone)
            if it in known and it not in told and _is_read(known[it])
        ),
    ]
    return ProjectPlan(
        selected=frozenset(selected),
        to_read=tuple(sorted(unread - waiting)),
        drafts=tuple(drafts),
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
    listed: Sequence[ListedRelease],
    offered: Collection[str],
    ask: ProjectNeeds,
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
        selected |= _appeared(fresh, ask.bounds or CrawlBounds(), before)
    selected &= on_page
    return selected | needed(ask.specifiers, listed, selected)


def _appeared(listed: Sequence[ListedRelease], bounds: CrawlBounds, before: ProjectRow) -> set[str]:
    """The newest of those that were not listed before."""
    everything = newest(listed, replace(bounds, max_versions=len(listed)))
    return set([it for it in everything if it not in before.listed][: bounds.max_versions])


def _told_of_unknown(
    read: Collection[str], known: Mapping[str, KnownRelease]
) -> dict[str, ReleaseMetadata]:
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
) -> dict[str, ReleaseMetadata]:
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
