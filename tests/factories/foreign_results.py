"""Results of other benchmark systems, as their readers make them."""

from typing import Any

from sqlalchemy import Connection

from graph.record.benchmark_entries import entry_id_of, store_entries
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Validity,
)

MINUTES = Metric("time_to_train_olympic_mean", "minutes", Direction.LOWER, "mlperf-training-v0.6")
HOURS = Metric("accelerator_hours", "hours", Direction.LOWER, "mlperf-training-v0.6")
RATE = Metric("images_per_second", "images/s", Direction.HIGHER, "tf_cnn_benchmarks-1")


def foreign_result(value: float | None = 1.0, **changed: Any) -> BenchmarkResult:
    """A valid result; its file differs with its source."""
    source = str(changed.get("source", "a/results"))
    fields: dict[str, Any] = {
        "system": "mlperf-training-v0.6", "source": source, "benchmark": "resnet",
        "metric": MINUTES, "aggregate": Aggregate.SINGLE, "parameters": {"dataset": "imagenet"},
        "validity": Validity.FAILED if value is None else Validity.VALID,
        "hardware": {"accelerator": "NVIDIA V100", "cpu": "Intel(R) Xeon(R) Gold 6130 @ 2.1GHz"},
        "accelerators": 8, "software": {"tensorflow": "1.14.0", "cuda": "10.1"},
        "files": (MeasuredFile(f"{source}/result_0.txt", source.encode().hex().ljust(64, "0")),),
    }  # fmt: skip
    return BenchmarkResult(value=value, **fields | changed)


def store_foreign(connection: Connection, *results: BenchmarkResult) -> None:
    """Store results, those of an entry together."""
    entries: dict[str, list[BenchmarkResult]] = {}
    for result in results:
        entries.setdefault(entry_id_of(result), []).append(result)
    store_entries(connection, "/results", entries.items())


def training_entry(
    source: str, minutes: float, accelerators: int, **changed: Any
) -> tuple[BenchmarkResult, BenchmarkResult]:
    """An entry of MLPerf Training: minutes, and hours of one accelerator."""
    common = {"source": source, "accelerators": accelerators, **changed}
    return (
        foreign_result(minutes, **common),
        foreign_result(minutes * accelerators / 60, metric=HOURS, **common),
    )
