"""Where files are: indexes are asked, for locks that must say so and for checks of locks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import urlsplit, urlunsplit

from common.errors import IndexFault, IndexProblem
from common.indexes.client import IndexClient
from common.indexes.configured import Index, configured_indexes
from common.indexes.pages import ProjectPage
from common.settings import Settings

#: A release on an index: index, name, version.
Release = tuple[str, str, str]


def addresses_of(settings: Settings, releases: Collection[Release]) -> dict[str, str]:
    """The address of every file of some releases, by file name.

    Files whose address has a user, a password or a query are left out: those may be secrets.

    :raises IndexProblem: if an index does not answer
    """
    found: dict[str, str] = {}
    pages = pages_of(settings, {(index, name) for index, name, _ in releases})
    for index, name, version in sorted(releases):
        page = pages.get((index, name))
        for file in page.releases.get(version, ()) if page else ():
            parts = urlsplit(file.url)
            if parts.username is None and not parts.query:
                found[file.filename] = urlunsplit(parts._replace(fragment=""))
    return found


def pages_of(
    settings: Settings, wanted: Iterable[tuple[str, str]], max_age_s: float = 600.0
) -> Mapping[tuple[str, str], ProjectPage]:
    """What indexes say of projects, by index and name; those that they do not have are left out.

    :param wanted: names of indexes and projects; indexes that are not configured are passed over
    :raises IndexProblem: if an index does not answer
    """
    indexes = configured_indexes(settings)
    by_index: dict[str, list[str]] = {}
    for index, name in sorted(set(wanted)):
        if index in indexes:
            by_index.setdefault(index, []).append(name)
    return asyncio.run(_pages(settings, indexes, by_index, max_age_s))


async def _pages(
    settings: Settings,
    indexes: Mapping[str, Index],
    by_index: Mapping[str, list[str]],
    max_age_s: float,
) -> dict[tuple[str, str], ProjectPage]:
    found = {}
    for index, names in by_index.items():
        async with IndexClient(settings, indexes[index]) as client:
            pages = await asyncio.gather(*(_page(client, it, max_age_s) for it in names))
        found.update(
            {(index, name): it for name, it in zip(names, pages, strict=True) if it is not None}
        )
    return found


async def _page(client: IndexClient, name: str, max_age_s: float) -> ProjectPage | None:
    try:
        return await client.project(name, max_age_s)
    except IndexProblem as error:
        if error.code is IndexFault.NOT_FOUND:
            return None
        raise
