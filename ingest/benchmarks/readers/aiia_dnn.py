"""AIIA DNN benchmark: rates and accuracies of models on chips, in a table or a block of lines.

A cell of the table has several numbers, separated by wide spaces. A dash means "not tested". The
block of lines is known from its description only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from graph.record.benchmark_entries import entry_id_of
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.text_tables import TextTable, tables_with_bars
from ingest.benchmarks.values import measured_or_failed, positive_number, whole_number
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
)

SYSTEM = "aiia-dnn"
_DEFINITION = "aiia-dnn-1"
_COLUMNS = ("product", "platform", "device", "framework", "system")
#: Name and unit of each metric of the table; values with ``%`` are in per cent.
_TABLE_METRICS = {
    "FPS": ("fps", "frames/s"), "TOP1": ("top1", ""), "TOP5": ("top5", ""), "mAP": ("mAP", ""),
    "mIoU": ("mIoU", ""), "PSNR(dB)": ("psnr", "dB"), "Accuracy": ("accuracy", ""),
}  # fmt: skip
_BLOCK_METRICS = {
    "latency": ("latency", "ms", Direction.LOWER),
    "throughput": ("throughput", "frames/s", Direction.HIGHER),
    "power": ("power", "W", Direction.LOWER),
    "top1": ("top1", "", Direction.HIGHER),
    "top5": ("top5", "", Direction.HIGHER),
}
_PRECISION = re.compile(r"\b(INT8|FLOAT16|FP16|FLOAT32|FP32)\b", re.IGNORECASE)
#: The second colon is the full-width one of Chinese text.
_LINE = re.compile(r"^[#\s]*(?P<key>[A-Za-z][\w ]{0,30}?)\s*[:\uff1a][ \t\u3000]*(?P<value>.*)$")
#: Microseconds have the Greek letter or the micro sign.
_UNIT = re.compile(r"\s*[\d.]+(?:[eE][+-]?\d+)?\s*([A-Za-z\u00b5\u03bc]*)")
_SCALES: dict[str, dict[str, float]] = {
    "latency": {
        "": 1.0, "ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 0.001, "\u00b5s": 0.001,
        "\u03bcs": 0.001,
    },
    "throughput": dict.fromkeys(("", "fps", "frames", "images", "img", "imgs", "samples"), 1.0),
    "power": dict.fromkeys(("", "w", "watt", "watts"), 1.0),
    "top1": {"": 1.0},
    "top5": {"": 1.0},
}  # fmt: skip
_NOT_TESTED = "not tested"
#: A number with a comma is none: the comma may separate decimals or thousands.
_LEADING_NUMBER = re.compile(r"(?P<number>[\d.eE+-]{1,40}(?![\d.]|,\d))\s*(?P<percent>%?)")


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a table and a block of lines."""
    text = file.text
    common: dict[str, Any] = {
        "system": SYSTEM,
        "source": file.place,
        "aggregate": Aggregate.SINGLE,
        "files": (file.measured,),
    }
    tables = (
        _of_table(it, common)
        for it in tables_with_bars(text)
        if tuple(name.lower() for name in it.header[: len(_COLUMNS)]) == _COLUMNS
    )
    blocks = (_of_block(it, common) for it in _blocks(text))
    # Any table or block may return to the machine of an earlier one.
    yield from sorted(chain.from_iterable(chain(tables, blocks)), key=entry_id_of)


def _measured(text: str, unit: str) -> tuple[float | None, str]:
    """A number above zero and its unit, or ``None`` for a cell without one."""
    match = _LEADING_NUMBER.match(text)
    if match is None:
        return None, unit
    return positive_number(match["number"]), "%" if match["percent"] else unit


def _scale(text: str, key: str) -> float | None:
    """What a value is multiplied by because of the unit behind it; ``None`` for an unknown unit.

    >>> [_scale(it, "latency") for it in ("0.0125 s/batch", "12.5", "0.2 min")]
    [1000.0, 1.0, None]
    >>> _scale("250 W", "power"), _scale("0.25 kW", "power")
    (1.0, None)
    """
    unit = _UNIT.match(text)
    return _SCALES[key].get(unit[1].lower()) if unit else 1.0


def _of_table(table: TextTable, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    """Results of a table whose next two rows have the names of models and of metrics."""
    head = len(_COLUMNS)
    described = [row for row in table.rows if not any(row[:head])]
    devices = [row for row in table.rows if any(row[:head])]
    if len(described) < 2:
        return
    models, metrics = described[:2]
    precision = _PRECISION.search(table.heading)
    for row in devices:
        machine = _machine(dict(zip(_COLUMNS, row[:head], strict=True)))
        task = ""
        for column in range(head, len(row)):
            task = table.header[column] or task
            parameters: dict[str, Parameter] = {"task": task.partition(":")[2].strip() or task}
            if precision:
                parameters["precision"] = precision[1].lower()
            if row[4]:
                parameters["operating_system"] = row[4]
            cells = row[column].split()
            for number, title in enumerate(metrics[column].split()):
                name, unit = _TABLE_METRICS.get(title, (title, ""))
                if name in ("top1", "top5"):
                    unit = "%"
                value, unit = _measured(cells[number] if number < len(cells) else "", unit)
                yield measured_or_failed(
                    value,
                    _NOT_TESTED,
                    benchmark=models[column],
                    metric=Metric(name, unit, Direction.HIGHER, _DEFINITION),
                    parameters=parameters,
                    **machine,
                    **common,
                )


def _machine(row: Mapping[str, str]) -> dict[str, Any]:
    """Hardware and software of a row; the number of accelerators of a chip is unknown."""
    on_processor = row["device"].upper() == "CPU"
    parts = {
        "description": row["product"],
        "cpu" if on_processor else "accelerator": row["platform"],
        "device": row["device"],
    }
    return {
        "hardware": {name: text for name, text in parts.items() if text},
        "accelerators": 0 if on_processor else None,
        "software": {row["framework"].lower(): None} if row["framework"] else {},
    }


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Values by key of each block; a block begins with the name of its processor."""
    block: dict[str, str] = {}
    for line in text.split("\n"):
        match = _LINE.match(line)
        if match is None:
            continue
        key = match["key"].strip().lower()
        if key == "processor_name":
            if block:
                yield block
            block = {}
        if block or key == "processor_name":
            block.setdefault(key, match["value"].strip(" \t\u3000#")[:200])
    if block:
        yield block


def _of_block(block: Mapping[str, str], common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    parameters: dict[str, Parameter] = {}
    if block.get("test_name"):
        parameters["task"] = block["test_name"]
    batch = whole_number(block.get("batch size"))
    if batch is not None:
        parameters["batch_size"] = batch
    processor = block.get("processor_name")
    for key, (name, unit, direction) in _BLOCK_METRICS.items():
        if key not in block:
            continue
        value, stated_unit = _measured(block[key], unit)
        scale = _scale(block[key], key)
        if value is not None:
            value = None if scale is None else value * scale
        yield measured_or_failed(
            value,
            _NOT_TESTED if scale is not None else f"the unit of {block[key][:50]!r} is unknown",
            benchmark=block.get("model_name") or "unknown",
            metric=Metric(name, stated_unit, direction, _DEFINITION),
            parameters=parameters,
            hardware={"description": processor} if processor else {},
            **common,
        )
