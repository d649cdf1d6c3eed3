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
from common.redaction import cut

logger = logging.getLogger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_GZIP = ("gzip", "x-gzip")
#: Bytes decompressed at once.
_STEP = 1 << 20
#: Errors of a connection or its protocol.
_ERRORS = (
    httpx.HTTPError,
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
)
#: Errors of a URL that cannot be fetched, such as a host name that violates IDNA.
_INVALID_URL = (
    httpx.InvalidURL,
    httpx.UnsupportedProtocol,
    httpcore.UnsupportedProtocol,
    UnicodeError,
)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of requests to one server. Durations are in seconds, sizes in bytes.

    :param silence_s: between two chunks of a response
    :param deadline_s: for one attempt, from its start to the last byte; no attempt starts after
        twice this time
    :param pause_s: upper bound of the first pause before a retry, doubled for each further one
    :param retry_after_s: the longest ``Retry-After`` that is honoured; a longer one is shortened
    :param archive_bytes: of a file that is read whole for its metadata
    :param file_bytes: of a download
    """

    connections: int = 4
    attempts: int = 4
    redirects: int = 5
    connect_s: float = 10.0
    silence_s: float = 20.0
    deadline_s: float = 60.0
    pause_s: float = 1.0
    retry_after_s: float = float("inf")
    page_bytes: int = 64 << 20
    metadata_bytes: int = 4 << 20
    archive_bytes: int = 64 << 20
    file_bytes: int = 4 << 30
    download_s: float = 3600.0


@dataclass(slots=True)
class Traffic:
    """Counters of the requests to one server.

    :param requests: sent, including retries and redirects
    :param retries: attempts after a failed one
    :param revalidated: pages that the server confirmed without sending them
    :param from_cache: pages and metadata that needed no request
    :param bytes_received: of bodies, as transferred
    """

    requests: int = 0
    retries: int = 0
    revalidated: int = 0
    from_cache: int = 0
    bytes_received: int = 0


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A GET request.

    :param what: names the resource in messages
    :param limits: size limit of the body for each accepted status
    :param into: gets the body, and is rewound afterwards
    """

    url: str
    what: str
    limits: Mapping[int, int]
    into: BinaryIO
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """A response; its body is in the file that the request named.

    :param url: after all redirects
    """

    status: int
    headers: httpx.Headers
    url: str


