"""tf_cnn_benchmarks: images a second of convolutional networks, from console output or JSON logs.

The console prints the mean over all steps so far, and the total at the end. ``--benchmark_log_dir``
writes ``benchmark_run.log`` (the run; others call it ``benchmark.log``) and ``metric.log`` (one
JSON object for each value).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from posixpath import basename, dirname, join
from typing import Any

from graph.record.benchmark_entries import entry_id_of
from ingest.benchmarks.result_texts import csv_rows
from ingest.benchmarks.result_tree import ResultFile, ResultTree, missing_value, results_or_refusal
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    first_group,
    mapping_of,
    measure,
    numbered_parts,
    stated_texts,
    time_of_epoch,
    time_of_text,
    whole_number,
    with_parameters,
)
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

SYSTEM = "tf_cnn_benchmarks"
_measure = partial(measure, definition="tf_cnn_benchmarks-1", aggregate=Aggregate.TOTAL)
_TOTAL = _measure("total_images_per_sec", "images/s", HIGHER)
_MEAN = _measure("images_per_sec", "images/s", HIGHER)
_UNCERTAINTY = _measure("uncertainty", "images/s", LOWER, zero_counts=True)
_JITTER = _measure("jitter", "images/s", LOWER, zero_counts=True)
_AVERAGE, _CURRENT = "average_examples_per_sec", "current_examples_per_sec"
_ACCURACIES = ("eval_top_1_accuracy", "eval_top_5_accuracy")
_LOGGED = {
    **{name: _measure(name, "examples/s", HIGHER) for name in (_AVERAGE, f"eval_{_AVERAGE}")},
    **{name: _measure(name, "", HIGHER, zero_counts=True) for name in _ACCURACIES},
}
#: Wrappers put a prefix with ``|`` before each row.
_STEP = re.compile(
    r"^(?:.*\|)?[ \t]*(\d+)[ \t]+images/sec: (\S+) \+/- (\S+) \(jitter = ([^)\s]+)\)", re.MULTILINE
)
#: An evaluation prints its accuracies once.
_ACCURACY = re.compile(r"Accuracy @ 1 = ([\d.]+) Accuracy @ 5 = ([\d.]+)")
_RUN_START = re.compile(r"^(?:.*\|)?[ \t]*TensorFlow:(?: |$)", re.MULTILINE)
_TOTAL_LINE = re.compile(r"total[ \t]+images/sec:[ \t]*(\S*)")
_STEP_OR_TOTAL = re.compile(f"{_STEP.pattern}|{_TOTAL_LINE.pattern}", re.MULTILINE)
_HEADER = re.compile(
    r"^(?:.*\|)?[ \t]*(TensorFlow|Model|Dataset|Mode|Batch size|Num batches|Devices|Data format"
    r"|Optimizer|Variables|AllReduce):[ \t]*(\S.*)",
    re.MULTILINE,
)
_PER_DEVICE = re.compile(r"^(?:.*\|)?[ \t]*(\d+)(?:\.0)? per device", re.MULTILINE)
#: What TensorFlow prints of each GPU; the form depends on its version.
_GPU = re.compile(
    r"^name: (.+?) major: |-> (?:physical GPU \()?device: \d+, name: ([^,\n]{1,100}), pci bus id",
    re.MULTILINE,
)
_UNIX_TIME = re.compile(
    r"^[ \t]*\d+[ \t]+images/sec: .*[ \t](\d{9,10})(?:\.\d+)?[ \t]*$", re.MULTILINE
)
#: Parameters by the title of a line of the head, and by name in a description of a run.
_TITLED = {
    "Dataset": "data_set", "Mode": "phase", "Data format": "data_format",
    "Optimizer": "optimizer", "Variables": "variable_update", "AllReduce": "all_reduce",
}  # fmt: skip
_NAMED = {
    "batch_size": "global_batch_size", "batch_size_per_device": "batch_size",
    "data_format": "data_format", "dataset": "data_set", "mode": "phase",
    "num_batches": "batches", "optimizer": "optimizer", "variable_update": "variable_update",
}  # fmt: skip
_RUN_FILES = ("benchmark_run.log", "benchmark.log")
_CSV_METADATA = ("name_gpu", "num_gpu")


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of each console log, each folder of JSON logs and each published table."""
    for place in places:
        name = basename(place)
        if name in (*_RUN_FILES, "eval.log") and join(dirname(place), "metric.log") in places:
            continue  # read with metric.log
        yield from results_or_refusal(_results(tree, place), place)


