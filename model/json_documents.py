"""Strict JSON: canonical bytes, digests, and refusal of documents that parsers read differently.

:func:`load_json` refuses repeated keys, NUL characters, lone surrogates and numbers that are not
finite. The fast path parses and dumps the document once with orjson, and makes a few counts over
the bytes. Only a document that fails one of these steps is read again, slowly, to find out what is
wrong and where.
"""

import codecs
import hashlib
import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NoReturn

import orjson

from model.errors import InvalidDocument, Reason
from model.json_fields import ROOT, FieldPath


def refuse_repeated_keys(data: bytes, canonical: bytes) -> None:
    """Refuse a document that repeats a key in an object, because parsers read it differently.

    :param data: a valid JSON document
    :param canonical: its parsed value as canonical JSON
    :raises InvalidDocument: ``duplicate_key``, with the path of the first such key
    """
    # The parser keeps only one of two equal keys, so the canonical bytes have one colon fewer. Both
    # forms contain the colons inside texts. The canonical form unescapes colons, and an unescaped
    # colon could hide a missing one.
    if data.count(b":") == canonical.count(b":") and b"\\u003" not in data:
        return
    for at, value in walk(json.loads(data, object_pairs_hook=_object)):
        if isinstance(value, _ObjectWithRepeats) and value.duplicate is not None:
            raise InvalidDocument(
                Reason.DUPLICATE_KEY,
                f"the key {value.duplicate[:80]!r} occurs twice",
                field=at / value.duplicate,
            )


def walk(value: Any, at: FieldPath = ROOT) -> Iterator[tuple[FieldPath, Any]]:
    """Every value with its path, outer values first; keys are yielded as texts, too."""
    pending = [(at, value)]
    while pending:
        at, value = pending.pop()
        yield at, value
        if isinstance(value, dict):
            pending.extend((at / key, inner) for key, inner in reversed(value.items()))
            yield from ((at / key, key) for key in value)
        elif isinstance(value, list):
            pending.extend((at / i, value[i]) for i in reversed(range(len(value))))


class _ObjectWithRepeats(dict[str, Any]):
    """An object that remembers its first repeated key."""

    duplicate: str | None = None


def _object(pairs: list[tuple[str, Any]]) -> _ObjectWithRepeats:
    made = _ObjectWithRepeats(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                made.duplicate = key
                break
            seen.add(key)
    return made


def finite_or_none(value: float) -> float | None:
    """``value`` as JSON can have it: ``None`` for NaN and infinity.

    >>> finite_or_none(1.5), finite_or_none(float("nan")), finite_or_none(float("-inf"))
    (1.5, None, None)
    """
    return float(value) if math.isfinite(value) else None


def canonical_json(value: Any) -> bytes:
    """Canonical JSON for digests: sorted keys, no spaces."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: Any) -> str:
    """``sha256:…`` of the canonical JSON of ``value``."""
    return digest_bytes(canonical_json(value))


def digest_bytes(data: bytes) -> str:
    """``sha256:…`` of ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


#: Nesting of tables and lists; real files and requests stay far below.
MAX_DEPTH = 100
#: Stores hold numbers of 64 bits.
_LIMIT = 2**63
#: NUL, and halves of surrogate pairs, which UTF-8 cannot encode.
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHOWN = 80


def out_of_bounds(value: Any) -> tuple[str, str] | None:
    """Path and message of the first value that cannot be stored, or ``None``.

    >>> out_of_bounds({"a": [1, 2**63]})
    ('a[1]', 'is no number of 64 bits')
    >>> out_of_bounds({"a": [1, "b"]})
    """
    fault = _fault_below(value, 0)
    if fault is None:
        return None
    keys, message = fault
    at = "".join(f"[{key}]" if isinstance(key, int) else f".{key[:_SHOWN]}" for key in keys[::-1])
    at = at.removeprefix(".")
    return (at if len(at) <= _SHOWN else f"{at[:_SHOWN]}…"), message


def _fault_below(value: Any, depth: int) -> tuple[list[str | int], str] | None:
    """The keys on the path to the first fault, innermost first, and the fault's message."""
    message = _fault_of(value, depth)
    if message is not None:
        return [], message
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if (fault := _fault_below(inner, depth + 1)) is not None:
                fault[0].append(key)
                return fault
    return None


def _fault_of(value: Any, depth: int) -> str | None:
    """The fault of a value itself, apart from the values inside it."""
    if isinstance(value, str):
        return f"has {_unstorable(value)} in it" if _UNSTORABLE.search(value) else None
    if isinstance(value, (int, float)):
        # NaN fails the comparison, too.
        return None if -_LIMIT <= value < _LIMIT else "is no number of 64 bits"
    if isinstance(value, (dict, list)) and depth == MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict) and (keys := list(filter(_UNSTORABLE.search, value))):
        return f"has a key with {_unstorable(keys[0])} in it"
    return None