class Fetcher:
    """Sends requests to one server, and follows its redirects.

    :param url: of the server; the only one that gets credentials, and may have a private address
    :param name: of the server, for logs
    :param auth: user and password; without them, or if they are refused, a keyring is asked
    :param private_hosts: other hosts that may have private addresses
    """

    def __init__(
        self,
        url: str,
        name: str,
        limits: FetchLimits,
        *,
        auth: tuple[str, str] | None = None,
        private_hosts: tuple[str, ...] = (),
    ) -> None:
        self.limits = limits
        self.traffic = Traffic()
        self._url, self._name = url, name
        self._auth = auth
        self._keyring_asked = False
        self._slots = asyncio.Semaphore(limits.connections)
        guard = AddressGuard(url, private_hosts)
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

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Send the request, with retries for temporary failures.

        :raises IndexProblem: of the last attempt
        """
        wait = wait_random_exponential(multiplier=self.limits.pause_s, max=20)
        retrying = AsyncRetrying(
            stop=stop_any(
                stop_after_attempt(self.limits.attempts),
                stop_before_delay(2 * self.limits.deadline_s),
            ),
            wait=lambda state: max(self._retry_after(state), wait(state)),
            retry=retry_if_exception(lambda it: isinstance(it, IndexProblem) and it.retryable),
            before_sleep=self._count_retry,
            reraise=True,
        )
        try:
            return await retrying(self._attempt, request)
        except IndexProblem as problem:
            if problem.code is not IndexFault.UNAUTHORIZED or not await self._ask_keyring():
                raise
        return await retrying(self._attempt, request)

    async def _attempt(self, request: FetchRequest) -> FetchResponse:
        try:
            async with self._slots, asyncio.timeout(request.deadline_s or self.limits.deadline_s):
                return await self._follow(request)
        except TimeoutError as error:
            raise problem_of(error, _host_of(request.url), False) from error

    async def _follow(self, request: FetchRequest) -> FetchResponse:
        url = request.url
        for _ in range(self.limits.redirects + 1):
            response = await self._send(request, url)
            if isinstance(response, FetchResponse):
                return response
            url = response
        message = f"{request.what}: redirected more than {self.limits.redirects} times"
        raise IndexProblem(IndexFault.TOO_MANY_REDIRECTS, message)

    async def _send(self, request: FetchRequest, url: str) -> FetchResponse | str:
        """The response, or the target of a redirect."""
        responding = False
        self.traffic.requests += 1
        try:
            headers = {"Accept-Encoding": "identity", **request.headers, **self._credentials(url)}
            async with self._client.stream("GET", url, headers=headers) as response:
                responding = True
                if response.status_code in _REDIRECTS and "location" in response.headers:
                    return redirect_target(url, response.headers["location"], request.what)
                await self._receive(request, response)
                return FetchResponse(response.status_code, response.headers, url)
        except _INVALID_URL as error:
            if responding:
                raise problem_of(error, _host_of(url), responding) from error
            # The URL may hold a password, so it is not repeated.
            message = f"{request.what}: the server names a URL that cannot be fetched"
            raise IndexProblem(IndexFault.ADDRESS_REFUSED, message) from error
        except _ERRORS as error:
            raise problem_of(error, _host_of(url), responding) from error

    async def _receive(self, request: FetchRequest, response: httpx.Response) -> None:
        if response.status_code not in request.limits:
            raise status_problem(response, request.what)
        request.into.seek(0)
        request.into.truncate()
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return
        limit = request.limits[response.status_code]
        length = response.headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > limit:
            raise too_large(request.what, limit)
        encoding = response.headers.get("content-encoding", "")
        self.traffic.bytes_received += await _write_body(
            response.aiter_raw(), encoding, limit, request.into, request.what
        )
        request.into.seek(0)

    def _credentials(self, url: str) -> dict[str, str]:
        """Only for the server itself: no other host gets them."""
        if self._auth is None or not _is_same_server(self._url, url):
            return {}
        credentials = base64.b64encode(":".join(self._auth).encode()).decode()
        return {"Authorization": f"Basic {credentials}"}

    async def _ask_keyring(self) -> bool:
        """Whether a keyring has credentials that were not tried yet; it is asked once."""
        if self._keyring_asked:
            return False
        self._keyring_asked = True
        user = self._auth[0] if self._auth else None
        credentials = await asyncio.to_thread(_from_keyring, self._url, user)
        self._auth, tried = credentials or self._auth, self._auth
        return credentials is not None and credentials != tried

    def _retry_after(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        pause_s = error.retry_after_s if isinstance(error, IndexProblem) else None
        return min(pause_s or 0.0, self.limits.retry_after_s)

    def _count_retry(self, state: RetryCallState) -> None:
        self.traffic.retries += 1
        error = state.outcome.exception() if state.outcome else None
        code = error.code if isinstance(error, IndexProblem) else ""
        fields = {"index": self._name, "attempt": state.attempt_number, "code": str(code)}
        logger.info("index_request_repeated", extra=fields)


class _NoCookies(CookieJar):
    """Stores no cookies: a server's would also go to other ports and hosts of its domain."""

    def extract_cookies(self, response: object, request: object) -> None:
        """Ignore the cookies of a response."""


def too_large(what: str, limit: int) -> IndexProblem:
    """The error of a resource that exceeds its size limit, in bytes."""
    return IndexProblem(IndexFault.TOO_LARGE, f"{what} is larger than {limit:,} bytes")


def redirect_target(url: str, location: str, what: str) -> str:
    """The URL of a redirect from ``url``.

    :raises IndexProblem: ``redirect_refused``, if it is not HTTP or leaves HTTPS
    """
    try:
        target = urljoin(url, location)
        scheme = urlsplit(target).scheme
    except ValueError:
        scheme = ""
    if scheme not in ("http", "https") or (url.startswith("https:") and scheme == "http"):
        message = f"{what}: redirected to something other than HTTPS or HTTP, or from HTTPS to HTTP"
        raise IndexProblem(IndexFault.REDIRECT_REFUSED, message)
    return target


