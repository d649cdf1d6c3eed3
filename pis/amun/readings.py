"""The measurements that a job printed, and why it has none: judged as ingest will judge them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from common.job_stability import JobConditions, instability
from common.reasons import Instability
from common.units import (
    SPOKEN,
    UNITS,
    Unit,
    duration_fault,
    rate_fault,
)
from pis.amun.output import unparsed_because

_DEFAULT_UNIT = SPOKEN[Unit.FLOP_PER_SECOND].name
_MATRIX_SIZE = re.compile(r"[1-9][0-9]{0,6}\Z")
#: Longer names would not fit an index of the record.
_NAME_CHARACTERS = 500


class _NoResult(Exception):
    """A result that cannot be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Readings:
    """What a job measured.

    :param rates: in the order in which they were printed, each in its unit
    :param units: as documents say them, such as ``GFLOPS``
    :param unstable: of each, why comparisons will leave it out; ``None`` if they will not
    :param fault: why there are none; ``None`` if there are, and of a job that came to a bad end
    """

    rates: tuple[float, ...] = ()
    units: tuple[str, ...] = ()
    unstable: tuple[Instability | None, ...] = ()
    fault: str | None = None


def readings_of(result: Mapping[str, Any]) -> Readings:
    """What the job measured whose result document this is."""
    if result.get("exit_code") != 0 or result.get("ended", "exited") != "exited":
        return Readings()
    stdout, cut = result.get("stdout"), result.get("truncated")
    try:
        if not isinstance(stdout, Mapping) or not stdout:
            truncated = isinstance(cut, Mapping) and cut.get("stdout") is True
            raise _NoResult(unparsed_because(stdout or "", truncated=truncated))
        for key in ("name", "component"):
            _name(stdout.get(key), key)
        rates, units, repetitions = zip(*_measurements(stdout), strict=True)
    except _NoResult as fault:
        return Readings(fault=str(fault))
    conditions = _conditions(result)
    return Readings(rates, units, tuple(instability(it, conditions) for it in repetitions))


def _conditions(result: Mapping[str, Any]) -> JobConditions:
    """What the machine reported while the job ran whose result document this is."""
    usage, seen = (_object(result.get(key)) for key in ("usage", "conditions"))
    return JobConditions(
        throttled=seen.get("throttled") is True,
        swapped=seen.get("swapped") is True or (usage.get("ru_nswap") or 0) > 0,
        steal_share=seen.get("steal_share") or 0.0,
    )


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


#: Rate, unit and repetitions.
_Measurement = tuple[float, str, tuple[float, ...]]


def _measurements(stdout: Mapping[str, Any]) -> Iterator[_Measurement]:
    several, one = stdout.get("@results"), stdout.get("@result")
    if several is not None and one is not None:
        raise _NoResult("both @result and @results: which is it?")
    if several is not None:
        entries = _list(several, "@results")
        parts = [_record("" if it is None else it, "an entry of @results") for it in entries]
        found = [_measurement(it) for it in parts if _record(it.get("@result"), "@result")]
    elif one is not None:
        found = [_measurement(stdout)] if _record(one, "@result") else []
    else:
        sizes = [key for key in stdout if _MATRIX_SIZE.match(key)]
        found = [_of_size(_record(stdout[key], key)) for key in sizes]
        if not sizes:
            raise _NoResult("the object has no @result")
    if not found:
        raise _NoResult("its @result is empty")
    yield from found


def _measurement(part: Mapping[str, Any]) -> _Measurement:
    """The measurement in ``{"@parameters": {…}, "@result": {…}}``."""
    result = _record(part.get("@result"), "@result")
    parameters = _record(part.get("@parameters"), "@parameters")
    _name(parameters.get("device"), "@parameters.device")
    unit = _name(result.get("unit"), "unit") or _DEFAULT_UNIT
    if unit not in UNITS:
        raise _NoResult(f"the unit {unit[:40]!r} is none of {', '.join(UNITS)}")
    rate = _rate(result, unit)
    _duration(result.get("elapsed"), "elapsed")
    repetitions = _list(result.get("repetitions"), "repetitions")
    for value in repetitions:
        _duration(0.0 if value is None else value, "repetitions")
    return rate, unit, tuple(float(it) for it in repetitions)


def _of_size(entry: Mapping[str, Any]) -> _Measurement:
    """Of what one historic script printed for each size of its matrices."""
    rate = _rate(entry, _DEFAULT_UNIT)
    _duration(entry.get("elapsed_ms"), "elapsed_ms")
    return rate, _DEFAULT_UNIT, ()


def _rate(result: Mapping[str, Any], unit: str) -> float:
    if result.get("rate") is None:
        raise _NoResult("a measurement without its rate")
    rate = _number(result["rate"], "rate")
    fault = rate_fault(rate * SPOKEN[UNITS[unit]].factor, UNITS[unit])
    if fault is not None:
        raise _NoResult(fault[1])
    return rate


def _duration(value: Any, name: str) -> None:
    fault = None if value is None else duration_fault(_number(value, name))
    if fault is not None:
        raise _NoResult(f"{name}: {fault}")


def _number(value: Any, name: str) -> float:
    if type(value) not in (int, float):
        raise _NoResult(f"{name}: a number was expected")
    return float(value)


def _record(value: Any, name: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _NoResult(f"{name}: an object was expected")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _NoResult(f"{name}: a list was expected")
    return value


def _name(value: Any, name: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _NoResult(f"{name}: text was expected")
    if len(value) > _NAME_CHARACTERS:
        raise _NoResult(f"{name}: longer than {_NAME_CHARACTERS} characters")
    return value or None
