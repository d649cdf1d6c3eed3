"""Client of one package index: project pages, metadata and files."""

from __future__ import annotations

import asyncio
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, cast

from packaging.utils import canonicalize_name
from pypi_simple import ACCEPT_JSON_PREFERRED

from common.errors import IndexFault, IndexProblem
from common.http.fetching import (
    Fetcher,
    FetchLimits,
    FetchRequest,
    FetchResponse,
    Traffic,
)
from common.index.cache import IndexCache, KeptPage
from common.index.configuration import Index
from common.index.file_metadata import (
    MetadataRead,
    archive_metadata,
    check_hash,
    fetch_metadata,
    metadata_of,
    read_as,
)
from common.index.local_folders import folder_page, local_path
from common.index.page_parsing import PageText, parse_page
from common.index.project_pages import IndexFile, ProjectPage
from common.settings import Settings

__all__ = ["FetchLimits", "IndexClient", "MetadataRead", "Traffic"]

#: Headers that make the end of a response detectable.
_LENGTHS = ("content-length", "transfer-encoding", "content-encoding")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


class IndexClient:
    """Client of one index, with few connections, conditional requests and a cache on disk.

    Used as ``async with IndexClient(settings, index) as client``, in one event loop. Every method
    raises :class:`common.errors.IndexProblem` for failures of the index; broken responses are
    never cached.
    """

    def __init__(self, settings: Settings, index: Index, limits: FetchLimits | None = None) -> None:
        self.index = index
        self.limits = limits or FetchLimits()
        self._cache = IndexCache(settings.home, index)
        self._fetcher = Fetcher(
            index.url,
            index.name,
            self.limits,
            auth=index.auth,
            private_hosts=settings.package_file_hosts,
        )

    @property
    def traffic(self) -> Traffic:
        """Counters of the requests so far."""
        return self._fetcher.traffic

    async def __aenter__(self) -> IndexClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._fetcher.aclose()

    async def project(self, name: str, max_age_s: float = 600.0) -> ProjectPage:
        """The files of a project.

        :param name: in any spelling
        :param max_age_s: a cached page that the index sent or confirmed within this time is used
            without a request; 0 always sends one
        """
        name = canonicalize_name(name)
        if not _NAME.fullmatch(name):
            raise IndexProblem(IndexFault.NOT_FOUND, f"{name[:80]!r} is not the name of a project")
        if self.index.is_local:
            return await asyncio.to_thread(
                folder_page, self.index.url, name, self.limits.page_bytes
            )
        kept = await asyncio.to_thread(self._cache.page, name)
        if kept is not None and 0 <= _age_s(kept) < max_age_s:
            self.traffic.from_cache += 1
            return await _parsed(name, kept, from_cache=True)
        return await self._fetch_page(name, kept)

    async def metadata(self, file: IndexFile) -> MetadataRead:
        """Metadata of a wheel or a source distribution, with the smallest possible transfer.

        Metadata of a file with a hash is cached forever.
        """
        if file.url.startswith("file:"):
            return await asyncio.to_thread(self._local_metadata, file)
        known = await asyncio.to_thread(self._cache.metadata, file.sha256)
        if known is not None:
            self.traffic.from_cache += 1
            return metadata_of(file, *known)
        read = await fetch_metadata(self._fetcher, file)
        await asyncio.to_thread(self._cache.keep_metadata, file.sha256, read.text, read.source)
        return read

    async def download(self, file: IndexFile, target: Path) -> None:
        """Download a file to ``target`` and check hash and size; errors leave no file."""
        try:
            with target.open("w+b") as into:
                await self._copy(file, into)
                await asyncio.to_thread(check_hash, file, cast(BinaryIO, into))
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    async def _copy(self, file: IndexFile, into: BinaryIO) -> None:
        if file.url.startswith("file:"):
            with self._local(file).open("rb") as source:
                while piece := await asyncio.to_thread(source.read, 1 << 20):
                    into.write(piece)
            into.seek(0)
            return
        limits = {200: self.limits.file_bytes}
        request = FetchRequest(
            file.url, file.filename, limits, into, deadline_s=self.limits.download_s
        )
        await self._fetcher.fetch(request)

    async def _fetch_page(self, name: str, kept: KeptPage | None) -> ProjectPage:
        """Fetch the page, unless the index confirms the cached one."""
        known = await self._readable(name, kept)
        headers = {"Accept": ACCEPT_JSON_PREFERRED, "Accept-Encoding": "gzip"}
        limits = {200: self.limits.page_bytes}
        if kept is not None and known is not None:
            headers |= kept.conditions
            limits |= {304: 0} if kept.conditions else {}
        body = io.BytesIO()
        url = f"{self.index.url}/{name}/"
        answer = await self._fetcher.fetch(
            FetchRequest(url, f"the page of {name}", limits, body, headers)
        )
        now = datetime.now(UTC)
        if answer.status == 304 and kept is not None and known is not None:
            self.traffic.revalidated += 1
            kept, page = replace(kept, as_of=now), replace(known, as_of=now, from_cache=True)
        else:
            kept = _kept(name, answer, body.getvalue(), now)
            page = await _parsed(name, kept)
        await asyncio.to_thread(self._cache.keep_page, name, kept)
        return page

    async def _readable(self, name: str, kept: KeptPage | None) -> ProjectPage | None:
        """The cached page, if the index can confirm it and it can be parsed."""
        if kept is None or not kept.conditions:
            return None
        try:
            return await _parsed(name, kept, from_cache=True)
        except IndexProblem:
            return None

    def _local(self, file: IndexFile) -> Path:
        if not self.index.is_local:
            message = f"{file.filename}: the index refers to a file of this machine"
            raise IndexProblem(IndexFault.ADDRESS_REFUSED, message)
        return local_path(self.index.url, file)

    def _local_metadata(self, file: IndexFile) -> MetadataRead:
        path = self._local(file)
        with path.open("rb") as archive:
            data = archive_metadata(file, archive, self.limits.metadata_bytes)
        return read_as(file, data, file.kind)


def _age_s(kept: KeptPage) -> float:
    return (datetime.now(UTC) - kept.as_of).total_seconds()


def _kept(name: str, answer: FetchResponse, body: bytes, as_of: datetime) -> KeptPage:
    headers = answer.headers
    kind = headers.get("content-type", "text/html")
    # Only its last tag shows that a response without a length is complete.
    if not any(it in headers for it in _LENGTHS) and "html" in kind and not _is_ended(body):
        message = f"the page of {name} has neither a length nor a closing tag"
        raise IndexProblem(IndexFault.TRUNCATED, message, retryable=True)
    text = PageText(body, kind, answer.url)
    return KeptPage(text, as_of, headers.get("etag"), headers.get("last-modified"))


def _is_ended(body: bytes) -> bool:
    return b"</html>" in body[-1024:].lower()


async def _parsed(name: str, kept: KeptPage, *, from_cache: bool = False) -> ProjectPage:
    return await asyncio.to_thread(parse_page, name, kept.text, kept.as_of, from_cache)
