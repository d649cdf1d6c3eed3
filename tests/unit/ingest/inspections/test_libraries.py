"""What scripts print of the library that they measure, and what they print instead of it."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.inspections.results import Library, library_of

RUNNING = {"configuration": "OpenBLAS 0.3.27  USE64BITINT DYNAMIC_ARCH", "kernels": "Cooperlake"}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({}, Library()),
        ("text", Library()),
        ([1], Library()),
        ({"threads": {"requested": 4, "used": 2}}, Library(threads=2)),
        ({"threads": {"requested": 4, "used": None}}, Library(threads=4)),
        ({"threads": {"requested": "4", "used": True}}, Library()),
        ({"threads": {"used": -1}}, Library()),
        ({"threads": {"used": 2**40}}, Library()),
        ({"threads": 2}, Library()),
        ({"build": {"blas_runtime": [RUNNING]}}, Library(blas="OpenBLAS 0.3.27 Cooperlake")),
        ({"build": {"blas": {"name": "mkl", "version": "2024.1"}}}, Library(blas="mkl 2024.1")),
        ({"build": {"blas": "mkl", "blas_runtime": []}}, Library(blas="mkl")),
        ({"build": {"blas": "mkl", "blas_runtime": [RUNNING]}},
         Library(blas="OpenBLAS 0.3.27 Cooperlake")),
        ({"build": {"blas_runtime": [7], "blas": 7}}, Library()),
        ({"build": {"blas_runtime": [{"configuration": 7, "kernels": "x" * 200}]}},
         Library(blas="x" * 100)),
        ({"build": "x"}, Library()),
        ({"clock": {"tick_ns": 100}}, Library(tick_s=1e-7)),
        ({"clock": {"tick_ns": 0}}, Library()),
        ({"clock": {"tick_ns": 10**10}}, Library()),
        ({"clock": {"tick_ns": True}}, Library()),
    ],
)  # fmt: skip
def test_what_reads_as_expected_is_taken(printed: Any, expected: Library) -> None:
    assert library_of(printed) == expected
