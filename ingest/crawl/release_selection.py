"""Selects the releases of a package to read: the newest, and those that requirements need.

Combines the page of an index and metadata into releases.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from common.index.release_metadata import INVALID_VERSION, NO_FILES, metadata_files
from graph.record.crawls import IndexEvent, ProjectRow, QueueRow
from graph.record.release_merging import KnownRelease
from ingest.crawl.closure import CrawlBounds
from ingest.releases.parsing import ReleaseDraft, checked_release, public_reason
from model.errors import InvalidDocument
from model.packages.identity import version_of
from model.packages.project_pages import IndexFile, ListedVersion, ProjectPage
from model.packages.releases import (
    Release,
    ReleaseFile,
    ReleaseMetadata,
    ReleaseProblem,
    ReleaseState,
)

logger = logging.getLogger(__name__)

#: Number of releases to read for a requirement that none of the newest releases meets.
CANDIDATES = 2


def newest_first(listed: Iterable[ListedVersion]) -> list[ListedVersion]:
    """Return the releases with a valid version, the newest first."""
    known = [(version, it) for it in listed if (version := version_of(it.version)) is not None]
    return [it for _, it in sorted(known, key=lambda pair: (pair[0], pair[1].version))[::-1]]


def newest(listed: Iterable[ListedVersion], bounds: CrawlBounds) -> list[str]:
    """Return the versions within the bounds, newest first.

    Pre-releases are included if the bounds allow them or if there are no others. Yanked releases do
    not count towards the limit. Yanked releases between the selected ones are read, so that reports
    can name them.

    >>> listed = [ListedVersion(it, 1) for it in ("1.0", "2.0rc1", "0.9")]
    >>> newest([*listed, ListedVersion("1.1", 1, yanked=True)], CrawlBounds(max_versions=2))
    ['1.1', '1.0', '0.9']
    """
    ordered = newest_first(listed)
    if not bounds.prereleases:
        stable = [it for it in ordered if not _is_prerelease(it.version)]
        ordered = stable if any(it.installable for it in stable) else ordered
    chosen, counted, yanked = [], 0, 0
    for release in ordered:
        if counted >= bounds.max_versions:
            break
        uploaded_at = release.uploaded_at
        if bounds.newer_than and uploaded_at is not None and uploaded_at < bounds.newer_than:
            continue
        yanked += not release.installable
        counted += release.installable
        if release.installable or yanked <= bounds.max_versions:
            chosen.append(release.version)
    return chosen


def invalid(listed: Iterable[ListedVersion], bounds: CrawlBounds) -> list[str]:
    """Return at most ``max_versions`` versions that violate PEP 440; the resolver ignores them."""
    names = sorted(it.version for it in listed if version_of(it.version) is None)
    return names[-bounds.max_versions :] if bounds.max_versions else []


def needed_versions(
    specifiers: Iterable[str], listed: Sequence[ListedVersion], selected: Collection[str]
) -> set[str]:
    """Return the versions to read so that each specifier has candidates, if the index has any.

    >>> listed = [ListedVersion(version, 1) for version in ("1.8", "1.9", "1.7", "2")]
    >>> sorted(needed_versions(["<2", ">=1"], listed, ["2"]))
    ['1.8', '1.9']
    """
    offered = [it.version for it in listed if it.version in selected and it.installable]
    ordered = newest_first(listed)
    versions: set[str] = set()
    for specifier in sorted(set(specifiers)):
        wanted = _specifier(specifier)
        if wanted is None or any(_meets(wanted, version) for version in (*offered, *versions)):
            continue
        # The newest ones; stable releases first, yanked releases last.
        meeting = [it for it in ordered if _meets(wanted, it.version)]
        kept = [it for it in meeting if it.installable]
        stable = [it for it in kept if not _is_prerelease(it.version)]
        versions.update(it.version for it in (stable or kept or meeting)[:CANDIDATES])
    return versions - set(selected)


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


#: Kinds of events that need attention: a project lost all its files; a page lists a file with two
#: hashes.
EMPTIED, CONFLICT = "emptied", "conflicting_hash"


@dataclass(frozen=True, slots=True)
class ProjectNeeds:
    """The releases of a project that a crawl needs.

    :param bounds: bounds for the newest releases; ``None`` to read only releases that are new on
        the page
    :param specifiers: each must be met by a release
    :param chosen: versions that were selected earlier in this crawl
    :param all_known: whether releases in the record and in the queue are followed, as in a refresh
    :param again: whether releases are read again that were broken or wait after a failure
    """

    bounds: CrawlBounds | None
    specifiers: frozenset[str] = frozenset()
    chosen: frozenset[str] = frozenset()
    all_known: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class ProjectPlan:
    """The decisions of a crawl about a project.

    :param selected: versions whose requirements are followed
    :param to_read: selected versions whose metadata is unknown
    :param drafts: changed releases whose metadata need not be read
    :param waiting: versions that failed and are not due yet, or were given up
    :param stale: versions in the queue that the index no longer lists
    """

    selected: frozenset[str]
    to_read: tuple[str, ...]
    drafts: tuple[ReleaseDraft, ...] = ()
    waiting: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    events: tuple[IndexEvent, ...] = ()


def offered_on(page: ProjectPage) -> set[str]:
    """Return the versions of a page that have files."""
    return {version for version, it in page.listed.items() if it.file_count}


def as_listed(
    known: Mapping[str, KnownRelease], versions: Collection[str]
) -> dict[str, KnownRelease]:
    """Return ``known`` by version, spelled as on the page."""
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
    """Decide which releases to read; draft documents for changed releases that need no reading.

    :param known: releases in the record, by version
    :param queue: queued releases of the project, by version
    :param before: the project at the last answer of the index
    """
    listed, offered = tuple(page.listed.values()), offered_on(page)
    selected = _selected(listed, offered, ask, known, queue, before)
    unread = {
        it for it in selected if needs_reading(known.get(it), it, page.releases[it], ask.again)
    }
    waiting = {it for it in unread if it in queue and not (ask.again or queue[it].is_due(now))}
    gone = set() if before is None else set(before.listed) - offered
    # Releases that have no file to read.
    metadata = {
        it: NO_FILES if version_of(it) else INVALID_VERSION
        for it in sorted(selected - unread)
        if it not in known or not _is_read(known[it])
    }
    metadata |= _with_changed_files(page, known, before, unread - waiting)
    drafts = [
        *(release_draft(index, page.name, it, page.releases[it], metadata[it]) for it in metadata),
        *(
            release_draft(index, page.name, it, (), metadata_of_record(known[it]))
            for it in sorted(gone)
            if it in known and it not in metadata and _is_read(known[it])
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

    Known requirements are read again only if they come from a solver instead of the index. If the
    last file was broken, the release is read again only if another file, such as a new wheel,
    becomes the first choice. Releases with an invalid version are never read.

    :param again: whether a broken file is read again
    """
    if known is not None and known.requirements_known and not known.from_solver:
        return False
    candidates = metadata_files(files) if version_of(version) else []
    if not candidates:
        return False
    if again or known is None or known.state is ReleaseState.UNREAD:
        return True
    return known.metadata_file != candidates[0].filename


