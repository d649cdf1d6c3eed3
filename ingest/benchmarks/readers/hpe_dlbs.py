"""HPE Deep Learning Benchmarking Suite: time of a batch, and samples a second.

Data lines have the form ``__key__=value`` with a JSON value; the last line of a key counts. All
other lines are output of the measured program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from ingest.benchmarks.result_tree import (
    ResultFile,
    as_object,
    missing_value,
    numbered_parts,
    reader_of_files,
)
from ingest.benchmarks.software import software_versions
from ingest.benchmarks.values import measured_or_failed, positive_number, time_of_text, whole_number
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
)

SYSTEM = "hpe-dlcookbook"
_TIME = Metric("results.time", "ms/batch", Direction.LOWER, "dlbs-1")
_THROUGHPUT = Metric("results.throughput", "samples/s", Direction.HIGHER, "dlbs-1")
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
    place, files = file.place, (file.measured,)
    if file.text.lstrip().startswith("{"):
        rows = file.json_object().get("data")
        for number, row in enumerate(rows if isinstance(rows, list) else ()):
            yield from _of_run(as_object(row, place), f"{place}#{number}", files)
        return
    for source, run in numbered_parts(place, list(_runs(file.text))):
        yield from _of_run(run, source, files)


def _runs(text: str) -> Iterator[dict[str, Any]]:
    """The values of each run in a log.

    A run ends with its status. A log with one line of an identifier is of one run, whatever other
    lines it repeats.
    """
    lines = [(match[1], _json(match[2])) for match in _LINE.finditer(text)]
    several = sum(key == "exp.id" for key, _ in lines) != 1
    run: dict[str, Any] = {}
    ended = False
    for key, value in lines:
        if several and ended and key in run and key not in _STATUS:
            yield run
            run, ended = {}, False
        run[key] = value
        ended = ended or (key == "exp.status" and value in _ENDS)
    yield run


def _of_run(
    run: Mapping[str, Any], place: str, files: Sequence[MeasuredFile]
) -> Iterator[BenchmarkResult]:
    model = _text(run, "exp.model_title") or _text(run, "exp.model")
    if model is None:
        raise missing_value(place, "exp.model", "the log names no model")
    failed = str(run.get("exp.status", "")).lower() in _FAILURES
    cause = _text(run, "exp.status_msg") or "the run failed"
    series = run.get("results.time_data")
    numbers = [positive_number(it) for it in (series if isinstance(series, list) else ())]
    samples = tuple(it for it in numbers if it is not None)
    for metric, times in ((_TIME, samples), (_THROUGHPUT, ())):
        yield measured_or_failed(
            None if failed else run.get(metric.name),
            cause if failed else f"no {metric.name}",
            system=SYSTEM,
            source=place,
            benchmark=model,
            metric=metric,
            aggregate=Aggregate.MEAN,
            parameters=_parameters(run),
            samples=times,
            hardware=_hardware(run),
            accelerators=_accelerators(run),
            software=_software(run),
            measured_at=time_of_text(run.get("results.start_time"), "%Y-%m-%d:%H:%M:%S:%f"),
            files=files,
        )


def _json(text: str) -> Any:
    try:
        return orjson.loads(text.strip())
    except orjson.JSONDecodeError:
        return None


def _text(run: Mapping[str, Any], key: str) -> str | None:
    value = run.get(key)
    return value.strip()[:500] or None if isinstance(value, str) else None


def _parameters(run: Mapping[str, Any]) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {}
    for key, name in _PARAMETERS.items():
        value = run.get(key)
        if isinstance(value, str | int | float) and value != "":
            parameters[name] = value
    return parameters


def _hardware(run: Mapping[str, Any]) -> dict[str, str]:
    title = _text(run, "exp.device_title")
    if title is None:
        return {}
    return {"accelerator" if run.get("exp.device_type") == "gpu" else "cpu": title}


def _accelerators(run: Mapping[str, Any]) -> int | None:
    if run.get("exp.device_type") == "cpu":
        return 0
    gpus, nodes = whole_number(run.get("exp.num_gpus")), whole_number(run.get("exp.num_nodes", 1))
    return None if gpus is None or nodes is None else gpus * nodes


def _software(run: Mapping[str, Any]) -> dict[str, str | None]:
    # Users choose the keys that the log parser writes.
    stated = _text(run, "exp.framework") or _text(run, "exp.framework_title") or ""
    name = _FRAMEWORKS.get(stated.lower())
    framework = {name: _text(run, "exp.framework_ver")} if name else {}
    parts = [
        f"{part} {version}"
        for part in ("cuda", "cudnn")
        if (version := _text(run, f"exp.{part}")) is not None
    ]
    return {**framework, **software_versions(parts)}
