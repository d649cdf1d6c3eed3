"""Noise of jobs: which jobs are unstable, how much stable jobs vary, and how noise is reported.

``thoth inspect``, ``stacks``, ``advise`` and ``guard`` use the same rules and terms. The stability
rule, rule 2 of ``docs/statistics.md``, looks at the machine and at the spread within the job. The
rule ignores the speed of the job, so excluding jobs cannot favour a stack.

Some failures of the host end a build or a job and say nothing about the stack. The executor marks
them in its documents, and ingest records them as outcome ``host_problem``. Documents of earlier
releases have no mark, so the reason code or the message decides.
"""

import errno
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

#: Share of CPU time taken by the hypervisor above which a job is unstable.
STEAL_LIMIT = 0.01

#: MAD / median of a job's repetitions above which a job is unstable.
WITHIN_JOB_LIMIT = 0.10

#: Coefficient of variation between the jobs of a stack above which users are warned: with ten
#: jobs each, two stacks must differ by about this much before a difference is significant.
BETWEEN_JOBS_LIMIT = 0.25

#: Factor from the median absolute deviation of normal noise to its standard deviation:
#: 1/Φ⁻¹(3/4) (Rousseeuw & Croux 1993, doi:10.1080/01621459.1993.10476408).
MAD_TO_SD = 1.4826

#: Why jobs are excluded from a comparison, worded to follow a count. The first four are reasons
#: of the stability rule.
_REASONS = {
    "throttled": "throttled",
    "swapped": "swapped",
    "steal": "with stolen CPU time",
    "spread": "with scattered repetitions",
    "drift": "from before the machine changed",
    "other_host": "on another host",
    "unpaired": "without a partner",
}


class Instability(StrEnum):
    """Why comparisons exclude a job by the stability rule. The values are stored."""

    THROTTLED = "throttled"
    SWAPPED = "swapped"
    STEAL = "steal"
    #: The repetitions within the job scatter too much.
    SPREAD = "spread"


@dataclass(frozen=True, slots=True)
class JobConditions:
    """State of the machine during a job; fields keep their default if nothing was recorded.

    :param steal_share: CPU time taken by the hypervisor, as a share within [0, 1]
    """

    throttled: bool = False
    swapped: bool = False
    steal_share: float = 0.0


def instability(
    repetitions: Sequence[float], conditions: JobConditions | None = None
) -> Instability | None:
    """Why a job is unstable, or ``None``.

    :param repetitions: times or rates of the job, above zero; may be empty
    :param conditions: state of the machine, if it was recorded
    :returns: the first of ``throttled``, ``swapped``, ``steal``, ``spread`` that applies

    >>> instability([1.0, 1.01, 1.02]) is None
    True
    >>> instability([1.0, 1.5, 2.0])
    <Instability.SPREAD: 'spread'>
    """
    machine = conditions or JobConditions()
    rules = (
        (Instability.THROTTLED, machine.throttled),
        (Instability.SWAPPED, machine.swapped),
        (Instability.STEAL, machine.steal_share > STEAL_LIMIT),
        (Instability.SPREAD, within_job_spread(repetitions) > WITHIN_JOB_LIMIT),
    )
    return next((reason for reason, applies in rules if applies), None)


def within_job_spread(repetitions: Sequence[float]) -> float:
    """MAD / median of a job's repetitions, a dimensionless share of the median.

    The stability rule uses the unscaled median absolute deviation. The factor ``MAD_TO_SD`` is only
    for estimates between jobs.

    :param repetitions: times or rates of one job, above zero; fewer than two give 0

    >>> within_job_spread([9.0, 10.0, 12.0])
    0.1
    """
    if len(repetitions) < 2:
        return 0.0
    middle = median(repetitions)
    return median(abs(value - middle) for value in repetitions) / middle


def robust_variation(values: Sequence[float]) -> float:
    """Coefficient of variation that is robust against outliers: ``1.4826 · MAD / median``.

    :param values: rates or times, above zero, one or more, in any order
    :returns: dimensionless; 0.03 is a spread of 3 %
    :raises statistics.StatisticsError: if ``values`` is empty

    >>> round(robust_variation([98.0, 99.0, 100.0, 101.0, 500.0]), 6)
    0.014826
    """
    middle = median(values)
    return MAD_TO_SD * median(abs(value - middle) for value in values) / middle


