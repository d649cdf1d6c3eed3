"""Decodes files as text, TOML, JSON or YAML within limits; gives typed access to their keys.

In YAML, scalars are texts; aliases, repeated keys and deep nesting are refused. The parser in C is
some ten times as fast as the one in Python, but deep nesting makes it end the process.
"""

import codecs
import re
import tomllib
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson
import yaml

from model.errors import InvalidDocument, InvalidFile, Reason
from model.json_documents import MAX_DEPTH, out_of_bounds
from model.json_fields import FieldPath, Fields
from model.redaction import without_secrets

#: What a user writes, by what a document has.
_EXPECTED = {"an object": "a table", "text": "a text", "a boolean": "true or false"}


def invalid_file(reason: Reason, message: str, at: str, hint: str) -> InvalidFile:
    """The error for a path such as ``Pipfile:packages.flask``.

    :param message: may quote the file; secrets in URLs are removed
    """
    place, colon, field = at.partition(":")
    if not colon:
        place, field = "", at
    return InvalidFile(reason, without_secrets(message), place=place, field=field or "$", hint=hint)


def refuse(reason: Reason, message: str, at: str, hint: str) -> NoReturn:
    """Raise :func:`invalid_file`."""
    raise invalid_file(reason, message, at, hint)


def value_text(value: object, most: int = 80) -> str:
    """A value for a message: one short, printable line.

    >>> value_text("a" * 100, 5), value_text("\\n")
    ("'aaaa…", "'\\\\n'")
    """
    text = repr(value[: most + 1] if isinstance(value, str) else value)
    return text if len(text) <= most else f"{text[:most]}…"


class FileTable(Fields):
    """A table of a user's file, with its path such as ``pyproject.toml:tool.uv``."""

    __slots__ = ()
    longest = None
    #: What to do about a wrong value; by default, to write another.
    hint: str | None = None

    def invalid(self, reason: Reason, message: str, *keys: str | int) -> InvalidFile:
        """The error for the value of ``keys``."""
        return invalid_file(reason, message, self.path(*keys), self.hint or "correct it there")

    def wrong_type(self, value: Any, expected: str, *keys: str | int) -> InvalidFile:
        """The error for the value of ``keys``, whose type is not ``expected``."""
        expected = _EXPECTED.get(expected, expected)
        message = f"{value_text(value)} where {expected} was expected"
        hint = self.hint or f"write {expected} there"
        return invalid_file(Reason.WRONG_TYPE, message, self.path(*keys), hint)


#: Reads each scalar as text.
TEXT_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


class _Loader(TEXT_LOADER):  # type: ignore[misc]
    def construct_scalar(self, node: Any) -> Any:
        text = super().construct_scalar(node)
        return None if not node.style and text in ("", "~", "null") else text

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise yaml.YAMLError(f"a key occurs twice{node.start_mark}")
        return mapping


def check_yaml(text: str, *, aliases: bool = False) -> None:
    """Check a text before it is loaded.

    :param aliases: allow aliases, which expand to any size if their values are copied
    :raises yaml.YAMLError: if it is not YAML, or has an alias
    :raises RecursionError: if it is nested too deep
    """
    depth = 0
    for event in yaml.parse(text, TEXT_LOADER):
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise yaml.YAMLError("aliases are not read")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError


def yaml_value(text: str) -> Any:
    """Texts, lists, mappings and ``None`` of a YAML document; JSON is YAML, too.

    :raises InvalidDocument: if it is not YAML, has an alias, repeats a key or is nested too deep
    """
    try:
        check_yaml(text)
        return yaml.load(text, _Loader)  # noqa: S506 - a loader of plain texts
    except RecursionError:
        message = f"nested deeper than {MAX_DEPTH} levels"
        raise InvalidDocument(Reason.NESTED_TOO_DEEP, message, field="$") from None
    except (yaml.YAMLError, ValueError) as error:
        message = " ".join(str(error).split())[:200]
        raise InvalidDocument(Reason.INVALID_YAML, message, field="$") from None


#: Largest size of a file. The largest real locks, with all hashes of 1,000 packages, have 5 MB.
MAX_BYTES = 8 * 2**20
#: Largest size of all files of a project together.
MAX_TOTAL_BYTES = 16 * 2**20
#: Largest number of files of a project.
MAX_FILES = 200
#: Largest number of requirements and constraints of a project, and of packages in a lock.
MAX_REQUIREMENTS = 10_000
#: Nobody writes deeper tables or dotted keys, and reading them would exhaust the stack.
_MAX_DEPTH = 100

_HEADERS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the start of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODING = re.compile(rb"coding[:=]\s*([-\w.]+)")
#: Encodings that a requirements file may declare (PEP 263).
_ENCODINGS = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "cp1251", "cp1250"})
_CONVERT = "save it as UTF-8"


