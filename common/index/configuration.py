"""The package indexes that pip, uv and the settings configure for this machine.

A request can name one of these indexes, but never add an index: the operator of a machine decides
which indexes it fetches from.
"""

import netrc
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from common.formats.installer_configuration import pip_options, uv_indexes
from common.settings import Settings
from model.errors import InvalidArgument, InvalidSettings
from model.packages.identity import DEFAULT_INDEX, package_version, public_index_url
from model.redaction import without_secrets

#: Name of the folder of wheels in pip's configuration; further folders get a number.
FIND_LINKS = "find-links"
#: Seconds after which changed configuration files are read again.
_KEPT_S = 1.0
_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Index:
    """One index: a URL or a local folder.

    :param url: ``https``, ``http`` or ``file``; without user, password or trailing slash
    :param auth: user and password, if they are known
    """

    name: str
    url: str
    auth: tuple[str, str] | None = field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """Whether the index is a local folder."""
        return self.url.startswith("file:")


def configured_indexes(
    settings: Settings, environ: Mapping[str, str] | None = None
) -> dict[str, Index]:
    """The indexes of this machine by name, the default one (``pypi``) first.

    The default is the index in uv's configuration. If uv configures none, the default is the index
    in pip's configuration or, without one, the public index. A setting for the name ``pypi``
    overrides all three. The other indexes come from the settings, from named indexes of uv's
    configuration, and from pip's folders of wheels. Indexes without a name are ignored.

    :raises InvalidSettings: if a URL is invalid
    """
    if environ is not None:
        return _read_indexes(settings.package_indexes, environ)
    # A service calls this several times for each request, and reading files is slow.
    second = int(time.monotonic() / _KEPT_S)
    return dict(_cached_indexes(settings.package_indexes, frozenset(os.environ.items()), second))


@lru_cache(maxsize=4)
def _cached_indexes(
    named: tuple[tuple[str, str], ...], environ: frozenset[tuple[str, str]], _second: int
) -> dict[str, Index]:
    return _read_indexes(named, dict(environ))


def _read_indexes(
    named: tuple[tuple[str, str], ...], environ: Mapping[str, str]
) -> dict[str, Index]:
    addresses: dict[str, str] = {}
    for name, url in (*_of_settings(named), *_of_uv(environ), *_of_pip(environ)):
        addresses.setdefault(name, url)
    if not any(environ.get(it, "").lower() in _TRUE for it in ("UV_NO_INDEX", "PIP_NO_INDEX")):
        addresses.setdefault(DEFAULT_INDEX, public_index_url())
    order = sorted(addresses, key=lambda name: (name != DEFAULT_INDEX, name))
    return {name: _index(name, addresses[name], environ) for name in order}


def index_of(
    settings: Settings, name: str | None = None, environ: Mapping[str, str] | None = None
) -> Index:
    """The index called ``name``, or the default one.

    :raises InvalidArgument: if it is not configured; the message lists configured ones
    """
    indexes = configured_indexes(settings, environ)
    normal_name = package_version("any", "1", name or None).index
    if normal_name not in indexes:
        known = ", ".join(indexes) or "none is"
        public = without_secrets(normal_name)
        raise InvalidArgument(f"no index is called {public!r}; configured: {known}")
    return indexes[normal_name]


def _of_settings(named: tuple[tuple[str, str], ...]) -> Iterator[tuple[str, str]]:
    for name, url in named:
        yield package_version("any", "1", name).index, url


def _of_uv(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, url, is_default in uv_indexes(environ):
        if is_default:
            yield DEFAULT_INDEX, url
        if name and name != DEFAULT_INDEX:
            yield name, url


def _of_pip(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    options = pip_options(environ)
    if "index-url" in options:
        yield DEFAULT_INDEX, options["index-url"]
    folders = [it for it in options.get("find-links", "").split() if _is_folder(it)]
    for number, folder in enumerate(folders, start=1):
        yield FIND_LINKS if number == 1 else f"{FIND_LINKS}-{number}", folder


def _is_folder(location: str) -> bool:
    return "://" not in location or location.startswith("file://")


def _index(name: str, address: str, environ: Mapping[str, str]) -> Index:
    url = address if "://" in address else Path(address).absolute().as_uri()
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https", "file"):
        # The URL may contain a password, so it is not repeated.
        raise InvalidSettings(f"index {name}: its address is not an http, https or file URL")
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return Index(name, bare, _auth(name, parts, environ))


def _auth(name: str, parts: SplitResult, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Credentials from uv's variables, the URL or netrc; keyrings are used only after a refusal."""
    prefix = f"UV_INDEX_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
    user, password = environ.get(f"{prefix}_USERNAME"), environ.get(f"{prefix}_PASSWORD")
    if user or password:
        return user or "", password or ""
    if parts.username or parts.password:
        return unquote(parts.username or ""), unquote(parts.password or "")
    path = Path(environ.get("NETRC") or Path(environ.get("HOME", "/"), ".netrc"))
    try:
        login = (
            netrc.netrc(path).authenticators(parts.hostname)
            if parts.hostname and path.is_file()
            else None
        )
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return None
    return (login[0], login[2] or "") if login else None
