"""What indexes have of a lock's versions: as the record has it, or as they serve it now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from adviser.answering.addresses import kept_pages, pages_of, public_addresses
from adviser.provenance import Listing
from common.formats.locks import LockEntry
from common.index.project_pages import ProjectPage
from common.releases import ReleaseFile
from common.settings import Settings
from graph.engine import Stores
from graph.record.release_details import listings_of

#: By package and version, what each index that has it serves.
Listings = dict[tuple[str, str], list[Listing]]


def recorded_listings(stores: Stores, locked: Iterable[LockEntry]) -> Listings:
    """What the record has of the locked versions, on every index that has them.

    It has no addresses: of files that a lock gives an address they are as the index said last.
    """
    locked = tuple(locked)
    found: Listings = defaultdict(list)
    left = {(it.name, it.version) for it in locked}
    with stores.engine.connect() as connection:
        while left:
            # A lock for several environments may have several versions of a package.
            wanted = dict(sorted(left, reverse=True))
            for it in listings_of(connection, wanted):
                found[it.name, wanted[it.name]].append(
                    Listing(
                        it.index, it.files, it.gone, it.complete, it.yanked, it.yanked_reason,
                        it.as_of,
                    )
                )  # fmt: skip
            left -= set(wanted.items())
    placed = {(it.name, it.version) for it in locked if any(file.url for file in it.files)}
    wanted_pages = {(it.index, key[0]) for key in placed for it in found.get(key, ())}
    pages = kept_pages(stores.settings, wanted_pages)
    for name, version in placed & found.keys():
        found[name, version] = [
            replace(it, addresses=public_addresses(pages[it.index, name], version))
            if (it.index, name) in pages
            else it
            for it in found[name, version]
        ]
    return found


def served_listings(
    settings: Settings, locked: Iterable[LockEntry], indexes: Iterable[str]
) -> Listings:
    """The same, asked of these configured indexes now.

    :raises IndexProblem: if an index does not answer
    """
    versions: dict[str, set[str]] = defaultdict(set)
    for it in locked:
        versions[it.name].add(it.version)
    wanted = {(index, name) for index in indexes for name in versions}
    pages = pages_of(settings, wanted, max_age_s=0.0)
    found: Listings = defaultdict(list)
    for (index, name), page in sorted(pages.items()):
        for version in versions[name]:
            if (listing := _listing(index, page, version)) is not None:
                found[name, version].append(listing)
    return found


def _listing(index: str, page: ProjectPage, version: str) -> Listing | None:
    there = page.releases.get(version)
    if not there:
        return None
    files = tuple(
        ReleaseFile(
            it.filename, it.sha256, it.kind, it.size_bytes, it.requires_python, it.yanked,
            it.yanked_reason, it.uploaded_at, it.metadata_sha256, it.attested,
        )
        for it in there
    )  # fmt: skip
    reason = next((it.yanked_reason for it in files if it.yanked_reason), None)
    yanked = all(it.yanked for it in files)
    return Listing(
        index, files, yanked=yanked, yanked_reason=reason, as_of=page.as_of,
        addresses=public_addresses(page, version),
    )  # fmt: skip
