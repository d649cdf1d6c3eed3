"""Downloads an archive of advisories, unless it is unchanged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, cast
from urllib.parse import urlsplit

from common.errors import IndexFault, IndexProblem, StoreUnavailable
from common.http.fetching import Fetcher, FetchLimits, FetchRequest
from ingest.sources.documents import MEBIBYTE
from ingest.sources.urls import stored_source

#: Size limit: twice the size of the archive of all ecosystems.
MOST_BYTES = 2048 * MEBIBYTE
#: Time limit for all attempts together, so that a slow server does not hold up the nightly run.
_DEADLINE_S = 900.0
_PAUSE_S = 0.5
_LONGEST_RETRY_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Validators:
    """Headers by which a server identifies the version of a response."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of a conditional request."""
        named = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in named.items() if value}


@dataclass(frozen=True, slots=True)
class Fetched:
    """A downloaded archive.

    :param path: path of the archive; ``None`` if the known version is still current
    :param as_of: time of the response
    """

    path: Path | None
    validators: Validators
    as_of: datetime


def fetch_archive(
    url: str, known: Validators, folder: Path, *, most_bytes: int = MOST_BYTES
) -> Fetched:
    """Download ``url`` into ``folder``, unless the version ``known`` is still current.

    Temporary failures are retried. The host of ``url`` may have a private address. Redirects may
    only lead back to that host, or to public addresses.

    :raises StoreUnavailable: if the server does not answer with an archive
    """
    try:
        return asyncio.run(_fetch(url, known, folder, most_bytes))
    except TimeoutError as error:
        raise _unavailable(url, f"takes longer than {_DEADLINE_S:g} s") from error
    except IndexProblem as error:
        message = error.message
        if error.code is IndexFault.ADDRESS_REFUSED:
            message = "redirected to a private address; name that address if this is intended"
        raise _unavailable(url, message) from error
    except ValueError as error:
        raise _unavailable(url, str(error) or type(error).__name__) from error


def _unavailable(url: str, cause: str) -> StoreUnavailable:
    source = stored_source(url)
    return StoreUnavailable(
        "the source of advisories",
        cause if cause.startswith(source) else f"{source}: {cause}",
        "try again later, or use a file instead",
    )


async def _fetch(url: str, known: Validators, folder: Path, most_bytes: int) -> Fetched:
    limits = FetchLimits(
        connections=1,
        silence_s=30.0,
        deadline_s=_DEADLINE_S,
        pause_s=_PAUSE_S,
        retry_after_s=_LONGEST_RETRY_AFTER_S,
    )
    # HTTPS on the same host is still the same server.
    private_hosts = (f"{urlsplit(url).hostname}:443",)
    fetcher = Fetcher(url, "advisories", limits, private_hosts=private_hosts)
    part = folder / "fetched"
    try:
        with part.open("w+b") as body:
            request = FetchRequest(
                url,
                stored_source(url),
                {200: most_bytes, 304: 0},
                cast(BinaryIO, body),
                {"Accept-Encoding": "gzip", **known.headers},
                # The shared deadline expires first.
                deadline_s=2 * _DEADLINE_S,
            )
            async with asyncio.timeout(_DEADLINE_S):
                response = await fetcher.fetch(request)
            start = body.read(2)
    finally:
        await fetcher.aclose()
    as_of = datetime.now(UTC)
    if response.status == HTTPStatus.NOT_MODIFIED:
        part.unlink()
        return Fetched(None, known, as_of)
    suffix = {b"PK": ".zip", b"\x1f\x8b": ".tar.gz"}.get(start, ".json")
    validators = Validators(response.headers.get("etag"), response.headers.get("last-modified"))
    return Fetched(part.replace(part.with_suffix(suffix)), validators, as_of)
