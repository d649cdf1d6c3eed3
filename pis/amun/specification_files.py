"""Specifications from files: strict JSON, and what it names beside it read in.

In the place of a text, ``{"file": "requirements.txt"}`` stands for the content of a file
in the specification's own folder or below it. Nothing else of the machine is read: what a
specification names ends in the documents of its inspection, and it may be a stranger's.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from pis.amun.job_limits import MEBIBYTE
from pis.amun.schema import (
    InvalidSpecification,
    SpecificationProblem,
    inside,
)

STDIN = "-"
#: Of the specification, and of all the files together that it names.
_MOST_BYTES = 64 * MEBIBYTE
#: Of a whole number; far fewer are beyond 64 bits, which no field takes.
_MOST_DIGITS = 100


def read_specification(name: str) -> Any:
    """The JSON of the file ``name``, ``-`` for standard input, with its references read.

    :raises InvalidSpecification: naming line and column, or the field of a file that is not there
    """
    text = _text(name)
    value = _parsed(text, name)
    beside = _Beside(Path() if name == STDIN else Path(name).parent)
    resolved = _resolved(value, beside)
    if beside.problems:
        raise InvalidSpecification(beside.problems, name)
    return resolved


def _text(name: str) -> str:
    try:
        if name == STDIN:
            return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), _MOST_BYTES)
        return _decoded(_regular(Path(name), _MOST_BYTES), _MOST_BYTES)
    except OSError as error:
        raise _invalid(name, "the file", error.strerror or str(error)) from None
    except ValueError as error:
        raise _invalid(name, "the file", str(error)) from None


def _regular(path: Path, most: int) -> bytes:
    """The content of a regular file, one byte more than ``most`` at most.

    Opened without waiting: a pipe into which nobody writes would hold everything up.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)


def _decoded(data: bytes, most: int) -> str:
    if len(data) > most:
        raise ValueError(f"over {_MOST_BYTES // MEBIBYTE} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from None


def _parsed(text: str, name: str) -> Any:
    try:
        return _json(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _invalid(name, where, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise _invalid(name, "the file", "nested too deep") from None
    except ValueError as error:
        raise _invalid(name, "the file", str(error)) from None


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse, parse_int=_whole, object_pairs_hook=_object)


def _whole(digits: str) -> int:
    """A number; one with more digits than Python reads is cut, and refused by its field later."""
    return int(digits[:_MOST_DIGITS])


def _invalid(name: str, where: str, message: str) -> InvalidSpecification:
    return InvalidSpecification([SpecificationProblem(where, message)], name)


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
    ("python", "requirements_locked"): _json,
    ("python", "requirements_txt"): _as_text,
    ("python", "pylock_toml"): _as_text,
    ("files", "content"): _as_text,
}


class _Beside:
    """The folder of a specification, from which the files are read that it names.

    :ivar problems: what was wrong with them so far
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = _MOST_BYTES
        self.problems: list[SpecificationProblem] = []

    def content(self, name: Any, read: Callable[[str], Any], at: str) -> Any:
        """What ``read`` makes of the file ``name``; ``None``, and a problem, if it cannot."""
        try:
            if not isinstance(name, str) or not name or "\0" in name:
                raise ValueError("the path of a file was expected")
            return read(self._text(name))
        except OSError as error:
            words = f"{name[:80]!r}: {error.strerror or error}"
        except RecursionError:
            words = f"{name[:80]!r}: nested too deep"
        except ValueError as error:  # of every parser, and of what is not UTF-8
            words = f"{name[:80]!r}: {error}" if isinstance(name, str) else str(error)
        self.problems.append(SpecificationProblem(at, words))
        return None

    def _text(self, name: str) -> str:
        root = self._folder.resolve()
        try:
            path = (root / name).resolve()
        except RuntimeError:  # links in a circle
            raise ValueError("a link that leads nowhere") from None
        if Path(name).is_absolute() or not path.is_relative_to(root):
            raise ValueError("not a file in the specification's folder or below it")
        data = _regular(path, self._left)
        text = _decoded(data, self._left)
        self._left -= len(data)
        return text


def _resolved(value: Any, beside: _Beside, keys: tuple[str, ...] = (), at: str = "") -> Any:
    """``value`` with every reference replaced; other values as they are."""
    read = _REFERENCES.get(keys)
    if read and isinstance(value, dict) and value.keys() == {"file"}:
        return beside.content(value["file"], read, inside(at, "file"))
    if isinstance(value, dict) and len(keys) < 2:
        return {
            key: _resolved(inner, beside, (*keys, key), inside(at, key))
            for key, inner in value.items()
        }
    if isinstance(value, list) and keys == ("files",):
        return [
            _resolved(inner, beside, keys, inside(at, number)) for number, inner in enumerate(value)
        ]
    return value
