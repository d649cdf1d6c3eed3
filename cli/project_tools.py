"""Write versions into a lock with the project's own tool: uv, Poetry, pip-compile or `uv pip`.

The tool runs in the project's folder with the user's environment, so it uses the project's own
indexes. If the tool fails, the lock is unchanged.
"""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import tomli_w

from adviser.projects.project import Project
from cli.project_files import read_lock_file, write_file
from common.formats.file_decoding import requirements_text_of, toml_of
from common.formats.locks.entries import LockSelection
from common.formats.locks.readers import reader_of
from model.errors import InvalidArgument, ProjectError
from model.packages.environments import Environment
from model.packages.identity import VersionChange, changes_between
from model.redaction import scrubbed, without_credentials
from model.text import counted, printable
from pis.amun.processes import interrupted_by_signals

#: Lines of a tool's output that are shown if it fails.
_SHOWN_LINES = 15
#: Options of pip-compile and `uv pip compile` that a lock may name in its first lines; those with a
#: value end with ``=``.
_OPTIONS = frozenset({
    "--all-build-deps", "--all-extras", "--allow-unsafe", "--annotate", "--annotation-style=",
    "--constraint=", "--emit-index-annotation", "--emit-index-url", "--emit-marker-expression",
    "--default-index=", "--extra-index-url=", "--find-links=", "--index-url=", "--index=",
    "--extra=", "--generate-hashes", "--group=", "--header", "--no-annotate", "--no-emit-index-url",
    "--no-emit-options", "--no-emit-trusted-host", "--no-header", "--no-strip-extras",
    "--no-strip-markers", "--pre", "--python-platform=", "--python-version=", "--resolver=",
    "--strip-extras", "--universal", "-c=", "-f=", "-i=", "-p=",
})  # fmt: skip
#: The first lines of a lock, which may name the command that made it.
_HEADER_LINES = 12
#: Commands that a header may name.
_COMPILERS = (["pip-compile"], ["uv", "pip", "compile"])
#: Options whose value is the lock.
_OUTPUT = ("--output-file", "-o")


class ToolFailed(ProjectError):
    """The project's tool is missing, or did not write the lock; no file was changed."""


@dataclass(frozen=True, slots=True)
class LockTool:
    """A tool that writes a lock.

    :param name: for people
    :param command: the command that pins versions, given as requirements such as ``numpy==2.4.6``
    :param run: runs it for a lock, which is restored by the caller
    """

    name: str
    command: Callable[[Sequence[str]], list[str]]
    run: Callable[[Path, Sequence[str]], object]


def tool_of(lock: Path) -> LockTool | None:
    """The tool that wrote a lock, by its name or its first lines; ``None`` if unknown.

    :raises InvalidArgument: if the lock was made with options that Thoth does not repeat
    """
    name = own_name(lock)
    if name is not None and (name == lock.name or lock.with_name("pyproject.toml").is_file()):
        if name == "poetry.lock":
            return LockTool("Poetry", lambda _: ["poetry", "lock"], _run_poetry)
        in_place = _in_place(_uv_command, "uv")
        return in_place if name == lock.name else replace(in_place, run=_run_uv_for_copy)
    if lock.suffix in {".txt", ".lock"} and lock.is_file():
        return _compiler_of(lock)
    return None


def own_name(lock: Path) -> str | None:
    """The name that uv or Poetry gives to a lock, which may be a copy such as ``old.uv.lock``."""
    names = ("uv.lock", "poetry.lock")
    same = (it for it in names if reader_of(it) is reader_of(lock.name))
    return next((it for it in same if lock.name.endswith(it)), None)


def own_lock(path: Path, project: Project) -> tuple[LockTool, Path]:
    """The lock that a project's tool keeps, and the tool.

    :param path: folder or file from which the project was read
    :raises InvalidArgument: if no known tool keeps a lock there
    """
    folder = path if path.is_dir() else path.parent
    names = [project.lock_source, "uv.lock", "poetry.lock"]
    for name in dict.fromkeys(filter(None, names)):
        lock = folder / name
        if lock.is_file() and (tool := tool_of(lock)) is not None:
            return tool, lock
    raise InvalidArgument(
        f"{folder} has no uv.lock, poetry.lock or requirements file of pip-compile, so no tool"
        " can write the lock",
        hint="write a lock with `thoth advise -o FILE`",
    )


