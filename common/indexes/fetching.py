"""One request and its answer: redirects, retries, limits, credentials."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookiejar import CookieJar
from typing import BinaryIO

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
from common.indexes.bodies import too_large, unpack
from common.indexes.configured import Index
from common.indexes.credentials import from_keyring, host_of, is_same_place
from common.indexes.guard import AddressGuard
from common.indexes.limits import Limits, Traffic
from common.indexes.refusals import redirected, refusal
from common.indexes.transport import GuardedTransport, problem_of

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
class Wanted:
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
class Answer:
    """An answer; its body was written to where it was wanted.

    :param url: where it was in the end
    """

    status: int
    headers: httpx.Headers
    url: str


class Fetcher:
    """Sends requests to one index and to where it sends us."""

    def __init__(self, index: Index, file_hosts: tuple[str, ...], limits: Limits) -> None:
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

    async def fetch(self, wanted: Wanted) -> Answer:
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

    async def _attempt(self, wanted: Wanted) -> Answer:
        try:
            async with self._slots, asyncio.timeout(wanted.deadline_s or self.limits.deadline_s):
                return await self._follow(wanted)
        except TimeoutError as error:
            raise problem_of(error, host_of(wanted.url), False) from error

    async def _follow(self, wanted: Wanted) -> Answer:
        url = wanted.url
        for _ in range(self.limits.redirects + 1):
            answer = await self._send(wanted, url)
            if isinstance(answer, Answer):
                return answer
            url = answer
        raise IndexProblem(IndexFault.TOO_MANY_REDIRECTS, f"{wanted.what}: sent on too often")

    async def _send(self, wanted: Wanted, url: str) -> Answer | str:
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
                return Answer(response.status_code, response.headers, url)
        except _NO_ADDRESS as error:
            if answering:
                raise problem_of(error, host_of(url), answering) from error
            # The address may hold a password, so it is not repeated.
            message = f"{wanted.what}: the index names an address that nobody can connect to"
            raise IndexProblem(IndexFault.ADDRESS_REFUSED, message) from error
        except _ERRORS as error:
            raise problem_of(error, host_of(url), answering) from error

    async def _take(self, wanted: Wanted, response: httpx.Response) -> None:
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
