"""Files of a project in a request: their limits, and the removal of credentials before storing.

Only configured indexes are used, and no URL of a project is fetched.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import orjson
import tomli_w
from marshmallow import ValidationError, fields

from adviser.answering.index_selection import foreign_indexes
from adviser.projects.foreign_files import FOREIGN_FILES
from adviser.projects.indexes import public_text, public_values
from adviser.projects.parsing import (
    CONSTRAINTS,
    LOCKS_OF_TOOLS,
    PIPFILE,
    PIPFILE_LOCK,
    PROJECT_FILES,
    parse_project,
)
from adviser.projects.pipfile import pipfile_hash
from adviser.projects.project import Project, ProjectWarning, WarningCode
from api.access import token
from api.http.errors import ApiError, ProblemType
from common.formats import conda_environment
from common.formats.file_decoding import json_of, refuse, toml_of
from common.formats.locks.entries import DEFAULT_SELECTION, LockSelection
from common.formats.locks.pylock import is_pylock
from common.formats.requirements_files import logical_lines, split_words
from common.index.configuration import configured_indexes
from common.settings import Settings
from model.errors import InvalidFile, Reason
from model.packages.identity import DEFAULT_INDEX

#: Maximum size of a file that people write. Parsing TOML takes about 1 s per megabyte.
MAX_MANIFEST = 256 * 1024
#: A lock of 3 MiB has 37,000 hashes, each in a line of its own.
_MAX_LINES, _MAX_HASHES = 75_000, 40_000
#: Options are the slowest to parse for their length; projects have a few dozen.
_MAX_OPTIONS = 2_000
#: Lower than the limit of the parser itself, because anyone may send a request.
_MAX_REQUIREMENTS = 3_000
#: Characters that end a line.
_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_OPTION = re.compile(r"\s-(?!-hash=)")
_HASH = re.compile(r"--hash=\w{1,16}:[0-9a-f]{1,128}")
_COMMENT = re.compile(rf"^[ \t]*#[^{_ENDS}]*", re.MULTILINE)


def check_constraints(text: str) -> None:
    """Refuse constraints that take too long to read.

    :raises ValidationError: naming the exceeded limit
    """
    if problem := list_problem([text]):
        raise ValidationError(problem)


def list_problem(texts: Collection[str]) -> str | None:
    """Return why lists of requirements are refused; ``None`` if they are accepted.

    Hashes and comments do not count towards the limits, because only the other text is slow to
    parse.
    """
    problems = (
        _excess(sum(map(count, texts)), most, what, "project") for count, most, what in _BOUNDS
    )
    return next(filter(None, problems), None)


def _rest(text: str) -> str:
    return _COMMENT.sub("", _HASH.sub("", text))


def _lines(text: str) -> int:
    return sum(map(text.count, _ENDS))


def _requirements(text: str) -> int:
    lines = map(str.strip, _rest(text).splitlines())
    return sum(1 for line in lines if line.strip("\\") and line[0] not in "-#")


#: Limits of lists of requirements: how to count, the maximum, and the name of what is counted.
_BOUNDS: tuple[tuple[Callable[[str], int], int, str], ...] = (
    (_lines, _MAX_LINES, "lines"),
    (lambda text: text.count("--hash"), _MAX_HASHES, "hashes"),
    (lambda text: len(_OPTION.findall(text)), _MAX_OPTIONS, "options besides"),
    (
        lambda text: len(_rest(text)),
        MAX_MANIFEST,
        "characters that are neither hashes nor comments",
    ),
    (_requirements, _MAX_REQUIREMENTS, "requirements"),
)


MAX_FILES = 50
MAX_NAME = 200
#: Characters of a refused name in the message.
_SHOWN = 80
#: Limit for all TOML in a request. Tables, keys and lists take the time: the lock of
#: `apache-airflow[all]` for every platform has 54,000 in 2.2 MB and parses in 0.2 s; 220,000
#: empty keys in 2.6 MB take 2.5 s.
_MAX_TABLES, _TABLES = 75_000, "=[{"
#: Limit for other elements of TOML; the same lock has 75,000.
_MAX_PARTS, _PARTS = 120_000, ",.\n\\"
#: Limit for JSON; a Pipfile.lock of 3 MiB has 35,000 hashes.
_MAX_VALUES, _VALUES = 75_000, ",[{"
#: Limit for URLs in a request, from which credentials are removed; a lock has one per file.
_MAX_ADDRESSES = 40_000
_YAML_FILES = frozenset({"pixi.lock"}) | conda_environment.NAMES
#: Returns why texts are refused; ``None`` if they are accepted.
_ProblemOf = Callable[[Collection[str]], str | None]


class ProjectFiles(fields.Dict):
    """Files by path. Names and sizes are checked before the content is parsed."""

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(value, Mapping):
            if not 1 <= len(value) <= MAX_FILES:
                raise ValidationError(f"{len(value)} files, but 1 to {MAX_FILES} are allowed")
            for name in value:
                check_name(name)
        texts = super()._deserialize(value, *args, **kwargs)  # type: ignore[no-untyped-call]
        for name, content in texts.items():
            if len(content) > MAX_MANIFEST and not _may_be_lock(name.rpartition("/")[2]):
                raise ValidationError(f"{name}: Longer than maximum length {MAX_MANIFEST}.")
        for check, checked in _by_format(texts).items():
            if (message := check(checked.values())) is not None:
                raise ValidationError(f"{', '.join(checked)[:_SHOWN]}: {message}")
        return texts


def check_name(name: Any) -> None:
    """Refuse a path that is not a file of a project.

    :raises ValidationError: naming it
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
        raise ValidationError(
            f"{str(name)[:_SHOWN]!r}: not a path of at most {MAX_NAME} characters"
        )
    *folders, base = name.split("/")
    if "\\" in name or ":" in name or any(it in ("", ".", "..") for it in folders):
        raise ValidationError(f"{name[:_SHOWN]!r}: not a path within the project's folder")
    if base not in PROJECT_FILES and not is_pylock(base) and not _is_list(base):
        if base in FOREIGN_FILES:
            tool, hint = FOREIGN_FILES[base]
            raise ValidationError(f"{name!r}: a file of {tool}, which is not read: {hint}")
        known = ", ".join(PROJECT_FILES[:7])
        raise ValidationError(
            f"{name[:_SHOWN]!r}: not a project file; these are {known}, "
            "pylock.NAME.toml, and names that end in .txt or .in"
        )


