"""Who learns the credentials of an index, and where they come from if it refuses."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

import httpx

from common.indexes.configured import Index

logger = logging.getLogger(__name__)


def is_same_place(index: str, url: str) -> bool:
    """Whether both have one host and port; a change to HTTPS on the usual ports is none."""
    known, asked = httpx.URL(index), httpx.URL(url)
    if known.host != asked.host:
        return False
    upgraded = known.scheme == "http" and asked.scheme == "https"
    return (known.scheme, known.port) == (asked.scheme, asked.port) or (
        upgraded and known.port is None and asked.port is None
    )


def from_keyring(index: Index) -> tuple[str, str] | None:
    """What a keyring knows for the index's address, or else for its host."""
    try:
        import keyring
    except ImportError:
        return None
    user = index.auth[0] if index.auth else None
    for service in (index.url, host_of(index.url)):
        try:
            found = keyring.get_credential(service, user)
        # Back ends raise whatever their service does.
        except Exception as error:
            logger.warning("keyring_failed", extra={"error": type(error).__name__})
            return None
        if found is not None:
            return found.username, found.password
    return None


def host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "the index"
    except ValueError:
        return "the index"
