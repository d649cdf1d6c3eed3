"""Clients that read from indexes within a time limit, or from the cache if no index answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TypeVar

from common.index.client import IndexClient
from common.index.configuration import Index, configured_indexes
from common.index.parsing_process import IndexHelper
from common.index.release_metadata import MetadataRead
from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import IndexFile, ProjectPage
from model.text import counted

T = TypeVar("T")


class ReadingEnded(IndexProblem):
    """The time for reading has ended; later versions stay unread."""


class ReadingTime:
    """The time that one answer may spend reading from all its indexes.

    Only time spent reading counts, and concurrent reads count once.

    :param limit_s: ``INDEX_TIME_S``
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._used_s = 0.0
        self._active = 0
        self._began = 0.0

    async def within(self, reading: Awaitable[T]) -> T:
        """The result of ``reading``, awaited within the time that is left.

        :raises ReadingEnded: if the time is over
        """
        now = asyncio.get_running_loop().time()
        if not self._active:
            self._began = now
        self._active += 1
        try:
            async with asyncio.timeout(self._limit_s - self._used_s - (now - self._began)):
                return await reading
        except TimeoutError as error:
            message = f"the time for reading was over after {self._limit_s:g} s (INDEX_TIME_S)"
            raise ReadingEnded(IndexFault.TIMEOUT, message, retryable=True) from error
        finally:
            self._active -= 1
            if not self._active:
                self._used_s += asyncio.get_running_loop().time() - self._began


class IndexReader(Protocol):
    """One index; see :class:`common.index.client.IndexClient`."""

    async def project(self, name: str, max_age_s: float | None = ...) -> ProjectPage: ...
    async def metadata(self, file: IndexFile) -> MetadataRead: ...
    async def download(self, file: IndexFile, target: Path) -> None: ...
    def kept_metadata(self, key: str) -> str | None: ...
    def keep_metadata(self, key: str, text: str) -> None: ...


class LimitedClient(IndexClient):
    """An index client with a time limit.

    If the index fails temporarily, the cached page of the package is used, however old it is. If an
    index did not answer at all, the client does not wait for it again.
    """

    def __init__(
        self, settings: Settings, index: Index, time: ReadingTime, helper: IndexHelper | None = None
    ) -> None:
        super().__init__(settings, index, helper=helper)
        self._time = time
        self._began = datetime.now(UTC)
        self._has_answered = False
        self._silence: IndexProblem | None = None
        self._failure: IndexProblem | None = None
        #: When the index sent the cached pages that are used instead of the current ones, by name.
        self._outdated: dict[str, datetime] = {}

    async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
        """The page of a project; see :meth:`common.index.client.IndexClient.project`."""
        try:
            if self._silence is not None and not self._has_answered:
                raise self._silence
            page = await self._time.within(super().project(name, max_age_s))
        except IndexProblem as problem:
            if not problem.retryable:
                raise
            self._failure = problem
            if problem.code in (IndexFault.TIMEOUT, IndexFault.UNREACHABLE):
                self._silence = problem
            kept = self.kept_page(name)
            if kept is None:
                raise
            self._outdated[kept.name] = kept.as_of
            return kept
        self._has_answered |= page.as_of >= self._began
        return page

    async def metadata(self, file: IndexFile) -> MetadataRead:
        """Metadata of a file; see :meth:`common.index.client.IndexClient.metadata`."""
        return await self._time.within(super().metadata(file))

    def warnings(self) -> Iterator[str]:
        """A remark about an index that did give an answer, for the user to see."""
        if self._outdated:
            oldest = min(self._outdated.values())
            count = counted(len(self._outdated), "page is", "pages are")
            yield (
                f"{self.index.name} does not answer, so {count} from the cache, the oldest "
                f"of {oldest:%Y-%m-%d %H:%M} UTC: {self._failure}"
            )
        if (error := self.cache_error) is not None:
            yield f"the cache cannot be written, so the same is read again next time: {error}"


@asynccontextmanager
async def opened_clients(
    settings: Settings, names: Iterable[str], *, parse_elsewhere: bool = False
) -> AsyncIterator[dict[str, LimitedClient]]:
    """Clients of the configured indexes among ``names``, which share the time for reading.

    :param parse_elsewhere: whether pages are parsed in a fork of this process
    """
    indexes, time = configured_indexes(settings), ReadingTime(settings.index_time_s)
    async with AsyncExitStack() as stack:
        clients = {}
        for name in dict.fromkeys(names):
            if name in indexes:
                helper = stack.enter_context(closing(IndexHelper())) if parse_elsewhere else None
                client = LimitedClient(settings, indexes[name], time, helper)
                clients[name] = await stack.enter_async_context(client)
        yield clients


def urls_of(clients: Mapping[str, IndexClient]) -> dict[str, str]:
    """URLs of the indexes whose packages may be kept; a local folder may change at any time."""
    return {name: it.index.url for name, it in clients.items() if not it.index.is_local}