def _selected(
    listed: Sequence[ListedVersion],
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
        # The newest versions that were not listed before.
        fresh = [it for it in listed if it.version in offered]
        bounds = ask.bounds or CrawlBounds()
        everything = newest(fresh, replace(bounds, max_versions=len(fresh)))
        appeared = [it for it in everything if it not in before.listed]
        selected.update(appeared[: bounds.max_versions])
    selected &= on_page
    return selected | needed_versions(ask.specifiers, listed, selected)


def _with_changed_files(
    page: ProjectPage,
    known: Mapping[str, KnownRelease],
    before: ProjectRow | None,
    read: Collection[str],
) -> dict[str, ReleaseMetadata]:
    """Return the metadata of known releases, except ``read``, whose files may have changed."""
    same = before is not None and before.page_digest == page.digest
    return {
        it: metadata_of_record(known[it])
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
    """Return the releases that appeared or vanished since the last answer of the index."""
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
    """Return an event for each file that has two hashes on the page, if the page changed."""
    if before is not None and before.page_digest == page.digest:
        return []
    return [
        IndexEvent(
            CONFLICT, index, page.name, version, {"file": file, "known": first, "offered": other}
        )
        for version, file, first, other in page.conflicts
    ]


def metadata_of_record(known: KnownRelease) -> ReleaseMetadata:
    """Return the metadata in the record; metadata from a solver counts as unknown."""
    if known.from_solver:
        return ReleaseMetadata(
            metadata_file=known.metadata_file, problem=ReleaseProblem.NOT_RECORDED
        )
    return ReleaseMetadata(
        requires_dist=known.requirements_raw if known.requirements_known else None,
        requires_python=known.requires_python,
        provides_extra=known.extras,
        license=known.license,
        metadata_source=known.metadata_source,
        metadata_file=known.metadata_file,
        problem=None if known.problem is None else ReleaseProblem(known.problem),
        problem_message=known.problem_message,
        imports=known.imports,
    )


def release_draft(
    index: str, name: str, version: str, files: Iterable[IndexFile], metadata: ReleaseMetadata
) -> ReleaseDraft:
    """A release with all files that the index lists."""
    listed: list[ReleaseFile] = []
    for file in files:
        values = {it.name: getattr(file, it.name) for it in fields(ReleaseFile)} | {
            "requires_python": file.requires_python or None,
            "yanked_reason": public_reason(file.yanked_reason) if file.yanked else None,
        }
        if file.uploaded_at is not None and file.uploaded_at.year <= 1:
            values["uploaded_at"] = None
        listed.append(ReleaseFile(**values))
    return ReleaseDraft(name, version, index, metadata, listed, files_complete=True)


def release_from(draft: ReleaseDraft) -> Release | None:
    """The checked release; if it is refused, a release that contains only the problem.

    :returns: ``None`` if even its name or version is invalid
    """
    try:
        return checked_release(draft)
    except InvalidDocument as error:
        reason = str(error)
    try:
        return checked_release(refused_draft(draft, reason))
    except InvalidDocument:
        logger.warning("release_refused", extra={"package": draft.name, "cause": reason})
        return None


def refused_draft(draft: ReleaseDraft, reason: str) -> ReleaseDraft:
    """A draft that replaces a refused one, so that the record contains the release."""
    problem = ReleaseMetadata(problem=ReleaseProblem.BROKEN_METADATA, problem_message=reason)
    return ReleaseDraft(draft.name, draft.version, draft.index, problem)
