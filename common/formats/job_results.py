"""Results of jobs: measurements on standard output, and conditions that the runner recorded.

Only the executor of this project writes the conditions, in documents that have a
``document_version``. In other documents, fields with the same names have other meanings.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from model.errors import InvalidDocument, Reason
from model.json_fields import FieldPath, Fields, Record
from model.measurements.hardware import Allowance
from model.measurements.inspection import Correction
from model.measurements.job_stability import JobConditions, is_host_end
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

#: Relative tolerance within which a reported operation count proves a formula.
_TOLERANCE = 1e-3
_SIZE = re.compile(r"[1-9][0-9]{0,6}\Z")
_SET_TO = re.compile(r"^(DTYPE|DEVICE|REPS) set to (\S{1,40})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One result of a script: duration in seconds, rate in ``unit``.

    :param result: the result as it was printed
    :param printed_rate: the rate as it was printed, in a multiple of ``unit`` such as GFLOPS
    :param calls: number of calls that a repetition timed together
    """

    parameters: Fields
    rate: float
    elapsed_s: float | None
    result: Fields
    repetitions_s: tuple[float, ...] = field(default=())
    unit: Unit = Unit.FLOP_PER_SECOND
    printed_rate: float = 0.0
    calls: int = 1


def measurements_of(stdout: Any, stderr: str, at: FieldPath) -> list[Measurement]:
    """The measurements on standard output; empty if it has none.

    :param at: path of ``stdout``
    """
    if not isinstance(stdout, dict):
        return []
    printed = Fields(stdout, at)
    if printed.get("@results") is not None:
        # Several results: ``{"@results": [{"@parameters": {…}, "@result": {…}}, …]}``.
        if printed.get("@result") is not None:
            message = "both @result and @results: only one is allowed"
            raise printed.invalid(Reason.CONFLICTING_FIELDS, message, "@results")
        return [it for entry in printed.each("@results") for it in _of_result(entry)]
    if printed.get("@result") is not None:
        return _of_result(printed)
    return _by_size(printed, stderr)


def _of_result(printed: Fields) -> list[Measurement]:
    """The format since 2020: ``{"@parameters": {…}, "@result": {"elapsed": ms, "rate": GFLOPS}}``.

    A ``unit`` in the result replaces GFLOPS.
    """
    result = printed.nested("@result")
    if not result:
        return []
    unit = _unit(result)
    calls = result.get("calls_per_repetition")
    values = enumerate(result.sequence("repetitions"))
    return [
        Measurement(
            printed.nested("@parameters"),
            _rate(result, unit),
            _elapsed_s(result, "elapsed"),
            result,
            tuple(_duration_s(value, result, "repetitions", index) for index, value in values),
            unit,
            float(result["rate"]),
            calls if type(calls) is int and 0 < calls < _INT32 else 1,
        )
    ]


def _by_size(stdout: Fields, stderr: str) -> list[Measurement]:
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
        entry = Fields(stdout[size], stdout.at / size)
        measurements.append(
            Measurement(
                Fields({**common, "matrix_size": int(size)}),
                _rate(entry),
                _elapsed_s(entry, "elapsed_ms"),
                entry,
                printed_rate=float(entry["rate"]),
            )
        )
    return measurements


