"""Runs the script of an indicator with a given Python, and reads the results that it printed."""

import errno
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from shutil import which
from typing import Any

from model.errors import InvalidArgument
from model.measurements.benchmark_results import BenchmarkResult, Validity
from model.measurements.units import DISPLAY_UNITS, UNITS
from pis.amun.processes import dying_with_parent, kill_group
from pis.bundle import script_of
from pis.metrics import metric_values
from pis.temporary_folders import scratch_folder

#: How many of the last lines of standard error are kept to explain a failure.
_KEPT_LINES = 50


class CannotStart(InvalidArgument):
    """The Python interpreter cannot be started."""

    hint = "give --python the path of an interpreter, such as /path/to/venv/bin/python"


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A script after its end.

    :param exit_code: negative if a signal ended it
    :param errors: last lines of its standard error
    """

    exit_code: int
    stdout: str
    errors: tuple[str, ...]

    @property
    def error(self) -> str:
        """The last line that begins with ``error:``, or all lines if there is none."""
        own = [line for line in self.errors if line.startswith("error: ")]
        return own[-1].removeprefix("error: ") if own else "\n".join(self.errors)


def run_script(
    name: str, python: str, arguments: Sequence[str], on_line: Callable[[str], object]
) -> ScriptRun:
    """Run the indicator ``name`` and wait for it; it is killed if this process ends.

    :param on_line: called with each line of standard error at once
    :raises UnknownIndicator: if there is no such indicator
    :raises CannotStart: if ``python`` is not an interpreter
    """
    text = script_of(name)
    with (
        scratch_folder("pi") as folder,
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stdout,
    ):
        script = folder / f"pi_{name}.py"
        script.write_text(text, encoding="utf-8")
        process = _start([python, str(script), *arguments], stdout.fileno())
        with process:
            try:
                kept: list[str] = []
                for line in process.stderr or ():
                    kept = [*kept[1 - _KEPT_LINES :], line.rstrip("\n")]
                    on_line(kept[-1])
                errors = tuple(kept)
                process.wait()
            finally:
                kill_group(process.pid)
        stdout.seek(0)
        return ScriptRun(process.returncode, stdout.read(), errors)


def _start(command: list[str], stdout: int) -> subprocess.Popen[str]:
    if which(command[0]) is None:
        number = errno.EACCES if Path(command[0]).exists() else errno.ENOENT
        raise CannotStart(f"{command[0]}: {os.strerror(number)}")
    try:
        return subprocess.Popen(
            dying_with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise CannotStart(f"{command[0]}: {error.strerror}") from error


def results_in(document: Mapping[str, Any], ended_at: datetime) -> Iterator[BenchmarkResult]:
    """The value of each declared metric in the document that a bundled indicator printed.

    >>> printed = {"name": "PiMatmul", "component": "numpy", "component_version": "2.4.6",
    ...            "python": "3.11.7", "@parameters": {"matrix_size": 8},
    ...            "@result": {"rate": 4.0, "unit": "GFLOPS", "elapsed": 2.0, "repetitions": [2.0]}}
    >>> [(it.metric.name, it.value, it.metric.unit) for it in results_in(printed, datetime.now())]
    [('rate', 4.0, 'GFLOPS')]
    """
    software = {document["component"]: document["component_version"], "python": document["python"]}
    gpu = document.get("gpu")
    for part in document.get("@results", [document]):
        measured, parameters = part["@result"], part["@parameters"]
        unit = UNITS[measured["unit"]]
        values = metric_values(
            document["name"],
            parameters,
            unit,
            measured["rate"] * DISPLAY_UNITS[unit].factor,
            measured["elapsed"] / 1e3,
            [it / 1e3 for it in measured["repetitions"]],
        )
        for measurement in values:
            yield BenchmarkResult(
                system="thoth",
                source=document["name"],
                benchmark=measurement.declared.benchmark,
                metric=measurement.declared.metric,
                value=measurement.value,
                aggregate=measurement.declared.aggregate,
                parameters={
                    key: it for key, it in parameters.items() if isinstance(it, str | int | float)
                },
                samples=measurement.samples,
                validity=Validity.VALID,
                hardware={"accelerator": gpu["name"]} if gpu and gpu.get("name") else {},
                software=software,
                measured_at=ended_at,
            )
