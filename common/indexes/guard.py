"""Which addresses an index may make us connect to, and connections to those only."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import urlsplit

import httpcore

from common.errors import IndexFault, IndexProblem
from common.indexes.words import cut

_PORTS = {"http": 80, "https": 443}
#: Addresses of the old protocol as the new one writes them for translators (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
#: What is given out for the public network so far (RFC 4291, 2.4; IANA). All else is some
#: machine's own, a translator's or an old way to write either.
_GIVEN_OUT = ipaddress.ip_network("2000::/3")


class AddressGuard:
    """Says which addresses of a host may be connected to.

    Public ones may. Private ones may if the host is the index's own, if the index's own host
    has the same address and the same port (a mirror that is also the file host), or if the
    settings name the host.
    """

    def __init__(self, url: str, file_hosts: Collection[str]) -> None:
        parts = urlsplit(url)
        self._own = (parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0))
        self._file_hosts = frozenset(it.lower() for it in file_hosts)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of ``host`` that may be connected to, in the resolver's order.

        :raises IndexProblem: if there are none (``address_refused``, ``unreachable``)
        """
        found = await _resolve(host, port)
        if self._is_trusted(host, port):
            return found
        allowed = [it for it in found if is_public(it)]
        if not allowed and port == self._own[1]:
            own = await _resolve(*self._own)
            allowed = [it for it in found if it in own]
        if not allowed:
            raise refused(host)
        return allowed

    def check_literal(self, host: str, port: int) -> None:
        """Refuse a private address written as such, for where a proxy resolves names.

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
    """Connects to the addresses that were checked, so that no second look-up can differ."""

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
    """Whether an address is one of the public network, whichever way it is written.

    >>> is_public("127.0.0.1"), is_public("::ffff:10.0.0.1"), is_public("64:ff9b::a00:1")
    (False, False, False)
    """
    ip = ipaddress.ip_address(address)
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is None and ip not in _GIVEN_OUT:
            return False
        ip = inner or ip
    return ip.is_global and not ip.is_multicast


def refused(host: str) -> IndexProblem:
    """The index sends us to a private address."""
    error = IndexProblem(
        IndexFault.ADDRESS_REFUSED,
        f"the index sends us to {cut(host)}, which has a private address",
    )
    error.hint = "if files of the index are meant to be there, name the host in PACKAGE_FILE_HOSTS"
    return error


def _may_be_public(host: str) -> bool:
    try:
        # What the system's resolver takes for an address, such as 127.1, and no name.
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
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise IndexProblem(
            IndexFault.UNREACHABLE, f"{cut(host)} is not known: {cut(error)}", retryable=True
        ) from None
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
