"""Answers that are none: sent on, refused, put off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urljoin, urlsplit

import httpx

from common.errors import IndexFault, IndexProblem

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