def _is_list(base: str) -> bool:
    """Whether a file may be a list of requirements, judging by its suffix."""
    stem, dot, ending = base.rpartition(".")
    return bool(stem.strip(".")) and bool(dot) and ending in ("txt", "in")


def check_lock(text: str) -> None:
    """Refuse a Pipfile.lock that takes too long to read.

    :raises ValidationError: naming the exceeded limit
    """
    if problem := address_problem([text]) or json_problem([text]):
        raise ValidationError(problem)


def _may_be_lock(base: str) -> bool:
    return (
        base in (PIPFILE_LOCK, *LOCKS_OF_TOOLS)
        or is_pylock(base)
        or (_is_list(base) and base != CONSTRAINTS and base.endswith(".txt"))
    )


def _by_format(files: Mapping[str, str]) -> dict[_ProblemOf, dict[str, str]]:
    """Group files by the check that applies to their format."""
    checks: dict[_ProblemOf, dict[str, str]] = {address_problem: dict(files)}
    for name, content in files.items():
        base = name.rpartition("/")[2]
        problem = list_problem if _is_list(base) else toml_problem
        problem = yaml_problem if base in _YAML_FILES else problem
        checks.setdefault(json_problem if base == PIPFILE_LOCK else problem, {})[name] = content
    return checks


def address_problem(texts: Collection[str]) -> str | None:
    """Return why texts are refused for too many URLs; ``None`` if they are accepted."""
    number = sum(text.count("://") for text in texts)
    return _excess(number, _MAX_ADDRESSES, "URLs", "project")


def json_problem(texts: Collection[str]) -> str | None:
    """Return why JSON is refused; ``None`` if it is accepted."""
    return _excess(_signs(texts, _VALUES), _MAX_VALUES, "values")


def yaml_problem(texts: Collection[str]) -> str | None:
    """Return why YAML is refused; ``None`` if it is accepted."""
    return _excess(sum(map(_lines, texts)), _MAX_LINES, "lines")


def toml_problem(texts: Collection[str]) -> str | None:
    """Return why TOML is refused; ``None`` if it is accepted. The check takes milliseconds."""
    tables, parts = _signs(texts, _TABLES), _signs(texts, _PARTS)
    return _excess(tables, _MAX_TABLES, "tables, keys and lists") or _excess(
        parts, _MAX_PARTS, "commas, dots and lines"
    )


def _signs(texts: Collection[str], signs: str) -> int:
    return sum(text.count(sign) for text in texts for sign in signs)


def _excess(number: int, most: int, what: str, where: str = "lock") -> str | None:
    if number <= most:
        return None
    return f"{number} {what}, but at most {most} are allowed; no real {where} has as many"


#: Locks in TOML whose names do not end in `.toml`.
_TOML_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
_CONTINUED = re.compile(r"\\\r?\n")
#: Text between two single quotes, matched in linear time.
_QUOTED = re.compile(r"(?<=')[^'\n]+(?=')")
#: Separates a URL from the quote behind it; no file contains it.
_ENDED = "<\0"
#: Quoting characters, and characters that end a URL unless it is quoted.
_QUOTING = re.compile(r"['\"\\]")
_SEPARATOR = re.compile(r"[\s\"'<>\\]")
#: An escape or line continuation that may hide a part of a URL.
_ESCAPE = re.compile(r"\\[uUx/\s]")


