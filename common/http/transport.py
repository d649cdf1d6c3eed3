"""Connections to servers, by libcurl: HTTP/2 and HTTP/1.1, TLS certificates and proxies."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import pycurl

from common.formats.installer_configuration import pip_options
from common.http.addresses import DEFAULT_PORTS, AddressGuard
from model.errors import IndexFault, IndexProblem, InvalidSettings
from model.redaction import cut

#: Bytes of one read; larger ones mean fewer calls of Python.
_BUFFER = 256 << 10

#: Seconds for which the addresses of a host are kept.
_RESOLVED_S = 60.0
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
#: Certificates of the system, for interpreters that were built with other paths.
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_STATUS_LINE = re.compile(rb"HTTP/[\d.]+ (\d{3})")
#: Characters of a path and a query that need no quoting; existing escapes stay.
_URL_SAFE = "/%:@!$&'()*+,;=~?[]"

#: Errors of libcurl that pycurl does not name.
_E_HTTP2_STREAM, _E_PROXY = 92, 97
_UNREACHABLE = frozenset(
    {
        pycurl.E_COULDNT_RESOLVE_HOST,
        pycurl.E_COULDNT_RESOLVE_PROXY,
        pycurl.E_COULDNT_CONNECT,
        _E_PROXY,
    }
)
#: A TLS handshake that failed fails again.
_TLS = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_PEER_FAILED_VERIFICATION,
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
    }
)
_TRUNCATED = frozenset(
    {
        pycurl.E_PARTIAL_FILE,
        pycurl.E_GOT_NOTHING,
        pycurl.E_RECV_ERROR,
        pycurl.E_SEND_ERROR,
        pycurl.E_HTTP2,
        _E_HTTP2_STREAM,
    }
)
#: How libcurl begins its message if a proxy refuses to connect.
_NO_TUNNEL = "CONNECT tunnel failed"


class StopReceiving(Exception):
    """Raised by a receiver that needs no more of a body; the response then counts as complete."""


@dataclass(frozen=True, slots=True)
class Server:
    """Host and port of a URL, and the URL as it is sent.

    :param host: in ASCII, lower case
    :param url: with quoted path and without fragment; may contain a password
    """

    scheme: str
    host: str
    port: int
    url: str


def server_of(url: str) -> Server:
    """Parse a URL.

    :raises ValueError: if it cannot be fetched, such as a host name that violates IDNA
    """
    parts = urlsplit(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError("not an http or https URL")
    host = _ascii_host(parts.hostname)
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    user, at, _ = parts.netloc.rpartition("@")
    shown = f"[{host}]" if ":" in host else host
    netloc = f"{quote(user, safe='%:!$&()*+,;=~')}{at}{shown}:{port}"
    path, query = quote(parts.path, safe=_URL_SAFE), quote(parts.query, safe=_URL_SAFE)
    sent = urlunsplit(SplitResult(parts.scheme, netloc, path or "/", query, ""))
    return Server(parts.scheme, host, port, sent)


def _ascii_host(host: str) -> str:
    if ":" in host:
        return host
    encoded = host.encode("idna")
    # Encoding does not check labels that are encoded already.
    encoded.decode("idna")
    return encoded.decode("ascii").lower()


@dataclass(slots=True)
class _Transfer:
    """One request under way.

    :param receive: called with each part of the body, with status and headers known
    :param failure: of a callback; libcurl ends the transfer, and then it is raised
    """

    curl: pycurl.Curl
    receive: Callable[[_Transfer, bytes], None]
    done: asyncio.Future[None]
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    failure: BaseException | None = None
    active_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of a response; names in lower case, only the last of repeated headers."""

    status: int
    headers: Mapping[str, str]


