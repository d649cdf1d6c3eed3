"""URLs of the indexes that projects name, without credentials."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from adviser.projects.project import ProjectIndex, WarningCode
from adviser.projects.requirement_parsing import ParseContext
from common.formats.file_decoding import FileTable, refuse, value_text
from common.formats.requirements_files import has_variable
from model.errors import Reason
from model.redaction import without_secrets

_VARIABLE = r"\$(?:\{\w+\}|\w+)"
_URL = re.compile(r"://[^\s\"<>]*")
#: User, password and query that consist of variables only, and therefore reveal nothing.
_USER = re.compile(rf"(?<=\A://){_VARIABLE}(?::{_VARIABLE})?@")
_QUERY = re.compile(rf"\?[\w.-]+={_VARIABLE}(?:&[\w.-]+={_VARIABLE})*(?=#|\Z)")
#: Characters that a URL cannot contain unencoded. A pattern for URLs would stop before them.
_NOT_IN_URLS = re.compile(r"[\s\"<>]")


def index_named(name: str, url: str, at: str, context: ParseContext, **facts: bool) -> ProjectIndex:
    """An index of a project; variables in its URL are kept, credentials are removed.

    :raises InvalidFile: if the URL is invalid
    """
    if has_variable(url):
        context.warn(
            WarningCode.VARIABLE_NOT_EXPANDED,
            f"the URL of the index {value_text(name)} has a variable, which is not expanded",
            at,
        )
    return ProjectIndex(name, public_url(url, at, context), **facts)


def required_url(table: FileTable) -> str:
    """The ``url`` of an index in a table.

    :raises InvalidFile: if it is missing
    """
    url = table.text("url")
    if url is None:
        refuse(Reason.MISSING_FIELD, "an index without a url", table.at, "add its url")
    return url


def public_url(url: str, at: str, context: ParseContext) -> str:
    """Remove credentials from a URL, and warn if it had any.

    :raises InvalidFile: if it is not a URL
    """
    public = public_text(url)
    try:
        parts = urlsplit(public)
    except ValueError:
        parts = None
    complete = parts is not None and parts.scheme and (parts.netloc or parts.path.startswith("/"))
    if not complete or _NOT_IN_URLS.search(url.strip()):
        refuse(
            Reason.OUT_OF_RANGE,
            "not the URL of an index",
            at,
            "write the full URL, such as https://index.example/simple",
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
    return _URL.sub(_public, text) if "://" in text else text


def public_values(value: Any) -> Any:
    """Remove credentials from every text in tables and lists, including the keys."""
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, Mapping):
        return {public_text(key): public_values(inner) for key, inner in value.items()}
    return [public_values(it) for it in value] if isinstance(value, list) else value


def _public(match: re.Match[str]) -> str:
    user, query = _USER.search(match[0]), _QUERY.search(match[0])
    public = without_secrets(_USER.sub("", match[0]))
    if query is not None:
        before, hash_sign, fragment = public.partition("#")
        public = before + query[0] + hash_sign + fragment
    return public if user is None else f"://{user[0]}{public[3:]}"
