"""Connections to servers: address checks against SSRF, TLS certificates and proxies.

A server may redirect to public addresses only, so that no answer makes this machine connect to
its private network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import httpcore
import httpx

from common.errors import IndexFault, IndexProblem, InvalidSettings
from common.formats.installer_configuration import pip_options
from common.redaction import cut

_PORTS = {"http": 80, "https": 443}
#: IPv4 addresses embedded in IPv6 addresses for translators (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
#: IPv6 addresses allocated to the public network so far (RFC 4291, 2.4; IANA). All others are
#: local, belong to translators, or are an obsolete notation.
_ALLOCATED = ipaddress.ip_network("2000::/3")


class AddressGuard:
    """Decides which addresses of a host may be connected to.

    Public addresses are allowed. Private addresses are allowed if the host is the server itself, if
    the server has the same address and port (a mirror that also hosts the files), or if the
    settings name the host.
    """

    def __init__(self, url: str, file_hosts: Collection[str]) -> None:
        parts = urlsplit(url)
        self._own = (parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0))
        self._file_hosts = frozenset(it.lower() for it in file_hosts)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The allowed addresses of ``host``, in the resolver's order.

        :raises IndexProblem: if there are none (``address_refused``, ``unreachable``)
        """
        resolved = await _resolve(host, port)
        if self._is_trusted(host, port):
            return resolved
        allowed = [address for address in resolved if is_public(address)]
        if not allowed and port == self._own[1]:
            own = await _resolve(*self._own)
            allowed = [address for address in resolved if address in own]
        if not allowed:
            raise refused(host)
        return allowed

    def check_literal(self, host: str, port: int) -> None:
        """Refuse a literal private address. Used with proxies, which resolve names themselves.

        :raises IndexProblem: ``address_refused``
        """
        if self._is_trusted(host, port):
            return
        name = host.lower().rstrip(".")
        if name == "localhost" or name.endswith(".localhost") or not _may_be_public(name):
            raise refused(host)

    def _is_trusted(self, host: str, port: int) -> bool:
        names = {host.lower(), f"{host.lower()}:{port}"}
        return (host, port) == self._own or bool(names & self._file_hosts)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to the checked addresses only, so that a second look-up cannot differ."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failed: httpcore.ConnectError | httpcore.ConnectTimeout | None = None
        for address in await self._guard.addresses(host, port):
            try:
                return await self._backend.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = failed or error
        raise failed or httpcore.ConnectError(f"{host} has no address")

    async def sleep(self, seconds: float) -> None:
        await self._backend.sleep(seconds)


