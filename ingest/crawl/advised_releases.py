"""Stores what an advice read from an index: pages, and the releases whose metadata was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Engine

from common.index.project_pages import ProjectPage
from common.index.release_metadata import ReleaseMetadata
from common.settings import Settings
from graph.engine import relational_errors
from graph.record.crawls import record_new_pages
from graph.record.releases import ReleaseDelivery, ReleasesAdded, add_releases
from ingest.crawl.release_drafts import release_draft, release_from
from ingest.crawl.release_selection import offered_on


def store_read(
    settings: Settings,
    engine: Engine,
    index: str,
    read: Iterable[tuple[ProjectPage, Mapping[str, ReleaseMetadata]]],
) -> ReleasesAdded:
    """Store pages with the metadata that was read of their releases, in one transaction.

    A page that is on record stays: the next refresh compares it with the new one, and reports what
    changed.

    :raises StoreUnavailable: if the record is lost; then nothing is stored
    """
    read = list(read)
    drafts = [
        (release_draft(index, page.name, version, page.files_of(version), it), page.as_of)
        for page, metadata in read
        for version, it in metadata.items()
    ]
    deliveries = [
        ReleaseDelivery(release, f"index {index}", as_of)
        for draft, as_of in drafts
        if (release := release_from(draft)) is not None
    ]
    pages = [(page.name, sorted(offered_on(page)), page.as_of) for page, _ in read]
    with relational_errors(settings), engine.begin() as connection:
        added = add_releases(connection, settings, deliveries)
        record_new_pages(connection, index, pages)
    return added