def check_sizes(files: Mapping[str, bytes]) -> None:
    """Refuse projects with too many or too large files.

    :raises InvalidFile: with the name of the file
    """
    if len(files) > MAX_FILES:
        refuse(
            Reason.OUT_OF_RANGE,
            f"{len(files)} files; the limit is {MAX_FILES}",
            f"{min(files)}:$",
            "pass only the manifest, its lock and the files that they include",
        )
    for name, data in files.items():
        if len(data) > MAX_BYTES:
            refuse(
                Reason.FILE_TOO_LARGE,
                f"{len(data)} bytes; the limit is {MAX_BYTES}",
                f"{name}:$",
                "check that this is the right file",
            )
    if (total := sum(map(len, files.values()))) > MAX_TOTAL_BYTES:
        refuse(
            Reason.FILE_TOO_LARGE,
            f"{total} bytes in all files; the limit is {MAX_TOTAL_BYTES}",
            f"{max(files, key=lambda it: len(files[it]))}:$",
            "pass only the manifest, its lock and the files that they include",
        )


def text_of(name: str, data: bytes) -> str:
    """Decode text in UTF-8, or in the encoding of its byte order mark.

    :raises InvalidFile: if it is not valid in that encoding
    """
    for mark, encoding in _HEADERS:
        if data.startswith(mark):
            return _decoded(name, data[len(mark) :], encoding)
    return _decoded(name, data, "utf-8")


def requirements_text_of(name: str, data: bytes) -> str:
    """Like :func:`text_of`; a comment in the first two lines may name an encoding, as in pip."""
    if not data.startswith(tuple(mark for mark, _ in _HEADERS)):
        for line in data.split(b"\n", 2)[:2]:
            if line.startswith(b"#") and (match := _CODING.search(line)):
                return _decoded(name, data, _encoding(name, match[1].decode("ascii", "replace")))
    return text_of(name, data)


def toml_of(name: str, data: bytes) -> dict[str, Any]:
    """Parse a TOML document.

    :raises InvalidFile: with line and column
    """
    text = text_of(name, data)
    # Refuse keys with many parts: parsing a key of n parts takes n² steps.
    if _DEEP_KEY.search(_SPACE_AFTER_DOT.sub("", text)):
        _too_deep(name)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        _too_deep(name)
    except ValueError as error:
        refuse(Reason.INVALID_TOML, str(error)[:300], f"{name}:$", "correct the file there")
    _check_values(name, value)
    return value


def table_of(name: str, data: bytes) -> FileTable:
    """Parse a TOML document, for typed access.

    :raises InvalidFile: with line and column
    """
    return FileTable(toml_of(name, data), FieldPath(f"{name}:$"))


def json_of(name: str, data: bytes, remedy: str = "create the lock again") -> Any:
    """Parse a JSON document.

    :raises InvalidFile: with line and column
    """
    try:
        value = orjson.loads(text_of(name, data))
    except orjson.JSONDecodeError as error:
        refuse(Reason.INVALID_JSON, str(error)[:300], f"{name}:$", remedy)
    _check_values(name, value)
    return value


def yaml_of(name: str, data: bytes) -> Any:
    """Parse a YAML document, without its tags and aliases.

    :raises InvalidFile: with line and column
    """
    text = text_of(name, data)
    try:
        check_yaml(text)
        value = yaml.load(text, TEXT_LOADER)  # noqa: S506 - a loader of plain texts
    except RecursionError:
        _too_deep(name)
    except (yaml.YAMLError, ValueError) as error:
        message = " ".join(str(error).split())[:300]
        refuse(Reason.INVALID_YAML, message, f"{name}:$", "correct the file there")
    _check_values(name, value)
    return value


def _check_values(name: str, value: Any) -> None:
    """Refuse values that cannot be stored, such as NUL characters, under any key."""
    wrong = out_of_bounds(value)
    if wrong is None:
        return
    place, message = wrong
    if "nested" in message:
        _too_deep(name)
    reason = Reason.NUL_CHARACTER if "NUL" in message else Reason.OUT_OF_RANGE
    refuse(reason, message, f"{name}:{place or '$'}", "correct the file there")


def _decoded(name: str, data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        refuse(
            Reason.NOT_UTF8, f"byte {error.start} is not valid {encoding}", f"{name}:$", _CONVERT
        )
    if "\0" in text:
        message = "contains a NUL character"
        if "\0\0" in (text[:4:2], text[1:4:2]):
            message = "seems to be UTF-16 without a byte order mark"
        refuse(Reason.NUL_CHARACTER, message, f"{name}:$", _CONVERT)
    return text


def _encoding(name: str, declared: str) -> str:
    try:
        encoding = codecs.lookup(declared).name
    except (LookupError, ValueError):
        encoding = ""
    if encoding not in _ENCODINGS:
        refuse(
            Reason.NOT_UTF8,
            f"the encoding {value_text(declared)} is not supported",
            f"{name}:$",
            _CONVERT,
        )
    return encoding


_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
#: Matches from the start of a key only; otherwise every part would be tried as a start.
_DEEP_KEY = re.compile(rf"(?<![\w\-.\"'])(?:{_PART}[ \t]*\.){{{_MAX_DEPTH}}}")
#: Space after a dot, which makes a part look like the start of a key.
_SPACE_AFTER_DOT = re.compile(r"(?<=\.)[ \t]+")


def _too_deep(name: str) -> NoReturn:
    refuse(
        Reason.NESTED_TOO_DEEP, "nested too deep", f"{name}:$", "check that this is the right file"
    )