def _in_place(command: Callable[[Sequence[str]], list[str]], name: str) -> LockTool:
    return LockTool(name, command, lambda lock, pins: _run(command(pins), lock.parent))


def _uv_command(pins: Sequence[str]) -> list[str]:
    return ["uv", "lock", *_upgrades(pins)]


def _upgrades(pins: Sequence[str]) -> Iterator[str]:
    for pin in pins:
        yield from ("--upgrade-package", pin)


def _compiler_of(lock: Path) -> LockTool | None:
    """The command in the first comments of a requirements file, with the options that it had."""
    lines = requirements_text_of(lock.name, lock.read_bytes()).splitlines()[:_HEADER_LINES]
    comments = [_split(it.removeprefix("#")) for it in lines if it.startswith("#")]
    matches = ((it, known) for it in comments for known in _COMPILERS if it[: len(known)] == known)
    arguments, known = next(matches, ([], []))
    if not known:
        return None
    command, rest, names_output = list(known), iter(arguments[len(known) :]), False
    for word in rest:
        name, has_value, value = word.partition("=")
        if name in _OUTPUT:
            value = value if has_value else next(rest, "")
            command += [name, lock.name]
            names_output = True
        elif word.startswith("-") and f"{name}=" in _OPTIONS:
            value = value if has_value else next(rest, "")
            # The tool writes *** for a password; its own settings have the index then.
            command += [] if "***" in value else [name, value]
        elif word.startswith("-") and word not in _OPTIONS:
            raise InvalidArgument(
                f"{lock}: {name} was used to make it, which Thoth does not repeat",
                hint="run it yourself, with `--upgrade-package NAME==VERSION`",
            )
        else:
            command.append(word)
    command += [] if names_output else [_OUTPUT[0], lock.name]
    return _in_place(lambda pins: [*command, *_upgrades(pins)], arguments[0])


def _split(comment: str) -> list[str]:
    """The arguments of a command; none if it is text, such as ``don't edit``."""
    try:
        return shlex.split(comment)
    except ValueError:
        return []


@dataclass(frozen=True, slots=True)
class ToolLock:
    """A lock that a tool made.

    :param versions: of the installed packages, by name
    """

    data: bytes
    versions: Mapping[str, str]


def show_changes(tool: LockTool, changes: Sequence[VersionChange]) -> None:
    """Print the changes of a lock, and the command that makes them."""
    for change in changes:
        text = f"{change.name}: {change.old or 'none'} → {change.new or 'none'}"
        click.echo(printable(text), err=True)
    click.echo(printable(f"runs: {command_text(tool, _pins_for(changes))}"), err=True)


def lock_again(
    tool: LockTool,
    lock: Path,
    changes: Sequence[VersionChange],
    selection: LockSelection,
    where: Environment,
) -> ToolLock:
    """The lock that the tool writes for new versions; the file itself is unchanged.

    The changes and the command are printed first.

    :param selection: parts of the lock that count
    :raises ToolFailed: if the tool does not write the lock
    """
    show_changes(tool, changes)
    before = lock.read_bytes()
    with interrupted_by_signals():
        try:
            tool.run(lock, _pins_for(changes))
            packages = read_lock_file(lock, selection, where.markers).packages(where.markers)
            return ToolLock(lock.read_bytes(), {name: it.version for name, it in packages.items()})
        finally:
            if not lock.exists() or lock.read_bytes() != before:
                write_file(lock, before)


def _pins_for(changes: Sequence[VersionChange]) -> list[str]:
    """Requirements that ask for the new versions of changes."""
    return [f"{it.name}=={it.new}" for it in changes if it.new is not None]


def command_text(tool: LockTool, pins: Sequence[str]) -> str:
    """The command, as a person would type it."""
    if tool.name == "Poetry":
        return f"poetry lock, with {', '.join(pins)} as constraints of a copy of pyproject.toml"
    return without_credentials(shlex.join(tool.command(pins)))


