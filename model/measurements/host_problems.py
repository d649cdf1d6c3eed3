"""Failures of the host that end a build or a job and say nothing about the stack.

The executor marks them in its documents, and ingest records them as outcome ``host_problem``.
Documents of earlier releases have no mark, so the reason code or the message decides.
"""

from __future__ import annotations

import errno
import re
import signal

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
