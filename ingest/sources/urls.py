"""Paths and URLs of sources, and the parts of a URL that may be stored and shown."""

from __future__ import annotations

import os
import re

import fsspec

from model.errors import InvalidArgument, InvalidDocument, Reason
from model.redaction import absolute_source

#: Protocols whose URLs stand for local paths.
LOCAL = ("file", "local")
#: ``abfs://container@account/…`` names no user.
_CONTAINERS = ("abfs", "az")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[^@:\[\]]*)(?::[0-9]*)?\Z")
_CONTAINER = re.compile(r"[^@:]*@[^@:]*\Z")
_NOT_KEPT = "…"


def local_path(source: str) -> str | None:
    """Return the local path of a source; ``None`` for a remote source.

    >>> local_path("/data/inspections"), local_path("file:///data/inspections")
    ('/data/inspections', '/data/inspections')
    >>> local_path("s3://bucket/prefix") is None
    True
    """
    protocol, separator, _ = source.partition("://")
    if not separator:
        return source
    return str(fsspec.core.strip_protocol(source)) if protocol in LOCAL else None


def source_argument(source: str) -> str:
    """Check a source from the command line, and return it; a local path becomes absolute.

    :raises InvalidArgument: if it is empty, or a local path that does not exist
    """
    if not source.strip():
        raise InvalidArgument("the path is empty; `.` names the current directory")
    absolute = absolute_source(source)
    path = local_path(absolute)
    if path is not None and not os.path.lexists(path):
        raise InvalidArgument(f"{source}: no such file or folder")
    return absolute


def stored_source(source: str) -> str:
    """Return ``source`` without possible secrets, in a form that may be stored and shown.

    >>> stored_source("https://host.example/a.json?signature=0a1b")
    'https://host.example/a.json?…'
    >>> stored_source("https://jo:secret@host.example/a.json")
    'https://…'
    """
    if local_path(source) is not None:
        return source
    if has_credentials(source):
        return source.partition("://")[0] + "://" + _NOT_KEPT
    kept, question, _ = source.partition("?")
    return kept + question + _NOT_KEPT if question else kept


def has_credentials(source: str) -> bool:
    """Whether a URL contains a user name, even if its password contains ``/`` or ``?``."""
    protocol, _, rest = source.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if protocol in _CONTAINERS and _CONTAINER.match(authority):
        return False
    return not _HOST.match(authority)


def check_url(source: str) -> None:
    """Refuse a URL that must not be read; the message does not repeat the URL.

    :raises InvalidDocument: if it contains credentials, or ``…`` in place of its query
    """
    if has_credentials(source):
        raise InvalidDocument(
            Reason.UNREADABLE,
            "a URL with credentials is refused; pass credentials in the environment",
        )
    if source.endswith(_NOT_KEPT):
        raise InvalidDocument(
            Reason.UNREADABLE, "the query of this URL was not stored; enter the full URL again"
        )
