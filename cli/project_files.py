"""Reads the files of projects, also of a revision such as ``main:uv.lock``, and writes locks."""

import os
import posixpath
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from adviser.projects.foreign_files import FOREIGN_FILES
from adviser.projects.locks import ProjectLock, lock_neighbours, read_lock, require_pins
from adviser.projects.parsing import (
    CONSTRAINTS,
    LOCKS_OF_TOOLS,
    PIPFILE,
    PIPFILE_LOCK,
    PROJECT_FILES,
    PYPROJECT,
    REQUIREMENTS_TXT,
    missing_includes,
    parse_project,
)
from adviser.projects.project import Project, ProjectWarning, WarningCode
from adviser.projects.pyproject import THOTH_TOML
from adviser.vex import VEX_FILE, VexStatement, read_vex
from common.files import write_atomically
from common.formats import conda_environment
from common.formats.file_decoding import MAX_BYTES
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.formats.locks.pylock import is_pylock
from common.formats.locks.readers import reader_of
from model.errors import InvalidArgument, InvalidDocument, InvalidFile, ProjectError

_STDOUT = (Path("-"), Path("/dev/stdout"))
_DEVICES = (Path("/dev"), Path("/dev/fd"))
_HINT = "name a file, or a revision and a file as `git show` does: main:app/uv.lock, main:./uv.lock"


@dataclass(frozen=True, slots=True)
class RevisionFile:
    """A file of a revision.

    :param revision: anything that Git understands; empty for the index
    :param folder: folder of the file in the repository, or from here if it begins with ``./``
    """

    revision: str
    folder: str
    name: str

    def content(self, name: str) -> bytes | None:
        """A file in the same folder, at most one byte more than parsing admits.

        :returns: ``None`` if the revision has no such file
        :raises InvalidArgument: outside a repository, or if the revision is unknown
        """
        path = posixpath.normpath(posixpath.join(self.folder, name))
        if self.folder.startswith("."):
            path = f"./{path}"
        done = _git("cat-file", "blob", f"{self.revision}:{path}")
        return done.stdout[: MAX_BYTES + 1] if done.returncode == 0 else None


