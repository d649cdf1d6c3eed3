"""Strict JSON: what two parsers could read differently, or a store cannot hold, is refused.

The fast path is one parse and one dump by orjson and a few counts over the bytes; only
a document that fails one of them is read again, slowly, to say what is wrong and where.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from typing import Any, NoReturn

import orjson

from common.errors import InvalidDocument
from common.inspection import canonical_json
from common.json_keys import refuse_repeated_keys, walk
from common.reasons import Reason

#: What is left where a text ends within a literal, a number or an escape.
_CUT_SHORT = re.compile(
    r"(-|-?\.|\.|[eE][+-]?|t|tr|tru|f|fa|fal|fals|n|nu|nul|N|Na|-?I\w{0,6}|\\?u[0-9a-fA-F]{0,3})\Z"
)


def load_json(data: bytes) -> tuple[Any, bytes]:
    """Parse ``data`` and give its canonical bytes too, which digests are made of.

    :raises InvalidDocument: empty, not UTF-8, truncated, invalid, NaN or infinite,
        NUL, lone surrogates, duplicate keys, or nested deeper than 254 levels
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _diagnose(data, str(error))
    try:
        canonical = canonical_json(value)
    except TypeError:  # orjson writes 254 levels and reads 1024
        raise _too_deep() from None
    if b"\\u0000" in canonical:
        _refuse_nul(value)
    refuse_repeated_keys(data, canonical)
    return value, canonical


def _refuse_nul(value: Any) -> None:
    """Look closer: an escaped backslash before ``u0000`` is no NUL."""
    for at, inner in walk(value):
        if isinstance(inner, str) and "\0" in inner:
            # A key may be the culprit, and the path is stored where NUL cannot be.
            raise InvalidDocument(
                Reason.NUL_CHARACTER, "text holds a NUL", field=at.replace("\0", "\\u0000")
            )


def _diagnose(data: bytes, cause: str) -> NoReturn:
    """Say why ``data`` is no JSON that we take.

    :param cause: what the fast parser said
    """
    text = _decoded(data)
    if not text.strip():
        raise InvalidDocument(Reason.EMPTY_FILE, "nothing in it")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InvalidDocument(Reason.NUL_CHARACTER, f"a NUL byte in line {line}")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise _invalid(text, error) from None
    except ValueError:  # more digits than int() takes
        raise InvalidDocument(Reason.INFINITE, "a number with thousands of digits") from None
    for at, inner in walk(value):
        if isinstance(inner, str) and _has_surrogate(inner):
            field = at.encode("utf-8", "backslashreplace").decode()
            raise InvalidDocument(Reason.LONE_SURROGATE, "half a surrogate pair", field=field)
    raise InvalidDocument(Reason.INVALID_JSON, cause)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        where = error.start
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise InvalidDocument(Reason.NOT_UTF8, f"byte {where} is not UTF-8") from None
    raise InvalidDocument(Reason.LONE_SURROGATE, f"a surrogate at byte {where}")


def _invalid(text: str, error: json.JSONDecodeError) -> InvalidDocument:
    rest = text[error.pos :].rstrip()
    ended = not rest or error.msg.startswith("Unterminated string") or _CUT_SHORT.match(rest)
    if ended:
        return InvalidDocument(
            Reason.TRUNCATED_JSON, f"ends in the middle, at line {error.lineno}: {error.msg}"
        )
    return InvalidDocument(
        Reason.INVALID_JSON, f"line {error.lineno}, column {error.colno}: {error.msg}"
    )


def _refuse_constant(constant: str) -> NoReturn:
    reason = Reason.NOT_A_NUMBER if constant == "NaN" else Reason.INFINITE
    raise InvalidDocument(reason, f"{constant} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise InvalidDocument(Reason.INFINITE, f"{text[:40]} is too large for a number")
    return number


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _too_deep() -> InvalidDocument:
    return InvalidDocument(Reason.NESTED_TOO_DEEP, "nested deeper than 254 levels")
