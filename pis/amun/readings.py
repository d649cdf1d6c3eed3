"""Measurements that a job printed, or why it has none. Ingest uses the same reader and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from common.errors import InvalidDocument
from common.formats.fields import text_of
from common.formats.job_results import measurements_of, run_of
from common.job_stability import instability
from common.reasons import Instability
from common.units import SPOKEN
from pis.amun.output import unparsed_because


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
