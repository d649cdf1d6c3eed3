"""Stores the releases and pages that a crawl or an advice reads, and which releases are unread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

from common.settings import Settings
from graph.engine import relational_errors
from graph.record.crawls import FailedRead, record_failures, record_new_pages, take_off_queue
from graph.record.known_releases import last_answers
from graph.record.releases import ReleaseDelivery, ReleasesAdded, add_releases
from ingest.crawl.release_selection import offered_on, release_draft, release_from
from ingest.releases.parsing import public_status
from model.packages.project_pages import ProjectPage
from model.packages.releases import ReleaseMetadata

T = TypeVar("T")


class RecordWriter:
    """Writes to the record in a thread, so that the event loop never waits for it.

    :param on_commit: called after each transaction that stored releases
    """

    def __init__(
        self, settings: Settings, engine: Engine, index: str, on_commit: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._index = index
        self._on_commit = on_commit
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="record")

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._thread.shutdown(cancel_futures=kind is not None)

    async def transaction(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction; transactions of one writer run one after another.

        :raises StoreUnavailable: if the record is lost
        """

        def run() -> T:
            with relational_errors(self._settings), self._engine.begin() as connection:
                return work(connection)

        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    async def store(
        self, read: Sequence[ReleaseDelivery], failures: Iterable[FailedRead]
    ) -> ReleasesAdded:
        """Store releases and remove them from the queue; failed releases stay in the queue."""

        def work(connection: Connection) -> ReleasesAdded:
            added = self.add(connection, read)
            taken = [(it.release.name, it.release.version) for it in read]
            take_off_queue(connection, self._index, taken)
            record_failures(connection, self._index, failures)
            return added

        added = await self.transaction(work)
        self._on_commit()
        return added

    def add(self, connection: Connection, read: Sequence[ReleaseDelivery]) -> ReleasesAdded:
        """Store releases within a transaction."""
        return add_releases(connection, self._settings, read)


#: Pages by index, each with the metadata of those of its releases that were read.
ReadPages = Mapping[str, Sequence[tuple[ProjectPage, Mapping[str, ReleaseMetadata]]]]


def store_read(settings: Settings, engine: Engine, read: ReadPages) -> ReleasesAdded:
    """Store pages and the metadata that was read for their releases, in one transaction.

    A page that is already in the record is kept, so that the next refresh can report the changes.
    Releases of a page that are in the record as of the same or a later answer are left out.

    :param read: by index
    :raises StoreUnavailable: if the record is lost; then nothing is stored
    """
    read = _without_stored(engine, settings, read)
    drafts = [
        (release_draft(index, page.name, version, page.files_of(version), it), page.as_of)
        for index, packages in read.items()
        for page, metadata in packages
        for version, it in metadata.items()
    ]
    deliveries = [
        ReleaseDelivery(release, f"index {draft.index}", as_of)
        for draft, as_of in drafts
        if (release := release_from(draft)) is not None
    ]
    added = ReleasesAdded(set(), set(), 0, [])
    with relational_errors(settings), engine.begin() as connection:
        if deliveries:
            added = add_releases(connection, settings, deliveries)
        for index, packages in read.items():
            pages = [
                (page.name, sorted(offered_on(page)), page.as_of, public_status(page.status))
                for page, _ in packages
            ]
            record_new_pages(connection, index, pages)
    return added


def _without_stored(engine: Engine, settings: Settings, read: ReadPages) -> ReadPages:
    """Leave out releases that the record has as of the same or a later answer of their index."""
    with relational_errors(settings), engine.connect() as connection:
        stored = {
            index: last_answers(connection, index, [page.name for page, _ in packages])
            for index, packages in read.items()
        }

    def is_new(index: str, page: ProjectPage, version: str) -> bool:
        as_of = stored[index].get((page.name, version))
        return as_of is None or as_of < page.as_of

    return {
        index: [
            (page, {key: it for key, it in metadata.items() if is_new(index, page, key)})
            for page, metadata in packages
        ]
        for index, packages in read.items()
    }
