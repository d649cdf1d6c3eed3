"""A build that failed, for the stack or for its host: an observation without a job."""

from __future__ import annotations

from datetime import datetime

from common.formats.fields import (
    Record,
    flag_of,
    integer_of,
    text_of,
    time_of,
)
from common.formats.json_documents import digest, digest_bytes
from common.hardware import Allowance, hardware_class
from common.host_problems import is_host_build
from common.inspection import (
    Indicator,
    Observation,
    Outcome,
)
from common.reasons import Exclusion
from ingest.parsers.results import UNKNOWN_INDICATOR
from ingest.parsers.specification import Specification, environment_of

#: Why a build failed, where its status names no reason.
BUILD_FAILED = "build-failed"

#: Resolvers and compilers explain themselves at length; the log has all of it.
_LONGEST_MESSAGE = 500
_LONGEST_READ = 2**20
_INT32 = 2**31 - 1


def observation_of_build(
    status: Record, canonical: bytes, specification: Specification, now: datetime
) -> Observation:
    """What a failed build tells: which stack, why, and when.

    Of the machine nothing is known, as builds depend on it far less than jobs do.

    :param status: ``build/status`` of an inspection
    :param canonical: bytes that tell this attempt from others
    :raises InvalidDocument: with fields relative to the status
    """
    name, component = specification.script_name or UNKNOWN_INDICATOR, specification.script_component
    indicator = Indicator(digest([name, component, None]), name, component, None)
    hardware = hardware_class({}, Allowance())
    job_id = digest_bytes(canonical)
    message = text_of(status, "message", "$", _LONGEST_READ)
    reason = text_of(status, "reason", "$") or BUILD_FAILED
    exit_code = integer_of(status, "exit_code", "$", -_INT32, _INT32)
    by_host = is_host_build(reason, message or "")
    if "host_problem" in status:
        by_host = flag_of(status, "host_problem", "$")
    return Observation(
        observation_id=digest([job_id, 0]),
        job_id=job_id,
        position=0,
        outcome=Outcome.HOST_PROBLEM if by_host else Outcome.BUILD_FAILED,
        exit_code=1 if exit_code is None else exit_code,
        indicator=indicator,
        hardware=hardware,
        environment=environment_of({}, specification),
        parameters={},
        device=None,
        comparison_key=digest([indicator.indicator_id, {}, None, hardware.digest]),
        quarantine_reason=Exclusion.HOST_PROBLEM if by_host else None,
        failure_reason=reason,
        failure_message=message and message[:_LONGEST_MESSAGE],
        started_at=time_of(status, "started_at", "$", now),
        ended_at=time_of(status, "finished_at", "$", now),
    )
