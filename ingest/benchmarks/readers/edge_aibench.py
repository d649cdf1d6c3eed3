"""Edge AIBench: seconds for a frame of automated driving, and accuracy of face recognition.

A table of latencies has a column for each task. The columns have different lengths, because the
tasks had different numbers of frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.benchmarks.latencies import latency_summaries
from ingest.benchmarks.nvprof import gpu_time, is_nvprof
from ingest.benchmarks.result_tree import ResultFile, numbered_parts, reader_of_files
from ingest.benchmarks.text_tables import csv_rows
from ingest.benchmarks.values import finite_number, measured_or_failed, positive_number
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
)
from model.reasons import Reason

SYSTEM = "edge-aibench"
_LATENCY_DEFINITION = "edge-aibench-2"
_TASKS = {
    "lane": "lane keeping", "detection": "object detection",
    "light": "traffic light classification", "sign": "traffic sign classification",
}  # fmt: skip
_FACES_DEFINITION = "labeled-faces-in-the-wild-1"
_FACES = {
    "accuracy": (r"^Accuracy: *([^\s+]*)", Direction.HIGHER),
    "validation_rate": (r"^Validation rate: *([^\s+]*)", Direction.HIGHER),
    "area_under_curve": (r"^Area Under Curve \(AUC\): *(\S*)", Direction.HIGHER),
    "equal_error_rate": (r"^Equal Error Rate \(EER\): *(\S*)", Direction.LOWER),
}
_FACES_START = re.compile(r"^(?=Accuracy:(?: |$))", re.MULTILINE)
_FALSE_ACCEPTS = re.compile(r"^Validation rate: .*@ FAR=(\S*)", re.MULTILINE)


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file; the table of times by operator has none, because it has no unit."""
    text, place = file.text, file.place
    common: dict[str, Any] = {"system": SYSTEM, "source": place, "files": (file.measured,)}
    if is_nvprof(text):
        yield from gpu_time(text, place, common)
    elif set(text.partition("\n")[0].split(",")) == set(_TASKS):
        yield from _frames(text, common)
    else:
        yield from _evaluations(text, common)


def _frames(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    header, *rows = csv_rows(text)
    # Decimal commas split cells.
    wide = next((number for number, row in enumerate(rows, 2) if any(row[len(header) :])), None)
    if wide is not None:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"more than {len(header)} cells", field=f"row {wide}"
        )
    refusal: InvalidDocument | None = None
    for column, task in enumerate(header):
        samples: list[float] = []
        for number, row in enumerate(rows, 2):
            cell = row[column].strip() if column < len(row) else ""
            if not cell:
                continue
            latency = positive_number(cell)
            if latency is None:
                refusal = refusal or InvalidDocument(
                    Reason.WRONG_TYPE, "a positive number was expected",
                    field=f"{task}, row {number}",
                )  # fmt: skip
                samples = []
                break
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
    if refusal is not None:
        raise refusal


def _evaluations(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    """Results of each evaluation; an accuracy begins one."""
    first, *others = _FACES_START.split(text)
    evaluations = [first + others[0], *others[1:]] if others else [first]
    for source, evaluation in numbered_parts(common["source"], evaluations):
        yield from _faces(evaluation, {**common, "source": source})


def _faces(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    accepted = _FALSE_ACCEPTS.search(text)
    rate = finite_number(accepted[1]) if accepted else None
    for name, (pattern, direction) in _FACES.items():
        match = re.search(pattern, text, re.MULTILINE)
        if accepted is None or match is None:
            continue
        parameters: dict[str, Parameter] = {"scenario": "smart home"}
        if name == "validation_rate" and rate is not None:
            parameters["false_accept_rate"] = rate
        yield measured_or_failed(
            match[1],
            f"{match[1][:50]!r} is no number",
            zero_counts=True,
            benchmark="face recognition",
            metric=Metric(name, "", direction, _FACES_DEFINITION),
            aggregate=Aggregate.MEAN,
            parameters=parameters,
            **common,
        )