def public_project(
    files: Mapping[str, str],
    manifest: str | None = None,
    selection: LockSelection = DEFAULT_SELECTION,
) -> Project:
    """Parse a project after removing credentials from its files.

    The project has a warning for each address that had credentials. The project also keeps the
    hashes of the original Pipfile, because the lock contains one of these hashes.

    :param files: texts by path within the project
    :param manifest: path of the file that names the requirements; detected by default
    :param selection: parts of its lock that count
    :raises InvalidFile: if a file cannot be read, or if quotes or backslashes in it hide an
        address with credentials
    """
    public = {name: public_file(name, text) for name, text in files.items()}
    removed: tuple[ProjectWarning, ...] = ()
    hashes: list[str] = []
    if public != files:
        # If the original files are invalid, the public ones are too, and their error is reported.
        with suppress(InvalidFile):
            warnings = _parsed(files, manifest, []).warnings
            removed = tuple(it for it in warnings if it.code is WarningCode.CREDENTIALS_REMOVED)
            if PIPFILE in files and files[PIPFILE] != public[PIPFILE]:
                table = toml_of(PIPFILE, files[PIPFILE].encode())
                hashes = [pipfile_hash(table), pipfile_hash(table, as_written=True)]
    project = _parsed(public, manifest, hashes, selection)
    return replace(project, warnings=(*removed, *project.warnings))


def _parsed(
    files: Mapping[str, str],
    manifest: str | None,
    hashes: list[str],
    selection: LockSelection = DEFAULT_SELECTION,
) -> Project:
    encoded = {name: it.encode() for name, it in files.items()}
    return parse_project(encoded, manifest, hashes, selection=selection)


def public_file(name: str, text: str) -> str:
    """Remove credentials from a file of a project.

    >>> public_file("Pipfile.lock", '{"a": "https:\\\\/\\\\/me:word@host.example\\\\/simple"}')
    '{"a":"https://host.example/simple"}'

    :raises InvalidFile: if quotes or backslashes in a list of requirements hide one
    """
    base = posixpath.basename(name)
    if base not in (PIPFILE, PIPFILE_LOCK, *_TOML_LOCKS) and not base.endswith(".toml"):
        return _public_list(name, text)
    hiding = _ESCAPE.search(text) is not None
    if public_text(text) == text and not hiding:
        return text
    try:
        # Escapes may hide a URL, so the parsed values are checked.
        if base == PIPFILE_LOCK:
            value = json_of(name, text.encode())
            public = public_values(value)
            same = public == value and public_text(text) == text
            return text if same else orjson.dumps(public).decode()
        # Parsing a large lock takes as long as a hundred requests, so it is avoided.
        if base == PIPFILE or hiding or not (base in _TOML_LOCKS or is_pylock(base)):
            table = toml_of(name, text.encode())
            shown = public_values(table)
            same = shown == table and public_text(text) == text
            return text if same else tomli_w.dumps(shown)
    except InvalidFile:
        # The parser of the project will report the error.
        public = public_text(text)
        return text if public == text else public_file(name, public)
    return _public_lines(text)


def _public_list(name: str, text: str) -> str:
    """Remove credentials from a list of requirements, whose options are quoted as in a shell."""
    public = _public_lines(text)
    if _QUOTING.search(public) is None:
        return public
    for number, line in logical_lines(public):
        if line.count("/") > 1 and _hides_credentials(line):
            refuse(
                Reason.INVALID_REQUIREMENT,
                "a URL with credentials that is split by quotes or backslashes",
                f"{name}:{number}",
                "write the URL in one piece, and keep credentials in variables or a keyring",
            )
    return public


def _public_lines(text: str) -> str:
    """Remove credentials from text that has continuation lines and quoted URLs."""
    joined = _CONTINUED.sub("", text)
    public = public_text(_QUOTED.sub(_public_quoted, joined)).replace(_ENDED, "")
    return text if public == joined else public


def _public_quoted(match: re.Match[str]) -> str:
    before, sign, _ = match[0].partition("://")
    if not sign or _SEPARATOR.search(before):
        return match[0]
    return public_text(match[0]) + _ENDED


def _hides_credentials(line: str) -> bool:
    parts = [line]
    with suppress(InvalidFile):  # the parser of the project will report the error
        parts = split_words(line, "")
    bare = [_SEPARATOR.sub("", part) for part in parts]
    return any(public_text(part) != part for part in bare)


def public_indexes(settings: Settings, *, anonymous: bool) -> dict[str, str]:
    """URLs of the configured indexes by name, without local folders, which are private.

    :param anonymous: only the default index, which is part of locks; others may be internal
    """
    return {
        name: index.url
        for name, index in configured_indexes(settings).items()
        if not index.is_local and (name == DEFAULT_INDEX or not anonymous)
    }


def refuse_foreign_indexes(settings: Settings, project: Project) -> None:
    """Refuse a project that names an index that is not configured.

    :raises ApiError: 400, naming the configured indexes
    """
    if not (foreign := foreign_indexes(settings, project)):
        return
    known = public_indexes(settings, anonymous=token() is None)
    names = ", ".join(repr(it.name) for it in foreign)
    read = ", ".join(f"{name} at {url}" for name, url in known.items())
    detail = f"the index {names} is not one that this service reads; it reads: {read}"
    raise ApiError(400, ProblemType.INDEX_NOT_ALLOWED, detail, indexes=known)