def revision_file(text: str) -> RevisionFile | None:
    """The file that a text such as ``HEAD~3:app/poetry.lock`` names.

    :returns: ``None`` if the text names no revision, or a file on disk has this name
    :raises InvalidArgument: if there is no such revision or file
    """
    revision, colon, path = text.partition(":")
    if not colon or not path or os.path.lexists(text) or (os.name == "nt" and len(revision) == 1):
        return None
    if revision.startswith("-"):
        raise InvalidArgument(f"{text}: a revision does not begin with a dash", hint=_HINT)
    folder, name = posixpath.split(path)
    file = RevisionFile(revision, folder, name)
    done = _git("cat-file", "-t", text)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["Git failed"]
        message = lines[0].removeprefix("fatal: ")
        if _git("rev-parse", "--git-dir").returncode:
            message = f"there is no such file, and {Path.cwd()} is not in a Git repository"
        raise InvalidArgument(f"{text}: {message}", hint=_HINT)
    if done.stdout.strip() != b"blob":
        raise InvalidArgument(f"{text}: is a folder; name the file in it", hint=_HINT)
    return file


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # `git cat-file` runs neither filters nor programs that a repository configures, unless it
    # fetches what a partial clone lacks.
    quiet = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    environment = {**os.environ, **quiet}
    try:
        return subprocess.run(
            ["git", *arguments],  # noqa: S607 - Git is where the user has it
            capture_output=True, check=False, env=environment,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        raise InvalidArgument("revisions of files need Git, which is not installed") from None


#: A text that names a file or a revision rather than a requirement.
_FILE = re.compile(r"^[^@]*(?:[/\\]|.:.|\.(?:txt|lock|toml|ya?ml)$)")
#: Files that people write, and no lock is called by.
_MANIFESTS = frozenset({PIPFILE, PYPROJECT, THOTH_TOML})
_REQUIREMENTS = re.compile(r"(?:requirements|constraints)[\w.-]*\.txt$")


def read_project(path: Path, selection: LockSelection = DEFAULT_SELECTION) -> Project:
    """Read the project in a folder, or the project to which a manifest or a lock belongs.

    Only files in the project's folder are read, even if one of them includes other files. The path
    of a file may name a revision, such as ``main:uv.lock``; all files are then read from it.

    :param selection: parts of its lock that count
    :raises InvalidArgument: if there is no project, or an include leaves the folder
    :raises InvalidFile: naming file, field and remedy
    """
    file, folder, name, content = _located(path)
    names = [it for it in PROJECT_FILES if content(it) is not None]
    if file is None:
        names += sorted(it.name for it in folder.glob("pylock.*.toml") if it.is_file())
        if name is None and not {*names} - {PYPROJECT, CONSTRAINTS, THOTH_TOML}:
            names += [it for it in FOREIGN_FILES if (folder / it).is_file()]
    names += [name] if name is not None else []
    files = {it: content(it) or b"" for it in dict.fromkeys(names)}
    for known in names:
        neighbours = lock_neighbours(known, files[known], selection)
        files |= {near: data for near in neighbours if (data := content(near)) is not None}

    def path_exists(path: str, file: str) -> bool:
        # Installers resolve paths from the current folder, or from the folder of the file.
        folders = (folder / file).parent, folder, Path.cwd()
        # pathlib raises errors for unknown users and for names that are too long.
        local = os.path.expanduser(path)  # noqa: PTH111
        return any(os.path.exists(it / local) for it in folders)  # noqa: PTH110

    try:
        project = parse_project(
            _with_included(content, files), name, selection=selection,
            path_exists=None if file else path_exists,
        )  # fmt: skip
    except InvalidFile as error:
        if error.place == "project" and name is None:
            error.place = str(path if path.name else path.absolute())
        raise
    settings = (
        ProjectWarning(WarningCode.FILE_IGNORED, f"not read: write its settings to [{table}] of "
                       "the pyproject.toml", f"{file}:$")
        for file, table in (("uv.toml", "tool.uv"), ("pdm.toml", "tool.pdm"))
        if content(file) is not None
    )  # fmt: skip
    return replace(project, warnings=(*project.warnings, *settings))


def project_of_lock(lock: Path, selection: LockSelection = DEFAULT_SELECTION) -> Project | None:
    """The project whose manifest is beside a lock; ``None`` without one, and for a revision."""
    if not lock.is_file():
        return None
    try:
        project = read_project(lock.parent, selection)
    except ProjectError:
        return None
    return project if project.lock_source == lock.name != project.source else None


def names_file(text: str) -> bool:
    """Whether a text names a file or a file of a revision, and is no requirement."""
    return os.path.lexists(text) or _FILE.search(text) is not None


def read_lock_file(
    path: Path,
    selection: LockSelection = DEFAULT_SELECTION,
    markers: Mapping[str, str] | None = None,
) -> ProjectLock:
    """Read a lock without its project; its path may name a revision, such as ``main:uv.lock``.

    :param selection: parts of the lock that count, see :func:`cli.request_options.lock_selection`
    :param markers: variables of PEP 508 of the environment that counts; by default all count.
        ``lock.packages(markers)`` then has version, hashes and index of each installed package by
        name, and ``lock.others`` the packages from other sources
    :raises InvalidArgument: if there is no such file or revision
    :raises InvalidFile: if it cannot be read, is a requirements file without all its pins, or does
        not support the selection or the environment
    """
    *_, name, content = _located(path)
    if name is None:
        raise InvalidArgument(f"{path} is a folder: name the lock in it")
    files = {name: content(name) or b""}
    neighbours = lock_neighbours(name, files[name], selection)
    files |= {it: data for it in neighbours if (data := content(it)) is not None}
    return require_pins(read_lock(name, _with_included(content, files), selection, markers))


def lock_content(path: Path) -> bytes:
    """The bytes of a lock, whose path may name a revision.

    :raises InvalidArgument: if there is no such file or revision
    """
    *_, name, content = _located(path)
    if name is None:
        raise InvalidArgument(f"{path} is a folder: name the file in it")
    return content(name) or b""


def read_vex_files(lock: Path, others: Iterable[Path]) -> list[VexStatement]:
    """The statements of the VEX document beside a lock, if there is one, and of other documents.

    :raises InvalidArgument: if another document is missing
    :raises InvalidFile: with the field
    """
    beside = _located(lock)[3](VEX_FILE)
    documents = [(VEX_FILE, beside)] if beside is not None else []
    documents += [(it.as_posix(), lock_content(it)) for it in others]
    now = datetime.now(UTC)
    return [one for name, data in documents for one in read_vex(name, data, now)]


def lock_format_of(name: str) -> str | None:
    """The lock format that a file name indicates, of those that Thoth writes.

    >>> lock_format_of("pylock.dev.toml"), lock_format_of("dev-constraints.txt")
    ('pylock', 'constraints')
    >>> lock_format_of("requirements.lock"), lock_format_of("old.uv.lock"), lock_format_of("a.py")
    ('requirements', None, None)
    """
    if is_pylock(name):
        return "pylock"
    if name == PIPFILE_LOCK:
        return "pipfile-lock"
    if name.endswith("constraints.txt"):
        return "constraints"
    return "requirements" if name.endswith((".txt", ".lock")) and not reader_of(name) else None


def tool_of_name(name: str) -> str | None:
    """The tool whose files have this name, and whose files Thoth does not write."""
    if tool := FOREIGN_FILES.get(name, (None,))[0]:
        return tool
    if name in conda_environment.NAMES:
        return "conda"
    reader = reader_of(name)
    if reader is None:
        return None
    return next((tool for it, tool in LOCKS_OF_TOOLS.items() if reader_of(it) is reader), None)


def is_stream(path: Path) -> bool:
    """Whether a path is standard output, a pipe or a device, so that nothing is replaced."""
    return path in _STDOUT or path.parent in _DEVICES or path.is_fifo()


def keep_manifest(output: Path, *, like: str = "", any_name: bool = False) -> None:
    """Refuse a file to which no lock can be written, because of its name or its content.

    An empty file or a lock may be replaced, also requirements in which every entry is pinned.

    :param like: name of a lock whose tool writes the new one
    :param any_name: the format is known without the name
    :raises InvalidArgument: naming the remedy
    """
    require_folder(output)
    if is_stream(output):
        return
    reader = reader_of(output.name)
    message, tool = None, tool_of_name(output.name)
    hint = "write it to another file, such as requirements.txt or Pipfile.lock"
    if reader is None or reader is not reader_of(like):
        if tool is not None:
            message = f"the name of a file of {tool}"
        elif output.name in _MANIFESTS or output.suffix == ".in":
            message = "a manifest, and a lock would replace it"
        elif not any_name and lock_format_of(output.name) is None:
            message = "not a name that indicates a lock format"
            hint += "" if like else ", or add --format"
    if message is None and output.is_file() and not _holds_lock(output):
        message = "not a lock, and a lock would replace it"
    if message is not None:
        error = InvalidArgument(f"{output} is {message}")
        error.hint = hint
        raise error


def _holds_lock(path: Path) -> bool:
    """Whether a file is empty, or a lock by its name or in a format that Thoth writes."""
    if not path.stat().st_size:
        return True
    with suppress(ProjectError):
        read_lock_file(path)
        return True
    for name in (REQUIREMENTS_TXT, PIPFILE_LOCK, "pylock.toml"):
        with suppress(ProjectError):
            require_pins(read_lock(name, {name: lock_content(path)}, DEFAULT_SELECTION))
            return True
    return False


def keep_project_files(outputs: Iterable[Path | None], inputs: Iterable[str | Path]) -> None:
    """Refuse files to which a command cannot write a document that is no lock.

    :param inputs: files that the command reads; other texts are ignored
    :raises InvalidArgument: for one of these files, for the name of a manifest or a lock, or if the
        folder does not exist
    """
    read = [it for it in inputs if os.path.isfile(it)]  # noqa: PTH113 - a text may be too long
    for output in outputs:
        if output is None or is_stream(output):
            continue
        require_folder(output)
        name, message = output.name, None
        if output.exists() and any(output.samefile(it) for it in read):
            message = "read by this command, which would replace it"
        elif (
            name in {*PROJECT_FILES, *FOREIGN_FILES, VEX_FILE}
            or is_pylock(name)
            or output.suffix in {".in", ".lock"}
            or _REQUIREMENTS.search(name)
        ):
            message = "the name of a file of a project, which a document would replace"
        if message is not None:
            raise InvalidArgument(f"{output} is {message}", hint="write to a file of another name")


@contextmanager
def refusing_files() -> Iterator[None]:
    """Raise :class:`InvalidFile` for documents that are refused within the block."""
    try:
        yield
    except InvalidFile:
        raise
    except InvalidDocument as error:
        refused = InvalidFile(error.reason, error.message, field=error.field, place=error.place)
        refused.hint = error.hint
        raise refused from error


def require_folder(path: Path) -> None:
    """:raises InvalidArgument: if a path is a folder, or is in a folder that does not exist"""
    if path.is_dir():
        raise InvalidArgument(f"{path} is a folder: name a file in it")
    if not path.absolute().parent.is_dir():
        raise InvalidArgument(f"there is no folder {path.parent}")


def write_file(path: Path, data: bytes) -> None:
    """Write a file completely or not at all; a link is followed, and a file keeps its mode.

    Into a pipe or a device such as ``/dev/stdout`` data is written as it is; ``-`` is standard
    output.
    """
    try:
        mode = path.stat().st_mode if path.exists() else None
        if path in _STDOUT:
            sys.stdout.buffer.write(data)
            return
        if mode is not None and (not stat.S_ISREG(mode) or path.parent == Path("/dev")):
            path.write_bytes(data)
            return
        write_atomically(path.resolve(), data, None if mode is None else stat.S_IMODE(mode))
    except OSError as error:
        error.filename = str(path)  # of the user, not the file that a link names
        raise


def _located(
    path: Path,
) -> tuple[RevisionFile | None, Path, str | None, Callable[[str], bytes | None]]:
    """File of a revision, folder, name, and a reader of files there, for a path.

    :returns: ``None`` instead of a file on disk, and instead of the name of a folder
    """
    if (file := revision_file(str(path))) is not None:
        return file, Path(file.folder), file.name, file.content
    if path.is_dir():
        return None, path, None, partial(_content, path)
    if path.is_file():
        return None, path.parent, path.name, partial(_content, path.parent)
    if path.exists():
        raise InvalidArgument(f"{path}: a pipe or a device; name a file or a folder")
    raise InvalidArgument(f"{path}: no such file or folder")


def _with_included(
    content: Callable[[str], bytes | None], files: dict[str, bytes]
) -> dict[str, bytes]:
    known = frozenset[str]()
    while wanted := missing_includes(files, known):
        known = frozenset(files)
        included = {it: data for it in sorted(wanted) if (data := content(it)) is not None}
        if not included:
            break  # parsing tells which line includes what is not there
        files |= included
    return files


def _content(folder: Path, name: str) -> bytes | None:
    """A file in a folder, at most one byte more than parsing admits; ``None`` if it is missing."""
    path = folder / name
    if not path.is_file():
        return None
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InvalidArgument(f"{path} leads out of the project's folder")
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror or error}") from error
