"""Which addresses a server may refer to: a guard against SSRF.

A server may redirect to public addresses only, so that no response makes this machine connect to
its private network.
"""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from model.errors import IndexFault, IndexProblem
from model.redaction import cut

#: Ports of the schemes that are fetched.
DEFAULT_PORTS = {"http": 80, "https": 443}
#: IPv4 addresses embedded in IPv6 addresses for translators (RFC 6052).
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
#: IPv6 addresses allocated to the public network so far (RFC 4291, 2.4; IANA). All others are
#: local, belong to translators, or are an obsolete notation.
_ALLOCATED = ipaddress.ip_network("2000::/3")


class AddressGuard:
    """Decides to which addresses of a host a connection is allowed.

    Public addresses are allowed. Private addresses are allowed in three cases: the host is the
    server itself, the server has the same address and port (a mirror that also hosts the files), or
    the settings name the host.
    """

    def __init__(self, url: str, file_hosts: Collection[str]) -> None:
        parts = urlsplit(url)
        self._own = (parts.hostname or "", parts.port or DEFAULT_PORTS.get(parts.scheme, 0))
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
            raise refused_address(host)
        return allowed

    def check_literal(self, host: str, port: int) -> None:
        """Refuse a literal private address; nothing more can be checked if a proxy resolves names.

        :raises IndexProblem: ``address_refused``
        """
        if self._is_trusted(host, port):
            return
        name = host.lower().rstrip(".")
        if name == "localhost" or name.endswith(".localhost") or not _may_be_public(name):
            raise refused_address(host)

    def _is_trusted(self, host: str, port: int) -> bool:
        names = {host.lower(), f"{host.lower()}:{port}"}
        return (host, port) == self._own or bool(names & self._file_hosts)


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


def refused_address(host: str) -> IndexProblem:
    """The error for a host with a private address."""
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
    try:
        records = await _look_up(host, port)
    except (socket.gaierror, UnicodeError) as error:
        raise IndexProblem(
            IndexFault.UNREACHABLE, f"{cut(host)} cannot be resolved: {cut(error)}", retryable=True
        ) from None
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in records))


async def _look_up(host: str, port: int) -> list[Any]:
    """Look a host up in a thread that holds up neither the event loop nor the end of the process.

    A name server that does not answer keeps the thread for as long as the system's resolver waits,
    often half a minute. The executor of the loop would wait for it when the loop closes.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Any]] = loop.create_future()

    def settle(set_result: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set_result(value)

    def work() -> None:
        answer: tuple[Callable[[Any], None], Any]
        try:
            answer = future.set_result, socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except Exception as error:
            answer = future.set_exception, error
        with suppress(RuntimeError):  # The loop was closed meanwhile.
            loop.call_soon_threadsafe(settle, *answer)

    threading.Thread(target=work, name="look-up", daemon=True).start()
    return await future
