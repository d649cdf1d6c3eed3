"""One job's result becomes what the job was seen to do: one observation or more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from common.errors import InvalidDocument
from common.inspection import (
    Hardware,
    Indicator,
    Observation,
    Outcome,
    RuntimeEnvironment,
    digest,
)
from common.measurements import BYTES_PER_MAXRSS, WITHIN_JOB_LIMIT, within_job_spread
from common.reasons import Exclusion
from ingest.parsers.fields import (
    Record,
    integer_of,
    number_of,
    path,
    record_of,
    required_integer,
    text_of,
    time_of,
    wrong_type,
)
from ingest.parsers.hardware import hardware_of
from ingest.parsers.measurements import Measurement, corrected_rate, measurements_of
from ingest.parsers.specification import Specification, environment_of

UNKNOWN_INDICATOR = "unknown"
_GPU_DEVICES = ("gpu", "cuda")
_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class _Facts:
    """What all observations of a job share."""

    job_id: str
    exit_code: int
    hardware: Hardware
    environment: RuntimeEnvironment
    started_at: datetime | None
    ended_at: datetime | None
    memory_bytes: int | None
    user_s: float | None
    system_s: float | None
    swapped: bool


def observations_of(
    result: Record, job_id: str, position: int, specification: Specification, now: datetime
) -> list[Observation]:
    """What one job was seen to do.

    :param position: of the first of them within the inspection
    :raises InvalidDocument: with fields relative to the result
    """
    times, result, at = _parts_of(result)
    try:
        facts = _facts(result, job_id, specification, now, times)
        return _observations(result, facts, position, specification)
    except InvalidDocument as error:
        if error.field.startswith(("$.run.", "$.status.")):
            raise
        error.field = at + error.field.removeprefix("$")
        raise


def _parts_of(document: Record) -> tuple[tuple[Record, str] | None, Record, str]:
    """In 2019 the result was the job's log and its times stood in the job's status."""
    if "job_log" not in document:
        return None, document, "$"
    status = record_of(document, "status", "$")
    times = record_of(status, "job", "$.status"), "$.status.job"
    return times, record_of(document, "job_log", "$"), "$.job_log"


def _facts(
    result: Record,
    job_id: str,
    specification: Specification,
    now: datetime,
    times: tuple[Record, str] | None,
) -> _Facts:
    usage = record_of(result, "usage", "$")
    memory = integer_of(usage, "ru_maxrss", "$.usage", high=2**50)
    started_at, ended_at = _times(result, now) if times is None else _times_2019(*times, now)
    return _Facts(
        job_id=job_id,
        exit_code=required_integer(result, "exit_code", "$", -_INT32, _INT32),
        hardware=hardware_of(result, specification),
        environment=environment_of(result, specification),
        started_at=started_at,
        ended_at=ended_at,
        memory_bytes=None if memory is None else memory * BYTES_PER_MAXRSS,
        user_s=number_of(usage, "ru_utime", "$.usage"),
        system_s=number_of(usage, "ru_stime", "$.usage"),
        swapped=(integer_of(usage, "ru_nswap", "$.usage", high=2**62) or 0) > 0,
    )


def _times(result: Record, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Start and end; older documents have only ``datetime``, written when the job ended."""
    ended_at = time_of(result, "end_datetime", "$", now)
    return (
        time_of(result, "start_datetime", "$", now),
        ended_at or time_of(result, "datetime", "$", now),
    )