class Transport:
    """Sends requests over few connections, to checked addresses only; follows no redirects.

    A transport uses HTTP/2 if the server offers it, and otherwise HTTP/1.1 with persistent
    connections. It is bound to the event loop of its first request. Proxies from the environment
    are used, and their addresses are trusted. A proxy resolves host names itself, so only literal
    private addresses can be refused.

    :param connections: to one host
    :param connect_s: seconds to connect
    :param silence_s: seconds without a byte after which a transfer fails
    """

    def __init__(
        self, guard: AddressGuard, connections: int, connect_s: float, silence_s: float
    ) -> None:
        self._guard = guard
        self._connect_s, self._silence_s = connect_s, silence_s
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._schedule)
        self._multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, connections)
        self._multi.setopt(pycurl.M_MAXCONNECTS, 2 * connections)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watched: set[int] = set()
        self._opened: list[socket.socket] = []
        self._transfers: dict[pycurl.Curl, _Transfer] = {}
        self._tls_options: list[tuple[int, str]] | None = None
        self._proxies: dict[tuple[str, str, int], str | None] = {}
        self._addresses: dict[tuple[str, int], tuple[float, asyncio.Task[list[str]]]] = {}

    async def get(
        self, server: Server, headers: Mapping[str, str], receive: Callable[[Head, bytes], None]
    ) -> Head:
        """Send a request, and pass the body to ``receive`` part by part.

        :param receive: may raise :class:`StopReceiving`, or any error to end the transfer
        :raises IndexProblem: if there is no complete response
        """
        return await self._exchange(server, headers, receive, self._proxy_of(server), None)

    async def post(self, server: Server, headers: Mapping[str, str], body: bytes) -> Head:
        """Send ``body``, and return status and headers; the body of the response is not read.

        A request over plain HTTP uses no proxy, so that its body stays on the way to the server.

        :raises IndexProblem: if there is no response
        """
        proxy = self._proxy_of(server) if server.scheme == "https" else None
        return await self._exchange(server, headers, _stop_receiving, proxy, body)

    def _proxy_of(self, server: Server) -> str | None:
        """The proxy for a server; looking through the environment takes longer than a request."""
        place = (server.scheme, server.host, server.port)
        if place not in self._proxies:
            self._proxies[place] = proxy_for(*place)
        return self._proxies[place]

    async def _exchange(
        self,
        server: Server,
        headers: Mapping[str, str],
        receive: Callable[[Head, bytes], None],
        proxy: str | None,
        body: bytes | None,
    ) -> Head:
        self._loop = asyncio.get_running_loop()
        addresses: list[str] = []
        if proxy is None:
            addresses = await self._resolve(server.host, server.port)
        else:
            self._guard.check_literal(server.host, server.port)
        transfer = _Transfer(
            pycurl.Curl(),
            lambda it, part: receive(Head(it.status, it.headers), part),
            self._loop.create_future(),
        )
        self._prepare(transfer, server, headers, addresses, proxy)
        if body is not None:
            transfer.curl.setopt(pycurl.POST, 1)
            transfer.curl.setopt(pycurl.POSTFIELDS, body)
        try:
            await self._run(transfer, server)
        finally:
            self._forget(transfer)
        return Head(transfer.status, transfer.headers)

    async def aclose(self) -> None:
        """Close all connections, and let the requests in progress fail."""
        for transfer in list(self._transfers.values()):
            self._forget(transfer)
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()
        for descriptor in list(self._watched):
            self._unwatch(descriptor)

    async def _resolve(self, host: str, port: int) -> list[str]:
        """The checked addresses of a host; each look-up is reused for a minute."""
        until, task = self._addresses.get((host, port), (0.0, None))
        if task is None or until < self._now() or (task.done() and _is_failed(task)):
            task = asyncio.ensure_future(self._guard.addresses(host, port))
            self._addresses[host, port] = self._now() + _RESOLVED_S, task
        # A request that is given up must not cancel the look-up of the others.
        return await asyncio.shield(task)

    async def _run(self, transfer: _Transfer, server: Server) -> None:
        assert self._loop is not None  # noqa: S101 - set by the caller
        transfer.active_at = self._loop.time()
        self._transfers[transfer.curl] = transfer
        self._multi.add_handle(transfer.curl)
        # Adding a handle only schedules; the first action starts the transfer.
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        try:
            while not transfer.done.done():
                left_s = transfer.active_at + self._silence_s - self._loop.time()
                if left_s <= 0:
                    raise TimeoutError
                await asyncio.wait([transfer.done], timeout=left_s)
            transfer.done.result()
        except TimeoutError as error:
            raise problem_of_timeout(server.host) from error
        except pycurl.error as error:
            if isinstance(transfer.failure, StopReceiving):
                return
            if transfer.failure is not None:
                raise transfer.failure from None
            raise _problem_of(error, server.host) from error
        finally:
            # A callback holds the frame that holds the transfer.
            transfer.failure = None

    def _prepare(
        self,
        transfer: _Transfer,
        server: Server,
        headers: Mapping[str, str],
        addresses: list[str],
        proxy: str | None,
    ) -> None:
        curl = transfer.curl
        curl.setopt(pycurl.URL, server.url)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in headers.items()])
        curl.setopt(pycurl.BUFFERSIZE, _BUFFER)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(1000 * self._connect_s))
        curl.setopt(pycurl.HEADERFUNCTION, lambda line: self._take_header(transfer, line))
        curl.setopt(pycurl.WRITEFUNCTION, lambda part: self._take_body(transfer, part))
        # Empty texts keep libcurl from reading the environment itself.
        curl.setopt(pycurl.PROXY, proxy or "")
        curl.setopt(pycurl.NOPROXY, "")
        if proxy is None:
            # The checked addresses only, so that a second look-up cannot differ.
            allowed = frozenset(addresses)
            shown = ",".join(f"[{it}]" if ":" in it else it for it in addresses)
            curl.setopt(pycurl.RESOLVE, [f"{server.host}:{server.port}:{shown}"])
            curl.setopt(pycurl.OPENSOCKETFUNCTION, lambda _, address: self._open(allowed, address))
        if server.scheme == "https" or (proxy or "").startswith("https:"):
            self._secure(curl, bool(proxy))

    def _secure(self, curl: pycurl.Curl, through_proxy: bool) -> None:
        # Waiting for the first connection shows whether one is enough (HTTP/2).
        curl.setopt(pycurl.PIPEWAIT, 1)
        if self._tls_options is None:
            self._tls_options = tls_options(os.environ)
        for option, path in self._tls_options:
            curl.setopt(option, path)
            if through_proxy and option in _PROXY_TLS:
                curl.setopt(_PROXY_TLS[option], path)

    def _take_header(self, transfer: _Transfer, line: bytes) -> None:
        """Store a header; another status line, as after status 100, discards earlier headers."""
        transfer.active_at = self._now()
        status = _STATUS_LINE.match(line)
        if status is not None:
            transfer.status = int(status[1])
            transfer.headers.clear()
            return
        name, _, value = line.decode("latin-1").partition(":")
        if value:
            transfer.headers[name.strip().lower()] = value.strip()

    def _take_body(self, transfer: _Transfer, part: bytes) -> int:
        transfer.active_at = self._now()
        try:
            transfer.receive(transfer, part)
        except BaseException as failure:
            transfer.failure = failure
            return -1
        return len(part)

    def _open(self, allowed: frozenset[str], address: Any) -> Any:
        """Open a socket, but only to an address that was checked."""
        family, kind, protocol, target = address
        if _without_scope(str(target[0])) not in map(_without_scope, allowed):
            return pycurl.SOCKET_BAD
        # pycurl duplicates the descriptor, so this one is closed after the call.
        self._opened.append(socket.socket(family, kind, protocol))
        return self._opened[-1]

    def _watch(self, event: int, descriptor: int, _multi: object, _data: object) -> None:
        """Watch a socket for the events that libcurl requests."""
        assert self._loop is not None  # noqa: S101 - set before the first transfer
        self._unwatch(descriptor)
        if event in (pycurl.POLL_IN, pycurl.POLL_INOUT):
            self._loop.add_reader(descriptor, self._act, descriptor, pycurl.CSELECT_IN)
        if event in (pycurl.POLL_OUT, pycurl.POLL_INOUT):
            self._loop.add_writer(descriptor, self._act, descriptor, pycurl.CSELECT_OUT)
        if event != pycurl.POLL_REMOVE:
            self._watched.add(descriptor)

    def _unwatch(self, descriptor: int) -> None:
        if descriptor in self._watched and self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        self._watched.discard(descriptor)

    def _schedule(self, delay_ms: int) -> None:
        """Set libcurl's only timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if delay_ms >= 0 and self._loop is not None:
            self._timer = self._loop.call_later(
                delay_ms / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0
            )

    def _act(self, descriptor: int, events: int) -> None:
        """Let libcurl do everything that does not block, and report the transfers that ended."""
        while self._multi.socket_action(descriptor, events)[0] == pycurl.E_CALL_MULTI_PERFORM:
            pass
        while self._opened:
            self._opened.pop().close()
        more = 1
        while more:
            more, succeeded, failed = self._multi.info_read()
            for curl in succeeded:
                self._end(curl, None)
            for curl, code, message in failed:
                self._end(curl, pycurl.error(code, message))

    def _end(self, curl: pycurl.Curl, error: Exception | None) -> None:
        transfer = self._transfers.get(curl)
        if transfer is None or transfer.done.done():
            return
        if error is None:
            transfer.done.set_result(None)
        else:
            transfer.done.set_exception(error)

    def _forget(self, transfer: _Transfer) -> None:
        if self._transfers.pop(transfer.curl, None) is not None:
            self._multi.remove_handle(transfer.curl)
        if transfer.done.done() and not transfer.done.cancelled():
            transfer.done.exception()
        transfer.done.cancel()
        transfer.curl.close()

    def _now(self) -> float:
        return self._loop.time() if self._loop is not None else 0.0


def _stop_receiving(_head: Head, _part: bytes) -> None:
    raise StopReceiving


def _is_failed(task: asyncio.Task[list[str]]) -> bool:
    return task.cancelled() or task.exception() is not None


def _without_scope(address: str) -> str:
    return address.partition("%")[0]


def tls_options(environ: Mapping[str, str]) -> list[tuple[int, str]]:
    """Trust the certificates configured for pip and uv or, by default, the system's certificates.

    :returns: options of libcurl and their paths
    :raises InvalidSettings: if certificates cannot be read
    """
    candidates = [environ.get(it) for it in _BUNDLES] + [pip_options(environ).get("cert")]
    bundle = next((it for it in candidates if it), None)
    folder = environ.get("SSL_CERT_DIR") or None
    if bundle and Path(bundle).is_dir():
        bundle, folder = None, bundle
    client = environ.get("SSL_CLIENT_CERT") or None
    for path in filter(None, (bundle, client)):
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise InvalidSettings(f"certificates cannot be read: {path}: {error}") from None
    if bundle is None and folder is None:
        system = ssl.get_default_verify_paths()
        bundle = next(filter(os.path.isfile, filter(None, (system.cafile, *_SYSTEM_BUNDLES))), None)
        folder = system.capath
    options = [(pycurl.CAINFO, bundle), (pycurl.CAPATH, folder), (pycurl.SSLCERT, client)]
    return [(option, path) for option, path in options if path]


#: The options of a proxy's own TLS.
_PROXY_TLS = {pycurl.CAINFO: pycurl.PROXY_CAINFO, pycurl.CAPATH: pycurl.PROXY_CAPATH}


def proxy_for(scheme: str, host: str, port: int) -> str | None:
    """URL of the proxy from the environment, or ``None``.

    :raises InvalidSettings: for other kinds of proxies
    """
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(f"{host}:{port}", proxies):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        # The URL may contain a password, so it is not repeated.
        raise InvalidSettings(f"{scheme.upper()}_PROXY: only http and https proxies can be used")
    return proxy


def problem_of_timeout(host: str) -> IndexProblem:
    """The error for a server that is too slow."""
    return IndexProblem(IndexFault.TIMEOUT, f"{cut(host)} does not answer in time", retryable=True)


def _problem_of(error: pycurl.error, host: str) -> IndexProblem:
    """Translate an error of libcurl."""
    code, text = error.args[0], str(error.args[1] if len(error.args) > 1 else "")
    message = cut(f"{host}: {text or f'error {code} of libcurl'}")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        return problem_of_timeout(host)
    if code in _UNREACHABLE or code in _TLS or text.startswith(_NO_TUNNEL):
        return IndexProblem(IndexFault.UNREACHABLE, message, retryable=code not in _TLS)
    if code in _TRUNCATED:
        return IndexProblem(
            IndexFault.TRUNCATED, f"{cut(host)} closed the connection", retryable=True
        )
    if code == pycurl.E_URL_MALFORMAT:
        return IndexProblem(IndexFault.ADDRESS_REFUSED, message)
    return IndexProblem(IndexFault.MALFORMED, message)
