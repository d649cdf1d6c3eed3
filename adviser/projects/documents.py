"""Bytes of a project's files as text, TOML and JSON, within bounds."""

from __future__ import annotations

import codecs
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from common.formats.file_fields import inside, refuse, shown
from common.formats.json_documents import out_of_bounds
from common.reasons import Reason

#: Of one file. The largest real locks, with every hash of a thousand packages, have 5 MB.
MAX_BYTES = 8 * 2**20
#: Of all files of a project, and how many there may be.
MAX_TOTAL_BYTES = 16 * 2**20
MAX_FILES = 200
#: Requirements and constraints of a project, and packages of a lock.
MAX_REQUIREMENTS = 10_000
#: Deeper tables and dotted keys are none that people write; reading them takes the stack.
_MAX_DEPTH = 100

_HEADERS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODING = re.compile(rb"coding[:=]\s*([-\w.]+)")
#: What else a requirements file may say that it is in (PEP 263).
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "cp1251", "cp1250"})
_CONVERT = "save it as UTF-8"


def check_sizes(files: Mapping[str, bytes]) -> None:
    """Refuse what is larger than any project is.

    :raises InvalidFile: naming the file
    """
    if len(files) > MAX_FILES:
        refuse(
            Reason.OUT_OF_RANGE,
            f"{len(files)} files, where at most {MAX_FILES} are read",
            f"{min(files)}:$",
            "give only the manifest, its lock and what they include",
        )
    for name, data in files.items():
        if len(data) > MAX_BYTES:
            refuse(
                Reason.FILE_TOO_LARGE,
                f"{len(data)} bytes, where at most {MAX_BYTES} are read",
                f"{name}:$",
                "check that this is the file that was meant",
            )
    if (total := sum(map(len, files.values()))) > MAX_TOTAL_BYTES:
        refuse(
            Reason.FILE_TOO_LARGE,
            f"{total} bytes in all files, where at most {MAX_TOTAL_BYTES} are read",
            f"{max(files, key=lambda it: len(files[it]))}:$",
            "give only the manifest, its lock and what they include",
        )


def text_of(name: str, data: bytes) -> str:
    """Text in UTF-8, or in what a mark at its beginning says.

    :raises InvalidFile: if it is not that
    """
    for mark, encoding in _HEADERS:
        if data.startswith(mark):
            return _decoded(name, data[len(mark) :], encoding)
    return _decoded(name, data, "utf-8")


def requirements_text_of(name: str, data: bytes) -> str:
    """The same; one of the first two lines may name an encoding in a comment, as for pip."""
    if not data.startswith(tuple(mark for mark, _ in _HEADERS)):
        for line in data.split(b"\n", 2)[:2]:
            if line.startswith(b"#") and (found := _CODING.search(line)):
                return _decoded(name, data, _encoding(name, found[1].decode("ascii", "replace")))
    return text_of(name, data)


def toml_of(name: str, data: bytes) -> dict[str, Any]:
    """A TOML document.

    :raises InvalidFile: naming line and column
    """
    text = text_of(name, data)
    _check_depth(name, text)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        _too_deep(name)
    except ValueError as error:
        refuse(Reason.INVALID_TOML, str(error)[:300], f"{name}:$", "correct it at that place")
    _check_values(name, value)
    return value


def json_of(name: str, data: bytes) -> Any:
    """A JSON document.

    :raises InvalidFile: naming line and column
    """
    try:
        value = orjson.loads(text_of(name, data))
    except orjson.JSONDecodeError as error:
        refuse(Reason.INVALID_JSON, str(error)[:300], f"{name}:$", "make the lock again")
    _check_values(name, value)
    return value


def _check_values(name: str, value: Any) -> None:
    """Refuse what no digest and no store takes, whatever key it is under."""
    wrong = out_of_bounds(value)
    if wrong is None:
        return
    place, message = wrong
    if "nested" in message:
        _too_deep(name)
    reason = Reason.NUL_CHARACTER if "NUL" in message else Reason.OUT_OF_RANGE
    refuse(reason, message, inside(name, place or "$"), "correct it at that place")


def _decoded(name: str, data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        refuse(
            Reason.NOT_UTF8, f"byte {error.start} is not text in {encoding}", f"{name}:$", _CONVERT
        )
    if "\0" in text:
        refuse(Reason.NUL_CHARACTER, "has a NUL character in it", f"{name}:$", _CONVERT)
    return text


def _encoding(name: str, said: str) -> str:
    try:
        encoding = codecs.lookup(said).name
    except (LookupError, ValueError):
        encoding = ""
    if encoding not in _ENCODINGS:
        refuse(Reason.NOT_UTF8, f"its encoding {shown(said)} is not read", f"{name}:$", _CONVERT)
    return encoding


_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
#: From where a key begins; within one, every part would be tried again.
_DEEP_KEY = re.compile(rf"(?<![\w\-.\"'])(?:{_PART}[ \t]*\.){{{_MAX_DEPTH}}}")
#: Without it a part looks like the beginning of a key.
_BEHIND_DOT = re.compile(r"(?<=\.)[ \t]+")


def _check_depth(name: str, text: str) -> None:
    """A key of n parts costs n² steps, so there is a bound to them."""
    if _DEEP_KEY.search(_BEHIND_DOT.sub("", text)):
        _too_deep(name)


def _too_deep(name: str) -> NoReturn:
    refuse(Reason.NESTED_TOO_DEEP, "nested too deep", f"{name}:$", "no real file is; check it")
