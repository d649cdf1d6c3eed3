"""Fetch a URL: redirects, retries, size limits and credentials."""

from __future__ import annotations

import asyncio
import base64
import logging
import zlib
from collections.abc import AsyncIterable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_any,
    stop_before_delay,
    wait_random_exponential,
)

from common import __version__
from common.errors import IndexFault, IndexProblem
from common.http.transport import AddressGuard, GuardedTransport, problem_of
from common.index.configuration import Index
from common.redaction import cut


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much is asked of an index, and how long it is waited for.

    :param silence_s: between two pieces of an answer
    :param deadline_s: for one attempt from its beginning to the last byte; after twice this
        none is begun
    :param pause_s: the first pause before a repetition is at most this long, further ones
        twice, four times …
    :param archive_bytes: of a file that is read whole for its metadata
    :param file_bytes: of a file that is wanted for itself
    """

    connections: int = 4
    attempts: int = 4
    redirects: int = 5
    connect_s: float = 10.0
    silence_s: float = 20.0
    deadline_s: float = 60.0
    pause_s: float = 1.0
    page_bytes: int = 64 << 20
    metadata_bytes: int = 4 << 20
    archive_bytes: int = 64 << 20
    file_bytes: int = 4 << 30
    download_s: float = 3600.0


@dataclass(slots=True)
class Traffic:
    """What was exchanged with the index so far.

    :param requests: sent, repeated ones and redirects included
    :param retries: attempts after a first one that failed
    :param revalidated: pages that the index confirmed without sending them
    :param from_cache: pages and metadata for which nothing was asked
    :param bytes_received: of bodies, as they were transferred
    """

    requests: int = 0
    retries: int = 0
    revalidated: int = 0
    from_cache: int = 0
    bytes_received: int = 0


_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


def redirected(url: str, location: str, what: str) -> str:
    try:
        target = urljoin(url, location)
        scheme = urlsplit(target).scheme
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https") or (url.startswith("https:") and scheme == "http"):
        raise IndexProblem(
            IndexFault.REDIRECT_REFUSED, f"{what}: sent on to an address that is not safe to follow"
        )
    return target


def refusal(response: httpx.Response, what: str) -> IndexProblem:
    status = response.status_code
    codes = {404: IndexFault.NOT_FOUND, 410: IndexFault.NOT_FOUND}
    codes |= {401: IndexFault.UNAUTHORIZED, 403: IndexFault.UNAUTHORIZED}
    words: Callable[[int], str] = httpx.codes.get_reason_phrase
    return IndexProblem(
        codes.get(status, IndexFault.HTTP_STATUS),
        f"{what}: the index answers {status} {words(status)}".rstrip(),
        retryable=status in _PASSING,
        retry_after_s=_retry_after(response.headers.get("retry-after", "")),
        status=status,
    )


def _retry_after(text: str) -> float | None:
    """Seconds, or a date (RFC 9110, 10.2.3)."""
    if text.isascii() and text.isdigit() and len(text) < 10:
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


_PACKED = ("gzip", "x-gzip")
#: Bytes unpacked at once.
_STEP = 1 << 20


async def unpack(
    pieces: AsyncIterable[bytes], encoding: str, limit: int, into: BinaryIO, what: str
) -> int:
    """Write a body to ``into``; how many bytes were transferred.

    :param encoding: the header ``Content-Encoding``, or empty text
    :param limit: bytes, of what is transferred and of what is written
    :raises IndexProblem: ``too_large``, ``truncated`` or ``malformed``
    """
    kind = encoding.strip().lower()
    if kind in _PACKED:
        return await _unzip(pieces, limit, into, what)
    if kind not in ("", "identity"):
        raise IndexProblem(IndexFault.MALFORMED, f"{what} is packed as {cut(kind)!r}")
    received = 0
    async for piece in pieces:
        received += len(piece)
        _check(received, limit, what)
        into.write(piece)
    return received


async def _unzip(pieces: AsyncIterable[bytes], limit: int, into: BinaryIO, what: str) -> int:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    received = written = 0
    async for piece in pieces:
        received += len(piece)
        _check(received, limit, what)
        for unpacked in _steps(unpacker, piece, what):
            written += len(unpacked)
            _check(written, limit, what)
            into.write(unpacked)
    if not unpacker.eof:
        raise IndexProblem(
            IndexFault.TRUNCATED, f"{what} ends before its packed end", retryable=True
        )
    return received


def _steps(unpacker: zlib._Decompress, piece: bytes, what: str) -> Iterator[bytes]:
    """Unpack in steps: a piece that grows a thousandfold is never held as a whole."""
    while not unpacker.eof:
        try:
            unpacked = unpacker.decompress(piece, _STEP)
        except zlib.error as error:
            message = f"{what} cannot be unpacked: {error}"
            raise IndexProblem(IndexFault.MALFORMED, message) from None
        yield unpacked
        piece = unpacker.unconsumed_tail
        if not piece and len(unpacked) < _STEP:
            return


def _check(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise too_large(what, limit)


def too_large(what: str, limit: int) -> IndexProblem:
    """More than what is read of such a thing."""
    return IndexProblem(IndexFault.TOO_LARGE, f"{what} is larger than {limit:,} bytes")


def is_same_place(index: str, url: str) -> bool:
    """Whether both have one host and port; a change to HTTPS on the usual ports is none."""
    known, asked = httpx.URL(index), httpx.URL(url)
    if known.host != asked.host:
        return False
    upgraded = known.scheme == "http" and asked.scheme == "https"
    return (known.scheme, known.port) == (asked.scheme, asked.port) or (
        upgraded and known.port is None and asked.port is None
    )


def from_keyring(index: Index) -> tuple[str, str] | None:
    """What a keyring knows for the index's address, or else for its host."""
    try:
        import keyring
    except ImportError:
        return None
    user = index.auth[0] if index.auth else None
    for service in (index.url, host_of(index.url)):
        try:
            found = keyring.get_credential(service, user)
        # Back ends raise whatever their service does.
        except Exception as error:
            logger.warning("keyring_failed", extra={"error": type(error).__name__})
            return None
        if found is not None:
            return found.username, found.password
    return None


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the index"
    except ValueError:
        return "the index"


