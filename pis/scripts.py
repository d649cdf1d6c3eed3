"""Runs an indicator's script with some Python, as a process of its own."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from common.errors import InvalidArgument
from pis.amun.processes import dying_with_us, wait_until_gone
from pis.bundle import script_of
from pis.scratch import scratch_folder

#: Lines of standard error that are kept to explain a failure.
_KEPT_LINES = 50


class CannotStart(InvalidArgument):
    """A Python that cannot be started."""

    hint = "--python takes the path of an interpreter, such as /path/to/venv/bin/python"


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A script that ended.

    :param exit_code: negative if a signal ended it
    :param errors: last lines of its standard error
    """

    exit_code: int
    stdout: str
    errors: tuple[str, ...]

    @property
    def error(self) -> str:
        """Why it failed: its own line for that, else the last words there are."""
        own = [line for line in self.errors if line.startswith("error: ")]
        return own[-1].removeprefix("error: ") if own else "\n".join(self.errors)


def run_script(
    name: str, python: str, arguments: Sequence[str], on_line: Callable[[str], object]
) -> ScriptRun:
    """Run the indicator called ``name`` and wait for it; it ends when this process does.

    :param on_line: gets each line of standard error when it comes
    :raises UnknownIndicator: if there is none of that name
    :raises CannotStart: if ``python`` is no interpreter
    """
    text = script_of(name)
    with (
        scratch_folder("pi") as folder,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stdout,
    ):
        script = folder / f"pi_{name}.py"
        script.write_text(text, encoding="utf-8")
        process = _started([python, str(script), *arguments], stdout.fileno())
        with process:
            try:
                errors = _lines(process, on_line)
                process.wait()
            finally:
                wait_until_gone(process.pid)
        stdout.seek(0)
        return ScriptRun(process.returncode, stdout.read(), errors)


def _started(command: list[str], stdout: int) -> subprocess.Popen[str]:
    if which(command[0]) is None:
        known = Path(command[0]).exists()
        raise CannotStart(f"{command[0]}: {os.strerror(errno.EACCES if known else errno.ENOENT)}")
    try:
        return subprocess.Popen(
            dying_with_us(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotStart(f"{command[0]}: {error.strerror}") from error


def _lines(process: subprocess.Popen[str], on_line: Callable[[str], object]) -> tuple[str, ...]:
    kept: list[str] = []
    for line in process.stderr or ():
        kept = [*kept[1 - _KEPT_LINES :], line.rstrip("\n")]
        on_line(kept[-1])
    return tuple(kept)
