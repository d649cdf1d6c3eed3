"""Documents a second that ``thoth record verify`` compares, next to those that ingest takes in."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.documents import write_documents
from benchmarks.homes import FreshHome, fresh_home, time_command

FEW, MANY = 1_000, 5_000


def main() -> None:
    """Measure and print; takes a minute or two."""
    print("documents of 10 kB, one job each; 50 stacks of 40 packages")
    (_, few, small), (ingest, many, large) = _rates(FEW), _rates(MANY)
    print(f"thoth ingest, {MANY}             {ingest:8.0f} documents/s   1.0 (reference)")
    print(f"thoth record verify, {FEW}      {few:8.0f} documents/s")
    print(f"thoth record verify, {MANY}      {many:8.0f} documents/s  {many / ingest:5.1f}×")
    print(f"peak memory at {FEW}             {small / 2**20:8.0f} MiB")
    print(f"peak memory at {MANY}             {large / 2**20:8.0f} MiB (goal: as at {FEW})")


def _rates(count: int) -> tuple[float, float, int]:
    """Documents a second of ingest and of the comparison, starts included, and its peak memory."""
    with tempfile.TemporaryDirectory(prefix="thoth-bench-") as folder, fresh_home() as home:
        write_documents(Path(folder, "documents"), count)
        taken = time_command(home, "ingest", "inspections", str(Path(folder, "documents")))
        compared = time_command(home, "record", "verify")
        _expect_equal(home, count)
    return count / taken.wall_s, count / compared.wall_s, compared.peak_bytes


def _expect_equal(home: FreshHome, count: int) -> None:
    report = home.thoth("record", "verify")
    if not report["equal"] or report["documents"] != {"inspection": count}:
        raise RuntimeError(f"compared: {report}")
