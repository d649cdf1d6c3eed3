"""Specifications from files: strict JSON, and what it names beside it read in.

In the place of a text, ``{"file": "requirements.txt"}`` stands for the content of a file
beside the specification. Only a person's own command line is read so; a specification
that came from elsewhere could otherwise have any file of the machine sent back.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pis.amun.limits import MEBIBYTE
from pis.amun.problems import InvalidSpecification, Problem, inside

STDIN = "-"
_MOST_BYTES = 64 * MEBIBYTE


def read_specification(name: str) -> Any:
    """The JSON of the file ``name``, ``-`` for standard input, with its references read.

    :raises InvalidSpecification: naming line and column, or the field of a file that is not there
    """
    text = _text(name)
    value = _parsed(text, name)
    folder = Path() if name == STDIN else Path(name).parent
    problems: list[Problem] = []
    resolved = _resolved(value, folder, problems)
    if problems:
        raise InvalidSpecification(problems, name)
    return resolved


def _text(name: str) -> str:
    try:
        if name == STDIN:
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise _invalid(name, "the file", f"over {_MOST_BYTES // MEBIBYTE} MiB")
        return data.decode("utf-8-sig")
    except OSError as error:
        raise _invalid(name, "the file", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise _invalid(name, "the file", f"byte {error.start} is not UTF-8") from None


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _invalid(name, where, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise _invalid(name, "the file", "nested too deep") from None
    except ValueError as error:
        raise _invalid(name, "the file", str(error)) from None


def _invalid(name: str, where: str, message: str) -> InvalidSpecification:
    return InvalidSpecification([Problem(where, message)], name)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice in one object")
    return made


def _as_text(text: str) -> Any:
    return text


#: Where a file may be named, and what is made of its text.
_REFERENCES: Mapping[tuple[str, ...], Callable[[str], Any]] = {
    ("script",): _as_text,
    ("python", "requirements"): tomllib.loads,
    ("python", "requirements_locked"): json.loads,
    ("python", "requirements_txt"): _as_text,
    ("python", "pylock_toml"): _as_text,
    ("files", "content"): _as_text,
}


def _resolved(
    value: Any, folder: Path, problems: list[Problem], keys: tuple[str, ...] = (), at: str = ""
) -> Any:
    """``value`` with every reference replaced; other values as they are."""
    read = _REFERENCES.get(keys)
    if read and isinstance(value, dict) and value.keys() == {"file"}:
        return _content(value["file"], folder, read, problems, at)
    if isinstance(value, dict) and len(keys) < 2:
        return {
            key: _resolved(inner, folder, problems, (*keys, key), inside(at, key))
            for key, inner in value.items()
        }
    if isinstance(value, list) and keys == ("files",):
        return [
            _resolved(inner, folder, problems, keys, inside(at, number))
            for number, inner in enumerate(value)
        ]
    return value


def _content(
    name: Any, folder: Path, read: Callable[[str], Any], problems: list[Problem], at: str
) -> Any:
    if not isinstance(name, str) or "\0" in name:
        problems.append(Problem(inside(at, "file"), "the path of a file was expected"))
        return None
    path = folder / name
    try:
        return read(path.read_text(encoding="utf-8"))
    except OSError as error:
        problems.append(Problem(inside(at, "file"), f"{path}: {error.strerror or error}"))
    except ValueError as error:  # of every parser, and of what is not UTF-8
        problems.append(Problem(inside(at, "file"), f"{path}: {error}"))
    return None
