"""AIoT Bench: inference on mobile devices, known from the source of its app only.

The log has a head for the device, and a block of lines for each workload. VIPS and VOPS are sums
over the workloads, so that they are comparable only for the same list of workloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.benchmarks.result_tree import (
    ResultFile,
    missing_value,
    numbered_parts,
    reader_of_files,
)
from ingest.benchmarks.software import software_versions
from ingest.benchmarks.values import (
    measured_or_failed,
    positive_number,
    whole_number,
)
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
)

SYSTEM = "aiot-bench"
_DEFINITION = "aiot-bench-1"
_SCORES = (
    Metric("vips", "images/s", Direction.HIGHER, _DEFINITION),
    Metric("vops", "FLOP/s", Direction.HIGHER, _DEFINITION),
)
_TIME = Metric("time_avg", "ms", Direction.LOWER, _DEFINITION)
_TIMES = (
    _TIME,
    Metric("time_first_img", "ms", Direction.LOWER, _DEFINITION),
    Metric("time_load", "ms", Direction.LOWER, _DEFINITION),
)
_ACCURACY = Metric("accuracy", "", Direction.HIGHER, _DEFINITION)
_RATE = Metric("images_per_second", "images/s", Direction.HIGHER, _DEFINITION)
_LINE = re.compile(r"^ *([a-z_]+(?: [a-z]+){0,2}) *: *(.*?) *$")
#: The lines that only a head has.
_HEAD = re.compile(r"^(?=device *:[^\n]*\n+[ \t]*ram size *:)", re.MULTILINE)
_WORKLOAD = re.compile(r"^ *workload *$", re.MULTILINE)
_MILLISECONDS = 1000.0
_LONGEST_NAME = 200


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of each log in a file."""
    logs = [it for it in _HEAD.split(file.text) if _WORKLOAD.search(it)]
    for source, text in numbered_parts(file.place, logs or [file.text]):
        yield from _of_log(text, file, source)


def _of_log(text: str, file: ResultFile, source: str) -> Iterator[BenchmarkResult]:
    """Results of a log: the scores of the device, then those of a workload."""
    head, workloads = _blocks(text)
    if not workloads:
        raise missing_value(file.place, "workload", "the log has no workload")
    device, chip = head.get("device", ""), head.get("device hardware", "")
    hardware = {"description": device[:_LONGEST_NAME], "cpu": chip[:_LONGEST_NAME]}
    images = whole_number(head.get("image count"))
    shared: dict[str, Parameter] = {} if images is None else {"images": images}
    if head.get("resource name"):
        shared["data_set"] = head["resource name"][:_LONGEST_NAME]
    common: dict[str, Any] = {
        "system": SYSTEM,
        "source": source,
        "hardware": {key: value for key, value in hardware.items() if value},
        "files": (file.measured,),
    }
    names = sorted(_name(it) for it in workloads)
    summed: dict[str, Parameter] = {**shared, "workloads": ", ".join(names)[:2000]}
    versions = [software_versions([it.get("framework", "")]) for it in workloads]
    common["software"] = {name: value for it in versions for name, value in it.items()}
    for metric in _SCORES:
        if metric.name in head:
            yield measured_or_failed(
                head[metric.name],
                metric=metric,
                benchmark="all workloads",
                aggregate=Aggregate.SUM,
                parameters=summed,
                **common,
            )
    for workload in workloads:
        yield from _of_workload(workload, shared, common)


def _of_workload(
    workload: Mapping[str, str], shared: Mapping[str, Parameter], common: Mapping[str, Any]
) -> Iterator[BenchmarkResult]:
    parameters = dict(shared)
    for key in ("framework", "quantisation", "device"):
        if workload.get(key):
            parameters[key] = workload[key][:_LONGEST_NAME]
    benchmark = workload.get("model", "")[:_LONGEST_NAME] or _name(workload)
    common = {**common, "benchmark": benchmark, "parameters": parameters}
    for metric in _TIMES:
        if metric.name in workload or metric is _TIME:
            time = workload.get(metric.name, "").removesuffix("ms")
            rule = Aggregate.MEAN if metric is _TIME else Aggregate.SINGLE
            yield measured_or_failed(time, metric=metric, aggregate=rule, **common)
    mean = positive_number(workload.get(_TIME.name, "").removesuffix("ms"))
    rate = _MILLISECONDS / mean if mean else None
    yield measured_or_failed(rate, metric=_RATE, aggregate=Aggregate.MEAN, **common)
    if "accuracy" in workload:
        yield measured_or_failed(
            workload["accuracy"],
            zero_counts=True,
            metric=_ACCURACY,
            aggregate=Aggregate.MEAN,
            **common,
        )


def _blocks(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Values of the head and of each workload; a second ``framework`` is the quantisation."""
    head: dict[str, str] = {}
    workloads: list[dict[str, str]] = []
    for line in text.split("\n"):
        if line.strip() == "workload":
            workloads.append({})
            continue
        match = _LINE.match(line)
        if match is None:
            continue
        block = workloads[-1] if workloads else head
        repeated = workloads and match[1] == "framework" and "framework" in block
        block["quantisation" if repeated else match[1]] = match[2]
    return head, workloads


def _name(workload: Mapping[str, str]) -> str:
    return workload.get("name", "")[:_LONGEST_NAME] or "unknown"
