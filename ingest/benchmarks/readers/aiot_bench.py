"""AIoT Bench: inference on mobile devices, known from the source of its app only.

The log has a head for the device, and a block of lines for each workload. VIPS and VOPS are sums
over the workloads, so that they are comparable only for the same list of workloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from ingest.benchmarks.result_tree import ResultFile, missing_value, reader_of_files
from ingest.benchmarks.results import HIGHER, LOWER, Run, measure, numbered_parts
from ingest.benchmarks.values import positive_number, software_versions, stated_texts, whole_number
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

SYSTEM = "aiot-bench"
_measure = partial(measure, definition="aiot-bench-1")
_SCORES = (
    _measure("vips", "images/s", HIGHER, aggregate=Aggregate.SUM),
    _measure("vops", "FLOP/s", HIGHER, aggregate=Aggregate.SUM),
)
_TIMES = (
    _measure("time_avg", "ms", LOWER, aggregate=Aggregate.MEAN),
    _measure("time_first_img", "ms", LOWER),
    _measure("time_load", "ms", LOWER),
)
_ACCURACY = _measure("accuracy", "", HIGHER, aggregate=Aggregate.MEAN, zero_counts=True)
_RATE = _measure("images_per_second", "images/s", HIGHER, aggregate=Aggregate.MEAN)
_LINE = re.compile(r"^ *([a-z_]+(?: [a-z]+){0,2}) *: *(.*?) *$")
#: The lines that only a head has.
_HEAD = re.compile(r"^(?=device *:[^\n]*\n+[ \t]*ram size *:)", re.MULTILINE)
_WORKLOAD = re.compile(r"^ *workload *$", re.MULTILINE)
_MILLISECONDS = 1000.0
_LONGEST_NAME = 200


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of each log in a file: the scores of the device, then those of a workload."""
    logs = [it for it in _HEAD.split(file.text) if _WORKLOAD.search(it)]
    for run, text in numbered_parts(file.run(SYSTEM), logs or [file.text]):
        head, workloads = _blocks(text)
        if not workloads:
            raise missing_value(file.place, "workload", "the log has no workload")
        yield from _of_log(run, head, workloads)


def _of_log(
    run: Run, head: Mapping[str, str], workloads: list[dict[str, str]]
) -> Iterator[BenchmarkResult]:
    images = whole_number(head.get("image count"))
    shared: dict[str, Parameter] = {} if images is None else {"images": images}
    shared |= stated_texts(_LONGEST_NAME, data_set=head.get("resource name"))
    versions = [software_versions([it.get("framework", "")]) for it in workloads]
    run = replace(
        run,
        benchmark="all workloads",
        hardware=stated_texts(
            _LONGEST_NAME, description=head.get("device"), cpu=head.get("device hardware")
        ),
        software={name: value for it in versions for name, value in it.items()},
        parameters={**shared, "workloads": ", ".join(sorted(map(_name, workloads)))[:2000]},
    )
    for score in _SCORES:
        if score.metric.name in head:
            yield run.result(score, head[score.metric.name])
    for workload in workloads:
        yield from _of_workload(replace(run, parameters=shared), workload)


def _of_workload(run: Run, workload: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    names = {key: workload.get(key) for key in ("framework", "quantisation", "device")}
    run = replace(
        run,
        benchmark=workload.get("model", "")[:_LONGEST_NAME] or _name(workload),
        parameters={**run.parameters, **stated_texts(_LONGEST_NAME, **names)},
    )
    times = [workload.get(it.metric.name, "").removesuffix("ms") for it in _TIMES]
    for each, time in zip(_TIMES, times, strict=True):
        if each.metric.name in workload or each is _TIMES[0]:
            yield run.result(each, time)
    mean = positive_number(times[0])
    yield run.result(_RATE, _MILLISECONDS / mean if mean else None)
    if "accuracy" in workload:
        yield run.result(_ACCURACY, workload["accuracy"])


def _blocks(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Values of the head and of each workload; a second ``framework`` is the quantisation."""
    head: dict[str, str] = {}
    workloads: list[dict[str, str]] = []
    for line in text.split("\n"):
        if line.strip() == "workload":
            workloads.append({})
        elif match := _LINE.match(line):
            block = workloads[-1] if workloads else head
            repeated = workloads and match[1] == "framework" and "framework" in block
            block["quantisation" if repeated else match[1]] = match[2]
    return head, workloads


def _name(workload: Mapping[str, str]) -> str:
    return workload.get("name", "")[:_LONGEST_NAME] or "unknown"
