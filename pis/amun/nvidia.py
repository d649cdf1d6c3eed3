"""Describes NVIDIA GPUs as their management library reports them (NVML, if installed)."""

import ctypes
import ctypes.util
import re
from collections.abc import Callable
from functools import cache
from typing import Any

#: Clocks lowered because of heat or on request of the power supply (``nvmlClocksEventReasons``).
#: A power cap does not count: running at the rated power is normal.
_SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x20, 0x40, 0x80
_THROTTLED = _SW_THERMAL | _HW_THERMAL | _POWER_BRAKE


def gpus() -> list[dict[str, Any]]:
    """Describe every GPU, in the driver's order."""
    nvml = _nvml()
    if nvml is None:
        return []
    try:
        return [_description(nvml, handle) for handle in _handles(nvml)]
    except nvml.NVMLError:  # a GPU was lost: a shorter list would describe another machine
        return []


def throttle_reasons() -> list[str]:
    """Return why clocks are lowered at this moment, such as ``0: 0x40`` for the first GPU."""
    nvml = _nvml()
    if nvml is None:
        return []
    query = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
    reasons = [int(_answer(nvml, query, it) or 0) & _THROTTLED for it in _handles(nvml)]
    return [f"{index}: {bits:#x}" for index, bits in enumerate(reasons) if bits]


def thermal_violations_ns() -> int:
    """Return how long heat has lowered clocks since the driver was loaded, summed over all GPUs."""
    nvml = _nvml()
    if nvml is None:
        return 0
    query, policy = nvml.nvmlDeviceGetViolationStatus, nvml.NVML_PERF_POLICY_THERMAL
    violations = [_answer(nvml, query, it, policy) for it in _handles(nvml)]
    return sum(int(it.violationTime) for it in violations if it is not None)


def energy_mj() -> dict[int, int]:
    """Return the energy that each GPU used since the driver was loaded, if the GPU counts it."""
    nvml = _nvml()
    if nvml is None:
        return {}
    # GPUs before Volta have no counter.
    query = nvml.nvmlDeviceGetTotalEnergyConsumption
    counts = [_answer(nvml, query, it) for it in _handles(nvml)]
    return {number: int(count) for number, count in enumerate(counts) if count is not None}


@cache
def _nvml() -> Any:
    """Return the initialised library; ``None`` if the library or its driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # the library has a class of errors for every cause
        return None
    return pynvml


def _handles(nvml: Any) -> list[Any]:
    """Return all GPUs, or an empty list if the driver reports a lost GPU."""
    try:
        return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []


def _answer(nvml: Any, query: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of the library; ``None`` if the GPU or its driver does not support the query."""
    try:
        return query(*arguments)
    except nvml.NVMLError:
        return None


def _description(nvml: Any, handle: Any) -> dict[str, Any]:
    # The newest CUDA version that the driver supports.
    cuda = _answer(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return {
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "compute_capability": f"{major}.{minor}",
        "driver_version": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda_version": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        "cudnn_version": _cudnn(),
        "memory_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    }


@cache
def _cudnn() -> str | None:
    """Return the version of the system's cuDNN; a cuDNN from a wheel belongs to the stack."""
    name = ctypes.util.find_library("cudnn")
    if name is None:
        return None
    try:
        version = int(ctypes.CDLL(name).cudnnGetVersion())
    except (OSError, AttributeError):
        suffix = re.search(r"\.so\.(\d+)", name)
        return suffix[1] if suffix else None
    base = 10_000 if version >= 90_000 else 1000
    return f"{version // base}.{version % base // 100}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
