"""Addresses of indexes and of files, compared by what of them leads to another place."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_PORTS = {"http": 80, "https": 443, "ftp": 21}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an index is.

    :param url: its own, without secrets
    :param file_hosts: ``host`` or ``host:port`` that it may send us to for files
    """

    url: str
    file_hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Address:
    """An address in parts, less user, query and fragment.

    :param host: in lower case, with the port if it is not the scheme's own
    """

    scheme: str
    host: str
    path: str


def address_of(url: str) -> Address | None:
    """The parts of an address; ``None`` of what is none.

    >>> address_of("HTTPS://me@H.example:443/a%2Bb.whl?x#y")
    Address(scheme='https', host='h.example', path='/a+b.whl')
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        return None
    if not parts.scheme or not (parts.hostname or parts.path.startswith("/")):
        return None
    own = port is None or port == _PORTS.get(parts.scheme)
    host = parts.hostname or ""
    return Address(parts.scheme, host if own else f"{host}:{port}", unquote(parts.path))


def may_serve(place: Place, address: Address) -> bool:
    """Whether files of an index may be at an address: on its own host, or one of its file hosts."""
    index = address_of(place.url)
    if index is None:
        return False
    if address.scheme == "file":
        path = posixpath.normpath(address.path)
        return index.scheme == "file" and path.startswith(f"{index.path.rstrip('/')}/")
    bare = address.host.partition(":")[0]
    hosts = {it.lower() for it in place.file_hosts}
    return index.scheme != "file" and (
        address.host == index.host or bool(hosts & {address.host, bare})
    )
