"""Where files are: indexes are asked, for locks that must say so and for checks of locks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from urllib.parse import urlsplit, urlunsplit

from adviser.places import Place
from common.errors import IndexFault, IndexProblem
from common.index.cache import IndexCache
from common.index.client import IndexClient
from common.index.configuration import Index, configured_indexes
from common.index.project_pages import ProjectPage, parse_page
from common.redaction import without_secrets
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


def kept_pages(
    settings: Settings, wanted: Iterable[tuple[str, str]]
) -> Mapping[tuple[str, str], ProjectPage]:
    """The same as this machine was told last; nobody is asked, and of folders nothing is known."""
    indexes = configured_indexes(settings)
    found = {}
    for index, name in sorted(set(wanted)):
        kept = None
        if index in indexes and not indexes[index].is_local:
            kept = IndexCache(settings.home, indexes[index]).page(name)
        if kept is not None:
            # What cannot be read is as good as absent.
            with suppress(IndexProblem):
                found[index, name] = parse_page(name, kept.text, kept.as_of, True)
    return found


def public_addresses(page: ProjectPage, version: str) -> dict[str, str]:
    """Of every file of a release, by file name, without secrets."""
    return {it.filename: without_secrets(it.url) for it in page.releases.get(version, ()) if it.url}


def places_of(settings: Settings) -> dict[str, Place]:
    """Where this machine's indexes are."""
    hosts = frozenset(settings.package_file_hosts)
    return {
        name: Place(without_secrets(it.url), hosts)
        for name, it in configured_indexes(settings).items()
    }


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
