"""The output of a job and its measurements.

Output is kept as JSON if all parsers agree on its meaning, and otherwise as text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from common.formats.job_results import measurements_of, run_of
from model.errors import InvalidDocument, Reason
from model.json_documents import canonical_json, load_json
from model.json_fields import ROOT, Fields
from model.measurements.job_stability import Instability, instability
from model.measurements.units import DISPLAY_UNITS

#: Characters of an offending line in a message.
_QUOTED = 60
#: Maximum lines of standard error in a message.
_MOST_LINES = 10
_NO_OUTPUT = "nothing, or an empty object"


def parsed_output(data: bytes, *, truncated: bool = False) -> Any:
    """Parse standard output if it is one unambiguous JSON object, else return it as text.

    >>> parsed_output(b'{"a": 1}'), parsed_output(b"NaN"), parsed_output(b"")
    ({'a': 1}, 'NaN', {})
    """
    text = decode_output(data)
    if not text.strip():
        return {}
    try:
        return text if truncated else _object_of(text)
    except InvalidDocument:
        return text


def parse_fault(text: Any, *, truncated: bool = False) -> str:
    """Explain to a person why :func:`parsed_output` kept the output as text.

    >>> parse_fault(""), parse_fault("NaN")
    ('nothing, or an empty object', 'NaN is not a number of JSON')
    """
    if truncated:
        return "standard output is longer than the limit and was cut"
    if not isinstance(text, str) or not text.strip():
        return _NO_OUTPUT
    try:
        _object_of(text)
    except InvalidDocument as refusal:
        error = refusal.__cause__
        if not isinstance(error, json.JSONDecodeError):
            return refusal.message
        several = error.msg == "Extra data"
        message = "more than one JSON document" if several else f"not JSON: {error.msg}"
        line = error.doc.split("\n")[error.lineno - 1]
        begin = max(0, error.colno - _QUOTED // 2)
        quoted = f" in {line[begin : begin + _QUOTED]!r}" if line else ""
        return f"{message}: line {error.lineno}, column {error.colno}{quoted}"
    return _NO_OUTPUT


def _object_of(text: str) -> dict[str, Any]:
    """Parse ``text`` as one JSON object.

    :raises InvalidDocument: if parsers read it differently, or it is not an object
    """
    load_json(text.encode())
    try:
        # Ingest's parser would round a whole number of more than 64 bits, or reject the whole
        # result because of a value that it cannot read.
        value = json.loads(text)
        canonical_json({"stdout": value})
    except (TypeError, ValueError) as error:
        raise InvalidDocument(Reason.OUT_OF_RANGE, str(error)) from None
    if not isinstance(value, dict):
        raise InvalidDocument(Reason.WRONG_TYPE, "JSON, but not an object")
    return value


def decode_output(data: bytes) -> str:
    """Decode as UTF-8, and escape invalid bytes as well as NUL, which databases cannot store."""
    return data.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


@dataclass(frozen=True, slots=True)
class Readings:
    """The measurements of a job.

    :param rates: in the order of the output
    :param units: unit of each rate as documents write it, such as ``GFLOPS``
    :param unstable: for each rate, why comparisons exclude it; ``None`` if they use it
    :param fault: why a job that ended normally has no measurement
    """

    rates: tuple[float, ...] = ()
    units: tuple[str, ...] = ()
    unstable: tuple[Instability | None, ...] = ()
    fault: str | None = None


def readings_of(result: Mapping[str, Any]) -> Readings:
    """Return the measurements in the result document of a job."""
    if result.get("exit_code") != 0 or result.get("ended", "exited") != "exited":
        return Readings()
    stdout, truncations = result.get("stdout"), result.get("truncated")
    if not isinstance(stdout, dict) or not stdout:
        truncated = isinstance(truncations, Mapping) and truncations.get("stdout") is True
        return Readings(fault=parse_fault(stdout or "", truncated=truncated))
    try:
        for key in ("name", "component"):
            Fields(stdout).text(key)
        measurements = measurements_of(stdout, "", ROOT)
        for measurement in measurements:
            measurement.parameters.text("device")
        conditions = run_of(Fields(dict(result))).conditions
    except InvalidDocument as error:
        return Readings(fault=f"{error.field}: {error.message}")
    if not measurements:
        is_empty = stdout.keys() & {"@result", "@results"}
        return Readings(fault="its @result is empty" if is_empty else "the object has no @result")
    return Readings(
        tuple(it.printed_rate for it in measurements),
        tuple(DISPLAY_UNITS[it.unit].name for it in measurements),
        tuple(instability(it.repetitions_s, conditions) for it in measurements),
    )


def error_lines(result: Mapping[str, Any]) -> list[str]:
    """The last lines that a job printed on standard error, without empty ones."""
    return [it for it in str(result.get("stderr", "")).splitlines() if it.strip()][-_MOST_LINES:]


def duration_s(result: Mapping[str, Any]) -> float:
    """Seconds from the start of a job to its end; 0 if the result does not say."""
    try:
        start, end = (
            datetime.fromisoformat(result[it]) for it in ("start_datetime", "end_datetime")
        )
    except (KeyError, TypeError, ValueError):
        return 0.0
    return max(0.0, (end - start).total_seconds())
