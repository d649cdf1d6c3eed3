"""Fetches an archive of advisories over HTTP, and only if it is not the one known already."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_random_exponential

from common.errors import IndexFault, IndexProblem, StoreUnavailable
from common.http.transport import AddressGuard, GuardedTransport
from ingest.documents import MEBIBYTE
from ingest.sources.urls import stored_source

#: The archive of all ecosystems together has about half of this.
MOST_BYTES = 2048 * MEBIBYTE
_ATTEMPTS = 4
_MOST_REDIRECTS = 5
#: For all attempts together, however slowly it comes: a nightly run has other things to do.
_DEADLINE_S = 900.0
_LONGEST_WAIT_S = 60.0
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
#: What a connection raises, by the library and by the one beneath it.
_CONNECTION = (
    httpx.TransportError, httpcore.TimeoutException, httpcore.NetworkError,
    httpcore.ProtocolError, httpcore.ProxyError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server calls the version of what it answered with."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers that ask for another version only."""
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a server answered.

    :param path: where it was written; ``None`` if it is what was known before
    :param as_of: when the server said so
    """

    path: Path | None
    validators: Validators
    as_of: datetime


class _Refused(Exception):
    """An answer that is none.

    :param again: whether to ask once more, and after ``wait_s`` at the earliest
    """

    def __init__(self, message: str, *, again: bool = False, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.again = again
        self.wait_s = wait_s


def fetch_archive(
    url: str, known: Validators, folder: Path, *, most_bytes: int = MOST_BYTES
) -> Fetched:
    """Fetch ``url`` into ``folder``, unless it is still what ``known`` describes.

    Asked again with growing pauses if the server is busy or the connection breaks. The host
    of ``url`` may have any address; redirects lead to public ones only, or back to it.

    :raises StoreUnavailable: if it does not answer, or with something that is no archive
    """
    try:
        return asyncio.run(_fetch(url, known, folder, most_bytes))
    except TimeoutError as error:
        raise _unavailable(url, f"takes longer than {_DEADLINE_S:g} s") from error
    except IndexProblem as error:
        words = str(error)
        if error.code is IndexFault.ADDRESS_REFUSED:
            words = "redirected to a private address; name that one if it is meant"
        raise _unavailable(url, words) from error
    except (*_CONNECTION, httpx.HTTPError, httpx.InvalidURL, UnicodeError, _Refused) as error:
        raise _unavailable(url, str(error) or type(error).__name__) from error


def _unavailable(url: str, cause: str) -> StoreUnavailable:
    return StoreUnavailable(
        "the source of advisories", f"{stored_source(url)}: {cause}",
        "try again later, or name a file instead",
    )  # fmt: skip


async def _fetch(url: str, known: Validators, folder: Path, most_bytes: int) -> Fetched:
    attempts = AsyncRetrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=_pause,
        retry=retry_if_exception(_may_try_again),
        reraise=True,
    )
    host = httpx.URL(url).host
    # The same server over TLS is no other one.
    transport = GuardedTransport(AddressGuard(url, {f"{host}:443"}), connections=1)
    async with (
        asyncio.timeout(_DEADLINE_S),
        httpx.AsyncClient(transport=transport, timeout=_TIMEOUT, trust_env=False) as client,
    ):
        return await attempts(_fetch_once, client, url, known, folder, most_bytes)


def _may_try_again(error: BaseException) -> bool:
    if isinstance(error, _Refused):
        return error.again
    if isinstance(error, IndexProblem):
        return error.retryable
    return isinstance(error, _CONNECTION)


_backing_off = wait_random_exponential(multiplier=0.5, max=20)


def _pause(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.wait_s if isinstance(error, _Refused) else 0.0
    return max(asked, _backing_off(state))


async def _fetch_once(
    client: httpx.AsyncClient, url: str, known: Validators, folder: Path, most_bytes: int
) -> Fetched:
    async with _answer(client, url, known.headers) as response:
        as_of = datetime.now(UTC)
        if response.status_code == httpx.codes.NOT_MODIFIED:
            return Fetched(None, known, as_of)
        if response.status_code != httpx.codes.OK:
            raise _refusal(response)
        path = await _write(response, folder, most_bytes)
        headers = response.headers
        validators = Validators(headers.get("etag"), headers.get("last-modified"))
        return Fetched(path, validators, as_of)


@asynccontextmanager
async def _answer(
    client: httpx.AsyncClient, url: str, headers: dict[str, str]
) -> AsyncIterator[httpx.Response]:
    """The answer to which redirects lead; from HTTPS they may not lead to anything else."""
    for _ in range(_MOST_REDIRECTS + 1):
        async with client.stream("GET", url, headers=headers) as response:
            if not response.has_redirect_location:
                yield response
                return
            target = urljoin(url, response.headers["location"])
        allowed = ("https",) if urlsplit(url).scheme == "https" else ("http", "https")
        if urlsplit(target).scheme not in allowed:
            raise _Refused("redirected to something other than HTTPS")
        url = target
    raise _Refused(f"redirected more than {_MOST_REDIRECTS} times")


def _refusal(response: httpx.Response) -> _Refused:
    status = response.status_code
    wait = response.headers.get("retry-after", "")
    wait_s = min(float(wait), _LONGEST_WAIT_S) if wait.isdecimal() else 0.0
    return _Refused(f"HTTP status {status}", again=status in _TRY_AGAIN, wait_s=wait_s)


async def _write(response: httpx.Response, folder: Path, most_bytes: int) -> Path:
    """The body, in a file whose name tells what it is."""
    written, beginning = 0, b""
    part = folder / "fetched"
    with part.open("wb") as file:
        # Pieces as they come, so that the first two bytes may be in two of them.
        async for piece in response.aiter_bytes():
            written += file.write(piece)
            beginning = (beginning + piece[:2])[:2]
            if written > most_bytes:
                raise _Refused(f"more than {most_bytes / MEBIBYTE:g} MiB")
    suffix = {b"PK": ".zip", b"\x1f\x8b": ".tar.gz"}.get(beginning, ".json")
    return part.replace(part.with_suffix(suffix))
