"""The installer, uv: how it is called, and what its failures mean."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from common.host_problems import DISK_FULL, LAUNCHER_UNAVAILABLE
from common.redaction import without_credentials
from pis.amun.launchers import BuildFailed
from pis.amun.processes import run_group

#: The largest wheels have 3 GB.
TIMEOUT_S = 3600.0

#: The first that matches what the installer said tells why it failed.
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
)  # fmt: skip
_HINTS = {
    "hash-mismatch": "what the index serves is not what was locked; lock the stack anew",
    "index-unreachable": "see that this machine reaches its package index, and run again",
    "no-wheel": "choose a version that has a wheel for this Python and platform; nothing is built",
    "timed-out": "run again: what was downloaded is kept",
    DISK_FULL: "make room where THOTH_HOME and the temporary folder are, and run again",
}

Say = Callable[[str], None]


class BuildLog:
    """What was said while something was built, without credentials.

    :param say: called with each line as it comes
    """

    def __init__(self, say: Say | None = None) -> None:
        self._lines: list[str] = []
        self._say = say

    def write(self, text: str) -> None:
        """Add ``text``, which may have several lines."""
        for line in without_credentials(text).rstrip("\n").splitlines():
            self._lines.append(line)
            if self._say is not None:
                self._say(line)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)


def run_installer(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, log: BuildLog
) -> str:
    """Run uv with ``arguments``, writing what it says into the log.

    :param folder: where it is run, so that no configuration of the current folder takes part
    :returns: its standard output
    :raises BuildFailed: with the reason that its words tell
    """
    from uv import find_uv_bin

    log.write(f"$ uv {' '.join(arguments)}")
    try:
        command = [find_uv_bin(), "--no-progress", "--color", "never", *arguments]
        done = run_group(command, environment, folder, TIMEOUT_S)
    except FileNotFoundError as error:
        raise failed(LAUNCHER_UNAVAILABLE, f"uv cannot be run: {error}", log, 127) from None
    except subprocess.TimeoutExpired:
        raise failed("timed-out", f"not done after {TIMEOUT_S:.0f} s", log, 124) from None
    log.write(done.stderr)
    if done.returncode:
        reason = reason_of(done.stderr)
        raise failed(reason, _summary(done.stderr), log, done.returncode)
    return done.stdout


def failed(reason: str, message: str, log: BuildLog, exit_code: int = 1) -> BuildFailed:
    """A failed build with its whole log."""
    message = without_credentials(message)
    log.write(f"failed: {message} [{reason}]")
    return BuildFailed(
        reason, message, log=str(log), exit_code=exit_code, hint=_HINTS.get(reason, "")
    )


def reason_of(said: str) -> str:
    """The reason code of what the installer said on its way out.

    >>> reason_of("error: Hash mismatch for `numpy==2.2.6`")
    'hash-mismatch'
    """
    flat = " ".join(said.split())
    return next((code for code, words in _REASONS if re.search(words, flat)), "build-failed")


def _summary(said: str) -> str:
    """The installer's own last words in one line."""
    _, found, rest = said.partition("error: ")
    if not found:
        _, found, rest = said.partition("× ")
    rest = rest.partition("Expected:")[0]
    words = " ".join((rest if found else said).replace("╰─▶", ":").replace("│", " ").split())
    return words[:500] or "the installer failed without a word"
