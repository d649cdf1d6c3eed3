"""NVIDIA's GPUs, as its management library (NVML) sees them; none where it is absent."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from functools import cache
from typing import Any

#: Clocks held down by heat or by a power supply that ordered it: NVML's
#: ``nvmlClocksEventReasons``. A power cap is left out: a GPU at its rated power is no exception.
_SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x20, 0x40, 0x80
_THROTTLED = _SW_THERMAL | _HW_THERMAL | _POWER_BRAKE


def gpus() -> list[dict[str, Any]]:
    """Name, compute capability and versions of every GPU, in the driver's order."""
    nvml = _nvml()
    if nvml is None:
        return []
    try:
        return [_described(nvml, handle) for handle in _handles(nvml)]
    except nvml.NVMLError:  # a GPU was lost meanwhile: half a list would be another machine
        return []


def throttle_reasons() -> list[str]:
    """Why clocks are held down just now, of each GPU as ``0: 0x40``; a cap of power is none."""
    nvml = _nvml()
    if nvml is None:
        return []
    reasons = [(index, _reasons(nvml, handle)) for index, handle in enumerate(_handles(nvml))]
    return [f"{index}: {bits:#x}" for index, bits in reasons if bits]


def thermal_violations_ns() -> int:
    """For how long heat held clocks down, over all GPUs since the driver was loaded."""
    nvml = _nvml()
    if nvml is None:
        return 0
    return sum(_thermal_ns(nvml, handle) for handle in _handles(nvml))


@cache
def _nvml() -> Any:
    """The library, started once for this process; ``None`` without it or its driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # the library raises a kind of its own for every cause
        return None
    return pynvml


def _handles(nvml: Any) -> list[Any]:
    """All GPUs; none where one is lost and the driver says so."""
    try:
        return [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []


def _described(nvml: Any, handle: Any) -> dict[str, Any]:
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return {
        "name": _text(nvml.nvmlDeviceGetName(handle)),
        "compute_capability": f"{major}.{minor}",
        "driver_version": _text(nvml.nvmlSystemGetDriverVersion()),
        "cuda_version": _cuda(nvml),
        "cudnn_version": _cudnn(),
        "memory_bytes": int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    }


def _reasons(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) & _THROTTLED
    except nvml.NVMLError:  # not every GPU tells
        return 0


def _thermal_ns(nvml: Any, handle: Any) -> int:
    try:
        policy = nvml.NVML_PERF_POLICY_THERMAL
        return int(nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime)
    except nvml.NVMLError:
        return 0


def _cuda(nvml: Any) -> str | None:
    """The newest CUDA that the driver serves."""
    try:
        version = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
    except nvml.NVMLError:
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


@cache
def _cudnn() -> str | None:
    """The system's cuDNN; one that came in a wheel is part of the stack, not of the machine."""
    name = ctypes.util.find_library("cudnn")
    if name is None:
        return None
    found = re.search(r"\.so\.(\d+)", name)
    try:
        version = int(ctypes.CDLL(name).cudnnGetVersion())
    except (OSError, AttributeError):
        return found[1] if found else None
    base = 10_000 if version >= 90_000 else 1000
    return f"{version // base}.{version % base // 100}"


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