def _times_2019(job: Record, at: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    return time_of(job, "started_at", at, now), time_of(job, "finished_at", at, now)


def _observations(
    result: Record, facts: _Facts, position: int, specification: Specification
) -> list[Observation]:
    stdout, stderr = result.get("stdout"), result.get("stderr")
    if stdout is not None and not isinstance(stdout, dict | str):
        raise wrong_type(stdout, "text or an object", "$.stdout")
    if stderr is not None and not isinstance(stderr, str):
        raise wrong_type(stderr, "text", "$.stderr")
    sha = text_of(result, "script_sha256", "$")
    measured = [] if facts.exit_code else measurements_of(stdout, stderr or "", "$.stdout")
    indicator = _indicator_of(stdout, sha, specification, bool(measured))
    if not measured:
        outcome = Outcome.CRASHED if facts.exit_code else Outcome.NO_RESULT
        return [_observation(facts, 0, position, outcome, indicator, {}, None)]
    return [
        _measured(facts, index, position, indicator, measurement)
        for index, measurement in enumerate(measured)
    ]


def _measured(
    facts: _Facts, index: int, position: int, indicator: Indicator, measurement: Measurement
) -> Observation:
    rate, correction = corrected_rate(indicator.name, indicator.component, measurement)
    at = path("$.stdout", "@parameters")
    device = text_of(measurement.parameters, "device", at)
    return _observation(
        facts,
        index,
        position,
        Outcome.MEASURED,
        indicator,
        measurement.parameters,
        device,
        elapsed_s=measurement.elapsed_s,
        rate=rate,
        reported_rate=measurement.rate,
        repetitions_s=measurement.repetitions_s,
        correction=correction,
        quarantine_reason=_exclusion(indicator, device),
        unstable_reason=_unstable(facts, measurement.repetitions_s),
    )


def _observation(
    facts: _Facts,
    index: int,
    position: int,
    outcome: Outcome,
    indicator: Indicator,
    parameters: Record,
    device: str | None,
    **measured: Any,
) -> Observation:
    # The indicator by its digest: without a hash of the script, its component tells it apart.
    key = [indicator.indicator_id, parameters, device, facts.hardware.digest]
    return Observation(
        observation_id=digest([facts.job_id, index]),
        job_id=facts.job_id,
        position=position + index,
        outcome=outcome,
        exit_code=facts.exit_code,
        indicator=indicator,
        hardware=facts.hardware,
        environment=facts.environment,
        parameters=parameters,
        device=device,
        comparison_key=digest(key),
        started_at=facts.started_at,
        ended_at=facts.ended_at,
        memory_bytes=facts.memory_bytes,
        user_s=facts.user_s,
        system_s=facts.system_s,
        **measured,
    )


def _indicator_of(
    stdout: Any, sha: str | None, specification: Specification, measured: bool
) -> Indicator:
    """By what the script said of itself, else by its address, else by what it printed."""
    said = stdout if isinstance(stdout, dict) else {}
    name = text_of(said, "name", "$.stdout") or specification.script_name
    if name is None and measured and "@result" not in said:
        name = "PiMatmul"  # nothing else ever printed rates by matrix size
    component = text_of(said, "component", "$.stdout") or specification.script_component
    return _indicator(name or UNKNOWN_INDICATOR, component, sha)


@lru_cache(maxsize=4096)
def _indicator(name: str, component: str | None, sha: str | None) -> Indicator:
    return Indicator(digest([name, component, sha]), name, component, sha)


def _exclusion(indicator: Indicator, device: str | None) -> Exclusion | None:
    """Why a measurement is compared with nothing, if its script is known to be wrong.

    ``pytorch`` is what the historic script calls its own component; our own scripts
    report ``torch``, synchronise before they stop the clock, and are not meant here.
    """
    on_gpu = device is not None and device.lower().partition(":")[0] in _GPU_DEVICES
    if on_gpu and (indicator.name, indicator.component) == ("PiMatmul", "pytorch"):
        return Exclusion.PYTORCH_MATMUL_UNSYNCHRONISED
    return None


def _unstable(facts: _Facts, repetitions_s: tuple[float, ...]) -> str | None:
    """Which rule flags the job, if one does: rule 2 of ``docs/statistics.md``.

    The rule and its codes are those of ``adviser.scoring.jobs.instability``, of which a
    document can only tell these two.
    """
    if facts.swapped:
        return "swapped"
    return "spread" if within_job_spread(repetitions_s) > WITHIN_JOB_LIMIT else None
