"""What this machine is: identities that make a hardware class, never a measured clock.

Read from ``/proc/cpuinfo`` (proc(5)), ``lscpu -J`` where it is installed, and NVML.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import struct
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

from pis.amun import nvidia
from pis.amun.system_files import text_of

#: So that a published host cannot be looked up among machine identifiers from elsewhere.
_SALT = b"thoth host "
_MACHINE_ID = Path("/etc/machine-id")
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
    """The ``hwinfo`` part of a result: processor, its features, platform and GPUs.

    The machine does not change under a running process, so it is read once.
    """
    cpuinfo = first_processor(text_of(_CPUINFO))
    listed = lscpu()
    flags = cpuinfo.get("flags") or cpuinfo.get("Features") or listed.get("Flags") or ""
    return {
        "cpu_info": _known(cpu_info(cpuinfo, listed)),
        "cpu_features": {"flags": sorted(flags.split()), **_caches(listed)},
        "cpu_type": {"ncpus": os.cpu_count()},
        "platform": _platform(),
        "gpu": nvidia.gpus(),
    }


def cpu_info(cpuinfo: Mapping[str, str], listed: Mapping[str, str]) -> dict[str, Any]:
    """The processor, from what the kernel and ``lscpu`` say of it; ``None`` where neither does.

    ``cores`` are those of a socket, ``threads`` those of a core, as ``lscpu`` counts.
    """
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
        "arch": _arch(platform.machine()),
        "arch_string_raw": platform.machine(),
        "bits": struct.calcsize("P") * 8,
    }


def first_processor(text: str) -> dict[str, str]:
    """The fields of the first processor in ``/proc/cpuinfo``.

    >>> first_processor("processor\\t: 0\\nmodel name\\t: A: B\\n\\nprocessor\\t: 1\\n")
    {'processor': '0', 'model name': 'A: B'}
    """
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def lscpu() -> dict[str, str]:
    """What ``lscpu -J`` lists, by field; nothing where it is not installed."""
    program = which("lscpu")
    if program is None:
        return {}
    try:
        said = subprocess.run(
            [program, "-J"],
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            timeout=20,
            check=True,
        ).stdout
        return dict(_fields(json.loads(said)["lscpu"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return {}


def host(machine_id: str = "") -> str:
    """A name for a machine that is always the same and tells nothing about it.

    :param machine_id: of another machine; this one's if empty
    """
    identity = machine_id or text_of(_MACHINE_ID).strip() or platform.node()
    return f"sha256:{hashlib.sha256(_SALT + identity.encode()).hexdigest()}"


def os_release() -> dict[str, str] | None:
    """``/etc/os-release`` with its keys in lower case (os-release(5))."""
    try:
        return {key.lower(): value for key, value in platform.freedesktop_os_release().items()}
    except OSError:
        return None


def runtime_environment(python_version: str | None) -> dict[str, Any]:
    """The ``runtime_environment`` part of a result.

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
    """``cpus`` of the processors that this process may use, on as many cores as there are.

    The second thread of a core comes only when every core has given its first. All that are
    allowed if they are no more.
    """
    mine = sorted(os.sched_getaffinity(0) if allowed is None else allowed)
    seen: dict[str, int] = {}
    turns = []
    for cpu in mine:
        core = text_of(_CPUS / f"cpu{cpu}" / "topology" / "thread_siblings_list").strip() or str(
            cpu
        )
        seen[core] = seen.get(core, 0) + 1
        turns.append((seen[core], cpu))
    return sorted(cpu for _, cpu in sorted(turns)[:cpus])


def _fields(entries: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Newer versions put some fields below others."""
    found = []
    for entry in entries:
        found.append((str(entry["field"]).rstrip(":"), str(entry.get("data") or "")))
        found += _fields(entry.get("children", []))
    return found


def _caches(listed: Mapping[str, str]) -> dict[str, int]:
    """Sizes in bytes; of all instances together where ``lscpu`` gives the sum."""
    sizes = {}
    for field, name in _CACHES.items():
        found = re.match(r"([\d.]+)\s*([A-Za-z]*)", listed.get(field, ""))
        if found and found[2] in _UNITS:
            sizes[name] = int(float(found[1]) * _UNITS[found[2]])
    return sizes


def _platform() -> dict[str, Any]:
    named = platform.uname()
    return {
        "architecture": list(platform.architecture()),
        "machine": named.machine,
        "node": named.node,
        "platform": platform.platform(),
        "processor": named.processor,
        "release": named.release,
        "system": named.system,
        "version": named.version,
        "libc": "-".join(platform.libc_ver()),
    }


def _arch(machine: str) -> str:
    """The family of architectures, in the words that documents use."""
    names = {"x86_64": "X86_64", "amd64": "X86_64", "aarch64": "ARM_8", "arm64": "ARM_8"}
    return names.get(machine.lower(), machine)


def _ids(name: str) -> int | None:
    return len({text_of(path) for path in _CPUS.glob(f"cpu[0-9]*/topology/{name}")}) or None


def _integer(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdigit() else None


def _known(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}
