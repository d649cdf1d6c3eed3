"""Runs uv, the installer, with this machine's or a named index, and classifies its failures.

A specification names indexes but never gives URLs, because the operator of a machine decides what
the machine may fetch. Credentials stay in this module.
"""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common.formats.installer_configuration import has_uv_file, pip_options
from model.measurements.job_stability import DISK_FULL, LAUNCHER_UNAVAILABLE
from model.packages.identity import DEFAULT_INDEX
from model.redaction import without_credentials
from pis.amun.launchers import BuildFailed
from pis.amun.processes import run_group

#: One hour, as the largest wheels have 3 GB.
TIMEOUT_S = 3600.0

#: Reason codes and patterns of uv's messages; the first match counts.
_REASONS = (
    ("hash-mismatch", r"[Hh]ash mismatch|[Hh]ashes? (?:do|does) not match|no matching hash"),
    (DISK_FULL, r"No space left on device|Disk quota exceeded"),
    (
        "index-unreachable",
        r"error sending request|client error|dns error|[Cc]onnection (?:refused|reset)"
        r"|[Nn]etwork is unreachable|[Rr]equest failed after|operation timed out"
        r"|network timeout|error reading a body from connection"
        r"|network connectivity is disabled"
        r"|401 Unauthorized|403 Forbidden|[Ff]ailed to fetch|HTTP status (?:client|server) error",
    ),
    (
        "no-wheel",
        r"no usable wheels|has no wheels|no wheels with a matching|not compatible with the current"
        r"|[Bb]uilding source distributions|(?:no|doesn't have a) source distribution"
        r"|was not found in|there (?:is|are) no version",
    ),
)
_HINTS = {
    "hash-mismatch": "the index serves a file other than the locked one; lock the stack again",
    "index-unreachable": "check that this machine can reach its package index, and run again",
    "no-wheel": "choose a version with a wheel for this Python and platform; nothing is compiled",
    "timed-out": "run again; finished downloads are kept",
    DISK_FULL: "free space for THOTH_HOME and the temporary folder, and run again",
}

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

LineCallback = Callable[[str], None]


class BuildLog:
    """The log of a build, without credentials.

    :param on_line: called with each line at once
    """

    def __init__(self, on_line: LineCallback | None = None) -> None:
        self._lines: list[str] = []
        self._on_line = on_line

    def write(self, text: str) -> None:
        """Add one or more lines."""
        for line in without_credentials(text).rstrip("\n").splitlines():
            self._lines.append(line)
            if self._on_line is not None:
                self._on_line(line)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def run_installer(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: BuildLog
) -> str:
    """Run uv with ``arguments`` and write its messages to the log.

    :param folder: working folder, so that configuration in the current folder has no effect
    :returns: its standard output
    :raises BuildFailed: with the reason from its messages
    """
    from uv import find_uv_bin

    log.write(f"$ uv {' '.join(arguments)}")
    try:
        command = [find_uv_bin(), "--no-progress", "--color", "never", *arguments]
        done = run_group(command, environment, folder, TIMEOUT_S)
    except FileNotFoundError as error:
        raise build_failure(LAUNCHER_UNAVAILABLE, f"uv cannot be run: {error}", log, 127) from None
    except subprocess.TimeoutExpired:
        message = f"uv did not finish within {TIMEOUT_S:.0f} s"
        raise build_failure("timed-out", message, log, 124) from None
    log.write(done.stderr)
    if done.returncode:
        reason = reason_of(done.stderr)
        raise build_failure(reason, _summary(done.stderr), log, done.returncode)
    return done.stdout


def build_failure(
    reason: str, message: str, log: BuildLog, exit_code: int = 1, hint: str = ""
) -> BuildFailed:
    """Write the failure to ``log``, and return it as an error with the whole log.

    :param hint: by default, the usual one for ``reason``
    """
    message = without_credentials(message)
    log.write(f"failed: {message} [{reason}]")
    hint = hint or _HINTS.get(reason, "")
    return BuildFailed(reason, message, log=str(log), exit_code=exit_code, hint=hint)


def reason_of(stderr: str) -> str:
    """Return the reason code for the error messages of the installer.

    >>> reason_of("error: Hash mismatch for `numpy==2.2.6`")
    'hash-mismatch'
    """
    flat = " ".join(stderr.split())
    return next((code for code, pattern in _REASONS if re.search(pattern, flat)), "build-failed")


def _summary(stderr: str) -> str:
    """Return the installer's error in one line."""
    error = stderr.partition("error: ")[2] or stderr.partition("× ")[2]
    text = error.partition("Expected:")[0] if error else stderr
    line = " ".join(text.replace("╰─▶", ":").replace("│", " ").split())
    return line[:500] or "uv failed without a message"


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