def _results(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    name = basename(place)
    if name == "metric.log":
        yield from _json_logs(tree, place)
    elif not name.endswith(".csv"):
        yield from _console(tree, place)
    elif "throughput" in name:  # a table of batch sizes has no results
        # Rows of one machine may stand apart.
        yield from sorted(_table(tree.file(place)), key=entry_id_of)


def _console(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of each run in a console log; the head of a run may be missing."""
    file = tree.file(place)
    if file.text.startswith("{"):
        raise missing_value(place, "metric.log", "this describes a run; its values are missing")
    runs: list[str] = []
    for text in _headed_runs(file.text):
        starts = [0, *_restarts(text), len(text)]
        runs += (text[start:end] for start, end in pairwise(starts))
    if not runs:
        raise missing_value(place, "images/sec", "the log has neither a head nor a rate")
    for run, text in numbered_parts(file.run(SYSTEM), runs):
        # TensorFlow may find the GPUs before the run prints its head.
        yield from _of_console(run, text, _gpus(text) or _gpus(file.text))


def _restarts(text: str) -> Iterator[int]:
    """Positions of a first step after a total; processes repeat later steps only."""
    first: str | None = None
    ended = False
    for match in _STEP_OR_TOTAL.finditer(text):
        step = match[1]
        if step is None:
            ended = True
        elif first is None:
            first = step
        elif ended and step == first:
            yield match.start()
            ended = False


def _headed_runs(text: str) -> Iterator[str]:
    """The text of each run with a head; processes of one run may repeat its head."""
    starts = [match.start() for match in _RUN_START.finditer(text)]
    run = ""
    for start, end in zip([0, *starts], [*starts, len(text)], strict=True):
        part = text[start:end]
        ended = _STEP.search(run) or _TOTAL_LINE.search(run)
        if run and (ended or _head(run) != _head(part)):
            yield run
            run = ""
        # Lines before the first head are output of other programs, unless they have rates.
        if start in starts or _STEP.search(part) or _TOTAL_LINE.search(part):
            run += part
    if run:
        yield run


def _head(text: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _HEADER.finditer(text)}


def _gpus(text: str) -> list[str]:
    """Models of the GPUs that TensorFlow found, each once."""
    return list(dict.fromkeys(old or new for old, new in _GPU.findall(text)))


def _of_console(run: Run, text: str, gpus: Sequence[str]) -> Iterator[BenchmarkResult]:
    header = _head(text)
    devices = _devices(header.get("Devices"))
    parameters: dict[str, Parameter] = {
        name: header[key] for key, name in _TITLED.items() if key in header
    }
    if parameters.get("phase") == "BenchmarkMode.TRAIN":  # TensorFlow 1.12
        parameters["phase"] = "training"
    counts = {
        "global_batch_size": whole_number(header.get("Batch size", "").partition(" ")[0]),
        "batches": whole_number(header.get("Num batches", "").partition(" ")[0]),
        "batch_size": whole_number(first_group(_PER_DEVICE, text)),
    }
    run = replace(
        run,
        benchmark=header.get("Model", "unknown"),
        parameters=parameters | {name: it for name, it in counts.items() if it is not None},
        # Which of several models was used is not known, and a run on processors used none.
        hardware={"accelerator": gpus[0]} if len(gpus) == 1 and devices != 0 else {},
        accelerators=devices,
        software={"tensorflow": header.get("TensorFlow")},
        measured_at=time_of_epoch(first_group(_UNIX_TIME, text)),
    )
    total = first_group(_TOTAL_LINE, text)
    failure = "the run printed no total" if total is None else f"the total is {total[:50]!r}"
    yield run.result(_TOTAL, total, failure)
    if accuracy := _ACCURACY.search(text):
        for name, value in zip(_ACCURACIES, accuracy.groups(), strict=True):
            yield run.result(_LOGGED[name], value)
    steps = {whole_number(step[1]) or 0: step for step in _STEP.finditer(text)}
    if steps:
        last = steps[max(steps)]
        run = with_parameters(run, step=max(steps))
        means = tuple(mean for row in steps.values() if (mean := finite_number(row[2])) is not None)
        yield run.result(_MEAN, last[2], samples=means)
        yield run.result(_UNCERTAINTY, last[3])
        yield run.result(_JITTER, last[4])


def _devices(text: str | None) -> int | None:
    """Number of accelerators in a list of devices; 0 for processors alone."""
    return None if text is None else len(re.findall(r"(?:gpu|tpu):\d+", text, re.IGNORECASE))


def _json_logs(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of the run that wrote a ``metric.log``."""
    file = tree.file(place)
    beside = (tree.description(join(dirname(place), name)) for name in _RUN_FILES)
    description, *described_by = next(filter(None, beside), ({},))
    run = _described(file.run(SYSTEM, *described_by), description)
    series: list[float] = []
    values: dict[str, float | None] = {}
    for entry in _logged_values(file.text):
        name, value = entry.get("name"), finite_number(entry.get("value"))
        if name == _CURRENT and value is not None:
            series.append(value)
        elif name in _LOGGED:
            values[str(name)] = value
    # An evaluation logs rates of its own, and no average of the training.
    expected = _AVERAGE if not any(it.startswith("eval_") for it in values) else ""
    for name in sorted({*values, expected} - {""}):
        samples = tuple(series) if name == _AVERAGE else ()
        yield run.result(
            _LOGGED[name], values.get(name), "the run logged no average", samples=samples
        )


def _logged_values(text: str) -> list[dict[str, Any]]:
    """The values of a run, whose steps rise up to its average."""
    values: list[dict[str, Any]] = []
    step, averaged = -1.0, False
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        # A run that was killed may end inside a line.
        unfinished = number == len(lines) and not line.rstrip().endswith("}")
        if unfinished or not line.strip():
            continue
        try:
            entry = json.loads(line)  # Python writes NaN, which is no JSON
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise InvalidDocument(Reason.INVALID_JSON, "not a JSON object", field=f"line {number}")
        if entry.get("name") == _CURRENT:
            at = finite_number(entry.get("global_step"))
            if averaged or (at is not None and at <= step):
                message = "a second run begins: keep each run in a folder of its own"
                raise InvalidDocument(Reason.UNKNOWN_SCHEMA, message, field=f"line {number}")
            step = step if at is None else at
        averaged = averaged or entry.get("name") == _AVERAGE
        values.append(entry)
    return values


def _described(run: Run, description: Mapping[str, Any]) -> Run:
    stated = description.get("run_parameters")
    parameters = {
        it["name"]: next((value for key, value in it.items() if key != "name"), None)
        for it in (stated if isinstance(stated, list) else ())
        if isinstance(it, dict) and isinstance(it.get("name"), str)
    }
    kept: dict[str, Parameter] = {}
    for key, name in _NAMED.items():
        value = parameters.get(key)
        if isinstance(value, str | int | float):
            kept[name] = int(value) if isinstance(value, float) and value.is_integer() else value
    machine = mapping_of(description, "machine_config")
    gpu, cpu = mapping_of(machine, "gpu_info"), mapping_of(machine, "cpu_info")
    return replace(
        run,
        benchmark=str(description.get("model_name") or parameters.get("model") or "unknown"),
        parameters=kept,
        hardware=stated_texts(None, accelerator=gpu.get("model"), cpu=cpu.get("cpu_info")),
        accelerators=_devices(str(parameters["devices"])) if "devices" in parameters else None,
        software={"tensorflow": mapping_of(description, "tensorflow_version").get("version")},
        measured_at=time_of_text(description.get("run_date")),
    )


def _table(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a published table of rounded rates by machine."""
    names, *rows = list(csv_rows(file.text)) or [[]]
    for number, cells in enumerate(rows, 2):
        if cells == names:
            continue  # another program appended its table
        if len(cells) > len(names):  # decimal commas split cells
            raise InvalidDocument(
                Reason.WRONG_TYPE, f"more than {len(names)} cells", field=f"row {number}"
            )
        row = dict(zip(names, cells, strict=False))
        machine = row.get("name_gpu", "")
        run = replace(
            file.run(SYSTEM),
            parameters={"phase": "training", "rounded": True, "machine": machine},
            hardware={"accelerator": re.sub(r"^\d+x\s*", "", machine)},
            accelerators=whole_number(row.get("num_gpu")),
        )
        for model, text in row.items():
            if model not in _CSV_METADATA:
                of_model = replace(run, benchmark=model)
                yield of_model.result(_TOTAL, text, "the cell is empty or zero")
