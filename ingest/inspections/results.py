"""Converts the result of a job into observations: measurements, crashes or host problems."""

from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from common.formats.job_results import JobRun, Measurement, corrected_rate, measurements_of, run_of
from ingest.inspections.specification import InspectionSpecification, environment_of, indicator_name
from model.errors import InvalidDocument
from model.json_documents import digest
from model.json_fields import FieldPath, Fields, Record, relocated
from model.measurements.hardware import Allowance, hardware_class
from model.measurements.inspection import (
    Exclusion,
    Hardware,
    Observation,
    Outcome,
    PerformanceIndicator,
    RuntimeEnvironment,
)
from model.measurements.job_stability import instability, within_job_spread
from model.measurements.units import BYTES_PER_MAXRSS, Unit

_LONGEST = 100
_MOST_THREADS = 2**20
_LONGEST_TICK_NS = 10**9


@dataclass(frozen=True, slots=True)
class Library:
    """The measured library, according to the output of the script.

    :param threads: threads that the library used; requested threads if it does not report them
    :param blas: name and version of the linear algebra library, and the kernels that it chose
    :param tick_s: smallest step of the clock
    """

    threads: int | None = None
    blas: str | None = None
    tick_s: float | None = None


def library_of(stdout: Any) -> Library:
    """Read the library from standard output; unexpected values are ignored.

    >>> library_of({"threads": {"requested": 2, "used": None}, "build": {"blas": "mkl"}})
    Library(threads=2, blas='mkl', tick_s=None)
    """
    threads, build = _record(stdout, "threads"), _record(stdout, "build")
    counts = (threads.get("used"), threads.get("requested"))
    used = next((it for it in counts if type(it) is int and 0 < it <= _MOST_THREADS), None)
    tick_ns = _record(stdout, "clock").get("tick_ns")
    if type(tick_ns) is not int or not 0 < tick_ns <= _LONGEST_TICK_NS:
        tick_ns = None
    return Library(used, _blas(build), tick_ns and tick_ns / 1e9)


def _blas(build: Record) -> str | None:
    """Describe the BLAS library by its own report at run time or, without one, by its build."""
    running = build.get("blas_runtime")
    if isinstance(running, list) and running and isinstance(running[0], dict):
        # "OpenBLAS 0.3.21  USE64BITINT DYNAMIC_ARCH …": name and version, then how it was built.
        parts = [*_text(running[0], "configuration").split()[:2], _text(running[0], "kernels")]
    elif isinstance(blas := build.get("blas"), dict):
        parts = [_text(blas, "name"), _text(blas, "version")]
    else:
        parts = [_text(build, "blas")]
    return " ".join(filter(None, parts))[:_LONGEST] or None


def _record(value: Any, key: str) -> Record:
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


UNKNOWN_INDICATOR = "unknown"
_GPU_DEVICES = ("gpu", "cuda")
_INT32 = 2**31 - 1
_COUNTS = {
    "ru_minflt": "minor_faults",
    "ru_majflt": "major_faults",
    "ru_nvcsw": "voluntary_switches",
    "ru_nivcsw": "involuntary_switches",
    "ru_inblock": "blocks_read",
    "ru_oublock": "blocks_written",
}
_LONGEST_MESSAGE = 500
_STDOUT = FieldPath("$.stdout")
#: What an observation has of the run of its job.
_OF_RUN = {it.name for it in fields(JobRun)} & {it.name for it in fields(Observation)}
#: Start and end of a job.
_Times = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class _Facts:
    """Values that all observations of a job share."""

    job_id: str
    exit_code: int
    hardware: Hardware
    environment: RuntimeEnvironment
    started_at: datetime | None
    ended_at: datetime | None
    usage: Record
    run: JobRun

    @property
    def crashed(self) -> bool:
        """Whether the job failed; a job that the runner terminated may have exit code 0."""
        return self.exit_code != 0 or self.run.ended is not None


