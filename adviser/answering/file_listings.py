"""Files that indexes list for releases: from the record, from the cache, or requested now."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

from adviser.provenance import IndexLocation
from common.formats.locks.entries import LockEntry
from common.index.cache import IndexCache
from common.index.client import IndexClient
from common.index.configuration import Index, configured_indexes
from common.settings import Settings
from graph.engine import Stores
from graph.record.release_queries import listings_of
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import ProjectPage
from model.packages.releases import ReleaseFile, ReleaseListing
from model.redaction import without_secrets

#: A release on an index: index, name, version.
Release = tuple[str, str, str]


def addresses_of(settings: Settings, releases: Collection[Release]) -> dict[str, str]:
    """The URL of every file of the releases, by file name.

    URLs with a user, a password or a query are left out, because these parts may be secrets.

    :raises IndexProblem: if an index does not answer
    """
    urls: dict[str, str] = {}
    pages = pages_of(settings, {(index, name) for index, name, _ in releases})
    for index, name, version in sorted(releases):
        page = pages.get((index, name))
        for file in page.files_of(version) if page else ():
            parts = urlsplit(file.url)
            if parts.username is None and not parts.query:
                urls[file.filename] = urlunsplit(parts._replace(fragment=""))
    return urls


def pages_of(
    settings: Settings, wanted: Iterable[tuple[str, str]], max_age_s: float | None = None
) -> Mapping[tuple[str, str], ProjectPage]:
    """Project pages by index and project name; missing projects are left out.

    :param wanted: pairs of index and project name; unknown indexes are ignored
    :raises IndexProblem: if an index does not answer
    """
    indexes = configured_indexes(settings)
    by_index: dict[str, list[str]] = {}
    for index, name in sorted(set(wanted)):
        if index in indexes:
            by_index.setdefault(index, []).append(name)
    return asyncio.run(_pages(settings, indexes, by_index, max_age_s))


def kept_pages(
    settings: Settings, wanted: Iterable[tuple[str, str]]
) -> Mapping[tuple[str, str], ProjectPage]:
    """Like :func:`pages_of`, but from the cache only; local folders are not cached."""
    indexes = configured_indexes(settings)
    pages = {}
    for index, name in sorted(set(wanted)):
        kept = None
        if index in indexes and not indexes[index].is_local:
            kept = IndexCache(settings.index_cache, indexes[index]).page(name)
        if kept is not None:
            pages[index, name] = kept.page
    return pages


def public_addresses(page: ProjectPage, version: str) -> dict[str, str]:
    """The URLs of a release's files, by file name, without secrets."""
    return {it.filename: without_secrets(it.url) for it in page.files_of(version) if it.url}


def places_of(settings: Settings) -> dict[str, IndexLocation]:
    """Location of each configured index, by name."""
    hosts = frozenset(settings.package_file_hosts)
    return {
        name: IndexLocation(without_secrets(it.url), hosts)
        for name, it in configured_indexes(settings).items()
    }


async def _pages(
    settings: Settings,
    indexes: Mapping[str, Index],
    by_index: Mapping[str, list[str]],
    max_age_s: float | None,
) -> dict[tuple[str, str], ProjectPage]:
    fetched = {}
    for index, names in by_index.items():
        async with IndexClient(settings, indexes[index]) as client:
            pages = await asyncio.gather(*(_page(client, it, max_age_s) for it in names))
        fetched.update(
            {(index, name): it for name, it in zip(names, pages, strict=True) if it is not None}
        )
    return fetched


async def _page(client: IndexClient, name: str, max_age_s: float | None) -> ProjectPage | None:
    try:
        return await client.project(name, max_age_s)
    except IndexProblem as error:
        if error.code is IndexFault.NOT_FOUND:
            return None
        raise


#: By package and version, the listing of each index that has it.
Listings = dict[tuple[str, str], list[ReleaseListing]]


def recorded_listings(stores: Stores, locked: Iterable[LockEntry]) -> Listings:
    """Recorded listings of locked versions, on every index that has them.

    Cached index pages list versions that are not recorded. The record has no URLs. If the lock of a
    package names URLs, cached pages supply them.
    """
    locked = tuple(locked)
    listings: Listings = defaultdict(list)
    left = {(it.name, it.version) for it in locked}
    with stores.engine.connect() as connection:
        while left:
            # A lock for several environments can have several versions of a package.
            wanted = dict(sorted(left, reverse=True))
            for name, listing in listings_of(connection, wanted):
                listings[name, wanted[name]].append(listing)
            left -= set(wanted.items())
    unrecorded = {(it.name, it.version) for it in locked} - listings.keys()
    names = {name for name, _ in unrecorded}
    known = configured_indexes(stores.settings)
    kept = kept_pages(stores.settings, ((index, name) for index in known for name in names))
    for index, name in sorted(kept):
        for version in sorted(version for other, version in unrecorded if other == name):
            if (listed := _listing(index, kept[index, name], version)) is not None:
                listings[name, version].append(listed)
    placed = {(it.name, it.version) for it in locked if any(file.url for file in it.files)}
    wanted_pages = {(it.index, key[0]) for key in placed for it in listings.get(key, ())}
    pages = kept_pages(stores.settings, wanted_pages)
    for name, version in placed & listings.keys():
        listings[name, version] = [
            replace(it, addresses=public_addresses(pages[it.index, name], version))
            if (it.index, name) in pages
            else it
            for it in listings[name, version]
        ]
    return listings


def served_listings(
    settings: Settings, stages: Mapping[LockEntry, Sequence[Collection[str]]]
) -> Listings:
    """Listings of locked versions, requested from configured indexes now.

    :param stages: indexes for each entry; a later index is read only if no earlier has the package
    :raises IndexProblem: if an index does not answer
    """
    listings: Listings = defaultdict(list)
    pages: dict[tuple[str, str], ProjectPage] = {}
    left = dict(stages)
    while left:
        wanted = {(index, it.name) for it, (first, *_) in left.items() for index in first}
        pages |= pages_of(settings, wanted - pages.keys(), max_age_s=0.0)
        left = {
            it: rest
            for it, (first, *rest) in left.items()
            if rest and not any((index, it.name) in pages for index in first)
        }
    for (index, name), page in sorted(pages.items()):
        for version in sorted({it.version for it in stages if it.name == name}):
            if (listing := _listing(index, page, version)) is not None:
                listings[name, version].append(listing)
    return listings


def _listing(index: str, page: ProjectPage, version: str) -> ReleaseListing | None:
    there = page.files_of(version)
    if not there:
        return None
    files = tuple(
        ReleaseFile(
            file.filename, file.sha256, file.kind, file.size_bytes, file.requires_python,
            file.yanked, file.yanked_reason, file.uploaded_at, file.metadata_sha256, file.attested,
        )
        for file in there
    )  # fmt: skip
    reason = next((it.yanked_reason for it in files if it.yanked_reason), None)
    yanked = all(it.yanked for it in files)
    return ReleaseListing(
        index, files, yanked=yanked, yanked_reason=reason, as_of=page.as_of,
        addresses=public_addresses(page, version),
    )  # fmt: skip
