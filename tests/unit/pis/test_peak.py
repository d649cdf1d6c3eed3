"""Upper bounds of devices, threads and caches."""

import os

import pytest

from pis.indicators.caches import bytes_of, cpu_cache_bytes
from pis.indicators.gpu import Gpu
from pis.indicators.peak import cpu_peak, gpu_peak, memory_peak
from pis.indicators.threads import THREAD_VARIABLES, available_cpus, set_threads

H100 = Gpu("H100 SXM", (9, 0), 132, 1.83e9, 2.619e9, 5120, 50 * 2**20)
A100 = Gpu("A100 SXM", (8, 0), 108, 1.41e9, 1.215e9, 5120, 40 * 2**20)
ZEN5 = {"sse2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni"}


@pytest.mark.parametrize(
    ("flags", "dtype", "per_cycle"),
    [
        ({"sse2"}, "float32", 16),
        ({"sse2", "avx"}, "float32", 32),
        ({"sse2", "avx", "fma", "avx2"}, "float64", 16),
        (ZEN5, "float32", 64),
        (ZEN5, "float64", 32),
        (ZEN5, "bfloat16", 128),
        (ZEN5, "float16", 64),
        (ZEN5, "int8", 256),
        (ZEN5 | {"amx_bf16"}, "bfloat16", 1024),
        ({"asimd", "asimdhp"}, "float16", 128),
    ],
)
def test_cpu_peak_is_operations_per_cycle_times_clock_rate(
    flags: set[str], dtype: str, per_cycle: int
) -> None:
    peak = cpu_peak(flags, dtype, 3, 2e9)
    assert peak.rate == 3 * per_cycle * 2e9


def test_memory_peak_equals_its_data_sheet_and_is_unknown_for_new_devices() -> None:
    peak = gpu_peak("memory", A100, "float32")
    assert peak.rate == pytest.approx(1555e9, rel=0.01)
    assert memory_peak(256, 5e9, 2).rate == 4e12
    assert memory_peak(1, 5e9, 2).rate == 128 * 5e9
    assert gpu_peak("compute", Gpu("new", (99, 0), 1, 1e9, 0, 0, 0), "float32") is None
    assert gpu_peak("memory", Gpu("new", (99, 0), 1, 1e9, 0, 0, 0), "float32") is None
    assert cpu_peak(set(), "float32", 1, 1e9) is None


@pytest.mark.parametrize(
    ("gpu", "dtype", "published"),
    [
        (H100, "bfloat16", 989.4e12),
        (H100, "float16", 989.4e12),
        (H100, "int8", 1979e12),
        (A100, "bfloat16", 312e12),
        (A100, "float32", 156e12),  # as TensorFloat-32
        (A100, "float64", 19.5e12),
        (A100, "int8", 624e12),
    ],
)
def test_gpu_peak_equals_its_data_sheet(gpu: Gpu, dtype: str, published: float) -> None:
    peak = gpu_peak("compute", gpu, dtype)
    assert peak.rate == pytest.approx(published, rel=0.01)


def test_thread_count_of_the_flag_overrides_the_environment() -> None:
    environ = {"OMP_NUM_THREADS": "7"}
    assert set_threads(3, environ) == 3
    assert environ == dict.fromkeys(THREAD_VARIABLES, "3")
    assert set_threads(0, {"OMP_NUM_THREADS": "7"}) == 7


@pytest.mark.parametrize("value", ["", "0", "-1", "many"])
def test_all_processors_are_used_without_a_thread_setting(value: str) -> None:
    assert set_threads(0, {"OMP_NUM_THREADS": value}) == available_cpus()


def test_available_cpus_are_limited_by_the_affinity_mask() -> None:
    mask = os.sched_getaffinity(0)
    assert 1 <= available_cpus() <= len(mask)
    os.sched_setaffinity(0, {min(mask)})
    try:
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, mask)


def test_cpu_cache_sizes_are_read() -> None:
    assert [bytes_of(it) for it in ("48K", "32M", "1G", "512", "", "odd")] == [
        48 * 2**10, 32 * 2**20, 2**30, 512, 0, 0,
    ]  # fmt: skip
    assert cpu_cache_bytes() >= 0