def observations_of(
    result: Record,
    job_id: str,
    position: int,
    specification: InspectionSpecification,
    now: datetime,
) -> list[Observation]:
    """Return the observations of one job.

    :param position: position of its first observation in the inspection
    :raises InvalidDocument: with fields relative to the result
    """
    document = Fields(result)
    if "job_log" not in document:
        facts = _facts(document, job_id, specification, now)
        return _observations(document, facts, position, specification)
    # Documents of 2019 have the times beside the result.
    job = document.nested("status").nested("job")
    times = job.time("started_at", now), job.time("finished_at", now)
    document = Fields(document.nested("job_log").record)
    try:
        facts = _facts(document, job_id, specification, now, times)
        return _observations(document, facts, position, specification)
    except InvalidDocument as error:
        if not error.field.startswith("$.run."):
            relocated(error, "$.job_log")
        raise


def _facts(
    result: Fields,
    job_id: str,
    specification: InspectionSpecification,
    now: datetime,
    times: _Times | None = None,
) -> _Facts:
    run = run_of(result)
    usage = result.nested("usage")
    if times is None:
        # Older documents have only ``datetime``, the time of the end.
        ended_at = result.time("end_datetime", now) or result.time("datetime", now)
        times = result.time("start_datetime", now), ended_at
    exit_code = result.required_integer("exit_code", -_INT32, _INT32)
    # Actual limits of the job take precedence over requested ones.
    requested = Allowance(cpu_quota=specification.cpu_quota, threads=specification.threads)
    hardware = hardware_class(result.record, run.limits or requested, specification.requested)
    environment = environment_of(result, specification)
    # The kernel's counters of a job (getrusage(2)), keyed by field of an observation.
    memory = usage.integer("ru_maxrss", high=2**50)
    counters = {
        "memory_bytes": None if memory is None else memory * BYTES_PER_MAXRSS,
        **{name: usage.integer(key, high=2**62) for key, name in _COUNTS.items()},
        "user_s": usage.number("ru_utime"),
        "system_s": usage.number("ru_stime"),
    }
    return _Facts(job_id, exit_code, hardware, environment, *times, counters, run)


def _observations(
    result: Fields, facts: _Facts, position: int, specification: InspectionSpecification
) -> list[Observation]:
    stdout, stderr = result.get("stdout"), result.get("stderr")
    # This project's runner stores any JSON output; lists and numbers are not measurements.
    if facts.run.ours and not isinstance(stdout, dict | str):
        stdout = None
    if stdout is not None and not isinstance(stdout, dict | str):
        raise result.wrong_type(stdout, "text or an object", "stdout")
    if stderr is not None and not isinstance(stderr, str):
        raise result.wrong_type(stderr, "text", "stderr")
    sha = result.text("script_sha256")
    # The bundled indicator that the runner ran names the script.
    name = indicator_name(facts.run.bundled)
    named = replace(specification, script_name=name) if name else specification
    try:
        return _of_output(stdout, stderr or "", sha, facts, position, named)
    except InvalidDocument as error:
        if not facts.run.ours:
            raise
        # Invalid output of a job does not affect the other jobs of the inspection.
        indicator = _indicator_of(None, sha, named, False)
        message = f"{error.field}: {error.message}"
        return [_observation(
            facts, 0, position, Outcome.NO_RESULT, indicator,
            failure_reason=str(error.reason), failure_message=message[:_LONGEST_MESSAGE],
        )]  # fmt: skip


