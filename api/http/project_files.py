"""Limits for the files of a project in a request: names, sizes, and elements by format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from marshmallow import ValidationError, fields

from adviser.projects.documents import FOREIGN_FILES
from adviser.projects.parsing import CONSTRAINTS, LOCKS_OF_TOOLS, PIPFILE_LOCK, PROJECT_FILES
from common.formats import conda_environment
from common.formats.locks.pylock import is_pylock

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

    :raises ValidationError: saying what there is too much of
    """
    if wrong := list_problem([text]):
        raise ValidationError(wrong)


def list_problem(texts: Collection[str]) -> str | None:
    """Return why lists of requirements are refused; ``None`` if they are accepted.

    Hashes and comments do not count towards the limits, because only the other text is slow to
    parse.
    """
    for count, most, what in _BOUNDS:
        if (number := sum(map(count, texts))) > most:
            return f"{number} {what}, but at most {most} are allowed; no real project has as many"
    return None


def _lines(text: str) -> int:
    return sum(map(text.count, _ENDS))


def _hashes(text: str) -> int:
    return text.count("--hash")


def _options(text: str) -> int:
    return len(_OPTION.findall(text))


def _characters(text: str) -> int:
    return len(_rest(text))


def _requirements(text: str) -> int:
    lines = map(str.strip, _rest(text).splitlines())
    return sum(1 for line in lines if line.strip("\\") and line[0] not in "-#")


def _rest(text: str) -> str:
    return _COMMENT.sub("", _HASH.sub("", text))


_BOUNDS: tuple[tuple[Callable[[str], int], int, str], ...] = (
    (_lines, _MAX_LINES, "lines"),
    (_hashes, _MAX_HASHES, "hashes"),
    (_options, _MAX_OPTIONS, "options besides"),
    (_characters, MAX_MANIFEST, "characters that are neither hashes nor comments"),
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
                raise ValidationError(f"{len(value)} files, where 1 to {MAX_FILES} are read")
            for name in value:
                check_name(name)
        texts = super()._deserialize(value, *args, **kwargs)  # type: ignore[no-untyped-call]
        _check_sizes(texts)
        for check, checked in _by_format(texts).items():
            if (message := check(checked.values())) is not None:
                raise ValidationError(f"{', '.join(checked)[:_SHOWN]}: {message}")
        return texts


def check_name(name: Any) -> None:
    """Refuse a path that is not a file of a project.

    :raises ValidationError: naming it
    """
    if not isinstance(name, str) or len(name) > MAX_NAME or not name.isprintable():
        raise ValidationError(f"{str(name)[:_SHOWN]!r}: not a path of at most {MAX_NAME} letters")
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

    :raises ValidationError: saying what there is too much of
    """
    for problem in (address_problem, json_problem):
        if (wrong := problem([text])) is not None:
            raise ValidationError(wrong)


def _check_sizes(files: Mapping[str, str]) -> None:
    for name, content in files.items():
        if len(content) > MAX_MANIFEST and not _may_be_lock(name.rpartition("/")[2]):
            raise ValidationError(f"{name}: Longer than maximum length {MAX_MANIFEST}.")


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
    if number <= _MAX_ADDRESSES:
        return None
    return f"{number} URLs, but at most {_MAX_ADDRESSES} are allowed; no real project has as many"


def json_problem(texts: Collection[str]) -> str | None:
    """Return why JSON is refused; ``None`` if it is accepted."""
    number = sum(text.count(sign) for text in texts for sign in _VALUES)
    if number <= _MAX_VALUES:
        return None
    return f"{number} values, but at most {_MAX_VALUES} are allowed; no real lock has as many"


def yaml_problem(texts: Collection[str]) -> str | None:
    """Return why YAML is refused; ``None`` if it is accepted."""
    if (number := sum(map(_lines, texts))) <= _MAX_LINES:
        return None
    return f"{number} lines, but at most {_MAX_LINES} are allowed; no real lock has as many"


def toml_problem(texts: Collection[str]) -> str | None:
    """Return why TOML is refused; ``None`` if it is accepted. The check takes milliseconds."""
    for most, signs in ((_MAX_TABLES, _TABLES), (_MAX_PARTS, _PARTS)):
        number = sum(text.count(sign) for text in texts for sign in signs)
        if number > most:
            what = "tables, keys and lists" if signs is _TABLES else "commas, dots and lines"
            return f"{number} {what}, but at most {most} are allowed; no real lock has as many"
    return None