def _checked_rate(rate: float, result: Fields, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """``rate``; a rate that no device can reach is refused."""
    fault = rate_fault(rate, unit)
    if fault is not None:
        reason, message = fault
        raise result.invalid(reason, message, "rate")
    return rate


def _unit(result: Fields) -> Unit:
    """The unit of the rate; by default FLOP/s, printed in GFLOPS."""
    name = result.text("unit")
    if name is None:
        return Unit.FLOP_PER_SECOND
    if name not in UNITS:
        message = f"{name[:40]!r} is none of {', '.join(UNITS)}"
        raise result.invalid(Reason.UNKNOWN_UNIT, message, "unit")
    return UNITS[name]


def _rate(record: Fields, unit: Unit = Unit.FLOP_PER_SECOND) -> float:
    """The rate in ``unit``; documents print it in multiples such as GFLOPS."""
    printed = record.number("rate", -math.inf, math.inf)
    if printed is None:
        message = "a measurement without its rate"
        raise record.invalid(Reason.MISSING_FIELD, message, "rate")
    return _checked_rate(printed * DISPLAY_UNITS[unit].factor, record, unit)


def _elapsed_s(record: Fields, key: str) -> float | None:
    value = record.get(key)
    return None if value is None else _duration_s(value, record, key)


def _duration_s(value: Any, record: Fields, *keys: str | int) -> float:
    """Milliseconds as seconds."""
    duration_ms = record.checked_number(value, -math.inf, math.inf, *keys)
    fault = duration_fault(duration_ms)
    if fault is not None:
        raise record.invalid(Reason.OUT_OF_RANGE, fault, *keys)
    return duration_ms * SECONDS_PER_MS


def corrected_rate(
    name: str, component: str | None, measurement: Measurement
) -> tuple[float, Correction | None]:
    """The rate, corrected if the document provably used a known wrong operation count.

    The proof is that rate × elapsed equals the wrong count within 0.1 %, and differs from the right
    count. Otherwise the rate is unchanged.

    >>> parameters = Fields({"matrix_size": 512, "mini_batch": 40})
    >>> wrong = matmul_operations_of_2019(512, 40)
    >>> corrected_rate("PiMatmul", "tensorflow", Measurement(parameters, wrong, 1.0, Fields({})))
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
    corrected = _checked_rate(right / elapsed_s, measurement.result)
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
    :param boot: identifies the time since its machine started
    :param build: identifies the installation of its environment; in documents of earlier releases,
        the digest of the environment
    :param load: load average of the minute before the job
    :param energy_j: energy of the machine during the job
    :param energy_note: the counters that the energy sums, or why the energy is unknown
    """

    ours: bool = False
    inspection: str | None = None
    bundled: str | None = None
    host: str | None = None
    boot: str | None = None
    build: str | None = None
    block: str | None = None
    turn: int | None = None
    ended: str | None = None
    host_problem: bool = False
    steal_share: float | None = None
    throttled: bool | None = None
    swapped: bool | None = None
    load: float | None = None
    energy_j: float | None = None
    energy_note: str | None = None
    launcher: str | None = None
    conditions: JobConditions = field(default_factory=JobConditions)
    limits: Allowance | None = None


def run_of(result: Fields) -> JobRun:
    """Read how the runner executed a job.

    :raises InvalidDocument: with fields relative to the result
    """
    swapped = (result.nested("usage").integer("ru_nswap", high=2**62) or 0) > 0
    if not is_ours(result):
        return JobRun(conditions=JobConditions(swapped=swapped))
    conditions, script = result.nested("conditions"), result.nested("script")
    energy = conditions.nested("energy")
    steal = conditions.number("steal_share", high=1.0)
    throttled = conditions.flag("throttled")
    swapped = swapped or conditions.flag("swapped")
    ended = result.text("ended")
    block, turn = _schedule(result.nested("schedule"))
    # Load average of the minute before the job, the first of three values.
    before = conditions.nested("before")
    means = before.sequence("load")
    return JobRun(
        ours=True,
        inspection=result.text("inspection_id"),
        bundled=script.text("name") if script.flag("bundled") else None,
        host=result.text("host"),
        boot=result.text("boot", 100),
        build=result.text("environment_build", 100) or result.text("environment", 100),
        block=block,
        turn=turn,
        ended=None if ended == _EXITED else ended,
        host_problem=_ended_by_host(result, ended),
        steal_share=steal,
        throttled=throttled if conditions else None,
        swapped=swapped if conditions else None,
        load=before.checked_number(means[0], 0.0, 1e9, "load") if means else None,
        energy_j=energy.number("joules", low=1e-6),
        energy_note=energy.text("reason", 100) or ", ".join(energy.texts("counters", 100)) or None,
        launcher=result.text("launcher"),
        conditions=JobConditions(throttled=throttled, swapped=swapped, steal_share=steal or 0.0),
        limits=_limits(result.nested("limits")),
    )


def _ended_by_host(result: Fields, ended: str | None) -> bool:
    """Whether the host ended the job; in documents of earlier releases, the job's exit decides."""
    if "host_problem" in result:
        return result.flag("host_problem")
    return is_host_end(ended, result.integer("exit_code", -_INT32, _INT32) or 0)


def is_ours(document: Mapping[str, Any]) -> bool:
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


def _schedule(schedule: Fields) -> tuple[str | None, int | None]:
    """Block and turn of a job; only interleaved jobs have a block."""
    run, block, turn = (
        schedule.text("run", 100),
        schedule.integer("block"),
        schedule.integer("turn"),
    )
    interleaved = schedule.flag("interleaved") and run is not None and block is not None
    return f"{run}:{block}" if interleaved else None, turn


def _limits(limits: Fields) -> Allowance | None:
    if not limits:
        return None
    # The variables that set the number of threads, as texts of at most 20 characters.
    variables = limits.nested("threads")
    threads = {}
    for name in THREAD_VARIABLES:
        value = variables.get(name)
        if value is None:
            continue
        if type(value) is not int and not isinstance(value, str):
            raise variables.wrong_type(value, "text", name)
        threads[name] = str(value)[:20]
    return Allowance(
        cpus=limits.integer("cpus", low=1), cpu_quota=limits.number("cpu_quota"), threads=threads
    )