def _of_output(
    stdout: Any,
    stderr: str,
    sha: str | None,
    facts: _Facts,
    position: int,
    named: InspectionSpecification,
) -> list[Observation]:
    measured = [] if facts.crashed else measurements_of(stdout, stderr, _STDOUT)
    indicator = _indicator_of(stdout, sha, named, bool(measured))
    if facts.run.host_problem:
        return [_observation(
            facts, 0, position, Outcome.HOST_PROBLEM, indicator,
            failure_reason=facts.run.ended, quarantine_reason=Exclusion.HOST_PROBLEM,
        )]  # fmt: skip
    if not measured:
        outcome = Outcome.CRASHED if facts.crashed else Outcome.NO_RESULT
        failure = facts.run.ended
        return [_observation(facts, 0, position, outcome, indicator, failure_reason=failure)]
    library = library_of(stdout)
    return [
        _measured(facts, index, position, indicator, measurement, library)
        for index, measurement in enumerate(measured)
    ]


def _measured(
    facts: _Facts,
    index: int,
    position: int,
    indicator: PerformanceIndicator,
    measurement: Measurement,
    library: Library,
) -> Observation:
    rate, correction = corrected_rate(indicator.name, indicator.component, measurement)
    device = measurement.parameters.text("device")
    # The historic script, which calls its component ``pytorch``, did not synchronise. This
    # project's scripts report ``torch`` and synchronise before they stop the clock.
    on_gpu = device is not None and device.lower().partition(":")[0] in _GPU_DEVICES
    wrong = on_gpu and (indicator.name, indicator.component) == ("PiMatmul", "pytorch")
    return _observation(
        facts,
        index,
        position,
        Outcome.MEASURED,
        indicator,
        parameters=measurement.parameters.record,
        device=device,
        unit=measurement.unit,
        elapsed_s=measurement.elapsed_s,
        rate=rate,
        reported_rate=measurement.rate,
        repetitions_s=measurement.repetitions_s,
        spread=within_job_spread(measurement.repetitions_s)
        if len(measurement.repetitions_s) > 1
        else None,
        correction=correction,
        quarantine_reason=Exclusion.PYTORCH_MATMUL_UNSYNCHRONISED if wrong else None,
        unstable_reason=instability(measurement.repetitions_s, facts.run.conditions),
        threads=library.threads,
        blas=library.blas,
        tick_share=library.tick_s / (measurement.elapsed_s * measurement.calls)
        if library.tick_s and measurement.elapsed_s
        else None,
    )


def _observation(
    facts: _Facts,
    index: int,
    position: int,
    outcome: Outcome,
    indicator: PerformanceIndicator,
    **values: Any,
) -> Observation:
    values = {"parameters": {}, "device": None, "unit": None, **values}
    # The component is part of the indicator's identifier, because a script may have no hash.
    key = [indicator.indicator_id, values["parameters"], values["device"], facts.hardware.digest]
    # FLOP/s is left out, because the first keys were made when it was the only unit.
    key += [values["unit"]] if values["unit"] not in (None, Unit.FLOP_PER_SECOND) else []
    return Observation(
        observation_id=digest([facts.job_id, index]),
        job_id=facts.job_id,
        position=position + index,
        outcome=outcome,
        exit_code=facts.exit_code,
        indicator=indicator,
        hardware=facts.hardware,
        environment=facts.environment,
        comparison_key=digest(key),
        started_at=facts.started_at,
        ended_at=facts.ended_at,
        **{name: getattr(facts.run, name) for name in _OF_RUN},
        **facts.usage,
        **values,
    )


def _indicator_of(
    stdout: Any, sha: str | None, specification: InspectionSpecification, measured: bool
) -> PerformanceIndicator:
    """Determine the indicator from the script's output, or else its URL, or else its result."""
    printed = Fields(stdout if isinstance(stdout, dict) else {}, _STDOUT)
    name = printed.text("name") or specification.script_name
    if name is None and measured and "@result" not in printed:
        name = "PiMatmul"  # only this indicator printed rates by matrix size
    component = printed.text("component") or specification.script_component
    return _indicator(name or UNKNOWN_INDICATOR, component, sha)


@lru_cache(maxsize=4096)
def _indicator(name: str, component: str | None, sha: str | None) -> PerformanceIndicator:
    return PerformanceIndicator(digest([name, component, sha]), name, component, sha)
