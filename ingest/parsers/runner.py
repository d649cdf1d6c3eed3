"""What the runner of a job says of it: on which host, in whose turn, within which limits.

Only the executor of this project writes these fields, and marks its documents by a
``document_version``. In all others fields of the same names mean something else or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from common.errors import InvalidDocument
from common.formats.fields import (
    Record,
    as_number,
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
from common.reasons import Reason
from common.units import THREAD_VARIABLES

DOCUMENT_VERSION = 1

_INT32 = 2**31 - 1

#: How a job ends that ended by itself.
_EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Run:
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


def run_of(result: Record) -> Run:
    """Read what the runner said of a job.

    :raises InvalidDocument: with fields relative to the result
    """
    usage = record_of(result, "usage", "$")
    swapped = (integer_of(usage, "ru_nswap", "$.usage", high=2**62) or 0) > 0
    if not is_ours(result):
        return Run(conditions=JobConditions(swapped=swapped))
    conditions = record_of(result, "conditions", "$")
    steal = number_of(conditions, "steal_share", "$.conditions", high=1.0)
    throttled = flag_of(conditions, "throttled", "$.conditions")
    swapped = swapped or flag_of(conditions, "swapped", "$.conditions")
    ended = text_of(result, "ended", "$")
    block, turn = _schedule(record_of(result, "schedule", "$"))
    return Run(
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


def flag_of(record: Record, key: str, at: str) -> bool:
    """A boolean; ``False`` if it is missing."""
    value: Any = record.get(key)
    if value is not None and type(value) is not bool:
        raise wrong_type(value, "a boolean", path(at, key))
    return bool(value)
