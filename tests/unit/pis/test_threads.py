"""How many threads, and where that is written."""

from __future__ import annotations

import os

import pytest

from pis.indicators.caches import bytes_of, cpu_cache_bytes
from pis.indicators.threads import THREAD_VARIABLES, available_cpus, set_threads


def test_what_was_asked_for_wins_and_every_library_is_reported() -> None:
    environ = {"OMP_NUM_THREADS": "7"}
    assert set_threads(3, environ) == 3
    assert environ == dict.fromkeys(THREAD_VARIABLES, "3")


def test_without_a_flag_the_environment_decides_about_threads() -> None:
    assert set_threads(0, {"OMP_NUM_THREADS": "7"}) == 7


@pytest.mark.parametrize("value", ["", "0", "-1", "many"])
def test_without_flag_and_environment_all_processors_are_used(value: str) -> None:
    assert set_threads(0, {"OMP_NUM_THREADS": value}) == available_cpus()


def test_the_affinity_mask_bounds_the_cpus() -> None:
    mask = os.sched_getaffinity(0)
    assert 1 <= available_cpus() <= len(mask)
    os.sched_setaffinity(0, {min(mask)})
    try:
        assert available_cpus() == 1
    finally:
        os.sched_setaffinity(0, mask)


def test_cache_sizes_are_read() -> None:
    assert [bytes_of(it) for it in ("48K", "32M", "1G", "512", "", "odd")] == [
        48 * 2**10, 32 * 2**20, 2**30, 512, 0, 0,
    ]  # fmt: skip
    assert cpu_cache_bytes() >= 0
