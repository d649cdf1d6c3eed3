"""Fetch a URL: redirects, retries, size limits and credentials."""

from __future__ import annotations

import asyncio
import base64
import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import BinaryIO
from urllib.parse import urljoin, urlsplit

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
from common.http.addresses import AddressGuard
from common.http.transport import (
    Head,
    Server,
    StopReceiving,
    Transport,
    problem_of_timeout,
    server_of,
)
from model.errors import IndexFault, IndexProblem
from model.redaction import cut

logger = logging.getLogger(__name__)

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEMPORARY_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_GZIP = ("gzip", "x-gzip")
#: Bytes decompressed at once.
_STEP = 1 << 20
#: Bytes of an unwanted body that are read so that the connection stays open.
_DISCARDED = 16 << 10


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of requests to one server. Durations are in seconds, sizes in bytes.

    :param connections: to one host, and requests under way
    :param silence_s: without a byte of a response
    :param deadline_s: for one attempt, from its start to the last byte; no attempt starts after
        twice this time
    :param pause_s: upper bound of the first pause before a retry, doubled for each further one
    :param retry_after_s: the longest ``Retry-After`` that is honoured; a longer one is shortened
    :param archive_bytes: of a file that is read whole for its metadata
    :param file_bytes: of a download
    """

    connections: int = 48
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
    :param setting: the variable that sets the size limit, for messages
    :param may_stop: whether ``into`` raises :class:`common.http.transport.StopReceiving` once it
        has enough; then the limit holds for what is received and not for the length of the file
    """

    url: str
    what: str
    limits: Mapping[int, int]
    into: BinaryIO
    headers: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None
    setting: str = ""
    may_stop: bool = False


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """A response; its body is in the file that the request named.

    :param headers: names in lower case
    :param url: after all redirects
    """

    status: int
    headers: Mapping[str, str]
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
        self._transport = Transport(guard, limits.connections, limits.connect_s, limits.silence_s)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

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
            raise problem_of_timeout(_host_of(request.url)) from error

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
        self.traffic.requests += 1
        server = _server_of(url, request.what)
        headers = {
            "Accept-Encoding": "identity",
            "User-Agent": f"thoth/{__version__}",
            **request.headers,
            **self._credentials(url),
        }
        body = _Body(request)
        try:
            head = await self._transport.get(server, headers, body.receive)
        finally:
            self.traffic.bytes_received += body.received
        if _is_redirect(head):
            return redirect_target(url, head.headers["location"], request.what)
        if head.status not in request.limits:
            raise status_problem(head, request.what)
        body.finish(head)
        return FetchResponse(head.status, head.headers, url)

    def _credentials(self, url: str) -> dict[str, str]:
        """Credentials for a URL of the server itself; no other host gets any."""
        if self._auth is None or not _is_same_server(self._url, url):
            return {}
        credentials = base64.b64encode(":".join(self._auth).encode()).decode()
        return {"Authorization": f"Basic {credentials}"}

    async def _ask_keyring(self) -> bool:
        """Whether a keyring, queried only once, has credentials that were not tried yet."""
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


def too_large(what: str, limit: int, setting: str = "") -> IndexProblem:
    """The error for a resource that exceeds its size limit; the limit is in bytes."""
    by = f", the limit in {setting}" if setting else ""
    return IndexProblem(IndexFault.TOO_LARGE, f"{what} is larger than {limit:,} bytes{by}")


