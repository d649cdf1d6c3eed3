"""Reads specifications from files: strict JSON, with references to other files.

``{"file": "requirements.txt"}`` in place of a text is replaced by the content of that file, which
must be in the specification's folder or below it. No other file can be read, because the content is
published with the inspection, and the specification may come from a stranger.
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

from model.json_fields import FieldPath
from pis.amun.job_limits import MEBIBYTE
from pis.amun.schema import SPECIFICATION, InvalidSpecification, SpecificationProblem

STDIN = "-"
#: Limit for the specification, and for all files together that it refers to.
_MOST_BYTES = 64 * MEBIBYTE
#: Limit for a whole number; no field takes more than 64 bits, which is far fewer digits.
_MOST_DIGITS = 100


def read_specification(name: str) -> Any:
    """Read the JSON file ``name`` (``-`` for standard input) and the files that it refers to.

    :raises InvalidSpecification: with line and column, or the field that names a missing file
    """
    text = _text(name)
    value = _parsed(text, name)
    files = _ReferencedFiles(Path() if name == STDIN else Path(name).parent)
    resolved = _resolved(value, files)
    if files.problems:
        raise InvalidSpecification(files.problems, name)
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
    """Read at most ``most`` + 1 bytes of a regular file.

    The file is opened without blocking, because a pipe without a writer would block forever.
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
    """Parse a whole number. Excess digits are cut off; the field then rejects the number."""
    return int(digits[:_MOST_DIGITS])


def _invalid(name: str, where: str, message: str) -> InvalidSpecification:
    return InvalidSpecification([SpecificationProblem(where, message)], name)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the key {repeated!r} twice")
    return record


#: Fields that can refer to a file, and how its text is parsed.
_REFERENCES: Mapping[tuple[str, ...], Callable[[str], Any]] = {
    ("script",): str,
    ("python", "requirements"): tomllib.loads,
    ("python", "requirements_locked"): _json,
    ("python", "requirements_txt"): str,
    ("python", "pylock_toml"): str,
    ("files", "content"): str,
}


class _ReferencedFiles:
    """Files in the folder of a specification.

    :ivar problems: problems of the files that were read so far
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left = _MOST_BYTES
        self.problems: list[SpecificationProblem] = []

    def content(self, name: Any, parse: Callable[[str], Any], at: str) -> Any:
        """Read and parse the file ``name``. On failure, add a problem and return ``None``."""
        try:
            if not isinstance(name, str) or not name or "\0" in name:
                raise ValueError("not the path of a file")
            return parse(self._text(name))
        except OSError as error:
            message = f"{name[:80]!r}: {error.strerror or error}"
        except RecursionError:
            message = f"{name[:80]!r}: nested too deep"
        except ValueError as error:  # from a parser, or the file is not UTF-8
            message = f"{name[:80]!r}: {error}" if isinstance(name, str) else str(error)
        self.problems.append(SpecificationProblem(at, message))
        return None

    def _text(self, name: str) -> str:
        root = self._folder.resolve()
        try:
            path = (root / name).resolve()
        except RuntimeError:  # symbolic links in a circle
            raise ValueError("symbolic links form a circle") from None
        if Path(name).is_absolute() or not path.is_relative_to(root):
            raise ValueError("not in the specification's folder or below it")
        data = _regular(path, self._left)
        text = _decoded(data, self._left)
        self._left -= len(data)
        return text


def _resolved(
    value: Any, files: _ReferencedFiles, keys: tuple[str, ...] = (), at: FieldPath = SPECIFICATION
) -> Any:
    """Return ``value`` with all references replaced."""
    parse = _REFERENCES.get(keys)
    if parse and isinstance(value, dict) and value.keys() == {"file"}:
        return files.content(value["file"], parse, at / "file")
    if isinstance(value, dict) and len(keys) < 2:
        return {
            key: _resolved(inner, files, (*keys, key), at / key) for key, inner in value.items()
        }
    if isinstance(value, list) and keys == ("files",):
        return [_resolved(inner, files, keys, at / number) for number, inner in enumerate(value)]
    return value
