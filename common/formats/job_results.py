"""Results of jobs: measurements on standard output, and conditions that the runner recorded.

Only the executor of this project writes the conditions, in documents that have a
``document_version``. In other documents, fields with the same names have other meanings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from model.errors import InvalidDocument
from model.json_fields import (
    Record,
    as_number,
    as_record,
    flag_of,
    integer_of,
    list_of,
    number_of,
    path,
    record_of,
    text_of,
    wrong_type,
)
from model.measurements.hardware import Allowance
from model.measurements.host_problems import is_host_end
from model.measurements.job_stability import JobConditions
from model.measurements.units import (
    DISPLAY_UNITS,
    SECONDS_PER_MS,
    THREAD_VARIABLES,
    UNITS,
    Unit,
    duration_fault,
    matmul_operations,
    matmul_operations_of_2019,
    rate_fault,
)
from model.reasons import Correction, Reason

#: Relative tolerance within which a reported operation count proves a formula.
_TOLERANCE = 1e-3
_SIZE = re.compile(r"[1-9][0-9]{0,6}\Z")
_SET_TO = re.compile(r"^(DTYPE|DEVICE|REPS) set to (\S{1,40})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One result of a script: duration in seconds, rate in ``unit``.

    :param at: JSON path of the result, for messages
    :param parameters_at: JSON path of its parameters
    :param printed_rate: the rate as it was printed, in a multiple of ``unit`` such as GFLOPS
    :param calls: number of calls that a repetition timed together
    """

    parameters: Record
    rate: float
    elapsed_s: float | None
    at: str
    repetitions_s: tuple[float, ...] = field(default=())
    unit: Unit = Unit.FLOP_PER_SECOND
    parameters_at: str = "$"
    printed_rate: float = 0.0
    calls: int = 1


def measurements_of(stdout: Any, stderr: str, at: str) -> list[Measurement]:
    """The measurements on standard output; empty if it has none.

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
    """Several results: ``{"@results": [{"@parameters": {…}, "@result": {…}}, …]}``."""
    where = path(at, "@results")
    if stdout.get("@result") is not None:
        raise InvalidDocument(
            Reason.CONFLICTING_FIELDS, "both @result and @results: only one is allowed", field=where
        )
    measurements = []
    for index, entry in enumerate(list_of(stdout, "@results", at)):
        inner = path(where, index)
        measurements += _of_result(as_record(entry, inner), inner)
    return measurements


def _of_result(printed: Record, at: str) -> list[Measurement]:
    """The format since 2020: ``{"@parameters": {…}, "@result": {"elapsed": ms, "rate": GFLOPS}}``.

    A ``unit`` in the result replaces GFLOPS.
    """
    result_at = path(at, "@result")
    result = record_of(printed, "@result", at)
    if not result:
        return []
    unit = _unit(result, result_at)
    return [
        Measurement(
            record_of(printed, "@parameters", at),
            _rate(result, result_at, unit),
            _elapsed_s(result, "elapsed", result_at),
            result_at,
            _repetitions_s(result, result_at),
            unit,
            path(at, "@parameters"),
            float(result["rate"]),
            _calls(result),
        )
    ]


def _calls(result: Record) -> int:
    calls = result.get("calls_per_repetition")
    return calls if type(calls) is int and 0 < calls < _INT32 else 1


def _by_size(stdout: Record, stderr: str, at: str) -> list[Measurement]:
    """The format of 2019: ``{"256": {"elapsed_ms": …, "rate": …}, …}``.

    Data type, device and repetitions were printed on standard error.
    """
    sizes = sorted((key for key in stdout if _SIZE.match(key)), key=int)
    if not sizes:
        return []
    printed = dict(_SET_TO.findall(stderr))
    common: Record = {
        name.lower(): printed[name] for name in ("DTYPE", "DEVICE") if name in printed
    }
    if _SIZE.match(printed.get("REPS", "")):
        common["reps"] = int(printed["REPS"])
    measurements = []
    for size in sizes:
        where = path(at, size)
        entry = as_record(stdout[size], where)
        measurements.append(
            Measurement(
                {**common, "matrix_size": int(size)},
                _rate(entry, where),
                _elapsed_s(entry, "elapsed_ms", where),
                where,
                printed_rate=float(entry["rate"]),
            )
        )
    return measurements


def checked_rate(rate: float, field: str, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """``rate``, if it is plausible.

    :raises InvalidDocument: if no device can reach it
    """
    fault = rate_fault(rate, unit)
    if fault is not None:
        reason, message = fault
        raise InvalidDocument(reason, message, field=field)
    return rate


def _unit(result: Record, at: str) -> Unit:
    """The unit of the rate; by default FLOP/s, printed in GFLOPS."""
    name = text_of(result, "unit", at)
    if name is None:
        return Unit.FLOP_PER_SECOND
    if name not in UNITS:
        known = ", ".join(UNITS)
        raise InvalidDocument(
            Reason.UNKNOWN_UNIT, f"{name[:40]!r} is none of {known}", field=path(at, "unit")
        )
    return UNITS[name]


def _rate(record: Record, at: str, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """The rate in ``unit``; documents print it in multiples such as GFLOPS."""
    field = path(at, "rate")
    if record.get("rate") is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "a measurement without its rate", field=field)
    printed = as_number(record["rate"], field, float("-inf"), float("inf"))
    return checked_rate(printed * DISPLAY_UNITS[unit].factor, field, unit)


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
    """The rate, corrected if the document provably used a known wrong operation count.

    The proof is that rate × elapsed equals the wrong count within 0.1 %, and differs from the right
    count. Otherwise the rate is unchanged.

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
    if abs(done - right) <= _TOLERANCE * right or abs(done - wrong) > _TOLERANCE * wrong:
        return measurement.rate, None
    corrected = checked_rate(right / elapsed_s, path(measurement.at, "rate"))
    return corrected, Correction.TENSORFLOW_MATMUL_MINI_BATCH


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 < value < 10**7


