"""Results of jobs: measurements on standard output, and conditions that the runner recorded.

Only the executor of this project writes the conditions, and it marks its documents with a
``document_version``. In other documents, fields of the same names have other meanings.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from common.errors import InvalidDocument
from common.formats.fields import (
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
from common.hardware import Allowance
from common.host_problems import is_host_end
from common.job_stability import JobConditions
from common.reasons import Correction, Reason
from common.units import (
    SECONDS_PER_MS,
    SPOKEN,
    THREAD_VARIABLES,
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
    :param parameters_at: JSON path of its parameters
    :param printed_rate: the rate as it was printed, in a multiple of ``unit`` such as GFLOPS
    """

    parameters: Record
    rate: float
    elapsed_s: float | None
    at: str
    repetitions_s: tuple[float, ...] = field(default=())
    unit: Unit = Unit.FLOP_PER_SECOND
    parameters_at: str = "$"
    printed_rate: float = 0.0


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
            _rate(result, result_at, unit),
            _elapsed_s(result, "elapsed", result_at),
            result_at,
            _repetitions_s(result, result_at),
            unit,
            path(at, "@parameters"),
            float(result["rate"]),
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
                _rate(entry, where),
                _elapsed_s(entry, "elapsed_ms", where),
                where,
                printed_rate=float(entry["rate"]),
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


def _rate(record: Record, at: str, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """The rate in ``unit``; documents print it in multiples such as GFLOPS."""
    field = path(at, "rate")
    if record.get("rate") is None:
        raise InvalidDocument(Reason.MISSING_FIELD, "a measurement without its rate", field=field)
    printed = as_number(record["rate"], field, float("-inf"), float("inf"))
    return checked_rate(printed * SPOKEN[unit].factor, field, unit)


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


DOCUMENT_VERSION = 1

_INT32 = 2**31 - 1

#: How a job ends that ended by itself.
_EXITED = "exited"


@dataclass(frozen=True, slots=True)
class JobRun:
    """The circumstances of a job; what was not recorded stays at its default.

    :param block: names the jobs that ran in turns with this one, if it was so
    :param ended: what ended the job, if not the job itself
    :param host_problem: whether the host ended it, so that it says nothing of the stack
    :param bundled: name of the indicator, if its script is one of the project's own
    :param inspection: identifier of the inspection that the job belongs to
    :param load: mean number of processes that wanted to run in the minute before the job
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
    """Read what the runner said of a job.

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
    """By the runner's mark; earlier releases made none."""
    if "host_problem" in result:
        return flag_of(result, "host_problem", "$")
    return is_host_end(ended, integer_of(result, "exit_code", "$", -_INT32, _INT32) or 0)


def is_ours(document: Record) -> bool:
    """Whether the executor of this project wrote ``document``.

    :raises InvalidDocument: if it did so in a version that is not known here
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
    """Block and turn; only jobs that were interleaved have a block in common with others."""
    at = "$.schedule"
    run = text_of(schedule, "run", at, 100)
    block = integer_of(schedule, "block", at)
    turn = integer_of(schedule, "turn", at)
    interleaved = flag_of(schedule, "interleaved", at) and run is not None and block is not None
    return f"{run}:{block}" if interleaved else None, turn


def _load(conditions: Record) -> float | None:
    """Of the minute before the job, the first of three means."""
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
    """Those of ``variables`` that decide on threads, as text of at most 20 characters."""
    threads = {}
    for name in THREAD_VARIABLES:
        value = variables.get(name)
        if value is None:
            continue
        if type(value) is not int and not isinstance(value, str):
            raise wrong_type(value, "text", path(at, name))
        threads[name] = str(value)[:20]
    return threads
