"""Describes the GPU as the CUDA driver reports it, by ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

#: Numbers of ``CUdevice_attribute`` (CUDA Driver API, cuda.h).
_CLOCK_KHZ, _PROCESSORS, _MEMORY_KHZ, _BUS_BITS, _CACHE, _MAJOR, _MINOR = 13, 16, 36, 37, 38, 75, 76


@dataclass(frozen=True)
class Gpu:
    """One GPU; a clock or a width that the driver does not report is 0.

    :param capability: compute capability, such as ``(9, 0)``
    :param processors: streaming multiprocessors
    :param clock_hz: highest clock of the multiprocessors
    """

    name: str
    capability: tuple[int, int]
    processors: int
    clock_hz: float
    memory_clock_hz: float
    memory_bus_bits: int
    cache_bytes: int


def gpu_of_cuda() -> Gpu | None:
    """The first visible GPU; ``None`` without a driver or a GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    device = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGet(ctypes.byref(device), 0):
        return None
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, 256, device)
    return Gpu(
        name.value.decode("utf-8", "replace"),
        (_attribute(cuda, _MAJOR, device), _attribute(cuda, _MINOR, device)),
        _attribute(cuda, _PROCESSORS, device),
        _attribute(cuda, _CLOCK_KHZ, device) * 1e3,
        _attribute(cuda, _MEMORY_KHZ, device) * 1e3,
        _attribute(cuda, _BUS_BITS, device),
        _attribute(cuda, _CACHE, device),
    )


def _attribute(cuda: ctypes.CDLL, number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    failed = cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return 0 if failed else value.value
