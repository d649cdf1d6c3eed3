"""Package indexes: this machine's default index, and others by their name in the settings.

A specification names indexes but never gives URLs, because the operator of a machine decides what
the machine may fetch. Credentials stay in this module.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from common.formats.installer_configuration import has_uv_file, pip_options
from model.packages.identity import DEFAULT_INDEX, index_identity, package_version, public_index_url
from model.redaction import without_credentials

__all__ = ["index_name", "installer_environment", "without_credentials"]

#: Variables that tell uv how to reach indexes, not what to install.
_KEPT_UV = frozenset(
    f"UV_{name}"
    for name in (
        "CACHE_DIR", "CONFIG_FILE", "CONCURRENT_DOWNLOADS", "DEFAULT_INDEX", "EXTRA_INDEX_URL",
        "FIND_LINKS", "HTTP_RETRIES", "HTTP_TIMEOUT", "INDEX", "INDEX_STRATEGY", "INDEX_URL",
        "INSECURE_HOST", "KEYRING_PROVIDER", "LINK_MODE", "NATIVE_TLS", "NO_INDEX", "OFFLINE",
        "PYTHON_INSTALL_DIR", "SYSTEM_CERTS",
    )
)  # fmt: skip
#: uv reads the user and the password of a named index from these.
_INDEX_CREDENTIALS = re.compile(r"UV_INDEX_\w+_(?:USERNAME|PASSWORD)")
#: Other variables that the installer needs. No others are passed on: the installer starts
#: interpreters, which must not see the runner's secrets, and some variables would make it use
#: another environment.
_KEPT = frozenset(
    (
        "PATH", "HOME", "LANG", "TMPDIR", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR",
        "SSL_CLIENT_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    )
)  # fmt: skip
_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"))
#: pip's options and the variables of uv that mean the same.
_UV_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "cert": "SSL_CERT_FILE",
}
_INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL")


def index_name(name_or_url: str | None, indexes: Mapping[str, str]) -> str:
    """Return the name of an index; the URL of an index that is not configured is unchanged.

    :raises ValueError: if a URL cannot be split

    >>> index_name("pypi-org", {}), index_name("https://a.example/simple/", {"a": "https://a.example/simple"})
    ('pypi', 'a')
    """
    if not name_or_url:
        return DEFAULT_INDEX
    if "://" in name_or_url:
        variables = [os.environ.get(it) for it in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")]
        defaults = (public_index_url(), *variables, pip_options(os.environ).get("index-url"))
        known = {index_identity(url): DEFAULT_INDEX for url in defaults if url}
        known |= {index_identity(url): name for name, url in indexes.items()}
        urlsplit(name_or_url)
        identity = index_identity(name_or_url)
        return known.get(identity, identity)
    return package_version("any", "1", name_or_url).index


def installer_environment(
    index: str, indexes: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment in which the installer uses ``index``.

    The default index is the index that uv is configured to use on this machine. If there is none,
    it is the index that pip uses.

    :param index: name of the default index, or a key of ``indexes``
    """
    environ = os.environ if environ is None else environ
    variables = {name: value for name, value in environ.items() if _is_kept(name)}
    if index != DEFAULT_INDEX:
        for name in (*_INDEX_VARIABLES, "UV_FIND_LINKS", "UV_NO_INDEX"):
            variables.pop(name, None)
        return variables | {"UV_DEFAULT_INDEX": indexes[index], "UV_NO_CONFIG": "1"}
    configured = any(name in variables for name in (*_INDEX_VARIABLES, "UV_CONFIG_FILE"))
    return variables if configured or has_uv_file(environ) else _pip_variables(environ) | variables


def _is_kept(name: str) -> bool:
    """Whether a variable is passed to the installer unchanged; pip's variables are translated."""
    if name.startswith("UV_"):
        return name in _KEPT_UV or _INDEX_CREDENTIALS.fullmatch(name) is not None
    return name in _KEPT or name.upper() in _PROXIES or name.startswith("XDG_")


def _pip_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's configuration into variables of uv."""
    options = pip_options(environ)
    if "find-links" in options:
        options["find-links"] = ",".join(options["find-links"].split())
    return {_UV_VARIABLES[key]: value for key, value in options.items() if key in _UV_VARIABLES}
