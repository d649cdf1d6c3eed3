"""Output of ``nvprof --csv``: how long each kernel ran on the GPU.

Messages start with ``==``. A row of units follows the header; they differ from file to file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ingest.benchmarks.result_tree import missing_value
from ingest.benchmarks.results import LOWER, Run, measure, results_of_parts
from ingest.benchmarks.text_tables import csv_rows
from ingest.benchmarks.values import finite_number
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

_GPU_TIME = measure("gpu_time", "ms", LOWER, "nvprof-1", Aggregate.SUM)
_IN_MS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
#: Name, share in per cent, and time in milliseconds.
_Kernel = tuple[str, float, float]
_MESSAGE = re.compile(r"==[\d=]+ ")
_SCRIPT = re.compile(r"command: .*?([\w.-]+\.py)\b")
_START = re.compile(r"^(?===\d+== NVPROF is profiling)", re.MULTILINE)
_RESULT = "== Profiling result:"
#: How many kernels are listed with their share.
_LISTED_KERNELS = 10
_LONGEST_NAME = 120


def is_nvprof(text: str) -> bool:
    """Whether ``text`` is output of ``nvprof``."""
    return _START.search(text) is not None


def gpu_time(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """Time on the GPU of each profiled program in ``text``.

    :raises InvalidDocument: after the results, if a program has no table of kernels
    """
    place = run.source
    yield from results_of_parts(
        run, _profiles(text), lambda part, profile: _of_profile(part, profile, place)
    )


def _profiles(text: str) -> list[str]:
    """The output of each program; one that starts after the results of another is not its child."""
    profiles = [""]
    for part in _START.split(text):
        if _RESULT in profiles[-1]:
            profiles.append("")
        profiles[-1] += part
    return profiles


def _of_profile(run: Run, text: str, place: str) -> Iterator[BenchmarkResult]:
    """Time of all kernels and copies on the GPU; the shares of the longest are parameters.

    The benchmark is the profiled script. Its other arguments have paths of the machine and are
    dropped.

    :raises InvalidDocument: if there is no table of kernels
    """
    script = _SCRIPT.search(text)
    total = 0.0
    shares: dict[str, Parameter] = {}
    for name, share, duration_ms in _kernels(text, place):
        total += duration_ms
        key = f"share of {name[:_LONGEST_NAME]}, %"
        if key not in shares and len(shares) < _LISTED_KERNELS:
            shares[key] = share
    if total <= 0:
        raise missing_value(place, "Time", "no kernel ran on the GPU")
    benchmark = script[1] if script else "unknown"
    yield replace(run, benchmark=benchmark, parameters=shares).stated(_GPU_TIME, total)


def _kernels(text: str, place: str) -> Iterator[_Kernel]:
    """Kernels in the results of each process, without the tables of API calls and of clocks."""
    tables = list(_results(text))
    if not tables:
        raise missing_value(place, "Time(%)", "no table of kernels")
    for header, rows in tables:
        column = {name: index for index, name in enumerate(header)}
        units = next(rows, [])
        scale = _IN_MS.get(units[column["Time"]]) if len(units) == len(header) else None
        if scale is None:
            raise InvalidDocument(Reason.UNKNOWN_UNIT, "the time has no known unit", field="Time")
        for row in rows:
            if len(row) != len(header):
                raise InvalidDocument(
                    Reason.WRONG_TYPE, f"{len(header)} cells were expected", field=row[0][:100]
                )
            if row[column.get("Type", 0)] == "API calls":
                continue
            duration = finite_number(row[column["Time"]])
            share = finite_number(row[column["Time(%)"]])
            if duration is None or share is None:
                raise InvalidDocument(
                    Reason.WRONG_TYPE, "a number was expected", field=row[column["Name"]][:100]
                )
            yield row[column["Name"]], share, duration * scale


def _results(text: str) -> Iterator[tuple[Sequence[str], Iterator[list[str]]]]:
    """Header and rows, with the units first, of each table behind "Profiling result:"."""
    section: list[str] = []
    wanted = False
    for line in [*text.split("\n"), "==0== end:"]:
        message = _MESSAGE.match(line)
        if message is None:
            section.append(line)
        elif line.endswith(":"):
            rows = csv_rows("\n".join(section)) if wanted else iter(())
            for header in rows:
                if {"Time(%)", "Time", "Name"} <= set(header):
                    yield header, rows
                    break
            section, wanted = [], line.endswith(" Profiling result:")
