"""Commands of a person, such as ``python bench.py``, as specifications for the executor."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from common.formats.benchmark_files import read_benchmark_file
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_documents import digest
from model.measurements.benchmark_results import Direction, ResultSeries
from model.measurements.evidence import COMMAND, COMMAND_FILES, COMMAND_TEXT
from model.measurements.units import UNITS
from model.redaction import without_command_secrets
from model.text import first_few

#: Seconds of the units in which result files state times.
_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6,
    "ns": 1e-9,
}  # fmt: skip
#: Time limit of a job, unless a person gives another one.
COMMAND_TIMEOUT_S = 3600.0
#: Part of an argument that stands for the name of a file that the command writes.
RESULTS = "{results}"
#: Name of that file, beside the description.
RESULTS_FILE = "results"
#: Parameter of a measurement: the variables that were set for the command.
VARIABLES = "variables"
#: Name of the description of the command, among the files of a job.
DESCRIPTION = "command.json"
#: Maximum bytes of all files that a command names; more are data, which is too slow to digest each
#: time.
_MOST_BYTES = 100_000_000
#: Programs that run a command in an environment of their own.
_OWN_ENVIRONMENT = frozenset(("uv", "uvx", "poetry", "pdm", "hatch", "tox", "nox", "pipenv"))
_IGNORED = frozenset(("__pycache__", ".git", ".venv", ".pytest_cache", ".benchmarks"))


class CommandChanged(InvalidArgument):
    """A file that a command names changed, so that its jobs are not of one series."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, with all parts that identify its measurements beside stack and variables.

    :param arguments: program and arguments; one argument with spaces runs in a shell
    :param folder: where it runs
    :param files: SHA-256 of each file in ``folder`` that the arguments name, by relative path
    :param project: whether the packages in ``folder`` can be imported
    """

    arguments: tuple[str, ...]
    folder: Path
    files: Mapping[str, str]
    project: bool = True

    def __str__(self) -> str:
        """The command without secrets."""
        return without_command_secrets(self._text)

    @property
    def _text(self) -> str:
        return self.arguments[0] if self.in_shell else shlex.join(self.arguments)

    @property
    def in_shell(self) -> bool:
        """Whether a shell runs it."""
        return _runs_in_shell(self.arguments)

    @property
    def own_environment(self) -> str | None:
        """The program that would run it outside the environment of the stack, if any."""
        first = Path(self.arguments[0].split()[0]).name
        return first if first in _OWN_ENVIRONMENT else None

    @property
    def program(self) -> list[str]:
        """The command with all secrets."""
        return ["/bin/sh", "-c", *self.arguments] if self.in_shell else list(self.arguments)

    @property
    def named(self) -> dict[str, str]:
        """The command without secrets; if it has any, also a digest of the whole."""
        shown = {COMMAND_TEXT: str(self)}
        if str(self) == self._text:
            return shown
        return {**shown, "command_sha256": digest(self.arguments).removeprefix("sha256:")}

    @property
    def identity(self) -> dict[str, Any]:
        """The key of a series of measurements, without the variables."""
        return {
            **self.named,
            COMMAND_FILES: digest(dict(self.files)).removeprefix("sha256:"),
            **({} if self.project else {"project": False}),
        }

    def specification(
        self, python: Mapping[str, Any], variables: Mapping[str, str], timeout_s: float
    ) -> dict[str, Any]:
        """The specification that measures the command on one stack.

        The document has no secrets of the command; :attr:`program` has them.

        :param python: the part ``python`` of a specification, with the lock of the stack
        :param variables: set for this command, as :func:`model.redaction.shown_value` shows them
        """
        named = {VARIABLES: shlex.join(f"{it}={variables[it]}" for it in sorted(variables))}
        description = {
            "arguments": self.program if len(self.named) == 1 else [str(self)],
            "parameters": self.identity | (named if variables else {}),
        }
        return {
            "identifier": COMMAND,
            "script": script_text(),
            "timeout_s": timeout_s,
            "python": dict(python),
            "files": [{"path": DESCRIPTION, "content": json.dumps(description, sort_keys=True)}],
            "environment": [{"name": it, "value": variables[it]} for it in sorted(variables)],
        }

    def is_of(self, parameters: Mapping[str, Any]) -> bool:
        """Whether a description with these parameters is of this command."""
        return {it: value for it, value in parameters.items() if it != VARIABLES} == self.identity

    def require_unchanged(self) -> None:
        """:raises CommandChanged: if a file that the command names is no longer the same"""
        now = command_of(self.arguments, self.folder, project=self.project).files
        names = sorted(
            it for it in now.keys() | self.files.keys() if now.get(it) != self.files.get(it)
        )
        if names:
            raise CommandChanged(
                f"{first_few(names, 3)}: changed while it was measured: run the same command again"
                " to measure it as it is now",
                hint=f"if the command writes this file, name it by {RESULTS} or by a variable",
            )


def command_of(arguments: Sequence[str], folder: Path, *, project: bool = True) -> Command:
    """The command with the digests of the files that it names.

    :raises InvalidArgument: if a file cannot be read, or the files are too large
    """
    try:
        parts = shlex.split(arguments[0]) if _runs_in_shell(arguments) else arguments
    except ValueError as error:
        raise InvalidArgument(f"{arguments[0]!r}: {error}") from None
    if not parts or not parts[0]:
        raise InvalidArgument("behind --, give a command, such as: python bench.py")
    return Command(tuple(arguments), folder, dict(_digests(parts, folder)), project)


def _runs_in_shell(arguments: Sequence[str]) -> bool:
    return len(arguments) == 1 and " " in arguments[0]


def _digests(parts: Sequence[str], folder: Path) -> Iterator[tuple[str, str]]:
    left = _MOST_BYTES
    for path in sorted(set(_named_files(parts, folder))):
        try:
            state = path.stat()
            left -= state.st_size
            if left < 0:
                raise InvalidArgument(
                    f"{path}: the files that the command names have more than"
                    f" {_MOST_BYTES // 10**6} MB: name data by a variable, with --env"
                )
            signature = (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino)
            yield str(path.relative_to(folder)), _sha256(path, signature)
        except OSError as error:
            raise InvalidArgument(f"{path}: {error.strerror or error}") from None


@lru_cache(maxsize=10_000)
def _sha256(path: Path, _signature: tuple[int, ...]) -> str:
    """The digest of a file, which is read again only if its signature changed."""
    return sha256(path.read_bytes()).hexdigest()


def _named_files(parts: Sequence[str], folder: Path) -> Iterator[Path]:
    """Files below ``folder`` that are named, also as ``--option=FILE`` or ``file.py::test``."""
    for word in parts:
        name = word.rpartition("=")[2] if word.startswith("-") else word.partition("::")[0]
        path, top = folder / name, folder.resolve()
        # Unlike those of Path, these accept the text of a program as a name.
        known = os.path.isfile(path) or os.path.isdir(path)  # noqa: PTH112, PTH113
        if not name or RESULTS in name or not known or not path.resolve().is_relative_to(top):
            continue
        if not path.is_relative_to(folder):
            path = folder / path.resolve().relative_to(top)
        if path.is_file():
            yield path
        elif path.resolve() != top:
            for inner in path.rglob("*"):
                if inner.is_file() and not _IGNORED.intersection(inner.relative_to(path).parts):
                    yield inner


def results_document(printed: Mapping[str, Any], content: bytes) -> dict[str, Any]:
    """The output of a command and the benchmarks in the file that it wrote, as one document.

    Each benchmark is a result. A value other than a time becomes a rate: the value itself if higher
    is better, else its reciprocal; the parameter ``value`` says so.

    :param printed: by :mod:`pis.command_script`
    :param content: of the file
    :raises InvalidDocument: if the file cannot be read, or has no benchmark that can be compared
    """
    series = read_benchmark_file(content)
    usable = [it for it in series if it.excluded is None]
    excluded = {it.label: it.excluded for it in series if it.excluded is not None}
    if not usable:
        label, reason = next(iter(excluded.items()))
        raise InvalidDocument(Reason.MISSING_FIELD, f"{label}: {reason}", field="$")
    own = printed["@parameters"]
    results = [
        {
            "@parameters": {**own, "benchmark": benchmark.label, **_value_of(benchmark)},
            "@result": _result_of(benchmark),
        }
        for benchmark in usable
    ]
    process = {"process": printed["@result"]}
    return {"name": printed["name"], "@results": results, "excluded": excluded, **process}


def _value_of(series: ResultSeries) -> dict[str, str]:
    if _is_time(series):
        return {}
    return {"value": f"{series.unit or 'no unit'}, {series.direction} is better"}


def _is_time(series: ResultSeries) -> bool:
    return series.direction is Direction.LOWER and series.unit in _SECONDS


def _result_of(series: ResultSeries) -> dict[str, Any]:
    middle = median(series.samples)
    lower = series.direction is Direction.LOWER
    if _is_time(series):
        to_ms = 1e3 * _SECONDS[series.unit]
        first = {} if series.first is None else {"first_ms": to_ms * series.first}
        return {
            "rate": 1e3 / (to_ms * middle), "unit": "runs/s", "elapsed": to_ms * middle,
            "repetitions": [to_ms * it for it in series.samples], **first,
        }  # fmt: skip
    known = not lower and series.unit in UNITS
    return {
        "rate": 1 / middle if lower else middle,
        "unit": series.unit if known else "runs/s",
        "samples": list(series.samples),
    }


@cache
def script_text() -> str:
    """The script that measures a command; see :mod:`pis.command_script`."""
    return Path(__file__).with_name("command_script.py").read_text(encoding="utf-8")