def write_with_tool(
    output: Path, tool: LockTool, made: ToolLock, wanted: Mapping[str, str]
) -> bool:
    """Write a lock, and say whether it has the wanted versions.

    :param output: the lock itself, or another file
    :param wanted: version by name; the lock may have packages of other groups
    :returns: whether it has these versions
    """
    write_file(output, made.data)
    click.echo(f"wrote {output} ({tool.name})", err=True)
    others = [it for it in changes_between(wanted, made.versions) if it.name in wanted]
    for change in others:
        chosen = f"{tool.name} chose {change.new or 'none'} instead of {change.old}"
        click.echo(printable(f"{change.name}: {chosen}"), err=True)
    if not others:
        versions = counted(len(wanted), "version")
        click.echo(f"{output} is what was advised: it has all {versions}", err=True)
    return not others


def _run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Run a tool of the user.

    :returns: its standard output
    """
    program = shutil.which(command[0])
    if program is None:
        raise ToolFailed(
            f"{command[0]} is not installed, or not in PATH",
            hint=f"install {command[0]}, or write a lock with `thoth advise -o FILE`",
        )
    ended = subprocess.run(
        [program, *command[1:]], cwd=folder, env={**os.environ, **variables}, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
    if ended.returncode:
        lines = (ended.stderr.strip() or ended.stdout.strip()).splitlines()[-_SHOWN_LINES:]
        message = "\n".join(printable(scrubbed(without_credentials(it))) for it in lines)
        raise ToolFailed(
            f"`{command[0]}` failed with exit code {ended.returncode}, and no file was changed:"
            f"\n{message}"
        )
    return ended.stdout


def _run_uv_for_copy(lock: Path, pins: Sequence[str]) -> None:
    """Let uv pin versions in a lock of another name; the project's own lock is not touched."""
    with _linked_copy(lock.parent, {"uv.lock"}) as copy:
        shutil.copy(lock, copy / "uv.lock")
        _run(_uv_command(pins), copy)
        shutil.copy(copy / "uv.lock", lock)


def _run_poetry(lock: Path, pins: Sequence[str]) -> None:
    """Let Poetry pin versions without a change of the manifest.

    Poetry has no option for the version of one package. In a copy of the project, it first locks a
    manifest with the pins as a group, and then the manifest itself, which keeps locked versions.
    """
    with _linked_copy(lock.parent, {"pyproject.toml", "poetry.lock"}) as copy:
        manifest = (lock.parent / "pyproject.toml").read_bytes()
        if lock.exists():
            shutil.copy(lock, copy / "poetry.lock")
        table: dict[str, Any] = toml_of("pyproject.toml", manifest)
        group = table.setdefault("tool", {}).setdefault("poetry", {}).setdefault("group", {})
        group["thoth-advice"] = {"dependencies": dict(it.split("==") for it in pins)}
        version = _run(["poetry", "--version"], copy)
        keep = ["--no-update"] if "version 1." in version else []
        for content in (tomli_w.dumps(table).encode(), manifest):
            (copy / "pyproject.toml").write_bytes(content)
            _run(["poetry", "lock", *keep, "--no-interaction"], copy,
                 POETRY_VIRTUALENVS_CREATE="false")  # fmt: skip
        shutil.copy(copy / "poetry.lock", lock)


@contextmanager
def _linked_copy(folder: Path, without: set[str]) -> Iterator[Path]:
    """A folder beside the project with links to everything in it, for paths relative to it."""
    try:
        copy = Path(tempfile.mkdtemp(prefix=".thoth-", dir=folder.resolve().parent))
    except OSError as error:
        raise ToolFailed(
            f"{folder.resolve().parent}: {error.strerror}: no copy of the project can be made there"
        ) from error
    try:
        for entry in folder.resolve().iterdir():
            if entry.name not in without:
                (copy / entry.name).symlink_to(entry)
        yield copy
    finally:
        shutil.rmtree(copy)
