"""Write versions into a lock with the project's own tool: uv, Poetry, pip-compile or `uv pip`.

The tool runs in the project's folder with the user's environment, so it asks the indexes that the
project itself has. The lock is as it was if the tool fails.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import tomli_w

from adviser.guard import changes_of
from adviser.projects.documents import requirements_text_of, toml_of
from adviser.projects.locks import read_lock
from adviser.projects.project import Project
from adviser.resolver.results import VersionChange
from cli.project_files import write_file
from model.errors import InvalidArgument, ProjectError
from model.packages.environments import Environment
from model.redaction import scrubbed, without_credentials
from model.text import printable

#: Lines of a tool's output that are shown if it fails.
_SHOWN_LINES = 15
#: Options of pip-compile and `uv pip compile` that a lock may name in its first lines; those with a
#: value end with ``=``.
_OPTIONS = frozenset({
    "--all-build-deps", "--all-extras", "--allow-unsafe", "--annotate", "--annotation-style=",
    "--constraint=", "--emit-index-annotation", "--emit-index-url", "--emit-marker-expression",
    "--extra=", "--generate-hashes", "--group=", "--header", "--no-annotate", "--no-emit-index-url",
    "--no-emit-options", "--no-emit-trusted-host", "--no-header", "--no-strip-extras",
    "--no-strip-markers", "--pre", "--python-platform=", "--python-version=", "--resolver=",
    "--strip-extras", "--universal", "-c=", "-p=",
})  # fmt: skip
#: The first lines of a lock, which may name the command that made it.
_HEADER_LINES = 12
#: Options whose value is the lock.
_OUTPUT = ("--output-file", "-o")


class ToolFailed(ProjectError):
    """The project's tool is missing, or did not write the lock; no file was changed."""


@dataclass(frozen=True, slots=True)
class LockTool:
    """A tool that writes a lock.

    :param name: for people
    :param command: what is run to pin versions, given as requirements such as ``numpy==2.4.6``
    :param run: runs it for a lock, which is restored by the caller
    """

    name: str
    command: Callable[[Sequence[str]], list[str]]
    run: Callable[[Path, Sequence[str]], object]


def tool_of(lock: Path) -> LockTool | None:
    """The tool that wrote a lock, as its name or its first lines say; ``None`` if none did.

    :raises InvalidArgument: if the lock was made with options that are not repeated here
    """
    if lock.name == "uv.lock":
        return _in_place(lambda pins: ["uv", "lock", *_upgrades(pins)], "uv")
    if lock.name == "poetry.lock":
        return LockTool("Poetry", lambda _: ["poetry", "lock"], _run_poetry)
    if lock.suffix in {".txt", ".lock"} and lock.is_file():
        return _compiler_of(lock)
    return None


def own_lock(path: Path, project: Project) -> tuple[LockTool, Path]:
    """The lock that a project's tool keeps, and the tool.

    :param path: folder or file from which the project was read
    :raises InvalidArgument: if no known tool keeps one
    """
    folder = path if path.is_dir() else path.parent
    names = [project.lock_source, "uv.lock", "poetry.lock"]
    for name in dict.fromkeys(filter(None, names)):
        lock = folder / name
        if lock.is_file() and (tool := tool_of(lock)) is not None:
            return tool, lock
    raise InvalidArgument(
        f"{folder}: no uv.lock, poetry.lock or requirements file of pip-compile is there, so no"
        " tool can be asked to write it",
        hint="write a lock with `thoth advise -o FILE`",
    )


def _in_place(command: Callable[[Sequence[str]], list[str]], name: str) -> LockTool:
    return LockTool(name, command, lambda lock, pins: _run(command(pins), lock.parent))


def _upgrades(pins: Sequence[str]) -> Iterator[str]:
    for pin in pins:
        yield from ("--upgrade-package", pin)


def _compiler_of(lock: Path) -> LockTool | None:
    """The command in the first comments of a requirements file, with the options that it had."""
    lines = requirements_text_of(lock.name, lock.read_bytes()).splitlines()[:_HEADER_LINES]
    first = (it.removeprefix("#").strip() for it in lines if it.startswith("#"))
    line = next((it for it in first if it.startswith(("pip-compile", "uv pip compile"))), None)
    if line is None:
        return None
    given = shlex.split(line)
    count = 1 if given[0] == "pip-compile" else 3
    words, rest, names_output = given[:count], iter(given[count:]), False
    for word in rest:
        name, has_value, value = word.partition("=")
        if name in _OUTPUT:
            value = value if has_value else next(rest, "")
            words += [name, lock.name]
            names_output = True
        elif word.startswith("-") and f"{name}=" in _OPTIONS:
            words += [name, value if has_value else next(rest, "")]
        elif word.startswith("-") and word not in _OPTIONS:
            raise InvalidArgument(
                f"{lock}: it was made with {name}, which is not repeated here",
                hint=f"run it yourself with `--upgrade-package NAME==VERSION`: {printable(line)}",
            )
        else:
            words.append(word)
    words += [] if names_output else [_OUTPUT[0], lock.name]
    return _in_place(lambda pins: [*words, *_upgrades(pins)], given[0])