def exclusion_text(reason: str) -> str:
    """Why a job is excluded, in words; a code that is no reason of a rule as it is.

    >>> exclusion_text("steal")
    'with stolen CPU time'
    """
    return _REASONS.get(reason, reason)


def left_out_text(counts: Mapping[str, int]) -> str:
    """Number of excluded jobs by reason, as text.

    >>> left_out_text({"spread": 2, "unpaired": 3})
    '2 with scattered repetitions, 3 without a partner'
    """
    return ", ".join(
        f"{count} {exclusion_text(reason)}" for reason, count in counts.items() if count
    )


def disturbed_jobs(counts: Mapping[str, int]) -> int:
    """The number of excluded jobs that were unstable.

    >>> disturbed_jobs({"spread": 2, "steal": 1, "unpaired": 3})
    3
    """
    return sum(counts.get(it.value, 0) for it in Instability)


def noise_warnings(
    stack: str, jobs: int, left_out: Mapping[str, int], variation: float | None
) -> Iterator[str]:
    """Warnings about noisy jobs of one stack.

    :param stack: its label
    :param jobs: number of all jobs
    :param left_out: number of excluded jobs, by reason
    :param variation: :func:`robust_variation` between the other jobs

    >>> list(noise_warnings("numpy 2.3.5", 10, {"spread": 6}, 0.97))
    ... # doctest: +NORMALIZE_WHITESPACE
    ['numpy 2.3.5: comparisons leave out 6 of 10 jobs',
     'numpy 2.3.5: the jobs spread by 97 %, so only large differences can be settled']
    """
    if 2 * sum(left_out.values()) > jobs:
        yield f"{stack}: comparisons leave out {sum(left_out.values())} of {jobs} jobs"
    if variation is not None and variation > BETWEEN_JOBS_LIMIT:
        share = f"{100 * variation:.0f} %"
        yield f"{stack}: the jobs spread by {share}, so only large differences can be settled"


DISK_FULL = "disk-full"
LAUNCHER_UNAVAILABLE = "launcher-unavailable"
HOST_FAILED = "host-failed"

#: Reasons of failed builds that are not caused by the stack. A build that timed out is one of them:
#: a slow host or index and a huge stack look alike, so a time-out proves nothing.
BUILD_REASONS = frozenset(
    {
        "cannot-confine", "python-not-found", "index-unreachable", "hardware-not-met",
        "native-packages-missing", "image-unavailable", "timed-out",
        DISK_FULL, LAUNCHER_UNAVAILABLE, HOST_FAILED,
    }
)  # fmt: skip

#: Ends of jobs that are not caused by the stack.
JOB_ENDS = frozenset({"launch-failed", "host-memory"})

#: Signals from outside: from the kernel when memory is short, from a person or from a service
#: manager. Signals of program faults, such as SIGSEGV, are not among them.
_OUTSIDE = frozenset(
    -it for it in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
)

#: Messages of host failures that earlier releases recorded as ``build-failed``.
_MESSAGES = re.compile(
    r"No space left on device|Disk quota exceeded|Read-only file system|Too many open files"
    r"|Cannot allocate memory(?! in static TLS)|uv cannot be run"
    r"|neither podman nor docker is installed"
    r"|no registry is set that images|the image could not be pushed|ClusterUnavailable|NodeLost"
    r"|network timeout|error reading a body from connection"
)
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset(
    {errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
)


def is_host_build(reason: str, message: str) -> bool:
    """Whether the host caused the failure of a build.

    >>> is_host_build("cannot-confine", "bwrap is not installed")
    True
    >>> is_host_build("no-wheel", "numpy has no wheel for this Python")
    False
    """
    if reason == "build-failed":
        return _MESSAGES.search(message) is not None
    return reason in BUILD_REASONS


def is_host_end(ended: str | None, exit_code: int) -> bool:
    """Whether the host ended a job.

    >>> is_host_end("signalled", -9), is_host_end("signalled", -11)
    (True, False)
    """
    return ended in JOB_ENDS or (ended == "signalled" and exit_code in _OUTSIDE)


def reason_of(error: BaseException) -> str | None:
    """The reason code of an error of the host; ``None`` for any other error."""
    if isinstance(error, MemoryError | TimeoutError):
        return HOST_FAILED
    if not isinstance(error, OSError):
        return None
    if error.errno in _FULL:
        return DISK_FULL
    return HOST_FAILED if error.errno in _REFUSED else None
