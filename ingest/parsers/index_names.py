"""Names of package indexes; documents of earlier systems name an index by its address."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from common.errors import InvalidDocument
from common.reasons import Reason

MAX_INDEX_LENGTH = 128

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")


def index_name(index: str | None, field: str = "$.index") -> str | None:
    """``index`` if it is a name; one made of host and path if it is an address.

    What an address says of a user or a password is never part of the name.

    :raises InvalidDocument: if it is neither

    >>> index_name("https://user:secret@builds.example/fedora/30/jemalloc/simple/")
    'builds-example-fedora-30-jemalloc'
    >>> index_name("avx2-builds"), index_name(None)
    ('avx2-builds', None)
    """
    if index is None:
        return None
    name = _name_of_address(index) if "://" in index else index
    if len(name) > MAX_INDEX_LENGTH or not _NAME.match(name):
        raise InvalidDocument(
            Reason.WRONG_TYPE,
            f"an index is named by letters, digits, '.', '_' and '-', at most {MAX_INDEX_LENGTH}",
            field=field,
        )
    return name


def _name_of_address(address: str) -> str:
    try:
        parts = urlsplit(address)
        host = f"{parts.hostname or ''} {parts.port or ''}"
    except ValueError:
        return ""
    path = parts.path.rstrip("/").removesuffix("/simple")
    return _NO_NAME.sub("-", f"{host} {path}").strip("-").lower()
