"""Client of one package index, on a server or in a folder: project pages, metadata and files."""

import asyncio
import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

from common.http.fetching import (
    Fetcher,
    FetchLimits,
    FetchRequest,
    FetchResponse,
    Traffic,
    too_large,
)
from common.index.cache import IndexCache, KeptPage, facts_about, metadata_from
from common.index.configuration import Index
from common.index.page_parsing import PackedPage, PageText, parse_page
from common.index.parsing_process import IndexHelper
from common.index.release_metadata import MetadataRead, archive_metadata, check_hash, fetch_metadata
from common.settings import Settings
from model.errors import IndexFault, IndexProblem
from model.packages.project_pages import IndexFile, ProjectPage, contents_of
from model.packages.releases import SDIST_BUILT, kind_of_file


def folder_page(root: str, name: str, limit: int) -> ProjectPage:
    """The files of a project in the index at ``root``, a ``file`` URL.

    An ``index.html`` in a folder with the project's name is read like a page of a server. Without
    that page, the files in the folder are used. Without the folder, the files in the index are
    used. Files that are on no page are hashed, and hashed again after every change. Symbolic links
    that lead out of the index are not followed.

    :param limit: bytes of a page
    :raises IndexProblem: ``not_found`` if there is no file of the project, ``unreachable`` if
        the index folder is missing, ``address_refused`` if the page is outside
    """
    folder = path_of(root)
    if not folder.is_dir():
        raise IndexProblem(IndexFault.UNREACHABLE, f"{folder} is not a folder")
    now = datetime.now(UTC)
    own = [it for it in folder.iterdir() if it.is_dir() and canonicalize_name(it.name) == name]
    for project in own:
        if (page := project / "index.html").is_file():
            if not _is_within(page, folder):
                raise _outside(page.name, folder)
            if page.stat().st_size > limit:
                raise too_large(str(page), limit, "INDEX_PAGE_MB")
            text = PageText(page.read_bytes(), "text/html", f"{project.as_uri()}/")
            return parse_page(name, text, now)
    files = sorted(
        (it for location in own or [folder] for it in _files(location, name, folder)),
        key=lambda it: it.filename,
    )
    if not files and not own:
        raise IndexProblem(IndexFault.NOT_FOUND, f"no file of {name} is in {folder}")
    return ProjectPage(name, now, contents_of(files, []))


def path_of(url: str) -> Path:
    """The path of a ``file`` URL."""
    return Path(unquote(urlsplit(url).path))


def local_path(root: str, file: IndexFile) -> Path:
    """The path of a file of the index at ``root``; the file must be inside the index.

    :raises IndexProblem: ``not_found``, ``address_refused``
    """
    path, folder = path_of(file.url).resolve(), path_of(root)
    if not _is_within(path, folder):
        raise _outside(file.filename, folder)
    if not path.is_file():
        raise IndexProblem(IndexFault.NOT_FOUND, f"{path} is not a file")
    return path