logger = logging.getLogger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
#: What a connection, its protocol or an address that cannot be read raise.
_ERRORS = (
    httpx.HTTPError,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)
#: What an address raises that leads nowhere; names of hosts that are none by IDNA too.
_NO_ADDRESS = (
    httpx.InvalidURL,
    httpx.UnsupportedProtocol,
    httpcore.UnsupportedProtocol,
    UnicodeError,
)


class _NoCookies(CookieJar):
    """Keeps none: an index's would also go to other ports and hosts of its domain."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Look at nothing."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A request.

    :param what: it is for, in a message
    :param limits: bytes by the statuses that are answers
    :param into: the body is written to it and is then at its beginning
    """

    url: str
    what: str
    limits: Mapping[int, int]
    into: BinaryIO
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """An answer; its body was written to where it was wanted.

    :param url: where it was in the end
    """

    status: int
    headers: httpx.Headers
    url: str


class Fetcher:
    """Sends requests to one index and to where it sends us."""

    def __init__(self, index: Index, file_hosts: tuple[str, ...], limits: FetchLimits) -> None:
        self.limits = limits
        self.traffic = Traffic()
        self._index = index
        self._auth = index.auth
        self._asked_keyring = False
        self._slots = asyncio.Semaphore(limits.connections)
        guard = AddressGuard(index.url, file_hosts)
        self._client = httpx.AsyncClient(
            transport=GuardedTransport(guard, limits.connections),
            trust_env=False,
            cookies=_NoCookies(),
            headers={"User-Agent": f"thoth/{__version__}"},
            timeout=httpx.Timeout(limits.silence_s, connect=limits.connect_s, pool=None),
        )

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def fetch(self, wanted: FetchRequest) -> FetchResponse:
        """Send the request, again if that may help.

        :raises IndexProblem: with what was wrong the last time
        """
        wait = wait_random_exponential(multiplier=self.limits.pause_s, max=20)
        retrying = AsyncRetrying(
            stop=stop_any(
                stop_after_attempt(self.limits.attempts),
                stop_before_delay(2 * self.limits.deadline_s),
            ),
            wait=lambda state: max(_asked_pause(state), wait(state)),
            retry=retry_if_exception(lambda it: isinstance(it, IndexProblem) and it.retryable),
            before_sleep=self._count_retry,
            reraise=True,
        )
        try:
            return await retrying(self._attempt, wanted)
        except IndexProblem as problem:
            if problem.code is not IndexFault.UNAUTHORIZED or not await self._ask_keyring():
                raise
        return await retrying(self._attempt, wanted)

    async def _attempt(self, wanted: FetchRequest) -> FetchResponse:
        try:
            async with self._slots, asyncio.timeout(wanted.deadline_s or self.limits.deadline_s):
                return await self._follow(wanted)
        except TimeoutError as error:
            raise problem_of(error, host_of(wanted.url), False) from error

    async def _follow(self, wanted: FetchRequest) -> FetchResponse:
        url = wanted.url
        for _ in range(self.limits.redirects + 1):
            answer = await self._send(wanted, url)
            if isinstance(answer, FetchResponse):
                return answer
            url = answer
        raise IndexProblem(IndexFault.TOO_MANY_REDIRECTS, f"{wanted.what}: sent on too often")

    async def _send(self, wanted: FetchRequest, url: str) -> FetchResponse | str:
        """The answer, or where else to ask."""
        answering = False
        self.traffic.requests += 1
        try:
            headers = {"Accept-Encoding": "identity", **wanted.headers, **self._credentials(url)}
            async with self._client.stream("GET", url, headers=headers) as response:
                answering = True
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    return redirected(url, response.headers["location"], wanted.what)
                await self._take(wanted, response)
                return FetchResponse(response.status_code, response.headers, url)
        except _NO_ADDRESS as error:
            if answering:
                raise problem_of(error, host_of(url), answering) from error
            # The address may hold a password, so it is not repeated.
            message = f"{wanted.what}: the index names an address that nobody can connect to"
            raise IndexProblem(IndexFault.ADDRESS_REFUSED, message) from error
        except _ERRORS as error:
            raise problem_of(error, host_of(url), answering) from error

    async def _take(self, wanted: FetchRequest, response: httpx.Response) -> None:
        if response.status_code not in wanted.limits:
            raise refusal(response, wanted.what)
        wanted.into.seek(0)
        wanted.into.truncate()
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return
        limit = wanted.limits[response.status_code]
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limit:
            raise too_large(wanted.what, limit)
        encoding = response.headers.get("content-encoding", "")
        self.traffic.bytes_received += await unpack(
            response.aiter_raw(), encoding, limit, wanted.into, wanted.what
        )
        wanted.into.seek(0)

    def _credentials(self, url: str) -> dict[str, str]:
        """Only for the index's own address: no other host learns them."""
        if self._auth is None or not is_same_place(self._index.url, url):
            return {}
        told = base64.b64encode(":".join(self._auth).encode()).decode()
        return {"Authorization": f"Basic {told}"}

    async def _ask_keyring(self) -> bool:
        """Whether a keyring knew credentials that were not tried yet; it is asked once."""
        if self._asked_keyring:
            return False
        self._asked_keyring = True
        found = await asyncio.to_thread(from_keyring, self._index)
        self._auth, known = found or self._auth, self._auth
        return found is not None and found != known

    def _count_retry(self, state: RetryCallState) -> None:
        self.traffic.retries += 1
        error = state.outcome.exception() if state.outcome else None
        code = error.code if isinstance(error, IndexProblem) else ""
        fields = {"index": self._index.name, "attempt": state.attempt_number, "code": str(code)}
        logger.info("index_request_repeated", extra=fields)


def _asked_pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return (error.retry_after_s or 0.0) if isinstance(error, IndexProblem) else 0.0
