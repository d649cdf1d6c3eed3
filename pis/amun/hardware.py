"""Describes this machine by its fixed properties, which exclude the varying clock rate.

Sources are ``/proc/cpuinfo`` (proc(5)), ``lscpu -J`` if installed, and NVML; limits and counters of
this process come from its control groups (versions 1 and 2).
"""

import hashlib
import json
import os
import platform
import re
import struct
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from shutil import which
from typing import Any

from pis.amun import nvidia


def text_of(path: Path) -> str:
    """Return the content of ``path``; empty if the file does not exist or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


#: Prevents looking up a published host by machine identifiers known from elsewhere.
_SALT = b"thoth host "
_BOOT_SALT = b"thoth boot "
_MACHINE_ID = Path("/etc/machine-id")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_CPUINFO = Path("/proc/cpuinfo")
_CPUS = Path("/sys/devices/system/cpu")
_CACHES = {
    "L1d cache": "l1_data_cache_size",
    "L1i cache": "l1_instruction_cache_size",
    "L2 cache": "l2_cache_size",
    "L3 cache": "l3_cache_size",
}
_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "K": 2**10, "M": 2**20}


@cache
def hwinfo() -> dict[str, Any]:
    """Return the ``hwinfo`` part of a result: processor, features, platform and GPUs.

    The result is cached, because the machine does not change while a process runs.
    """
    return {**processor_and_platform(), "gpu": nvidia.gpus()}


@cache
def processor_and_platform() -> dict[str, Any]:
    """Return facts that do not change until the machine starts again; runs three programs."""
    cpuinfo = first_processor(text_of(_CPUINFO))
    listed = lscpu()
    flags = cpuinfo.get("flags") or cpuinfo.get("Features") or listed.get("Flags") or ""
    sizes = {}
    for field, name in _CACHES.items():
        match = re.match(r"([\d.]+)\s*([A-Za-z]*)", listed.get(field, ""))
        if match and match[2] in _UNITS:
            sizes[name] = int(float(match[1]) * _UNITS[match[2]])
    uname = platform.uname()
    return {
        "cpu_info": {
            name: value for name, value in cpu_info(cpuinfo, listed).items() if value is not None
        },
        "cpu_features": {"flags": sorted(flags.split()), **sizes},
        "cpu_type": {"ncpus": os.cpu_count()},
        "platform": {
            "architecture": list(platform.architecture()),
            "machine": uname.machine,
            "node": uname.node,
            "platform": platform.platform(),
            "processor": uname.processor,
            "release": uname.release,
            "system": uname.system,
            "version": uname.version,
            "libc": "-".join(platform.libc_ver()),
        },
    }


def cpu_info(cpuinfo: Mapping[str, str], listed: Mapping[str, str]) -> dict[str, Any]:
    """Describe the processor from fields of the kernel and of ``lscpu``; ``None`` if unknown.

    ``cores`` is per socket and ``threads`` per core, as in ``lscpu``.
    """
    machine = platform.machine()
    names = {"x86_64": "X86_64", "amd64": "X86_64", "aarch64": "ARM_8", "arm64": "ARM_8"}
    return {
        "vendor_id_raw": cpuinfo.get("vendor_id") or listed.get("Vendor ID"),
        "brand_raw": cpuinfo.get("model name") or listed.get("Model name"),
        "family": _integer(cpuinfo.get("cpu family") or listed.get("CPU family")),
        "model": _integer(cpuinfo.get("model") or listed.get("Model")),
        "stepping": _integer(cpuinfo.get("stepping") or listed.get("Stepping")),
        "count": os.cpu_count(),
        "sockets": _integer(listed.get("Socket(s)")) or _ids("physical_package_id"),
        "cores": _integer(listed.get("Core(s) per socket")) or _integer(cpuinfo.get("cpu cores")),
        "threads": _integer(listed.get("Thread(s) per core")),
        "arch": names.get(machine.lower(), machine),
        "arch_string_raw": platform.machine(),
        "bits": struct.calcsize("P") * 8,
    }


def first_processor(text: str) -> dict[str, str]:
    """Return the fields of the first processor in ``/proc/cpuinfo``.

    >>> first_processor("processor\\t: 0\\nmodel name\\t: A: B\\n\\nprocessor\\t: 1\\n")
    {'processor': '0', 'model name': 'A: B'}
    """
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def lscpu() -> dict[str, str]:
    """Return the output of ``lscpu -J`` by field; empty if it is not installed."""
    program = which("lscpu")
    if program is None:
        return {}
    try:
        output = subprocess.run(
            [program, "-J"],
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            timeout=20,
            check=True,
        ).stdout
        return dict(_fields(json.loads(output)["lscpu"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return {}


def host(machine_id: str = "") -> str:
    """Return a stable machine identifier that reveals nothing about the machine.

    :param machine_id: machine ID to hash; by default the ID of this machine
    """
    identity = machine_id or text_of(_MACHINE_ID).strip() or platform.node()
    return f"sha256:{hashlib.sha256(_SALT + identity.encode()).hexdigest()}"


def boot(boot_id: str = "") -> str | None:
    """Return an identifier of the time since the machine started, ``None`` if it is unknown.

    :param boot_id: identifier to hash; by default the kernel's identifier
    """
    identity = boot_id or text_of(_BOOT_ID).strip()
    return (
        f"sha256:{hashlib.sha256(_BOOT_SALT + identity.encode()).hexdigest()}" if identity else None
    )


def os_release() -> dict[str, str] | None:
    """Return ``/etc/os-release`` with keys in lower case (os-release(5))."""
    try:
        return {key.lower(): value for key, value in platform.freedesktop_os_release().items()}
    except OSError:
        return None


def runtime_environment(python_version: str | None) -> dict[str, Any]:
    """Return the ``runtime_environment`` part of a result.

    :param python_version: of the interpreter that runs the script, such as ``3.11.7``
    """
    info, release = hwinfo(), os_release() or {}
    cuda = next((gpu["cuda_version"] for gpu in info["gpu"]), None)
    return {
        "cuda_version": cuda,
        "hardware": {
            "cpu_family": info["cpu_info"].get("family"),
            "cpu_model": info["cpu_info"].get("model"),
        },
        "operating_system": {
            "name": release.get("id", platform.system().lower()),
            "version": release.get("version_id", platform.release()),
        },
        "python_version": ".".join((python_version or "").split(".")[:2]) or None,
    }


def separate_cores(cpus: int, allowed: set[int] | None = None) -> list[int]:
    """Choose ``cpus`` of the allowed processors, on as many different cores as possible.

    The second thread of a core is used only after the first thread of every core.

    :param allowed: by default, the processors that this process may use
    :returns: all allowed processors if there are not more than ``cpus``
    """
    seen: dict[str, int] = {}
    turns = []
    for cpu in sorted(os.sched_getaffinity(0) if allowed is None else allowed):
        core = text_of(_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").strip() or str(
            cpu
        )
        seen[core] = seen.get(core, 0) + 1
        turns.append((seen[core], cpu))
    return sorted(cpu for _, cpu in sorted(turns)[:cpus])


def _fields(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return all fields; newer versions of ``lscpu`` nest some below others."""
    fields = []
    for entry in entries:
        fields.append((str(entry["field"]).rstrip(":"), str(entry.get("data") or "")))
        fields += _fields(entry.get("children", []))
    return fields


def _ids(name: str) -> int | None:
    return len({text_of(path) for path in _CPUS.glob(f"cpu[0-9]*/topology/{name}")}) or None


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


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
