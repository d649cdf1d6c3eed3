"""Runs an indicator's script with some Python, as a process of its own."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import ProjectError
from pis.bundle import script_of

#: Lines of standard error that are kept to explain a failure.
_KEPT_LINES = 50


class CannotStart(ProjectError):
    """A Python that cannot be started."""

    hint = "--python takes the path of an interpreter, such as /path/to/venv/bin/python"


@dataclass(frozen=True, slots=True)
class Finished:
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
) -> Finished:
    """Run the indicator called ``name`` and wait for it.

    :param on_line: gets each line of standard error when it comes
    :raises UnknownIndicator: if there is none of that name
    :raises CannotStart: if ``python`` is no interpreter
    """
    text = script_of(name)
    with (
        tempfile.TemporaryDirectory(prefix="thoth-pi-") as folder,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stdout,
    ):
        script = Path(folder) / f"pi_{name}.py"
        script.write_text(text, encoding="utf-8")
        process = _started([python, str(script), *arguments], stdout.fileno())
        with process:
            try:
                errors = _lines(process, on_line)
            except BaseException:
                process.kill()
                raise
        stdout.seek(0)
        return Finished(process.returncode, stdout.read(), errors)


def _started(command: list[str], stdout: int) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise CannotStart(f"{command[0]}: {error.strerror}") from error


def _lines(process: subprocess.Popen[str], on_line: Callable[[str], object]) -> tuple[str, ...]:
    kept: list[str] = []
    for line in process.stderr or ():
        kept = [*kept[1 - _KEPT_LINES :], line.rstrip("\n")]
        on_line(kept[-1])
    return tuple(kept)
