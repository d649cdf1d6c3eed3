"""HPE Deep Learning Benchmarking Suite: time of a batch, and samples a second.

Data lines have the form ``__key__=value`` with a JSON value; the last line of a key counts. All
other lines are output of the measured program.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from ingest.benchmarks.result_tree import ResultFile, as_object, missing_value, reader_of_files
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    measure,
    numbered_parts,
    positive_number,
    product_of,
    software_versions,
    time_of_text,
)
from model.measurements.benchmark_results import Aggregate, BenchmarkResult

SYSTEM = "hpe-dlcookbook"
_TIME = measure("results.time", "ms/batch", LOWER, "dlbs-1", Aggregate.MEAN)
_THROUGHPUT = measure("results.throughput", "samples/s", HIGHER, "dlbs-1", Aggregate.MEAN)
_LINE = re.compile(r"^[ \t]*__(.+?(?=__[ \t]*=))__[ \t]*=(.*)$", re.MULTILINE)
_PARAMETERS = {
    "exp.phase": "phase", "exp.dtype": "precision", "exp.replica_batch": "batch_size",
    "exp.effective_batch": "global_batch_size", "exp.data": "data_set",
    "exp.framework_title": "framework", "exp.num_nodes": "nodes",
}  # fmt: skip
#: Names of the framework by the back end that ran it.
_FRAMEWORKS = {
    "nvtfcnn": "tensorflow", "nvcnn": "tensorflow", "tensorflow": "tensorflow",
    "tf_cnn": "tensorflow", "pytorch": "torch", "mxnet": "mxnet", "caffe2": "caffe2",
    "tensorrt": "tensorrt", "bvlc_caffe": "caffe", "nvidia_caffe": "caffe", "intel_caffe": "caffe",
}  # fmt: skip
#: The texts of ``exp.status`` for a run that did not end well.
_FAILURES = frozenset({"failure", "error", "failed"})
_ENDS = ("success", "failure")
_STATUS = ("exp.status", "exp.status_msg")


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a log, or of each row of the JSON that the suite's log parser writes."""
    run = file.run(SYSTEM)
    if file.text.lstrip().startswith("{"):
        rows = file.json_object().get("data")
        for number, row in enumerate(rows if isinstance(rows, list) else ()):
            values = as_object(row, file.place)
            yield from _of_run(replace(run, source=f"{file.place}#{number}"), values)
        return
    for part, values in numbered_parts(run, list(_runs(file.text))):
        yield from _of_run(part, values)


def _runs(text: str) -> Iterator[dict[str, Any]]:
    """The values of each run in a log.

    A run ends with its status. A log with a single line for the identifier has one run, even if it
    repeats other lines.
    """
    lines: list[tuple[str, Any]] = []
    for key, stated in _LINE.findall(text):
        try:
            lines.append((key, orjson.loads(stated.strip())))
        except orjson.JSONDecodeError:
            lines.append((key, None))
    several = sum(key == "exp.id" for key, _ in lines) != 1
    values: dict[str, Any] = {}
    ended = False
    for key, value in lines:
        if several and ended and key in values and key not in _STATUS:
            yield values
            values, ended = {}, False
        values[key] = value
        ended = ended or (key == "exp.status" and value in _ENDS)
    yield values


def _of_run(run: Run, values: Mapping[str, Any]) -> Iterator[BenchmarkResult]:
    texts = {
        key: it.strip()[:500] for key, it in values.items() if isinstance(it, str) and it.strip()
    }
    model = texts.get("exp.model_title") or texts.get("exp.model")
    if model is None:
        raise missing_value(run.source, "exp.model", "the log names no model")
    device, title = values.get("exp.device_type"), texts.get("exp.device_title")
    gpus = product_of(values.get("exp.num_gpus"), values.get("exp.num_nodes", 1))
    # Users choose the keys that the log parser writes.
    stated = texts.get("exp.framework") or texts.get("exp.framework_title") or ""
    name = _FRAMEWORKS.get(stated.lower())
    framework = {name: texts.get("exp.framework_ver")} if name else {}
    versions = [f"{it} {texts[f'exp.{it}']}" for it in ("cuda", "cudnn") if f"exp.{it}" in texts]
    run = replace(
        run,
        benchmark=model,
        parameters={
            name: value
            for key, name in _PARAMETERS.items()
            if isinstance(value := values.get(key), str | int | float) and value != ""
        },
        hardware={"accelerator" if device == "gpu" else "cpu": title} if title else {},
        accelerators=0 if device == "cpu" else gpus,
        software={**framework, **software_versions(versions)},
        measured_at=time_of_text(values.get("results.start_time"), "%Y-%m-%d:%H:%M:%S:%f"),
    )
    failed = str(values.get("exp.status", "")).lower() in _FAILURES
    cause = texts.get("exp.status_msg") or "the run failed"
    series = values.get("results.time_data")
    numbers = [positive_number(it) for it in (series if isinstance(series, list) else ())]
    samples = tuple(it for it in numbers if it is not None)
    for each, times in ((_TIME, samples), (_THROUGHPUT, ())):
        key = each.metric.name
        value, failure = (None, cause) if failed else (values.get(key), f"no {key}")
        yield run.result(each, value, failure, samples=times)
