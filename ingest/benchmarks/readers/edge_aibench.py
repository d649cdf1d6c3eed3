"""Edge AIBench: seconds for a frame of automated driving, and accuracy of face recognition.

A table of latencies has a column for each task. The columns have different lengths, because the
tasks had different numbers of frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from common.benchmark_results import Aggregate, BenchmarkResult, Direction, Metric, Parameter
from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.benchmarks.latencies import latency_summaries
from ingest.benchmarks.nvprof import gpu_time, is_nvprof
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.text_tables import csv_rows
from ingest.benchmarks.values import finite_number, positive_number

SYSTEM = "edge-aibench"
_LATENCY_DEFINITION = "edge-aibench-2"
_TASKS = {
    "lane": "lane keeping", "detection": "object detection",
    "light": "traffic light classification", "sign": "traffic sign classification",
}  # fmt: skip
_FACES_DEFINITION = "labeled-faces-in-the-wild-1"
_FACES = {
    "accuracy": (r"^Accuracy: ([\d.]+)", Direction.HIGHER),
    "validation_rate": (r"^Validation rate: ([\d.]+)", Direction.HIGHER),
    "area_under_curve": (r"^Area Under Curve \(AUC\): ([\d.]+)", Direction.HIGHER),
    "equal_error_rate": (r"^Equal Error Rate \(EER\): ([\d.]+)", Direction.LOWER),
}
_FALSE_ACCEPTS = re.compile(r"^Validation rate: .*@ FAR=([\d.]+)", re.MULTILINE)


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file; the table of times by operator has none, because it has no unit."""
    text, place = file.text, file.place
    common: dict[str, Any] = {"system": SYSTEM, "source": place, "files": (file.measured,)}
    if is_nvprof(text):
        yield from gpu_time(text, place, common)
    elif text.startswith(",".join(_TASKS)):
        yield from _frames(text, common)
    else:
        yield from _faces(text, common)


def _frames(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    header, *rows = csv_rows(text)
    for column, task in enumerate(header):
        samples = []
        for number, row in enumerate(rows, 2):
            cell = row[column].strip() if column < len(row) else ""
            if not cell:
                continue
            latency = positive_number(cell)
            if latency is None:
                raise InvalidDocument(
                    Reason.WRONG_TYPE, "a positive number was expected",
                    field=f"{task}, row {number}",
                )  # fmt: skip
            samples.append(latency)
        if not samples:
            continue
        for metric, value, aggregate in latency_summaries(
            "frame_latency", "s", _LATENCY_DEFINITION, samples
        ):
            yield BenchmarkResult(
                benchmark=_TASKS.get(task.strip(), task.strip()),
                metric=metric,
                value=value,
                samples=tuple(samples),
                aggregate=aggregate,
                parameters={"scenario": "automated driving"},
                **common,
            )


def _faces(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    accepted = _FALSE_ACCEPTS.search(text)
    rate = finite_number(accepted[1]) if accepted else None
    for name, (pattern, direction) in _FACES.items():
        match = re.search(pattern, text, re.MULTILINE)
        value = finite_number(match[1]) if match else None
        if accepted is None or value is None:
            continue
        parameters: dict[str, Parameter] = {"scenario": "smart home"}
        if name == "validation_rate" and rate is not None:
            parameters["false_accept_rate"] = rate
        yield BenchmarkResult(
            benchmark="face recognition",
            metric=Metric(name, "", direction, _FACES_DEFINITION),
            value=value,
            aggregate=Aggregate.MEAN,
            parameters=parameters,
            **common,
        )
