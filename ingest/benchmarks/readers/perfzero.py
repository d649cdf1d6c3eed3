"""PerfZero: metrics of a benchmark method of TensorFlow, and of the process that ran it.

Each execution writes one JSON object, alone or within the log of the execution. Published examples
have comments that begin with ``#``.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ingest.benchmarks.result_tree import ResultFile, as_object, missing_value, reader_of_parts
from ingest.benchmarks.results import (
    LOWER,
    Measure,
    Run,
    direction_of,
    is_rate_or_time,
    measure,
    software_versions,
    stated_texts,
    time_of_epoch,
    unit_of,
)
from model.errors import InvalidDocument
from model.json_documents import json_value_of
from model.json_fields import Fields
from model.measurements.benchmark_results import BenchmarkResult, Direction, Validity

_DEFINITION = "perfzero-1"
#: Packages that PerfZero calls the framework; the first of them that is known counts.
_FRAMEWORKS = ("tensorflow", "tensorflow-cpu", "torch", "jax", "onnxruntime", "mxnet", "numpy")
_WALL_TIME = measure("wall_time", "s", LOWER, _DEFINITION)
_OF_PROCESS = (
    measure("max_rss", "bytes", LOWER, _DEFINITION),
    measure("max_vms", "bytes", LOWER, _DEFINITION),
    # Neither a busy nor an idle processor is better.
    measure("max_cpu_percent", "%", Direction.UNKNOWN, _DEFINITION),
)
_STRING_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*+")|#[^\n]*')
_OBJECT_START = re.compile(r"^ ?\{", re.MULTILINE)
#: At most this number of objects of a log are tried; an execution writes one.
_MOST_OBJECTS = 1000
#: ``wall_time`` of a benchmark that does not report it.
_NOT_REPORTED = -1
_REPOSITORY = re.compile(r"([\w.-]+/[\w.-]+?)(?:\.git)?/?\Z")
_REVISION = re.compile(r"[0-9a-f]{7,64}\Z")


def _summaries(file: ResultFile) -> list[dict[str, Any]]:
    """The summaries in a file; comments and other lines of a log are skipped."""
    try:
        value = file.json_value()
        listed = value if isinstance(value, list) else [value]
        return [as_object(it, file.place) for it in listed]
    except InvalidDocument as error:
        text = _STRING_OR_COMMENT.sub(lambda match: match[1] or "", file.text)
        summaries = list(_objects(text))
        if not summaries:
            raise error from None
        return summaries


def _objects(text: str) -> Iterator[dict[str, Any]]:
    decoder = json.JSONDecoder()
    end = 0
    for tried, start in enumerate(_OBJECT_START.finditer(text)):
        if tried == _MOST_OBJECTS:
            return
        if start.start() < end:
            continue
        begin = start.end() - 1
        try:
            value, end = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "benchmark_result" in value:
            # Read again with the rules for stored documents.
            yield as_object(json_value_of(text[begin:end].encode()), "")


@reader_of_parts("perfzero", _summaries)
def read(run: Run, record: dict[str, Any]) -> Iterator[BenchmarkResult]:
    """Results of each execution in a file."""
    summary = Fields(record)
    result = summary.nested("benchmark_result")
    name = result.text("name")
    if name is None:
        raise missing_value(run.source, "$.benchmark_result.name", "the summary names no benchmark")
    run = _described(replace(run, benchmark=name), summary)
    cause = None
    if summary.nested("benchmark_info").get("has_exception") is True:
        cause = "the benchmark raised an exception"
    elif result.get("succeeded") is False:
        cause = "the benchmark did not succeed"
    wall_time = result.number("wall_time", low=-1.0)
    process = summary.nested("process_info")
    values = [
        (_WALL_TIME, None if wall_time == _NOT_REPORTED else wall_time, None),
        *_reported_metrics(result),
        *(
            (each, process.number(each.metric.name), None)
            for each in _OF_PROCESS
            if each.metric.name in process
        ),
    ]
    for each, value, violation in values:
        failure = cause
        if value is not None and value <= 0 and is_rate_or_time(each.metric.unit):
            failure = cause or "a time or a rate is not positive"
        if failure is not None:
            yield run.stated(each, None, validity=Validity.FAILED, reason=failure)
        elif value is None:
            yield run.stated(each, None, reason=f"{each.metric.name} was not reported")
        else:
            validity = Validity.UNKNOWN if violation is None else Validity.INVALID
            yield run.stated(each, value, validity=validity, reason=violation)


def _reported_metrics(result: Fields) -> Iterator[tuple[Measure, float | None, str | None]]:
    """Metrics of the benchmark method with their values, and why a value does not count."""
    for entry in result.each("metrics"):
        name = entry.required_text("name", "the metric has no name")
        violation = None
        if entry.get("succeeded") is False:
            bounds = (entry.get("min_value"), entry.get("max_value"))
            stated = (str(it) for it in bounds if isinstance(it, int | float))
            violation = f"the value violates its bounds ({', '.join(stated) or 'not given'})"
        value = entry.number("value", low=-1e15)
        yield measure(name, unit_of(name), direction_of(name), _DEFINITION), value, violation


def _described(run: Run, summary: Fields) -> Run:
    system = summary.nested("system_info")
    parts = {"accelerator": "accelerator_model", "cpu": "cpu_model"}
    names = {part: system.text(key) for part, key in parts.items()}
    counts = {key: system.get(key) for key in ("physical_cpu_count", "logical_cpu_count")}
    count = system.get("accelerator_count")
    return replace(
        run,
        parameters={key: it for key, it in counts.items() if isinstance(it, int)},
        hardware=stated_texts(None, **names),
        accelerators=count if type(count) is int and count >= 0 else None,
        software=_software(summary, system),
        measured_at=time_of_epoch(summary.get("execution_timestamp")),
    )


def _software(summary: Fields, system: Fields) -> dict[str, str | None]:
    """Framework, driver, and the revisions of the repositories with the benchmarks."""
    framework = summary.nested("ml_framework_info")
    name, version = framework.text("name"), framework.text("version")
    versions = software_versions([f"{name} {version}" if version else name]) if name else {}
    driver = system.text("accelerator_driver_version")
    if driver:
        versions["nvidia-driver"] = driver
    packages = summary.nested("benchmark_info").nested("site_package_info")
    for package in packages.values():
        if not isinstance(package, dict):
            continue
        repository = _REPOSITORY.search(str(package.get("url")))
        revision = _REVISION.match(str(package.get("hash")))
        if repository and revision:
            versions[repository[1]] = revision[0]
    return versions


def perfzero_summaries(results: Iterable[BenchmarkResult]) -> Iterator[dict[str, Any]]:
    """Results of an indicator in the form of PerfZero: a summary for each benchmark and its
    parameters; results without a value are left out.
    """
    measured = (it for it in results if it.value is not None)
    for (benchmark, parameters), group in groupby(
        measured, key=lambda it: (it.benchmark, it.parameters)
    ):
        of_benchmark = list(group)
        yield _summary(benchmark, parameters, of_benchmark)


def _summary(
    benchmark: str, parameters: Mapping[str, Any], results: Sequence[BenchmarkResult]
) -> dict[str, Any]:
    (first, *_), software = results, results[0].software
    framework = next((it for it in _FRAMEWORKS if it in software), next(iter(software), ""))
    summary: dict[str, Any] = {
        "ml_framework_info": {"name": framework, "version": software.get(framework) or ""},
        "benchmark_info": {"has_exception": False, "harness_name": "thoth",
                           "harness_info": {"parameters": parameters, "software": software}},
        "system_info": {"accelerator_model": first.hardware.get("accelerator", "")},
        "process_info": {},
        "benchmark_result": {
            "name": benchmark, "succeeded": True, "wall_time": _NOT_REPORTED,
            "metrics": [
                {"name": it.metric.name, "value": it.value, "extra_info": {
                    "unit": it.metric.unit, "direction": it.metric.direction,
                    "definition": it.metric.definition, "samples": list(it.samples),
                }} for it in results
            ],
        },
    }  # fmt: skip
    if first.measured_at is not None:
        summary["execution_id"] = f"{first.measured_at:%Y-%m-%d-%H-%M-%S-%f}"
        summary["execution_timestamp"] = first.measured_at.timestamp()
    return summary
