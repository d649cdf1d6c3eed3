"""Indexes that projects name, without their passwords."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from adviser.projects.lines import Reading, has_variable
from adviser.projects.problems import refuse, shown
from adviser.projects.project import ProjectIndex, WarningCode
from common.indexes.configuration import without_credentials
from common.reasons import Reason

_VARIABLE_ALONE = re.compile(r"\$(?:\{\w+\}|\w+)\Z")


def index_named(name: str, url: str, at: str, reading: Reading, **facts: bool) -> ProjectIndex:
    """An index of a project; a variable in its address stays, credentials are taken out.

    :raises InvalidProject: if its address cannot be one
    """
    if has_variable(url):
        reading.warn(
            WarningCode.VARIABLE_NOT_EXPANDED,
            f"the address of the index {shown(name)} has a variable, which is not expanded",
            at,
        )
    return ProjectIndex(name, public_address(url, at, reading), **facts)


def public_address(url: str, at: str, reading: Reading) -> str:
    """:func:`without_secrets` of an address, told if there was one.

    :raises InvalidProject: if it is no address
    """
    public = without_secrets(url)
    try:
        parts = urlsplit(public)
    except ValueError:
        parts = None
    if parts is None or not parts.scheme or not (parts.netloc or parts.path.startswith("/")):
        refuse(
            Reason.OUT_OF_RANGE,
            "the address of an index is not a URL",
            at,
            "write it whole, such as https://index.example/simple",
        )
    if public != url:
        reading.warn(
            WarningCode.CREDENTIALS_REMOVED,
            f"credentials in the address of {shown(public)} were taken out: keep them in variables "
            "or a keyring",
            at,
        )
    return public


def without_secrets(url: str) -> str:
    """An address without user and password, unless those are variables.

    >>> without_secrets("https://me:secret@h.example/simple")
    'https://h.example/simple'
    >>> without_secrets("https://${NAME}:${WORD}@h.example/simple")
    'https://${NAME}:${WORD}@h.example/simple'
    """
    public = without_credentials(url).replace("://…@", "://")
    secret = url.partition("://")[2].rpartition("@")[0]
    return url if all(map(_VARIABLE_ALONE.match, secret.split(":"))) else public
