"""DAWNBench: time and cost to a target accuracy, and latency of inference.

A training entry is a JSON description and a table (TSV) of accuracy by epoch; an inference entry is
the JSON alone. The first epoch that reaches the target of the data set gives the time. Authors and
their addresses are not read.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import splitext
from typing import Any

from common.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
    Validity,
)
from common.errors import InvalidDocument
from common.formats.fields import number_of, text_of
from common.reasons import Reason
from ingest.benchmarks.result_tree import ResultTree, results_or_refusal
from ingest.benchmarks.software import software_versions
from ingest.benchmarks.values import finite_number, time_of_text

SYSTEM = "dawnbench"
_HOURS = Metric("time_to_accuracy", "hours", Direction.LOWER, "dawnbench-1")
_COST = Metric("training_cost", "USD", Direction.LOWER, "dawnbench-1")
_LATENCY = Metric("latency", "ms", Direction.LOWER, "dawnbench-1")
_INFERENCE_COST = Metric("inference_cost", "USD", Direction.LOWER, "dawnbench-1")
#: Column and value that an epoch must reach, by data set.
_TARGETS = {
    "CIFAR10": ("top1Accuracy", 94.0),
    "ImageNet": ("top5Accuracy", 93.0),
    "SQuAD": ("f1Score", 0.73),
}
_ACCURACIES = ("top1Accuracy", "top5Accuracy", "f1Score")
_ACCELERATOR = re.compile(
    r"(?P<count>\d+)\s*(?:[*x×]\s*)?(?:nvidia\s+|tesla\s+)*"
    r"(?P<name>(?:[KMPVTA]\d{2,3}|GTX|RTX|Titan|TPU)[\w -]*)",
    re.IGNORECASE,
)
_CPUS_ALONE = re.compile(r"\A\s*\d+\s*v?CPUs?\b", re.IGNORECASE)


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of all entries; a table without its description has no costs and no hardware."""
    descriptions = {splitext(it)[0]: it for it in places if it.lower().endswith(".json")}
    tables = {splitext(it)[0]: it for it in places if it.lower().endswith(".tsv")}
    for stem, place in descriptions.items():
        if stem not in tables:
            yield from results_or_refusal(_inference(tree, place), place)
    for stem, place in tables.items():
        results = _training(tree, place, descriptions.get(stem))
        yield from results_or_refusal(results, place)


def _inference(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    entry = file.json_object()
    latency = number_of(entry, "latency", "$")
    if latency is None:
        raise InvalidDocument(
            Reason.MISSING_FIELD, "neither a latency nor a table beside it", field="$.latency"
        )
    common = _described(entry, place, "inference", [file.measured])
    accuracies: dict[str, Parameter] = {
        key: value for key in _ACCURACIES if (value := number_of(entry, key, "$")) is not None
    }
    common["parameters"] = {**common["parameters"], **accuracies}
    yield BenchmarkResult(metric=_LATENCY, value=latency, **common)
    cost = number_of(entry, "cost", "$")
    if cost is not None:
        yield BenchmarkResult(metric=_INFERENCE_COST, value=cost, **common)


def _training(tree: ResultTree, place: str, description: str | None) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    files = [file.measured]
    entry: Mapping[str, Any] = {}
    if description is not None:
        described = tree.file(description)
        entry = described.json_object()
        files.append(described.measured)
    common = _described(entry, place, "training", sorted(files, key=lambda it: it.place))
    hours, reason = _hours_to_target(file.text, common["parameters"].get("data_set"))
    common["validity"] = Validity.VALID if hours is not None else Validity.FAILED
    common["reason"] = reason
    yield BenchmarkResult(metric=_HOURS, value=hours, **common)
    price = number_of(dict(entry), "costPerHour", "$")
    if price is not None and hours is not None:
        yield BenchmarkResult(metric=_COST, value=hours * price, **common)


def _hours_to_target(table: str, data_set: Parameter | None) -> tuple[float | None, str | None]:
    """Hours of the first epoch that reaches the target, or why there is none."""
    rows = list(csv.DictReader(table.splitlines(), delimiter="\t"))
    names = rows[0].keys() if rows else ()
    column, target = _TARGETS.get(str(data_set), ("", 0.0))
    if column not in names:
        candidates = [value for value in _TARGETS.values() if value[0] in names]
        if not candidates:
            raise InvalidDocument(Reason.MISSING_FIELD, "no column of accuracies", field="$[0]")
        column, target = candidates[-1]
    for line, row in enumerate(rows, 2):
        accuracy, hours = (finite_number(row.get(it) or "") for it in (column, "hours"))
        if accuracy is None or hours is None:
            raise InvalidDocument(Reason.WRONG_TYPE, "a number was expected", field=f"line {line}")
        # F1 is written as a fraction or in per cent.
        if accuracy >= (target * 100 if target < 1 < accuracy else target):
            return hours, None
    return None, f"no epoch reaches {column} {target:g}"


def _described(
    entry: Mapping[str, Any], place: str, phase: str, files: Sequence[MeasuredFile]
) -> dict[str, Any]:
    record = dict(entry)
    framework = text_of(record, "framework", "$") or ""
    misc = record.get("misc") if isinstance(record.get("misc"), dict) else {}
    stated = [f"{key} {value}" for key, value in (misc or {}).items() if "version" in key.lower()]
    hardware = text_of(record, "hardware", "$")
    parameters: dict[str, Parameter] = {"phase": phase}
    data_set = next((it for it in place.split("/") if it in _TARGETS), None)
    if data_set is not None:
        parameters["data_set"] = data_set
    return {
        "system": SYSTEM,
        "source": place,
        "benchmark": text_of(record, "model", "$") or "unknown",
        "aggregate": Aggregate.SINGLE,
        "parameters": parameters,
        "validity": Validity.VALID,
        "hardware": _hardware(hardware),
        "accelerators": _accelerators(hardware),
        "software": software_versions([*re.split(r"[,;+]", framework), *stated]),
        "measured_at": time_of_text(text_of(record, "timestamp", "$"), "%Y-%m-%d"),
        "files": files,
    }


def _hardware(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    match = _ACCELERATOR.search(text)
    accelerator = {"accelerator": match["name"].strip()} if match else {}
    return {"description": text, **accelerator}


def _accelerators(text: str | None) -> int | None:
    if text is None:
        return None
    match = _ACCELERATOR.search(text)
    if match:
        return int(match["count"])
    return 0 if _CPUS_ALONE.match(text) else None
