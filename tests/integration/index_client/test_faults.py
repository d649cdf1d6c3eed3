"""The index client against a server that is at times slow, broken or hostile."""

import gzip
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from common.settings import Settings
from model.errors import IndexFault
from tests.services.index import JSON, Index, dripping, half_open, raw, silent, status
from tests.services.index_client import IMPATIENT, LIMITS, page, problem
from tests.services.waiting import DEADLINE_S

pytestmark = pytest.mark.faults


def test_missing_project_is_reported_as_not_found(index: Index, settings: Settings) -> None:
    assert problem(settings).code is IndexFault.NOT_FOUND
    assert problem(settings, "../../etc").code is IndexFault.NOT_FOUND
    assert len(index.seen) == 1


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (IndexFault.WRONG_CONTENT_TYPE, b"<html>", "image/png"),
        (IndexFault.MALFORMED, b"<html>please log in</html>", JSON),
        (IndexFault.WRONG_CONTENT_TYPE, b'<h1>log in</h1><a href="/in">log in</a>', "text/html"),
        (IndexFault.MALFORMED, b'{"meta": {"api-version": "1.0"}, "files": [', JSON),
        (IndexFault.MALFORMED, b"[" * 100_000, JSON),
        (
            IndexFault.UNSUPPORTED_VERSION,
            b'<meta name="pypi:repository-version" content="2.0"><a href="x">x</a>',
            "text/html",
        ),
    ],
)
def test_invalid_index_page_is_refused_without_a_second_request(
    index: Index, settings: Settings, code: IndexFault, body: bytes, kind: str
) -> None:
    index.answers["/simple/parrot/"] = status(200, body, Content_Type=kind)
    refused = problem(settings)
    assert (refused.code, refused.retryable) == (code, False)
    assert len(index.seen) == 1


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (IndexFault.TIMEOUT, silent),
        (IndexFault.TIMEOUT, half_open),
        (IndexFault.TIMEOUT, dripping),
        (IndexFault.TRUNCATED, raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")),
        (
            IndexFault.TRUNCATED,
            raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"),
        ),
        (IndexFault.TRUNCATED, raw(b"")),
        (IndexFault.TRUNCATED, status(200, gzip.compress(b"{}")[:-6], Content_Encoding="gzip")),
        (
            IndexFault.TRUNCATED,
            raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n<html><a href='"),
        ),
        (IndexFault.HTTP_STATUS, status(503)),
    ],
)
def test_persistent_server_error_is_reported_as_retryable(
    index: Index, settings: Settings, code: IndexFault, answer: Any
) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = answer
    limits = IMPATIENT if code is IndexFault.TIMEOUT else LIMITS
    refused = problem(settings, limits=replace(limits, attempts=1))
    assert (refused.code, refused.retryable) == (code, True)


@pytest.mark.parametrize("answer", [raw(b""), status(503), status(429)])
def test_transient_index_fault_is_retried_until_it_passes(
    index: Index, settings: Settings, answer: Any
) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = [answer]
    assert page(settings).files
    assert len(index.seen) == 2


def test_index_is_read_although_the_cache_cannot_be_written(
    index: Index, settings: Settings
) -> None:
    index.add_wheel("parrot", "1.0")
    (settings.home / "cache").touch()
    assert page(settings).files


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (IndexFault.MALFORMED, raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
        (IndexFault.MALFORMED, status(200, b"{}", Content_Encoding="br")),
        (IndexFault.MALFORMED, status(200, b"not packed at all", Content_Encoding="gzip")),
        (IndexFault.TOO_LARGE, status(200, b" ", Content_Length=str(1 << 40))),
        (IndexFault.TOO_LARGE, raw(b"HTTP/1.0 200 OK\r\n\r\n" + b" " * (2 << 20))),
        (
            IndexFault.TOO_LARGE,
            status(200, gzip.compress(bytes(200 << 20), 1), Content_Encoding="gzip"),
        ),
        (IndexFault.HTTP_STATUS, status(418)),
        (IndexFault.REDIRECT_REFUSED, status(302, Location="file:///etc/passwd")),
        (IndexFault.TOO_MANY_REDIRECTS, status(302, Location="/simple/parrot/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://10.0.0.1/simple/parrot/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://2130706433:1/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://localhost:1/")),
        (IndexFault.ADDRESS_REFUSED, status(302, Location="http://xn--zz/")),
        (IndexFault.MALFORMED, raw(b"HTTP/1.1 200 OK\r\nx" * 3000 + b"\r\n\r\n")),
    ],
)
def test_request_with_a_permanent_error_is_not_repeated(
    index: Index, settings: Settings, code: IndexFault, answer: Any
) -> None:
    index.answers["/simple/parrot/"] = answer
    refused = problem(settings, limits=replace(LIMITS, archive_bytes=1 << 20))
    assert (refused.code, refused.retryable) == (code, False)
    assert len(str(refused)) < 400


def test_invalid_cache_validators_are_not_sent_back(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.validators = False
    kind, body = index.page("parrot")
    answer = status(200, body, Content_Type=kind, ETag='"\xe9"', Last_Modified="\xe9")
    index.answers["/simple/parrot/"] = answer
    assert page(settings).files == page(settings).files
    assert len(index.seen) == 2


def test_retry_after_header_of_an_index_is_honoured(index: Index, settings: Settings) -> None:
    index.add_wheel("parrot", "1.0")
    index.answers["/simple/parrot/"] = [status(429, Retry_After="1")]
    started = time.monotonic()
    assert page(settings).files
    assert time.monotonic() - started >= 1
    index.answers["/simple/parrot/"] = status(429, Retry_After="3600")
    refused = problem(settings)
    assert (refused.code, refused.status, refused.retry_after_s) == ("http_status", 429, 3600)


def test_silent_name_server_delays_neither_request_nor_shutdown(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, real = threading.Event(), socket.getaddrinfo

    def slow(host: Any, *args: Any, **how: Any) -> Any:
        if host == "slow.example":
            answered.wait(DEADLINE_S)
        return real("127.0.0.1", *args, **how)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    nowhere = replace(settings, package_indexes=(("own", "http://slow.example/simple/"),))
    limits = replace(IMPATIENT, deadline_s=0.2, attempts=2)
    try:
        # The event loop is closed, too, when this returns.
        assert problem(nowhere, limits=limits).code is IndexFault.TIMEOUT
        assert not answered.is_set()
    finally:
        answered.set()