def relocked(tool: LockTool, lock: Path, pins: Sequence[str]) -> bytes:
    """What the tool makes of a lock with these versions; the file itself stays as it is.

    :param pins: requirements such as ``numpy==2.4.6``
    :raises ToolFailed: if it does not write the lock
    """
    before = lock.read_bytes() if lock.exists() else None
    try:
        tool.run(lock, pins)
        return lock.read_bytes()
    except OSError as error:
        raise ToolFailed(f"{lock}: {error.strerror or error}") from error
    finally:
        if before is None:
            lock.unlink(missing_ok=True)
        elif lock.read_bytes() != before:
            write_file(lock, before)


def pins_for(changes: Sequence[VersionChange]) -> list[str]:
    """Requirements that ask for the new versions of changes."""
    return [f"{it.name}=={it.advised}" for it in changes if it.advised is not None]


def command_text(tool: LockTool, pins: Sequence[str]) -> str:
    """What is run, as a person would type it."""
    if tool.name == "Poetry":
        return f"poetry lock, with {', '.join(pins)} as constraints of a copy of pyproject.toml"
    return shlex.join(tool.command(pins))


def write_with_tool(
    tool: LockTool,
    lock: Path,
    wanted: Mapping[str, str],
    changes: Sequence[VersionChange],
    output: Path,
    where: Environment,
) -> bool:
    """Write a lock with wanted versions, and say whether it has them.

    :param lock: as it is; its folder is the project
    :param wanted: version by name
    :param changes: from the lock to the wanted versions
    :param output: the lock itself, or another file
    :returns: whether it has them
    """
    data = relocked(tool, lock, pins_for(changes))
    packages = read_lock(lock.name, {lock.name: data}).packages(where.markers)
    got = {name: it.version for name, it in packages.items()}
    # The lock may also have packages of groups and extras that were not asked for.
    others = [it for it in changes_of(wanted, got) if it.name in wanted]
    write_file(output, data)
    click.echo(f"wrote {output} ({tool.name})", err=True)
    for it in others:
        text = f"{it.name}: {tool.name} chose {it.advised or 'none'} instead of {it.forced}"
        click.echo(printable(text), err=True)
    if not others:
        click.echo(f"it has the {len(wanted)} versions that were asked for", err=True)
    return not others


def _run(command: Sequence[str], folder: Path, **variables: str) -> str:
    """Run a tool of the user.

    :returns: its standard output
    :raises ToolFailed: with the end of its output, without secrets
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
        said = "\n".join(printable(scrubbed(without_credentials(it))) for it in lines)
        raise ToolFailed(
            f"`{command[0]}` failed with exit code {ended.returncode}, and no file was changed:"
            f"\n{said}"
        )
    return ended.stdout


def _run_poetry(lock: Path, pins: Sequence[str]) -> None:
    """Let Poetry pin versions without a change of the manifest.

    Poetry cannot be told a version of one package. In a copy of the project, it locks a manifest
    with the pins as a group first, and then the manifest itself, keeping what is locked.
    """
    with _linked_copy(lock.parent, {"pyproject.toml", "poetry.lock"}) as copy:
        manifest = (lock.parent / "pyproject.toml").read_bytes()
        if lock.exists():
            shutil.copy(lock, copy / lock.name)
        table: dict[str, Any] = toml_of("pyproject.toml", manifest)
        group = table.setdefault("tool", {}).setdefault("poetry", {}).setdefault("group", {})
        group["thoth-advice"] = {"dependencies": dict(it.split("==") for it in pins)}
        version = _run(["poetry", "--version"], copy)
        keep = ["--no-update"] if "version 1." in version else []
        for content in (tomli_w.dumps(table).encode(), manifest):
            (copy / "pyproject.toml").write_bytes(content)
            _run(["poetry", "lock", *keep, "--no-interaction"], copy,
                 POETRY_VIRTUALENVS_CREATE="false")  # fmt: skip
        shutil.copy(copy / lock.name, lock)


@contextmanager
def _linked_copy(folder: Path, without: set[str]) -> Iterator[Path]:
    """A folder beside the project with links to everything in it, for paths relative to it."""
    try:
        copy = Path(tempfile.mkdtemp(prefix=".thoth-", dir=folder.resolve().parent))
    except OSError as error:
        raise ToolFailed(
            f"{folder.resolve().parent}: {error.strerror}: a copy of the project is made there"
        ) from error
    try:
        for entry in folder.resolve().iterdir():
            if entry.name not in without:
                (copy / entry.name).symlink_to(entry)
        yield copy
    finally:
        shutil.rmtree(copy)
