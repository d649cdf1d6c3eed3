"""What a script printed: measurements in fixed units, from both ways they were written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from common.errors import InvalidDocument
from common.formats.fields import (
    Record,
    as_number,
    as_record,
    list_of,
    path,
    record_of,
    text_of,
)
from common.reasons import Correction, Reason
from common.units import (
    SECONDS_PER_MS,
    SPOKEN,
    UNITS,
    Unit,
    duration_fault,
    matmul_operations,
    matmul_operations_of_2019,
    rate_fault,
)

#: How near a reported number of operations must come to a formula to prove it.
_PROOF = 1e-3
_SIZE = re.compile(r"[1-9][0-9]{0,6}\Z")
_SET_TO = re.compile(r"^(DTYPE|DEVICE|REPS) set to (\S{1,40})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One result of a script: duration in seconds, rate in ``unit``.

    :param at: JSON path of the result, for messages
    :param parameters_at: that of its parameters
    """

    parameters: Record
    rate: float
    elapsed_s: float | None
    at: str
    repetitions_s: tuple[float, ...] = field(default=())
    unit: Unit = Unit.FLOP_PER_SECOND
    parameters_at: str = "$"


def measurements_of(stdout: Any, stderr: str, at: str) -> list[Measurement]:
    """The measurements on standard output; none if it holds something else.

    :param at: JSON path of ``stdout``
    """
    if not isinstance(stdout, dict):
        return []
    if stdout.get("@results") is not None:
        return _of_results(stdout, at)
    if stdout.get("@result") is not None:
        return _of_result(stdout, at)
    return _by_size(stdout, stderr, at)


def _of_results(stdout: Record, at: str) -> list[Measurement]:
    """``{"@results": [{"@parameters": {…}, "@result": {…}}, …]}`` of a script with several."""
    where = path(at, "@results")
    if stdout.get("@result") is not None:
        raise InvalidDocument(
            Reason.CONFLICTING_FIELDS, "both @result and @results: which is it?", field=where
        )
    measurements = []
    for index, entry in enumerate(list_of(stdout, "@results", at)):
        inner = path(where, index)
        measurements += _of_result(as_record(entry, inner), inner)
    return measurements


def _of_result(printed: Record, at: str) -> list[Measurement]:
    """``{"@parameters": {…}, "@result": {"elapsed": ms, "rate": GFLOPS}}``, since 2020.

    Where it names another unit, the rate is in that.
    """
    result_at = path(at, "@result")
    result = record_of(printed, "@result", at)
    if not result:
        return []
    unit = _unit(result, result_at)
    return [
        Measurement(
            record_of(printed, "@parameters", at),
            _rate(result, "rate", result_at, unit),
            _elapsed_s(result, "elapsed", result_at),
            result_at,
            _repetitions_s(result, result_at),
            unit,
            path(at, "@parameters"),
        )
    ]


def _by_size(stdout: Record, stderr: str, at: str) -> list[Measurement]:
    """``{"256": {"elapsed_ms": …, "rate": …}, …}`` of 2019; the rest stood on standard error."""
    sizes = sorted((key for key in stdout if _SIZE.match(key)), key=int)
    if not sizes:
        return []
    said = dict(_SET_TO.findall(stderr))
    common: Record = {name.lower(): said[name] for name in ("DTYPE", "DEVICE") if name in said}
    if _SIZE.match(said.get("REPS", "")):
        common["reps"] = int(said["REPS"])
    measurements = []
    for size in sizes:
        where = path(at, size)
        entry = as_record(stdout[size], where)
        measurements.append(
            Measurement(
                {**common, "matrix_size": int(size)},
                _rate(entry, "rate", where),
                _elapsed_s(entry, "elapsed_ms", where),
                where,
            )
        )
    return measurements


def checked_rate(rate: float, field: str, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """``rate`` if a device could have reached it."""
    fault = rate_fault(rate, unit)
    if fault is not None:
        reason, words = fault
        raise InvalidDocument(reason, words, field=field)
    return rate


def _unit(result: Record, at: str) -> Unit:
    """The unit that the rate is said in; GFLOPS where nothing else is, as it always was."""
    said = text_of(result, "unit", at)
    if said is None:
        return Unit.FLOP_PER_SECOND
    if said not in UNITS:
        known = ", ".join(UNITS)
        raise InvalidDocument(
            Reason.UNKNOWN_UNIT, f"{said[:40]!r} is none of {known}", field=path(at, "unit")
        )
    return UNITS[said]


def _rate(record: Record, key: str, at: str, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """The rate in whole units, which the document says in multiples of them."""
    field = path(at, key)
    if record.get(key) is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "a measurement without its rate", field=field)
    said = as_number(record[key], field, float("-inf"), float("inf"))
    return checked_rate(said * SPOKEN[unit].factor, field, unit)


def _elapsed_s(record: Record, key: str, at: str) -> float | None:
    value = record.get(key)
    return None if value is None else _duration_s(value, path(at, key))


def _repetitions_s(result: Record, at: str) -> tuple[float, ...]:
    where = path(at, "repetitions")
    values = list_of(result, "repetitions", at)
    return tuple(_duration_s(value, path(where, index)) for index, value in enumerate(values))


def _duration_s(value: Any, field: str) -> float:
    """Milliseconds as seconds."""
    duration_ms = as_number(value, field, float("-inf"), float("inf"))
    fault = duration_fault(duration_ms)
    if fault is not None:
        raise InvalidDocument(Reason.OUT_OF_RANGE, fault, field=field)
    return duration_ms * SECONDS_PER_MS


def corrected_rate(
    name: str, component: str | None, measurement: Measurement
) -> tuple[float, Correction | None]:
    """The rate, mended where the reported one provably comes from a known wrong formula.

    Proof is that rate × elapsed gives the wrong number of operations within 0.1 %
    and not the right one. Without it the rate stays what the document said.

    >>> parameters = {"matrix_size": 512, "mini_batch": 40}
    >>> wrong = matmul_operations_of_2019(512, 40)
    >>> corrected_rate("PiMatmul", "tensorflow", Measurement(parameters, wrong, 1.0, "$"))
    (10726932480.0, <Correction.TENSORFLOW_MATMUL_MINI_BATCH: 'tensorflow-matmul-mini-batch'>)
    """
    size = measurement.parameters.get("matrix_size")
    batch = measurement.parameters.get("mini_batch")
    elapsed_s = measurement.elapsed_s
    if (name, component) != ("PiMatmul", "tensorflow") or elapsed_s is None:
        return measurement.rate, None
    if not (_is_count(size) and _is_count(batch)) or batch < 2:
        return measurement.rate, None
    done = measurement.rate * elapsed_s
    right, wrong = matmul_operations(size, batch), matmul_operations_of_2019(size, batch)
    if abs(done - right) <= _PROOF * right or abs(done - wrong) > _PROOF * wrong:
        return measurement.rate, None
    mended = checked_rate(right / elapsed_s, path(measurement.at, "rate"))
    return mended, Correction.TENSORFLOW_MATMUL_MINI_BATCH


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value < 10**7