def is_public(address: str) -> bool:
    """Whether an IP address is public, in any notation.

    >>> is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("64:ff9b::a00:1")
    (False, False, False)
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is None and ip not in _ALLOCATED:
            return False
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def refused(host: str) -> IndexProblem:
    """The error of a host with a private address."""
    return IndexProblem(
        IndexFault.ADDRESS_REFUSED,
        f"the server refers to {cut(host)}, which has a private address",
        hint="if files of the index are meant to be there, name the host in PACKAGE_FILE_HOSTS",
    )


def _may_be_public(host: str) -> bool:
    try:
        # Notations that the system's resolver accepts as addresses, such as 127.1.
        written = socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        written = host
    try:
        return is_public(written)
    except ValueError:
        return True


async def _resolve(host: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    try:
        records = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise IndexProblem(
            IndexFault.UNREACHABLE, f"{cut(host)} cannot be resolved: {cut(error)}", retryable=True
        ) from None
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in records))


#: Seconds that an idle connection stays open.
_KEPT_S = 30.0
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests over a pool of guarded connections.

    Proxies of the environment are used. Their own addresses are trusted, and they resolve host
    names; then only literal private addresses can be refused.
    """

    def __init__(self, guard: AddressGuard, connections: int) -> None:
        self._guard = guard
        self._connections = connections
        self._pools: dict[tuple[str, str | None], httpcore.AsyncConnectionPool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        response = await self._pool(url).handle_async_request(
            httpcore.Request(
                method=request.method,
                url=httpcore.URL(
                    scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
                ),
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_ResponseStream(response),
            extensions=response.extensions,
        )

    async def __aenter__(self) -> GuardedTransport:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool(self, url: httpx.URL) -> httpcore.AsyncConnectionPool:
        port = url.port or {"http": 80, "https": 443}.get(url.scheme, 0)
        proxy = _proxy_for(url.scheme, url.host, port)
        if proxy is not None:
            self._guard.check_literal(url.host, port)
        if (url.scheme, proxy) not in self._pools:
            self._pools[url.scheme, proxy] = self._made(url.scheme, proxy)
        return self._pools[url.scheme, proxy]

    def _made(self, scheme: str, proxy: str | None) -> httpcore.AsyncConnectionPool:
        # Loading the system's certificates takes longer than a request, so only HTTPS does it.
        tls = tls_context(os.environ) if scheme == "https" else None
        if proxy is None:
            return httpcore.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=self._connections,
                keepalive_expiry=_KEPT_S,
                network_backend=GuardedBackend(self._guard),
            )
        through = httpx.Proxy(proxy)
        user, password = through.auth or ("", "")
        return httpcore.AsyncHTTPProxy(
            proxy_url=str(through.url),
            proxy_auth=(user.encode(), password.encode()) if through.auth else None,
            ssl_context=tls,
            max_connections=self._connections,
            keepalive_expiry=_KEPT_S,
        )


class _ResponseStream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Trust the certificates that pip and uv are configured with, else those of the system.

    :raises InvalidSettings: if certificates cannot be read
    """
    candidates = [environ.get(it) for it in _BUNDLES] + [pip_options(environ).get("cert")]
    bundle = next((it for it in candidates if it), None)
    folder = environ.get("SSL_CERT_DIR") or None
    if bundle and Path(bundle).is_dir():
        bundle, folder = None, bundle
    try:
        context = ssl.create_default_context(cafile=bundle, capath=folder)
        if environ.get("SSL_CLIENT_CERT"):
            context.load_cert_chain(environ["SSL_CLIENT_CERT"])
    except OSError as error:
        raise InvalidSettings(f"certificates cannot be read: {bundle or folder}: {error}") from None
    return context


def _proxy_for(scheme: str, host: str, port: int) -> str | None:
    proxies = urllib.request.getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(f"{host}:{port}", proxies):
        return None
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    if not proxy.startswith(("http://", "https://")):
        # The URL may contain a password, so it is not repeated.
        raise InvalidSettings(f"{scheme.upper()}_PROXY: only http and https proxies can be used")
    return proxy


def problem_of(error: Exception, host: str, answering: bool) -> IndexProblem:
    """Translate an error of the HTTP libraries.

    :param answering: whether the response had started
    """
    message = cut(f"{host}: {error or type(error).__name__}")
    if isinstance(error, TimeoutError | httpcore.TimeoutException | httpx.TimeoutException):
        return IndexProblem(
            IndexFault.TIMEOUT, f"{cut(host)} does not answer in time", retryable=True
        )
    if isinstance(error, httpcore.RemoteProtocolError):
        if answering or "disconnected" in str(error):
            return IndexProblem(IndexFault.TRUNCATED, message, retryable=True)
        return IndexProblem(IndexFault.MALFORMED, message)
    if isinstance(error, httpcore.ReadError | httpcore.WriteError):
        return IndexProblem(
            IndexFault.TRUNCATED, f"{cut(host)} closed the connection", retryable=True
        )
    if isinstance(error, httpcore.NetworkError | httpcore.ProxyError):
        # The pool raises errors anew, without their cause.
        no_tls = isinstance(error.__cause__ or error.__context__, ssl.SSLError)
        return IndexProblem(IndexFault.UNREACHABLE, message, retryable=not no_tls)
    return IndexProblem(IndexFault.MALFORMED, message)