DOCUMENT_VERSION = 1

_INT32 = 2**31 - 1

#: ``ended`` of a job that exited by itself.
_EXITED = "exited"


@dataclass(frozen=True, slots=True)
class JobRun:
    """How the runner executed a job; fields keep their default if nothing was recorded.

    :param ours: whether the executor of this project wrote the document
    :param block: identifies the jobs that ran interleaved with this one, if any
    :param ended: what ended the job from outside, if anything
    :param host_problem: whether the host ended it, which says nothing about the stack
    :param bundled: name of the indicator, if its script is bundled with this project
    :param inspection: identifier of its inspection
    :param load: load average of the minute before the job
    """

    ours: bool = False
    inspection: str | None = None
    bundled: str | None = None
    host: str | None = None
    block: str | None = None
    turn: int | None = None
    ended: str | None = None
    host_problem: bool = False
    steal_share: float | None = None
    throttled: bool | None = None
    swapped: bool | None = None
    load: float | None = None
    launcher: str | None = None
    conditions: JobConditions = field(default_factory=JobConditions)
    limits: Allowance | None = None


def run_of(result: Record) -> JobRun:
    """Read how the runner executed a job.

    :raises InvalidDocument: with fields relative to the result
    """
    usage = record_of(result, "usage", "$")
    swapped = (integer_of(usage, "ru_nswap", "$.usage", high=2**62) or 0) > 0
    if not is_ours(result):
        return JobRun(conditions=JobConditions(swapped=swapped))
    conditions = record_of(result, "conditions", "$")
    steal = number_of(conditions, "steal_share", "$.conditions", high=1.0)
    throttled = flag_of(conditions, "throttled", "$.conditions")
    swapped = swapped or flag_of(conditions, "swapped", "$.conditions")
    ended = text_of(result, "ended", "$")
    block, turn = _schedule(record_of(result, "schedule", "$"))
    return JobRun(
        ours=True,
        inspection=text_of(result, "inspection_id", "$"),
        bundled=_bundled(record_of(result, "script", "$")),
        host=text_of(result, "host", "$"),
        block=block,
        turn=turn,
        ended=None if ended == _EXITED else ended,
        host_problem=_ended_by_host(result, ended),
        steal_share=steal,
        throttled=throttled if conditions else None,
        swapped=swapped if conditions else None,
        load=_load(conditions),
        launcher=text_of(result, "launcher", "$"),
        conditions=JobConditions(throttled=throttled, swapped=swapped, steal_share=steal or 0.0),
        limits=_limits(result),
    )


def _ended_by_host(result: Record, ended: str | None) -> bool:
    """Whether the host ended the job; in documents of earlier releases, the job's exit decides."""
    if "host_problem" in result:
        return flag_of(result, "host_problem", "$")
    return is_host_end(ended, integer_of(result, "exit_code", "$", -_INT32, _INT32) or 0)


def is_ours(document: Record) -> bool:
    """Whether the executor of this project wrote ``document``.

    :raises InvalidDocument: if its version is unknown
    """
    version = document.get("document_version")
    if version is None:
        return False
    if version != DOCUMENT_VERSION or type(version) is not int:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA,
            f"document_version {str(version)[:40]!r} is not known; known is {DOCUMENT_VERSION}",
            field="$.document_version",
        )
    return True


def _bundled(script: Record) -> str | None:
    at = "$.script"
    return text_of(script, "name", at) if flag_of(script, "bundled", at) else None


def _schedule(schedule: Record) -> tuple[str | None, int | None]:
    """Block and turn of a job; only interleaved jobs have a block."""
    at = "$.schedule"
    run = text_of(schedule, "run", at, 100)
    block = integer_of(schedule, "block", at)
    turn = integer_of(schedule, "turn", at)
    interleaved = flag_of(schedule, "interleaved", at) and run is not None and block is not None
    return f"{run}:{block}" if interleaved else None, turn


def _load(conditions: Record) -> float | None:
    """Load average of the minute before the job, the first of three values."""
    at = "$.conditions.before"
    means = list_of(record_of(conditions, "before", "$.conditions"), "load", at)
    return as_number(means[0], path(at, "load"), 0.0, 1e9) if means else None


def _limits(result: Record) -> Allowance | None:
    at = "$.limits"
    limits = record_of(result, "limits", "$")
    if not limits:
        return None
    return Allowance(
        cpus=integer_of(limits, "cpus", at, low=1),
        cpu_quota=number_of(limits, "cpu_quota", at),
        threads=thread_variables(record_of(limits, "threads", at), path(at, "threads")),
    )


def thread_variables(variables: Record, at: str) -> dict[str, str]:
    """The variables that set the number of threads, as texts of at most 20 characters."""
    threads = {}
    for name in THREAD_VARIABLES:
        value = variables.get(name)
        if value is None:
            continue
        if type(value) is not int and not isinstance(value, str):
            raise wrong_type(value, "text", path(at, name))
        threads[name] = str(value)[:20]
    return threads
