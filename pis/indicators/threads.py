"""Sets the number of CPU threads of all libraries before they are imported."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, MutableMapping
from pathlib import Path

#: Variables that libraries read when they are loaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def set_threads(wanted: int, environ: MutableMapping[str, str]) -> int:
    """Decide on a number of threads and write it into ``environ`` for the libraries.

    :param wanted: number of threads; 0 for ``OMP_NUM_THREADS`` or, if it is unset, the number of
        CPUs that this process may use
    :returns: the number
    """
    threads = wanted or threads_of_environment(environ) or available_cpus()
    for variable in THREAD_VARIABLES:
        environ[variable] = str(threads)
    return threads


def threads_of_environment(environ: Mapping[str, str]) -> int | None:
    """``OMP_NUM_THREADS``; if it lists a number for each nesting level, the first.

    >>> threads_of_environment({"OMP_NUM_THREADS": "4,2"})
    4
    """
    first = environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def available_cpus() -> int:
    """Number of CPUs in the affinity mask, within the control group's quota, at least one."""
    try:
        cpus = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cpus = os.cpu_count() or 1
    quota = _cgroup_quota()
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def _cgroup_quota() -> float | None:
    """CPU quota of the control group; ``None`` without a limit (cgroup v2, then v1)."""
    words = _read("/sys/fs/cgroup/cpu.max").split()
    if len(words) != 2:
        base = "/sys/fs/cgroup/cpu/cpu.cfs_"
        words = [_read(base + "quota_us").strip(), _read(base + "period_us").strip()]
    return quota_of(words[0], words[1])


def quota_of(quota_us: str, period_us: str) -> float | None:
    """
    >>> quota_of("150000", "100000")
    1.5
    >>> quota_of("max", "100000"), quota_of("-1", "100000")
    (None, None)
    """
    if not (quota_us.isdecimal() and period_us.isdecimal() and int(period_us)):
        return None
    return int(quota_us) / int(period_us) or None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
