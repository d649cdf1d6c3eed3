"""The output of a job (JSON if every parser reads it alike, else text) and its measurements."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from common.errors import InvalidDocument
from common.formats.fields import text_of
from common.formats.job_results import measurements_of, run_of
from common.job_stability import instability
from common.reasons import Instability
from common.units import SPOKEN

_NOTHING = "nothing, or an empty object"


def parsed_output(data: bytes, *, truncated: bool = False) -> Any:
    """Standard output parsed if it is JSON that every parser reads alike, else as text.

    >>> parsed_output(b'{"a": 1}'), parsed_output(b"NaN"), parsed_output(b"")
    ({'a': 1}, 'NaN', {})
    """
    text = decoded(data)
    if not text.strip():
        return {}
    try:
        return text if truncated else _object_of(text)
    except ValueError:
        return text


def unparsed_because(text: Any, *, truncated: bool = False) -> str:
    """Why what a job printed was kept as text, for a person.

    >>> unparsed_because(""), unparsed_because("NaN")
    ('nothing, or an empty object', 'NaN is no number of JSON')
    """
    if truncated:
        return "more than is kept of standard output"
    if not isinstance(text, str) or not text.strip():
        return _NOTHING
    try:
        _object_of(text)
    except json.JSONDecodeError as error:
        more = error.msg == "Extra data"
        words = "more than one JSON document" if more else f"not JSON: {error.msg}"
        return f"{words}: line {error.lineno}, column {error.colno}"
    except ValueError as error:
        return str(error)
    return _NOTHING


def _object_of(text: str) -> dict[str, Any]:
    """The one JSON object that ``text`` is.

    :raises ValueError: if parsers would not agree on it, for a person
    """
    if "\\u0000" in text:
        raise ValueError("text with a NUL")
    try:
        value = json.loads(
            text,
            parse_constant=_refuse,
            parse_float=_finite,
            object_pairs_hook=_without_repetition,
        )
        # What ingest's parser refuses would take the whole result with it.
        orjson.dumps({"stdout": value})
    except RecursionError:
        raise ValueError("nested too deep") from None
    except TypeError as error:
        words = "nested too deep" if "ecursion" in str(error) else str(error)
        raise ValueError(words) from None
    if not isinstance(value, dict):
        raise ValueError("JSON, but no object")
    return value


def decoded(data: bytes) -> str:
    """As UTF-8; what is none is escaped, and so is NUL, which stores cannot hold."""
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large for a number")
    return number


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key twice")
    return made


@dataclass(frozen=True, slots=True)
class Readings:
    """The measurements of a job.

    :param rates: in the order in which they were printed, each in its unit
    :param units: as documents write them, such as ``GFLOPS``
    :param unstable: for each, why comparisons leave it out; ``None`` if they use it
    :param fault: why a job that ended normally has no measurement
    """

    rates: tuple[float, ...] = ()
    units: tuple[str, ...] = ()
    unstable: tuple[Instability | None, ...] = ()
    fault: str | None = None


def readings_of(result: Mapping[str, Any]) -> Readings:
    """The measurements in the result document of a job."""
    if result.get("exit_code") != 0 or result.get("ended", "exited") != "exited":
        return Readings()
    stdout, cut = result.get("stdout"), result.get("truncated")
    if not isinstance(stdout, dict) or not stdout:
        truncated = isinstance(cut, Mapping) and cut.get("stdout") is True
        return Readings(fault=unparsed_because(stdout or "", truncated=truncated))
    try:
        for key in ("name", "component"):
            text_of(stdout, key, "$")
        measurements = measurements_of(stdout, "", "$")
        for it in measurements:
            text_of(it.parameters, "device", it.parameters_at)
        conditions = run_of(dict(result)).conditions
    except InvalidDocument as error:
        return Readings(fault=f"{error.field}: {error.message}")
    if not measurements:
        given = stdout.keys() & {"@result", "@results"}
        return Readings(fault="its @result is empty" if given else "the object has no @result")
    return Readings(
        tuple(it.printed_rate for it in measurements),
        tuple(SPOKEN[it.unit].name for it in measurements),
        tuple(instability(it.repetitions_s, conditions) for it in measurements),
    )