def redirect_target(url: str, location: str, what: str) -> str:
    """The URL that a redirect from ``url`` leads to.

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


def status_problem(head: Head, what: str) -> IndexProblem:
    """The error for a response with an unexpected status."""
    status = head.status
    codes = {404: IndexFault.NOT_FOUND, 410: IndexFault.NOT_FOUND}
    codes |= {401: IndexFault.UNAUTHORIZED, 403: IndexFault.UNAUTHORIZED}
    pause_s = _seconds_of(head.headers.get("retry-after", ""))
    again = f", and asks to wait {pause_s:,.0f} s" if pause_s else ""
    return IndexProblem(
        codes.get(status, IndexFault.HTTP_STATUS),
        f"{what}: the server answers {status} {_phrase_of(status)}".rstrip() + again,
        retryable=status in _TEMPORARY_STATUSES,
        retry_after_s=pause_s,
        status=status,
    )


def _seconds_of(retry_after: str) -> float | None:
    """Seconds to wait, from a number of seconds or a date (RFC 9110, 10.2.3)."""
    if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10:
        return float(retry_after)
    try:
        moment = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    moment = moment.replace(tzinfo=moment.tzinfo or UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def _phrase_of(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _is_redirect(head: Head) -> bool:
    return head.status in _REDIRECTS and "location" in head.headers


def _server_of(url: str, what: str) -> Server:
    try:
        return server_of(url)
    except ValueError as error:
        # The URL may hold a password, so it is not repeated.
        message = f"{what}: the server names a URL that cannot be fetched"
        raise IndexProblem(IndexFault.ADDRESS_REFUSED, message) from error


class _Body:
    """Writes the body of one response to the file of its request.

    The limit holds both for the transferred bytes and for the decompressed bytes. Bodies of
    redirects and of unexpected statuses are dropped.
    """

    def __init__(self, request: FetchRequest) -> None:
        self.received = 0
        self._request = request
        self._limit = 0
        self._written = 0
        self._decompressor: zlib._Decompress | None = None
        self._is_begun = self._is_stopped = False

    def receive(self, head: Head, part: bytes) -> None:
        """Take the next part as it was transferred.

        :raises IndexProblem: ``too_large`` or ``malformed``
        :raises StopReceiving: if the rest is not needed
        """
        self.received += len(part)
        if _is_redirect(head) or head.status not in self._request.limits:
            length = head.headers.get("content-length", "")
            if not _is_number(length) or int(length) > _DISCARDED or self.received > _DISCARDED:
                raise StopReceiving
            return
        if not self._is_begun:
            self._begin(head)
        _check_size(self.received, self._limit, self._request)
        try:
            self._write(part)
        except StopReceiving:
            self._is_stopped = True
            raise

    def _write(self, part: bytes) -> None:
        if self._decompressor is None:
            self._request.into.write(part)
            return
        for piece in _decompressed(self._decompressor, part, self._request.what):
            self._written += len(piece)
            _check_size(self._written, self._limit, self._request)
            self._request.into.write(piece)

    def finish(self, head: Head) -> None:
        """Check that the body is complete, and rewind the file.

        :raises IndexProblem: ``too_large``, ``truncated`` or ``malformed``
        """
        if not self._is_begun:
            self._begin(head)
        is_cut = self._decompressor is not None and not self._decompressor.eof
        if is_cut and not self._is_stopped:
            message = f"{self._request.what} ends in the middle of its gzip data"
            raise IndexProblem(IndexFault.TRUNCATED, message, retryable=True)
        self._request.into.seek(0)

    def _begin(self, head: Head) -> None:
        self._is_begun = True
        self._request.into.seek(0)
        self._request.into.truncate()
        if head.status == HTTPStatus.NOT_MODIFIED:
            return
        what = self._request.what
        self._limit = self._request.limits[head.status]
        length = head.headers.get("content-length", "")
        if _is_number(length) and int(length) > self._limit and not self._request.may_stop:
            raise too_large(what, self._limit, self._request.setting)
        encoding = head.headers.get("content-encoding", "").strip().lower()
        if encoding in _GZIP:
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS | 16)
        elif encoding not in ("", "identity"):
            message = f"{what} has the content encoding {cut(encoding)!r}"
            raise IndexProblem(IndexFault.MALFORMED, message)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _decompressed(decompressor: zlib._Decompress, chunk: bytes, what: str) -> Iterator[bytes]:
    """Decompress in steps: a chunk that expands a thousandfold is never in memory as a whole."""
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


def _check_size(size: int, limit: int, request: FetchRequest) -> None:
    if size > limit:
        raise too_large(request.what, limit, request.setting)


def _is_same_server(url: str, other: str) -> bool:
    """Whether two URLs have the same host and port; HTTPS may replace HTTP on default ports."""
    first, second = server_of(url), server_of(other)
    if first.host != second.host:
        return False
    ports = (first.scheme, first.port, second.scheme, second.port)
    return ports[:2] == ports[2:] or ports == ("http", 80, "https", 443)


def _from_keyring(url: str, user: str | None) -> tuple[str, str] | None:
    """Credentials of a keyring for ``url`` or, if it has none, for the host of ``url``."""
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
