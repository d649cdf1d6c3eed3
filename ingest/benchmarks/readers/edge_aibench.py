"""Edge AIBench: seconds for a frame of automated driving, and accuracy of face recognition.

A table of latencies has a column for each task. The columns have different lengths, because the
tasks had different numbers of frames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ingest.benchmarks.nvprof import gpu_time, is_nvprof
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    latency_summaries,
    measure,
    numbered_parts,
    with_parameters,
)
from ingest.benchmarks.text_tables import csv_rows
from ingest.benchmarks.values import finite_number, positive_number
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult

_TASKS = {
    "lane": "lane keeping", "detection": "object detection",
    "light": "traffic light classification", "sign": "traffic sign classification",
}  # fmt: skip
_measure = partial(
    measure, unit="", definition="labeled-faces-in-the-wild-1", aggregate=Aggregate.MEAN,
    zero_counts=True,
)  # fmt: skip
#: What an evaluation of face recognition prints.
_FACES = {
    _measure("accuracy", direction=HIGHER): r"^Accuracy: *([^\s+]*)",
    _measure("validation_rate", direction=HIGHER): r"^Validation rate: *([^\s+]*)",
    _measure("area_under_curve", direction=HIGHER): r"^Area Under Curve \(AUC\): *(\S*)",
    _measure("equal_error_rate", direction=LOWER): r"^Equal Error Rate \(EER\): *(\S*)",
}
_FACES_START = re.compile(r"^(?=Accuracy:(?: |$))", re.MULTILINE)
_FALSE_ACCEPTS = re.compile(r"^Validation rate: .*@ FAR=(\S*)", re.MULTILINE)


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file; the table of times by operator has none, because it has no unit."""
    text, run = file.text, file.run("edge-aibench")
    if is_nvprof(text):
        yield from gpu_time(run, text)
    elif set(text.partition("\n")[0].split(",")) == set(_TASKS):
        yield from _frames(with_parameters(run, scenario="automated driving"), text)
    else:
        # An accuracy begins an evaluation.
        first, *others = _FACES_START.split(text)
        evaluations = [first + others[0], *others[1:]] if others else [first]
        for part, evaluation in numbered_parts(run, evaluations):
            yield from _faces(part, evaluation)


def _frames(run: Run, text: str) -> Iterator[BenchmarkResult]:
    header, *rows = csv_rows(text)
    # Decimal commas split cells.
    wide = next((number for number, row in enumerate(rows, 2) if any(row[len(header) :])), None)
    if wide is not None:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"more than {len(header)} cells", field=f"row {wide}"
        )
    refusal: InvalidDocument | None = None
    for column, task in enumerate(header):
        cells = [row[column].strip() if column < len(row) else "" for row in rows]
        filled = [(number, cell) for number, cell in enumerate(cells, 2) if cell]
        samples = [time for _, cell in filled if (time := positive_number(cell)) is not None]
        if len(samples) < len(filled):
            number = next(it for it, cell in filled if positive_number(cell) is None)
            refusal = refusal or InvalidDocument(
                Reason.WRONG_TYPE, "a positive number was expected", field=f"{task}, row {number}"
            )
        elif samples:
            of_task = replace(run, benchmark=_TASKS.get(task.strip(), task.strip()))
            yield from latency_summaries(of_task, "frame_latency", "s", "edge-aibench-2", samples)
    if refusal is not None:
        raise refusal


def _faces(run: Run, text: str) -> Iterator[BenchmarkResult]:
    accepted = _FALSE_ACCEPTS.search(text)
    rate = finite_number(accepted[1]) if accepted else None
    run = replace(run, benchmark="face recognition", parameters={"scenario": "smart home"})
    for each, pattern in _FACES.items() if accepted else ():
        if match := re.search(pattern, text, re.MULTILINE):
            of_rate = each.metric.name == "validation_rate" and rate is not None
            part = with_parameters(run, false_accept_rate=rate or 0.0) if of_rate else run
            yield part.result(each, match[1], f"{match[1][:50]!r} is no number")
