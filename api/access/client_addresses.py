"""Addresses of clients: loopback, and the network that counts as one client."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Network, ip_address

from flask import request


def is_loopback(host: str) -> bool:
    """Whether a host name or address is a loopback address.

    >>> [is_loopback(it) for it in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.example")]
    [True, True, True, False, False]
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def neighbourhood(host: str) -> str:
    """The network that counts as one client: an IPv4 address, or an IPv6 network of 64 bits.

    >>> [neighbourhood(it) for it in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::9:1", "?")]
    ['192.0.2.7', '192.0.2.7', '2001:db8::/64', '?']
    """
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), 64), strict=False))


def client_address() -> str:
    """The address by which the present request is counted."""
    return neighbourhood(request.remote_addr or "unknown")
