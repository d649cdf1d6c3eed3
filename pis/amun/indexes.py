"""Package indexes: those of this machine by default, others by a name that settings know.

A specification names indexes and never brings an address of its own: what it could make
a machine fetch is decided by whoever runs the machine. Credentials stay in this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

from common.formats.installer_configuration import has_uv_file, pip_options
from common.packages import DEFAULT_INDEX, package_version
from common.redaction import without_credentials

__all__ = ["index_name", "installer_environment", "without_credentials"]

#: What the installer is told by these is how to reach indexes, not what to install.
_KEPT_UV = frozenset(
    f"UV_{name}"
    for name in (
        "CACHE_DIR", "CONFIG_FILE", "CONCURRENT_DOWNLOADS", "DEFAULT_INDEX", "EXTRA_INDEX_URL",
        "FIND_LINKS", "HTTP_RETRIES", "HTTP_TIMEOUT", "INDEX", "INDEX_STRATEGY", "INDEX_URL",
        "INSECURE_HOST", "KEYRING_PROVIDER", "LINK_MODE", "NATIVE_TLS", "NO_INDEX", "OFFLINE",
        "PYTHON_INSTALL_DIR", "SYSTEM_CERTS",
    )
)  # fmt: skip
#: uv takes the user and the password of an index that has a name from these.
_OF_INDEX = re.compile(r"UV_INDEX_\w+_(?:USERNAME|PASSWORD)")
#: What else the installer needs to run and to reach indexes. Nothing more is passed on: what a
#: runner keeps in its environment is not for the interpreters that the installer asks, and
#: some variables would send it into another environment than the one meant.
_KEPT = frozenset(
    (
        "PATH", "HOME", "LANG", "TMPDIR", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    )
)  # fmt: skip
_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
#: What pip calls it, what the installer calls it.
_FROM_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL")

_INDEX_VARIABLE_OF_URL = "UV_DEFAULT_INDEX"


def index_name(name_or_url: str | None, indexes: Mapping[str, str]) -> str:
    """The name by which an index is known: of an address, that under which it is configured.

    >>> index_name("pypi-org", {}), index_name("https://a.example/simple/", {"a": "https://a.example/simple"})
    ('pypi', 'a')
    """
    if not name_or_url:
        return DEFAULT_INDEX
    if "://" in name_or_url:
        wanted = _bare(name_or_url)
        return next((name for name, url in indexes.items() if _bare(url) == wanted), DEFAULT_INDEX)
    return package_version("any", "1", name_or_url).index


def installer_environment(
    index: str, indexes: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment in which the installer takes packages from ``index``.

    The default index is what uv is configured with on this machine, else what pip is.

    :param index: a name: the default one, or a key of ``indexes``
    """
    environ = os.environ if environ is None else environ
    made = {name: value for name, value in environ.items() if _is_kept(name)}
    if index != DEFAULT_INDEX:
        for name in (*_INDEX_VARIABLES, "UV_FIND_LINKS", "UV_NO_INDEX"):
            made.pop(name, None)
        return made | {_INDEX_VARIABLE_OF_URL: indexes[index], "UV_NO_CONFIG": "1"}
    if any(name in made for name in (*_INDEX_VARIABLES, "UV_CONFIG_FILE")) or has_uv_file(environ):
        return made
    return made | {name: value for name, value in _as_pip(environ).items() if name not in made}


def _is_kept(name: str) -> bool:
    """Whether the installer gets the variable; pip's are read here and not passed on."""
    if name.startswith("UV_"):
        return name in _KEPT_UV or _OF_INDEX.fullmatch(name) is not None
    return name in _KEPT or name.upper() in _PROXIES or name.startswith("XDG_")


def _as_pip(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip's configuration says, in the installer's words."""
    said = pip_options(environ)
    if "find-links" in said:
        said["find-links"] = ",".join(said["find-links"].split())
    return {_FROM_PIP[key]: value for key, value in said.items() if key in _FROM_PIP}


def _bare(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", "")
    )
