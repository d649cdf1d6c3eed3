"""Upper bounds of a device's rate; a higher rate is an error of the measurement.

Each bound is loose on purpose. It lies above the rate of every device that has the same flags, so
that no true rate is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pis.indicators.gpu import Gpu, gpu_of_cuda

#: Above the clock of every CPU on the market (Intel Core i9-14900KS: 6.2 GHz).
MAX_CLOCK_HZ = 6.5e9

#: FLOP per cycle and core in float32 by instruction set flag: two (on ARM four) vector units, each
#: with one fused multiply-add per cycle on every lane of its width, 2 FLOP per lane. float64 has
#: half the lanes. (Intel 64 and IA-32 Optimization Reference Manual, chapter 2; Arm Neoverse V1 and
#: V2 Software Optimization Guides; A64FX Microarchitecture Manual.) The widest flag counts.
_FLOAT32_PER_CYCLE = (
    ("avx512f", 2 * 16 * 2),
    ("sve", 2 * 16 * 2),
    ("fma", 2 * 8 * 2),
    ("avx", 2 * 8 * 2),  # an add and a multiply unit
    ("asimd", 4 * 4 * 2),
    ("sse2", 2 * 4 * 2),
)

#: Operations per cycle and core for narrower types, by flag: two units of 512 bits, or the matrix
#: unit (Intel: 1024 operations of 16 bits, 2048 of 8 bits). Without a flag, as many as for float32;
#: integers of 8 bits have four times the lanes of float32.
_NARROW_PER_CYCLE = {
    "bfloat16": (("amx_bf16", 1024), ("avx512_bf16", 128), ("avx_ne_convert", 64), ("bf16", 128)),
    "float16": (("amx_fp16", 1024), ("avx512_fp16", 128), ("fphp", 128), ("asimdhp", 128)),
    "int8": (("amx_int8", 2048), ("avx512_vnni", 256), ("i8mm", 512), ("asimddp", 256)),
}

#: Bytes per cycle between a core's own caches and the rest: a line of 64 in and one out.
_BYTES_PER_CYCLE = 128
#: No socket's memory is faster (Intel Xeon Max with HBM2e: 1.64 TB/s).
_SOCKET_BYTES_PER_S = 2e12

#: Dense operations per clock and multiprocessor by compute capability: float64, float32 (as
#: TensorFloat-32 if possible), 16 bits, int8; a fused multiply-add is two operations. (NVIDIA
#: architecture white papers, Pascal to Blackwell, tensor core tables; CUDA C++ Programming Guide,
#: "Arithmetic Instructions".)
_GPU_PER_CLOCK = {
    (6, 0): (64, 128, 256, 512),
    (6, 1): (8, 256, 256, 1024),
    (7, 0): (64, 128, 1024, 1024),
    (7, 5): (4, 128, 1024, 2048),
    (8, 0): (128, 1024, 2048, 4096),
    (8, 6): (4, 512, 1024, 2048),
    (8, 7): (8, 1024, 2048, 4096),
    (8, 9): (4, 512, 1024, 2048),
    (9, 0): (256, 2048, 4096, 8192),
    (10, 0): (256, 4096, 8192, 16384),
    (10, 3): (256, 4096, 8192, 16384),
    (12, 0): (4, 512, 1024, 2048),
}


@dataclass(frozen=True)
class Peak:
    """An upper bound.

    :param rate: per second: FLOP, OP or B
    :param source: how it was found, for a person
    """

    rate: float
    source: str

    def times(self, gain: int) -> Peak:
        """The bound for algorithms that may need up to ``gain`` times fewer operations.

        >>> Peak(1e12, "2 CPUs").times(9)
        Peak(rate=9000000000000.0, source='2 CPUs x 9 by fewer operations')
        """
        if gain == 1:
            return self
        return Peak(self.rate * gain, f"{self.source} x {gain} by fewer operations")


def peak_of(kind: str, parameters: dict[str, Any], framework: Any) -> Peak | None:
    """Return the upper bound of this machine for one measurement; ``None`` if unknown.

    :param kind: ``compute``, ``memory`` or ``none``
    """
    if kind == "none":
        return None
    dtype = parameters.get("dtype", "float32")
    if parameters["device"] == "cuda":
        gpu = gpu_of_cuda()
        return None if gpu is None else gpu_peak(kind, gpu, dtype)
    threads = max(parameters["threads"], framework.threads() or 1)
    cpus = min(threads, os.cpu_count() or threads)
    if kind == "memory":
        return memory_peak(cpus, _clock_hz(), _sockets())
    return cpu_peak(_cpu_flags(), dtype, cpus, _clock_hz())


def cpu_peak(flags: Collection[str], dtype: str, cpus: int, clock_hz: float) -> Peak | None:
    """Upper bound of CPUs: their number × operations per cycle × clock.

    >>> cpu_peak({"avx2", "fma", "avx"}, "float64", 2, 3e9)  # 2 · 16 · 3e9
    Peak(rate=96000000000.0, source='2 CPUs x 16 a cycle (fma) x 3 GHz')
    >>> cpu_peak({"unheard_of"}, "float32", 2, 3e9) is None
    True
    """
    flag, per_cycle = next(((it, n) for it, n in _FLOAT32_PER_CYCLE if it in flags), ("", 0))
    if not per_cycle:
        return None
    factors = {"float64": 0.5, "int8": 4}
    per_cycle = int(per_cycle * factors.get(dtype, 1))
    for narrow, most in _NARROW_PER_CYCLE.get(dtype, ()):
        if narrow in flags and most > per_cycle:
            flag, per_cycle = narrow, most
    source = f"{cpus} CPUs x {per_cycle} a cycle ({flag}) x {clock_hz / 1e9:g} GHz"
    return Peak(cpus * per_cycle * clock_hz, source)


def memory_peak(cpus: int, clock_hz: float, sockets: int) -> Peak:
    """The smaller of what the cores can move and what the sockets' memory can give.

    >>> memory_peak(2, 3e9, 1)
    Peak(rate=768000000000.0, source='2 CPUs x 128 B a cycle x 3 GHz')
    """
    cores = cpus * _BYTES_PER_CYCLE * clock_hz
    if cores <= sockets * _SOCKET_BYTES_PER_S:
        return Peak(cores, f"{cpus} CPUs x {_BYTES_PER_CYCLE} B a cycle x {clock_hz / 1e9:g} GHz")
    return Peak(sockets * _SOCKET_BYTES_PER_S, f"{sockets} sockets x 2 TB/s")


def gpu_peak(kind: str, gpu: Gpu, dtype: str) -> Peak | None:
    """Multiprocessors × operations per clock × highest clock, or memory clock × bus × 2.

    float32 has the bound of TensorFloat-32, which one switch allows for products and another for
    convolutions; libraries differ in how the switches are set.

    >>> h100 = Gpu("H100", (9, 0), 132, 1.98e9, 2.619e9, 5120, 50 * 2**20)
    >>> gpu_peak("compute", h100, "bfloat16").rate / 1e12  # 132 · 4096 · 1.98e9
    1070.53056
    >>> gpu_peak("memory", h100, "float32").rate / 1e9  # 2 · 2.619e9 · 640
    3352.32
    """
    if kind == "memory":
        rate = 2 * gpu.memory_clock_hz * gpu.memory_bus_bits / 8
        words = f"2 x {gpu.memory_clock_hz / 1e9:g} GHz x {gpu.memory_bus_bits} bit"
        return Peak(rate, words) if rate else None
    row = _GPU_PER_CLOCK.get(gpu.capability)
    if row is None or not gpu.clock_hz:
        return None
    columns = {"float64": 0, "float32": 1, "int8": 3}
    per_clock = row[columns.get(dtype, 2)]
    kind_of_gpu = ".".join(map(str, gpu.capability))
    source = f"{gpu.processors} SM x {per_clock} a clock ({kind_of_gpu})"
    clock = f" x {gpu.clock_hz / 1e9:g} GHz"
    return Peak(gpu.processors * per_clock * gpu.clock_hz, source + clock)


def _clock_hz() -> float:
    """The highest boosted clock that the kernel reports, or the bound if it reports none."""
    base = "/sys/devices/system/cpu/cpu0/cpufreq/"
    driver, most = _contents(base + "scaling_driver").strip(), _contents(base + "cpuinfo_max_freq")
    if driver in ("intel_pstate", "intel_cpufreq", "amd-pstate", "amd-pstate-epp"):
        return min(MAX_CLOCK_HZ, int(most) * 1e3) if most.strip().isdecimal() else MAX_CLOCK_HZ
    return MAX_CLOCK_HZ


def _cpu_flags() -> set[str]:
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", _contents("/proc/cpuinfo"), re.MULTILINE)
    return set(found.group(1).split()) if found else set()


def _sockets() -> int:
    return len(set(re.findall(r"^physical id\s*:(.*)$", _contents("/proc/cpuinfo"), re.M))) or 1


def _contents(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