def _is_within(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _outside(what: str, folder: Path) -> IndexProblem:
    return IndexProblem(
        IndexFault.ADDRESS_REFUSED, f"{what}: the index refers to a file outside of {folder}"
    )


def _files(folder: Path, name: str, root: Path) -> Iterator[IndexFile]:
    from pypi_simple import UnparsableFilenameError, parse_filename  # slow, and seldom needed

    for path in folder.iterdir():
        try:
            project, version, _ = parse_filename(path.name, name)
        except UnparsableFilenameError:
            continue
        if canonicalize_name(project) != name or not path.is_file():
            continue
        kind = kind_of_file(path.name)
        if kind == "other":
            continue
        if not _is_within(path, root):
            # Listed, so that a download reports why it is refused.
            yield IndexFile(path.name, version, kind, None, url=path.absolute().as_uri())
            continue
        about = path.stat()
        digest = _sha256(path, about.st_mtime_ns, about.st_size)
        size = about.st_size
        yield IndexFile(path.name, version, kind, digest, size, url=path.absolute().as_uri())


@lru_cache(maxsize=4096)
def _sha256(path: Path, changed_ns: int, size: int) -> str:
    """SHA-256 of a file; its size and the time of its last change are part of the cache key."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


__all__ = ["FetchLimits", "IndexClient", "MetadataRead", "Traffic"]

#: Content types of pages in JSON and HTML; JSON is preferred.
_ACCEPTED = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5,"
    " text/html;q=0.01"
)
#: Headers that make the end of a response detectable.
_LENGTHS = ("content-length", "transfer-encoding", "content-encoding")
#: Bytes of a page that is parsed at once, without a thread.
_SMALL = 2 << 20
#: Bytes of a page that this process parses faster than it learns the result of another.
_SMALL_PAGE_BYTES = 16 << 10
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


class IndexClient:
    """Client of one index, with few connections, conditional requests and a cache on disk.

    Used as ``async with IndexClient(settings, index) as client``, in one event loop. Every method
    raises :class:`model.errors.IndexProblem` for failures of the index; broken responses are
    never cached.

    :param helper: parses large pages in another process; without it, this process does
    """

    def __init__(
        self,
        settings: Settings,
        index: Index,
        limits: FetchLimits | None = None,
        helper: IndexHelper | None = None,
    ) -> None:
        self.index = index
        self._helper = helper
        self.limits = limits or FetchLimits(
            page_bytes=settings.index_page_mb << 20, archive_bytes=settings.index_archive_mb << 20
        )
        self._page_age_s = settings.index_page_age_s
        self._cache = IndexCache(settings.index_cache, index)
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

    @property
    def cache_error(self) -> str | None:
        """Why a write to the cache failed: the folder of the cache, and the system's message."""
        return self._cache.write_error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections."""
        await self._fetcher.aclose()

    async def project(self, name: str, max_age_s: float | None = None) -> ProjectPage:
        """The files of a project.

        :param name: in any spelling
        :param max_age_s: a cached page that the index sent or confirmed within this time is used
            without a request, by default ``INDEX_PAGE_AGE_S``; 0 always sends one
        """
        name = canonicalize_name(name)
        if not _NAME.fullmatch(name):
            raise IndexProblem(IndexFault.NOT_FOUND, f"{name[:80]!r} is not the name of a project")
        if self.index.is_local:
            return await asyncio.to_thread(
                folder_page, self.index.url, name, self.limits.page_bytes
            )
        kept = self._cache.page(name)
        limit_s = self._page_age_s if max_age_s is None else max_age_s
        if kept is not None and 0 <= _age_s(kept.page) < limit_s:
            self.traffic.from_cache += 1
            return kept.page
        return await self._fetch_page(name, kept)

    def kept_page(self, name: str) -> ProjectPage | None:
        """The cached page of a project, however old it is; used when the index does not answer."""
        kept = self._cache.page(canonicalize_name(name))
        return None if kept is None else kept.page

    async def metadata(self, file: IndexFile) -> MetadataRead:
        """Metadata of a wheel or a source distribution, with the smallest possible transfer.

        Metadata of a file with a hash is cached forever.
        """
        if file.url.startswith("file:"):
            return await asyncio.to_thread(self._local_metadata, file)
        known = self._cache.metadata(file.sha256)
        if known is not None:
            self.traffic.from_cache += 1
            return known
        read = await fetch_metadata(self._fetcher, file)
        facts = {"sha256": file.sha256, **facts_about(read)}
        if self._helper is None or self._helper.send(read.text.encode(), facts) is None:
            self._cache.keep_metadata(file.sha256, read)
        return read

    async def download(self, file: IndexFile, target: Path) -> None:
        """Download a file to ``target`` and check hash and size; leave no file after an error."""
        try:
            with target.open("w+b") as into:
                await self._copy(file, into)
                await asyncio.to_thread(check_hash, file, cast(BinaryIO, into))
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def kept_metadata(self, key: str) -> str | None:
        """Metadata that :meth:`keep_metadata` stored in the cache."""
        known = self._cache.metadata(key)
        return None if known is None else known.text

    def keep_metadata(self, key: str, text: str) -> None:
        """Store metadata from a build, under 64 hexadecimal digits other than any file's hash."""
        self._cache.keep_metadata(key, MetadataRead(text, SDIST_BUILT))

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
        if self._helper is not None:
            self._helper.start(self._store)
        headers = {"Accept": _ACCEPTED, "Accept-Encoding": "gzip"}
        limits = {200: self.limits.page_bytes}
        if kept is not None and kept.conditions:
            headers |= kept.conditions
            limits |= {304: 0}
        into = io.BytesIO()
        url = f"{self.index.url}/{name}/"
        what = f"the page of {name}"
        request = FetchRequest(url, what, limits, into, headers, setting="INDEX_PAGE_MB")
        answer = await self._fetcher.fetch(request)
        now = datetime.now(UTC)
        if answer.status == 304 and kept is not None:
            self.traffic.revalidated += 1
            page = replace(kept.page, as_of=now)
            self._cache.keep_page(name, replace(kept, page=page))
            return page
        body = into.getvalue()
        _check_end(name, answer, body)
        text = PageText(body, answer.headers.get("content-type", "text/html"), answer.url)
        stored = await self._stored_elsewhere(name, text, now, answer.headers)
        if stored is not None:
            return stored
        # Parsing takes 10 ms for a megabyte of JSON, and much longer for HTML.
        if "json" in text.content_type and len(body) < _SMALL:
            return self._keep(name, text, now, answer.headers)
        return await asyncio.to_thread(self._keep, name, text, now, answer.headers)

    async def _stored_elsewhere(
        self, name: str, text: PageText, now: datetime, headers: Mapping[str, str]
    ) -> ProjectPage | None:
        """The page, parsed and stored in the cache by the helper; ``None`` if it did not do so."""
        if self._helper is None or len(text.body) < _SMALL_PAGE_BYTES:
            return None
        facts = {
            "name": name, "content_type": text.content_type, "url": text.url,
            "as_of": now.isoformat(),
            "headers": {it: headers[it] for it in ("etag", "last-modified") if it in headers},
        }  # fmt: skip
        answer = self._helper.send(text.body, facts)
        if answer is None or not await answer:
            return None
        kept = self._cache.page(name)
        if kept is None or kept.page.as_of != now:
            return None
        return replace(kept.page, from_cache=False)

    def _store(self, body: bytes, facts: Mapping[str, Any]) -> bool:
        """Parse and store a page, or store metadata; run in the helper."""
        if "sha256" in facts:
            self._cache.keep_metadata(facts["sha256"], metadata_from(body.decode(), facts))
            return True
        text = PageText(body, facts["content_type"], facts["url"])
        self._keep(facts["name"], text, datetime.fromisoformat(facts["as_of"]), facts["headers"])
        return self._cache.write_error is None

    def _keep(
        self, name: str, text: PageText, now: datetime, headers: Mapping[str, str]
    ) -> ProjectPage:
        """Parse and store a page."""
        packed = PackedPage.of_text(text)
        page = parse_page(name, text, now, packed=packed.packed)
        kept = KeptPage(page, packed, headers.get("etag"), headers.get("last-modified"))
        self._cache.keep_page(name, kept, text.body)
        return page

    def _local(self, file: IndexFile) -> Path:
        if not self.index.is_local:
            message = f"{file.filename}: the index refers to a file of this machine"
            raise IndexProblem(IndexFault.ADDRESS_REFUSED, message)
        return local_path(self.index.url, file)

    def _local_metadata(self, file: IndexFile) -> MetadataRead:
        path = self._local(file)
        with path.open("rb") as archive:
            return archive_metadata(file, archive, self.limits.metadata_bytes)


def _age_s(page: ProjectPage) -> float:
    return (datetime.now(UTC) - page.as_of).total_seconds()


def _check_end(name: str, answer: FetchResponse, body: bytes) -> None:
    kind = answer.headers.get("content-type", "text/html")
    # Only its last tag shows that a response without a length is complete.
    if not any(it in answer.headers for it in _LENGTHS) and "html" in kind and not _is_ended(body):
        message = f"the page of {name} has neither a length nor a closing tag"
        raise IndexProblem(IndexFault.TRUNCATED, message, retryable=True)


def _is_ended(body: bytes) -> bool:
    return b"</html>" in body[-1024:].lower()
