"""AIIA DNN benchmark: rates and accuracies of models on chips, in a table or a block of lines.

A cell of the table has several numbers, separated by wide spaces. A dash means "not tested". The
block of lines is known from its description only.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

from graph.record.benchmark_entries import entry_id_of
from ingest.benchmarks.result_texts import TextTable, markdown_tables
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    measure,
    positive_number,
    stated_texts,
    whole_number,
)
from model.measurements.benchmark_results import BenchmarkResult, Parameter

_DEFINITION = "aiia-dnn-1"
_COLUMNS = ("product", "platform", "device", "framework", "system")
#: Name and unit of each metric of the table; values with ``%`` are in per cent.
_TABLE_METRICS = {
    "FPS": ("fps", "frames/s"), "TOP1": ("top1", ""), "TOP5": ("top5", ""), "mAP": ("mAP", ""),
    "mIoU": ("mIoU", ""), "PSNR(dB)": ("psnr", "dB"), "Accuracy": ("accuracy", ""),
}  # fmt: skip
_MICRO = dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 0.001)  # micro sign and Greek letter
_FRAMES = dict.fromkeys(("", "fps", "frames", "images", "img", "imgs", "samples"), 1.0)
#: Unit and direction of each value of a block, and what a value is multiplied by for its unit.
_BLOCK_METRICS = {
    "latency": ("ms", LOWER, {"": 1.0, "ms": 1.0, "s": 1000.0, "sec": 1000.0, **_MICRO}),
    "throughput": ("frames/s", HIGHER, _FRAMES),
    "power": ("W", LOWER, dict.fromkeys(("", "w", "watt", "watts"), 1.0)),
    "top1": ("", HIGHER, {"": 1.0}),
    "top5": ("", HIGHER, {"": 1.0}),
}
_PRECISION = re.compile(r"\b(INT8|FLOAT16|FP16|FLOAT32|FP32)\b", re.IGNORECASE)
#: The second colon is the full-width one of Chinese text.
_LINE = re.compile(r"^[#\s]*(?P<key>[A-Za-z][\w ]{0,30}?)\s*[:\uff1a][ \t\u3000]*(?P<value>.*)$")
_UNIT = re.compile(r"\s*[\d.]+(?:[eE][+-]?\d+)?\s*([A-Za-z\u00b5\u03bc]*)")
_NOT_TESTED = "not tested"
#: A number with a comma is none: the comma may separate decimals or thousands.
_LEADING_NUMBER = re.compile(r"(?P<number>[\d.eE+-]{1,40}(?![\d.]|,\d))\s*(?P<percent>%?)")


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a table and a block of lines."""
    run, text = file.run("aiia-dnn"), file.text
    tables = (
        _of_table(run, it)
        for it in markdown_tables(text)
        if tuple(name.lower() for name in it.header[: len(_COLUMNS)]) == _COLUMNS
    )
    blocks = (_of_block(run, it) for it in _blocks(text))
    # Any table or block may return to the machine of an earlier one.
    yield from sorted(chain.from_iterable(chain(tables, blocks)), key=entry_id_of)


def _measured(text: str, unit: str) -> tuple[float | None, str]:
    """A number above zero and its unit, or ``None`` for a cell without a number."""
    match = _LEADING_NUMBER.match(text)
    return (positive_number(match[1]), "%" if match[2] else unit) if match else (None, unit)


def _scale(text: str, key: str) -> float | None:
    """The factor for the unit behind a value; ``None`` for an unknown unit.

    >>> [_scale(it, "latency") for it in ("0.0125 s/batch", "12.5", "0.2 min")]
    [1000.0, 1.0, None]
    >>> _scale("250 W", "power"), _scale("0.25 kW", "power")
    (1.0, None)
    """
    unit = _UNIT.match(text)
    return _BLOCK_METRICS[key][2].get(unit[1].lower()) if unit else 1.0


def _of_table(run: Run, table: TextTable) -> Iterator[BenchmarkResult]:
    """Results of a table whose next two rows have the names of models and of metrics."""
    head = len(_COLUMNS)
    described = [row for row in table.rows if not any(row[:head])]
    if len(described) < 2:
        return
    models, metrics = described[:2]
    precision = _PRECISION.search(table.heading)
    for row in (row for row in table.rows if any(row[:head])):
        product, platform, device, framework, system = row[:head]
        on_processor = device.upper() == "CPU"
        parts = {"cpu" if on_processor else "accelerator": platform, "device": device}
        of_machine = replace(
            run,
            hardware=stated_texts(None, description=product, **parts),
            accelerators=0 if on_processor else None,  # their number on a chip is unknown
            software={framework.lower(): None} if framework else {},
        )
        task = ""
        for column in range(head, len(row)):
            task = table.header[column] or task
            parameters: dict[str, Parameter] = {"task": task.partition(":")[2].strip() or task}
            if precision:
                parameters["precision"] = precision[1].lower()
            parameters |= stated_texts(None, operating_system=system)
            of_model = replace(of_machine, benchmark=models[column], parameters=parameters)
            cells = row[column].split()
            for number, title in enumerate(metrics[column].split()):
                name, unit = _TABLE_METRICS.get(title, (title, ""))
                unit = "%" if name in ("top1", "top5") else unit
                value, unit = _measured(cells[number] if number < len(cells) else "", unit)
                yield of_model.result(measure(name, unit, HIGHER, _DEFINITION), value, _NOT_TESTED)


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


def _of_block(run: Run, block: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    parameters: dict[str, Parameter] = {**stated_texts(None, task=block.get("test_name"))}
    batch = whole_number(block.get("batch size"))
    if batch is not None:
        parameters["batch_size"] = batch
    run = replace(
        run,
        benchmark=block.get("model_name") or "unknown",
        parameters=parameters,
        hardware=stated_texts(None, description=block.get("processor_name")),
    )
    for key, (unit, direction, _) in _BLOCK_METRICS.items():
        if key not in block:
            continue
        value, stated_unit = _measured(block[key], unit)
        scale = _scale(block[key], key)
        yield run.result(
            measure(key, stated_unit, direction, _DEFINITION),
            None if value is None or scale is None else value * scale,
            _NOT_TESTED if scale is not None else f"the unit of {block[key][:50]!r} is unknown",
        )
