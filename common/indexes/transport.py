"""How requests leave this machine: certificates, proxies, guarded connections."""

from __future__ import annotations

import os
import ssl
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import TracebackType

import httpcore
import httpx

from common.errors import IndexFault, IndexProblem, InvalidSettings
from common.indexes.configuration import pip_options
from common.indexes.guard import AddressGuard, GuardedBackend
from common.indexes.words import cut

#: How long a connection is kept that nothing is asked on.
_KEPT_S = 30.0
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends requests by a pool of connections that a guard watches.

    Proxies of the environment are used; their addresses are the operator's word, and what
    they connect to is theirs to resolve: then only private addresses written as such are
    refused here.
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
            stream=_Body(response),
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
        # Reading the system's certificates takes longer than a request without any.
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


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


def tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Trusts what pip and uv are told to trust, else what this system does.

    :raises InvalidSettings: if a file of certificates cannot be read
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
        # The address may hold a password, so it is not repeated.
        raise InvalidSettings(f"{scheme.upper()}_PROXY: only http and https proxies can be used")
    return proxy


def problem_of(error: Exception, host: str, answering: bool) -> IndexProblem:
    """What the library's error means.

    :param answering: whether the beginning of an answer had come
    """
    words = cut(f"{host}: {error or type(error).__name__}")
    if isinstance(error, TimeoutError | httpcore.TimeoutException | httpx.TimeoutException):
        return IndexProblem(
            IndexFault.TIMEOUT, f"{cut(host)} does not answer in time", retryable=True
        )
    if isinstance(error, httpcore.RemoteProtocolError):
        if answering or "disconnected" in str(error):
            return IndexProblem(IndexFault.TRUNCATED, words, retryable=True)
        return IndexProblem(IndexFault.MALFORMED, words)
    if isinstance(error, httpcore.ReadError | httpcore.WriteError):
        return IndexProblem(IndexFault.TRUNCATED, f"{cut(host)} cut the connection", retryable=True)
    if isinstance(error, httpcore.NetworkError | httpcore.ProxyError):
        # The pool raises its errors anew, without their cause.
        no_tls = isinstance(error.__cause__ or error.__context__, ssl.SSLError)
        return IndexProblem(IndexFault.UNREACHABLE, words, retryable=not no_tls)
    return IndexProblem(IndexFault.MALFORMED, words)
