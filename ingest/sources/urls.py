"""Source URLs: which are taken, and what of them may be stored and shown."""

from __future__ import annotations

import os
import re

import fsspec

from common.errors import InvalidArgument, InvalidDocument
from common.reasons import Reason
from common.redaction import absolute_source

#: Read as plain paths are, with the same care for links.
LOCAL = ("file", "local")
#: ``abfs://container@account/…`` names no user.
_CONTAINERS = ("abfs", "az")
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[^@:\[\]]*)(?::[0-9]*)?\Z")
_CONTAINER = re.compile(r"[^@:]*@[^@:]*\Z")
_NOT_KEPT = "…"


def local_path(source: str) -> str | None:
    """The path on this machine that a source means; ``None`` for one elsewhere.

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
    """A source that a person named on the command line, with an absolute path.

    :raises InvalidArgument: if it is empty, or a path of this machine that does not exist
    """
    if not source.strip():
        raise InvalidArgument("the name of a source is empty; `.` names the current directory")
    absolute = absolute_source(source)
    path = local_path(absolute)
    if path is not None and not os.path.lexists(path):
        raise InvalidArgument(f"{source}: no such file or folder")
    return absolute


def stored_source(source: str) -> str:
    """``source`` as it is stored and shown: without what may be a credential.

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
    """Whether a URL names a user; a password with ``/`` or ``?`` in it counts too."""
    protocol, _, rest = source.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if protocol in _CONTAINERS and _CONTAINER.match(authority):
        return False
    return not _HOST.match(authority)


def check_url(source: str) -> None:
    """Refuse what must not be read, in words that do not repeat it.

    :raises InvalidDocument: a URL with credentials, or of which only a part was stored
    """
    if has_credentials(source):
        raise InvalidDocument(
            Reason.UNREADABLE,
            "credentials within a URL are not taken; they come from the environment",
        )
    if source.endswith(_NOT_KEPT):
        raise InvalidDocument(
            Reason.UNREADABLE, "what follows the ? of this URL was not kept; name it again in full"
        )
