"""Reads limits and counters of this process's control groups (versions 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pis.amun.system_files import text_of

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")
#: Version 1 writes "no limit" as the largest multiple of a page.
_NO_LIMIT = 2**60


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """Limits of control groups; ``None`` means unlimited.

    :param cpu_quota: CPU time per second of wall time, such as 1.5
    """

    cpu_quota: float | None
    memory_bytes: int | None


def read_limits(root: Path = _ROOT, own: Path = _OWN) -> CgroupLimits:
    """Return the tightest limits of this process's group and its ancestors."""
    quotas = [_quota(folder) for folder in _folders("cpu", root, own)]
    memory = [_memory(folder) for folder in _folders("memory", root, own)]
    return CgroupLimits(
        cpu_quota=min((quota for quota in quotas if quota is not None), default=None),
        memory_bytes=min((limit for limit in memory if limit is not None), default=None),
    )


def throttled_periods(root: Path = _ROOT, own: Path = _OWN) -> int:
    """Return how often the groups' CPU quotas have throttled their processes so far."""
    return sum(
        int(fields[1])
        for folder in _folders("cpu", root, own)
        for line in text_of(folder / "cpu.stat").splitlines()
        if len(fields := line.split()) == 2 and fields[0] == "nr_throttled"
    )


def _folders(controller: str, root: Path, own: Path) -> Iterator[Path]:
    """Yield the folders of this process's group and of its ancestors for ``controller``."""
    for line in text_of(own).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if number == "0" and not controllers:
            mounts = [root / "unified", root]
        elif controller in controllers.split(","):
            mounts = [root / controllers, root / controller]
        else:
            continue
        mount = next((mount for mount in mounts if mount.is_dir()), None)
        if mount is not None:
            yield from _upwards(mount, group)


def _upwards(mount: Path, group: str) -> Iterator[Path]:
    """Yield the group's folder and its parents. In a container, only the root folder may exist."""
    relative = PurePosixPath(group.lstrip("/"))
    for path in (relative, *relative.parents):
        folder = mount / path
        if ".." not in path.parts and folder.is_dir():
            yield folder


def _quota(folder: Path) -> float | None:
    unified = text_of(folder / "cpu.max").split()
    if len(unified) == 2:
        return None if unified[0] == "max" else int(unified[0]) / int(unified[1])
    quota = _number(folder / "cpu.cfs_quota_us")
    period = _number(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _memory(folder: Path) -> int | None:
    limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
    return limit if limit and limit < _NO_LIMIT else None


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None
