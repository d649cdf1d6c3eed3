"""Addresses of this machine's own, told from those that others reach."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether a name or a number means this machine and nobody else reaches it.

    >>> [is_loopback(it) for it in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "a.example")]
    [True, True, True, False, False]
    """
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
