"""URLs of the indexes that projects name, without credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from adviser.projects.project import ProjectIndex, WarningCode
from adviser.projects.requirement_parsing import ParseContext
from common.formats.file_fields import refuse, shown
from common.formats.requirements_files import has_variable
from common.reasons import Reason
from common.redaction import without_secrets

_VARIABLE = r"\$(?:\{\w+\}|\w+)"
_ADDRESS = re.compile(r"://[^\s\"<>]*")
#: User, password and query that consist of variables only, and therefore reveal nothing.
_USER = re.compile(rf"(?<=\A://){_VARIABLE}(?::{_VARIABLE})?@")
_QUERY = re.compile(rf"\?[\w.-]+={_VARIABLE}(?:&[\w.-]+={_VARIABLE})*(?=#|\Z)")
#: What no address has in it unencoded; up to there alone one could be recognised.
_NO_ADDRESS = re.compile(r"[\s\"<>]")


def index_named(name: str, url: str, at: str, context: ParseContext, **facts: bool) -> ProjectIndex:
    """An index of a project; variables in its URL are kept, credentials are removed.

    :raises InvalidFile: if the URL is invalid
    """
    if has_variable(url):
        context.warn(
            WarningCode.VARIABLE_NOT_EXPANDED,
            f"the address of the index {shown(name)} has a variable, which is not expanded",
            at,
        )
    return ProjectIndex(name, public_address(url, at, context), **facts)


def public_address(url: str, at: str, context: ParseContext) -> str:
    """:func:`public_text` of an address, told if there was more in it.

    :raises InvalidFile: if it is no address
    """
    public = public_text(url)
    try:
        parts = urlsplit(public)
    except ValueError:
        parts = None
    whole = parts is not None and parts.scheme and (parts.netloc or parts.path.startswith("/"))
    if not whole or _NO_ADDRESS.search(url.strip()):
        refuse(
            Reason.OUT_OF_RANGE,
            "the address of an index is not a URL",
            at,
            "write it whole, such as https://index.example/simple",
        )
    if public != url:
        context.warn_of_credentials(public, at)
    return public


def public_text(text: str) -> str:
    """Remove credentials from the URLs in a text; variables are kept.

    >>> public_text("https://me:secret@h.example/simple?token=f00")
    'https://h.example/simple'
    >>> public_text("https://${NAME}:${WORD}@h.example/simple")
    'https://${NAME}:${WORD}@h.example/simple'
    """
    return _ADDRESS.sub(_public, text) if "://" in text else text


def public_values(value: Any) -> Any:
    """:func:`public_text` of every text in tables and lists, keys included."""
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, Mapping):
        return {public_text(key): public_values(inner) for key, inner in value.items()}
    return [public_values(it) for it in value] if isinstance(value, list) else value


def _public(found: re.Match[str]) -> str:
    user, query = _USER.search(found[0]), _QUERY.search(found[0])
    public = without_secrets(_USER.sub("", found[0]))
    if query is not None:
        before, hash_sign, fragment = public.partition("#")
        public = before + query[0] + hash_sign + fragment
    return public if user is None else f"://{user[0]}{public[3:]}"
