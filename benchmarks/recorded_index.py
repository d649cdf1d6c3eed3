"""A package index on loopback that serves what it once read from the configured index.

What is not recorded yet is read from the configured index, once, and kept in a folder: pages, and
of files only the ranges that somebody read. So a first run records, and every later one is the
same for all programs and needs no network. Every answer waits for the same time first.

Run as ``python -m benchmarks.recorded_index FOLDER``; the first line of the output is the URL.
"""

import argparse
import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from aiohttp import web

from benchmarks.load import Client
from common.index.configuration import Index, index_of
from common.settings import Settings

#: Seconds before every answer: a request to an index that is not far away.
LATENCY_S = 0.02
_JSON = "application/vnd.pypi.simple.v1+json"
_PIECE_BYTES = 1 << 16
_UPSTREAM = web.AppKey("upstream", aiohttp.ClientSession)


@dataclass(slots=True)
class ServedTraffic:
    """What was served since the counters were last read.

    :param bytes_sent: bodies of answers
    :param from_upstream: requests to the configured index, for what was not recorded
    """

    requests: int = 0
    bytes_sent: int = 0
    from_upstream: int = 0


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """Ranges of one file in a folder, each in a file named by its first and its last byte."""

    folder: Path

    @property
    def size(self) -> int | None:
        """Bytes of the whole file, if they are known."""
        path = self.folder / "size"
        return int(path.read_text("ascii")) if path.exists() else None

    def keep(self, start: int, data: bytes, size: int) -> None:
        """Add a range."""
        self.keep_size(size)
        if data:
            _write(self.folder / f"{start}-{start + len(data) - 1}", data)

    def keep_size(self, size: int) -> None:
        """Note the size of the whole file."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _write(self.folder / "size", str(size).encode("ascii"))

    def read(self, first: int, last: int) -> bytes | None:
        """The bytes from ``first`` to ``last``, both included; ``None`` if one is not recorded."""
        joined = bytearray()
        for start, end, path in sorted(self._ranges()):
            position = first + len(joined)
            if start <= position <= end:
                with path.open("rb") as piece:
                    piece.seek(position - start)
                    joined += piece.read(min(end, last) - position + 1)
            if first + len(joined) > last:
                return bytes(joined)
        return None

    def _ranges(self) -> Iterator[tuple[int, int, Path]]:
        for path in self.folder.glob("*-*"):
            start, _, end = path.name.partition("-")
            if end.isdigit():
                yield int(start), int(end), path


class RecordedIndex:
    """Answers requests from a folder, and from the configured index what the folder lacks."""

    def __init__(self, folder: Path, index: Index, latency_s: float) -> None:
        self._folder = folder
        self._index = index
        self._latency_s = latency_s
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.traffic = ServedTraffic()

    def application(self) -> web.Application:
        """The routes: pages, files, and counters that are read once."""
        application = web.Application()
        application.cleanup_ctx.append(self._session)
        application.router.add_get("/simple/{name}/", self.page)
        application.router.add_get("/files/{scheme}/{host}/{path:.+}", self.file)
        application.router.add_get("/traffic", self.counters)
        return application

    async def counters(self, _request: web.Request) -> web.Response:
        """The counters, which begin anew."""
        read, self.traffic = self.traffic, ServedTraffic()
        return web.json_response(asdict(read))

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The page of a project; URLs of its files lead here."""
        name = request.match_info["name"]
        if not re.fullmatch(r"[a-z0-9-]+", name):
            raise web.HTTPNotFound
        await self._begin()
        path = self._folder / "pages" / f"{name}.json"
        async with self._locks[name]:
            if not path.exists():
                _write(path, await self._read_page(request.app[_UPSTREAM], name))
        size = path.stat().st_size
        self.traffic.bytes_sent += size
        if not size:
            raise web.HTTPNotFound
        headers = {"Content-Type": _JSON, "Cache-Control": "max-age=600"}
        return web.FileResponse(path, headers=headers)

    async def _read_page(self, session: aiohttp.ClientSession, name: str) -> bytes:
        """The page with URLs of this server; empty if the index does not have the project."""
        self.traffic.from_upstream += 1
        url = f"{self._index.url}/{name}/"
        async with session.get(url, headers={"Accept": _JSON}, auth=self._auth) as answer:
            if answer.status == 404:
                return b""
            answer.raise_for_status()
            document = orjson.loads(await answer.read())
            for file in document["files"]:
                parts = urlsplit(urljoin(str(answer.url), file["url"]))
                file["url"] = f"/files/{parts.scheme}/{parts.netloc}{parts.path}"
        return orjson.dumps(document)

    async def file(self, request: web.Request) -> web.StreamResponse:
        """A file or a range of it."""
        await self._begin()
        url = "{scheme}://{host}/{path}".format(**request.match_info)
        digest = hashlib.sha256(url.encode()).hexdigest()
        recorded = RecordedFile(self._folder / "files" / digest[:2] / digest)
        wanted = request.headers.get("Range")
        headers = {"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}
        async with self._locks[digest]:
            if request.method == "HEAD":
                size = await self._size(request.app[_UPSTREAM], url, recorded)
                return web.Response(headers=headers | {"Content-Length": str(size)})
            data, first, size = await self._range(request.app[_UPSTREAM], url, recorded, wanted)
        answer = web.StreamResponse(headers=headers | {"Content-Length": str(len(data))})
        if wanted is not None:
            answer.set_status(206)
            answer.headers["Content-Range"] = f"bytes {first}-{first + len(data) - 1}/{size}"
        await answer.prepare(request)
        # A client may close the connection when it has read enough.
        with suppress(ConnectionError):
            for start in range(0, len(data), _PIECE_BYTES):
                piece = data[start : start + _PIECE_BYTES]
                await answer.write(piece)
                self.traffic.bytes_sent += len(piece)
            await answer.write_eof()
        return answer

    async def _size(self, session: aiohttp.ClientSession, url: str, recorded: RecordedFile) -> int:
        if recorded.size is None:
            self.traffic.from_upstream += 1
            async with session.head(url, allow_redirects=True, auth=self._auth) as answer:
                _expect(answer)
                recorded.keep_size(int(answer.headers["Content-Length"]))
        assert recorded.size is not None
        return recorded.size

    async def _range(
        self, session: aiohttp.ClientSession, url: str, recorded: RecordedFile, wanted: str | None
    ) -> tuple[bytes, int, int]:
        """The bytes of a range, the place of the first, and the size of the file."""
        for _ in range(2):
            size = recorded.size
            if size is not None:
                first, last = _bounds(wanted, size)
                data = recorded.read(first, last) if size else b""
                if data is not None:
                    return data, first, size
            await self._read_range(session, url, recorded, wanted)
        raise web.HTTPBadGateway(text=f"{url}: the range {wanted} was not sent")

    async def _read_range(
        self, session: aiohttp.ClientSession, url: str, recorded: RecordedFile, wanted: str | None
    ) -> None:
        self.traffic.from_upstream += 1
        headers = {"Range": wanted} if wanted else {}
        async with session.get(url, headers=headers, auth=self._auth) as answer:
            _expect(answer)
            data = await answer.read()
            if answer.status == 206:
                place = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", answer.headers["Content-Range"])
                assert place is not None, answer.headers["Content-Range"]
                recorded.keep(int(place[1]), data, int(place[2]))
            else:
                recorded.keep(0, data, len(data))

    async def _begin(self) -> None:
        self.traffic.requests += 1
        await asyncio.sleep(self._latency_s)

    @property
    def _auth(self) -> aiohttp.BasicAuth | None:
        return aiohttp.BasicAuth(*self._index.auth) if self._index.auth else None

    async def _session(self, application: web.Application) -> AsyncIterator[None]:
        async with aiohttp.ClientSession(trust_env=True, auto_decompress=True) as session:
            application[_UPSTREAM] = session
            yield


def _bounds(wanted: str | None, size: int) -> tuple[int, int]:
    """First and last byte of a header ``Range``."""
    if wanted is None:
        return 0, size - 1
    place = re.fullmatch(r"bytes=(\d*)-(\d*)", wanted)
    if place is None or not any(place.groups()):
        raise web.HTTPRequestRangeNotSatisfiable
    if not place[1]:
        return max(0, size - int(place[2])), size - 1
    first, last = int(place[1]), min(int(place[2] or size), size - 1)
    if first > last:
        raise web.HTTPRequestRangeNotSatisfiable(headers={"Content-Range": f"bytes */{size}"})
    return first, last


def _expect(answer: aiohttp.ClientResponse) -> None:
    if answer.status in (404, 416):
        raise web.HTTPNotFound
    answer.raise_for_status()


def _write(path: Path, data: bytes) -> None:
    """Write a file that is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(data)
    part.replace(path)


@dataclass(frozen=True, slots=True)
class ServedIndex:
    """A recorded index that answers.

    :param url: of its pages, without a trailing slash
    """

    url: str

    def traffic(self) -> ServedTraffic:
        """What was served since this was last called."""
        client = Client(urlsplit(self.url).port or 0)
        _, body = client.get("/traffic")
        client.close()
        return ServedTraffic(**json.loads(body))


@contextmanager
def recorded_index(folder: Path, latency_s: float = LATENCY_S) -> Iterator[ServedIndex]:
    """Serve the recording in ``folder`` from a process of its own."""
    command = (sys.executable, "-m", "benchmarks.recorded_index", str(folder))
    process = subprocess.Popen(
        [*command, "--latency", str(latency_s)], stdout=subprocess.PIPE, text=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError("the recorded index did not start")
        yield ServedIndex(url)
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


async def _serve(index: RecordedIndex) -> None:
    runner = web.AppRunner(index.application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _, port = runner.addresses[0]
    print(f"http://127.0.0.1:{port}/simple", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recorded_index")
    parser.add_argument("folder", type=Path, help="where the recording lies or shall lie")
    parser.add_argument("--latency", type=float, default=LATENCY_S, help="seconds an answer")
    options = parser.parse_args()
    settings = Settings.from_env()
    index = RecordedIndex(options.folder, index_of(settings), options.latency)
    asyncio.run(_serve(index))


if __name__ == "__main__":
    main()