def _unstorable(text: str) -> str:
    return "a NUL character" if "\0" in text else "half a surrogate pair"


def fault_in(error: Exception) -> str:
    """Explain an error of reading a document to a person who does not know Python.

    >>> fault_in(KeyError("nodes"))
    "it has no 'nodes'"
    """
    if isinstance(error, orjson.JSONDecodeError):
        return f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
    if isinstance(error, KeyError) and error.args:
        return f"it has no {error.args[0]!r}"
    return "a value in it has the wrong type"


#: A JSON text, which is kept, or a number that JSON does not have.
_TEXT_OR_CONSTANT = re.compile(rb'("(?:[^"\\]|\\.)*")|-?(?:NaN|Infinity)')
#: The rest of a text that ends inside a literal, a number or an escape.
_CUT_SHORT = re.compile(
    r"(-|-?\.|\.|[eE][+-]?|t|tr|tru|f|fa|fal|fals|n|nu|nul|N|Na|-?I\w{0,6}|\\?u[0-9a-fA-F]{0,3})\Z"
)


def load_json(data: bytes, parsed: Any = None) -> tuple[Any, bytes]:
    """Parse ``data``; returns the value and its canonical JSON, from which digests are computed.

    :param parsed: the value of ``data``, if orjson has parsed it before
    :raises InvalidDocument: empty, not UTF-8, truncated, invalid, NaN or infinite,
        NUL, lone surrogates, duplicate keys, or nested deeper than 254 levels
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        value = parsed or orjson.loads(data)
    except orjson.JSONDecodeError as error:
        _diagnose(data, str(error))
    try:
        canonical = canonical_json(value)
    except TypeError:  # orjson writes 254 levels and reads 1024
        raise _too_deep() from None
    if b"\\u0000" in canonical:
        # ``u0000`` after an escaped backslash is not a NUL.
        for at, inner in walk(value):
            if isinstance(inner, str) and "\0" in inner:
                # The NUL may be in a key, and the path is stored where NUL is not allowed.
                field = at.replace("\0", "\\u0000")
                raise InvalidDocument(Reason.NUL_CHARACTER, "text holds a NUL", field=field)
    refuse_repeated_keys(data, canonical)
    return value, canonical


def json_value_of(data: bytes) -> Any:
    """The JSON value in ``data``; NaN and infinity, which Python writes, become ``None``.

    >>> json_value_of(b'{"NaN": [NaN, -Infinity, 1]}')
    {'NaN': [None, None, 1]}
    >>> json_value_of(b"Infinity") is None
    True

    :raises InvalidDocument: if it is not JSON
    """
    try:
        return load_json(data)[0]
    except InvalidDocument as error:
        if error.reason not in (Reason.NOT_A_NUMBER, Reason.INFINITE):
            raise
    return load_json(_TEXT_OR_CONSTANT.sub(lambda match: match[1] or b"null", data))[0]


def _diagnose(data: bytes, cause: str) -> NoReturn:
    """Raise an error that says why ``data`` is refused.

    :param cause: message of the fast parser
    """
    text = _decoded_json(data)
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
        raise _invalid(text, error) from error
    except ValueError:  # more digits than int() takes
        raise InvalidDocument(Reason.INFINITE, "a number with thousands of digits") from None
    for at, inner in walk(value):
        if isinstance(inner, str) and any("\ud800" <= it <= "\udfff" for it in inner):
            field = at.encode("utf-8", "backslashreplace").decode()
            raise InvalidDocument(Reason.LONE_SURROGATE, "half a surrogate pair", field=field)
    raise InvalidDocument(Reason.INVALID_JSON, cause)


def _decoded_json(data: bytes) -> str:
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
        last_line = text.count("\n") + 1
        return InvalidDocument(
            Reason.TRUNCATED_JSON, f"the text ends in line {last_line}, before the document does"
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


def _too_deep() -> InvalidDocument:
    return InvalidDocument(Reason.NESTED_TOO_DEEP, "nested deeper than 254 levels")


def as_json_time(moment: datetime | None) -> str | None:
    """A time as text for documents: UTC with microseconds and a ``Z``."""
    if moment is None:
        return None
    # Measured: four times as fast as strftime, which writes the year 999 with three digits.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