def status_problem(response: httpx.Response, what: str) -> IndexProblem:
    """The error of a response with an unexpected status."""
    status = response.status_code
    codes = {404: IndexFault.NOT_FOUND, 410: IndexFault.NOT_FOUND}
    codes |= {401: IndexFault.UNAUTHORIZED, 403: IndexFault.UNAUTHORIZED}
    phrase: Callable[[int], str] = httpx.codes.get_reason_phrase
    return IndexProblem(
        codes.get(status, IndexFault.HTTP_STATUS),
        f"{what}: the server answers {status} {phrase(status)}".rstrip(),
        retryable=status in _TEMPORARY_STATUSES,
        retry_after_s=_seconds_of(response.headers.get("retry-after", "")),
        status=status,
    )


def _seconds_of(retry_after: str) -> float | None:
    """Seconds, from seconds or a date (RFC 9110, 10.2.3)."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10:
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


async def _write_body(
    chunks: AsyncIterable[bytes], encoding: str, limit: int, into: BinaryIO, what: str
) -> int:
    """Write a body to ``into``, and return how many bytes were transferred.

    :param encoding: the header ``Content-Encoding``, or empty text
    :param limit: bytes, both of the transfer and of the decompressed body
    :raises IndexProblem: ``too_large``, ``truncated`` or ``malformed``
    """
    encoding = encoding.strip().lower()
    if encoding in _GZIP:
        return await _write_gzip(chunks, limit, into, what)
    if encoding not in ("", "identity"):
        raise IndexProblem(
            IndexFault.MALFORMED, f"{what} has the content encoding {cut(encoding)!r}"
        )
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        _check_size(received, limit, what)
        into.write(chunk)
    return received


async def _write_gzip(chunks: AsyncIterable[bytes], limit: int, into: BinaryIO, what: str) -> int:
    decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
    received = written = 0
    async for chunk in chunks:
        received += len(chunk)
        _check_size(received, limit, what)
        for part in _decompressed(decompressor, chunk, what):
            written += len(part)
            _check_size(written, limit, what)
            into.write(part)
    if not decompressor.eof:
        raise IndexProblem(
            IndexFault.TRUNCATED, f"{what} ends in the middle of its gzip data", retryable=True
        )
    return received


def _decompressed(decompressor: zlib._Decompress, chunk: bytes, what: str) -> Iterator[bytes]:
    """Decompress in steps: a chunk that expands a thousandfold is never held as a whole."""
    while not decompressor.eof:
        try:
            part = decompressor.decompress(chunk, _STEP)
        except zlib.error as error:
            message = f"{what} cannot be decompressed: {error}"
            raise IndexProblem(IndexFault.MALFORMED, message) from None
        yield part
        chunk = decompressor.unconsumed_tail
        if not chunk and len(part) < _STEP:
            return


def _check_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise too_large(what, limit)


def _is_same_server(url: str, other: str) -> bool:
    """Whether both have the same host and port; an upgrade to HTTPS on default ports counts."""
    first, second = httpx.URL(url), httpx.URL(other)
    if first.host != second.host:
        return False
    upgraded = first.scheme == "http" and second.scheme == "https"
    return (first.scheme, first.port) == (second.scheme, second.port) or (
        upgraded and first.port is None and second.port is None
    )


def _from_keyring(url: str, user: str | None) -> tuple[str, str] | None:
    """Credentials of a keyring for ``url``, else for its host."""
    try:
        import keyring
    except ImportError:
        return None
    for service in (url, _host_of(url)):
        try:
            credential = keyring.get_credential(service, user)
        # Back ends raise whatever their service does.
        except Exception as error:
            logger.warning("keyring_failed", extra={"error": type(error).__name__})
            return None
        if credential is not None:
            return credential.username, credential.password
    return None


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the server"
    except ValueError:
        return "the server"
