"""NVIDIA Jetson benchmarks: frames a second of models on one board.

The program runs ``trtexec`` for each engine (the GPU, and up to two deep learning accelerators) and
adds their rates within the time in which all of them ran. It prints 0.00 if an engine is missing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from posixpath import basename, dirname, splitext
from statistics import fmean

from ingest.benchmarks.result_texts import csv_rows, markdown_tables
from ingest.benchmarks.result_tree import ResultTree, results_or_refusal
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    first_group,
    measure,
    numbered_parts,
    positive_number,
    time_of_text,
)
from model.errors import InvalidDocument
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

SYSTEM = "jetson"
_FPS = measure("fps", "frames/s", HIGHER, "jetson-benchmarks-1", Aggregate.SUM)
_LATENCY = measure("gpu_latency", "ms", LOWER, "trtexec-1", Aggregate.MEAN)
_THROUGHPUT = measure("throughput", "queries/s", HIGHER, "trtexec-1", Aggregate.TOTAL)
_TRTEXEC = re.compile(
    r"Average on \d+ runs - GPU latency"
    r"|&&&& (?:RUNNING|FAILED) TensorRT\.trtexec|^(?:\[.*\] )?GPU Compute Time: min = ",
    re.MULTILINE,
)
_COMPUTE_TIME = re.compile(r"GPU Compute Time: min = .*?mean = (\S+) ms")
_THROUGHPUT_LINE = re.compile(r"\bThroughput: (\S+) qps")
_BLOCK = re.compile(r"^Model Name: (?P<model>\S.*?)[ \t]*\n+[ \t]*FPS:(?P<fps>\S*)", re.MULTILINE)
_PRINTED_HEADER = re.compile(r"^ +Model Name +FPS *$", re.MULTILINE)
_PRINTED_ROW = re.compile(r"^\d+ +(?P<model>\S.*?) +(?P<fps>\S+) *$")
_BOARD = re.compile(r"^Setting Jetson (?P<board>[\w-]+) in ", re.MULTILINE)
_BUILD_ERROR = "Error in Build"
_AVERAGE = re.compile(
    r"Average on (?P<runs>\d{1,9}) runs - GPU latency: (?P<gpu>[\d.]{1,30}) ms"
    r"(?:.*?end to end (?P<end>[\d.]{1,30}) ms)?"
)
_START = re.compile(r"(\d{2}/\d{2}/\d{4}-\d{2}:\d{2}:\d{2})\].*Starting")
#: Names of the logs that the program keeps for each engine.
_ENGINE_FILE = re.compile(
    r"(?P<model>.+)_b(?P<batch>\d{1,6})_ws(?P<workspace>\w+)_(?P<engine>gpu|dla\d)\.txt"
)
_TENSORRT = re.compile(r"TensorRT version: (\d+(?:\.\d+)+)")
_TENSORRT_CODE = re.compile(r"TensorRT\.trtexec \[TensorRT v(\d{4,6})\]")
_LOGGED_PARAMETERS = {
    "precision": re.compile(r"\] Precision: (\S.*)"),
    "batch_size": re.compile(r"(?:\] Batch|^(?:\[.*\] )?batch): (\d{1,6})[ \t]*$", re.MULTILINE),
}
_DEVICE = re.compile(r"\] Selected Device: (\S.*)")
_RUNNING = re.compile(r"&&&& RUNNING TensorRT\.trtexec")
_SUMMARY = re.compile(r"=== Performance summary ===")
_OPTIONS = re.compile(r"(&&&& (?:RUNNING|FAILED) TensorRT\.trtexec.*)", re.MULTILINE)
_MODEL_OPTION = re.compile(r"--(?:onnx|deploy|uff|model|loadEngine)=(\S+)")
_BATCH_OPTION = re.compile(r"--(?:batch|maxBatch)=(\d{1,6})\b")
_INPUT_COLUMNS = {
    "FrameWork": "model_format", "Devices": "devices", "BatchSizeGPU": "batch_size_gpu",
    "BatchSizeDLA": "batch_size_dla", "WS_GPU": "workspace_gpu", "WS_DLA": "workspace_dla",
}  # fmt: skip


def read(tree: ResultTree, places: Sequence[str]) -> Iterator[BenchmarkResult | InvalidDocument]:
    """Results of each console log, each published table and each group of ``trtexec`` logs."""
    inputs = {basename(it): it for it in places if it.endswith("-benchmarks.csv")}
    groups: dict[tuple[str, str], list[str]] = {}
    for place in places:
        if place in inputs.values():
            continue  # the parameters of runs, not their results
        engine = _ENGINE_FILE.fullmatch(basename(place))
        if engine:
            groups.setdefault((dirname(place), engine["model"]), []).append(place)
        else:
            yield from results_or_refusal(_results(tree, place, inputs), place)
    for (folder, model), logs in groups.items():
        yield from results_or_refusal(_engines(tree, folder, model), logs[0])


def _results(tree: ResultTree, place: str, inputs: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    text, run = file.text, file.run(SYSTEM)
    # A summary follows the averages of its run.
    begins = (_RUNNING, *(() if _AVERAGE.search(text) else (_SUMMARY,)))
    starts = next(filter(None, ([it.start() for it in one.finditer(text)] for one in begins)), [])
    outputs = [text[start:end] for start, end in pairwise([0, *starts[1:], len(text)])]
    for part, output in numbered_parts(run, [it for it in outputs if _TRTEXEC.search(it)]):
        yield from _trtexec(part, output)
    board = first_group(_BOARD, text)
    beside = inputs.get(f"{board}-benchmarks.csv") if board else None
    table = None if beside is None else tree.file(beside)
    rows = {} if table is None else _inputs(table.text)
    run = file.run(SYSTEM, *((table.measured,) if table else ()))
    hardware = {"description": f"Jetson {board}"} if board else {}
    for model, fps, built in _rates(text):
        failure = "no rate was printed" if built else "an engine could not be built"
        of_model = replace(run, benchmark=model, parameters=rows.get(model, {}), hardware=hardware)
        yield of_model.result(_FPS, fps, failure)


def _rates(text: str) -> Iterator[tuple[str, str, bool]]:
    """Model, printed rate, and whether all builds succeeded; once for each model."""
    models: set[str] = set()
    position = 0
    for block in _BLOCK.finditer(text):
        models.add(block["model"])
        yield block["model"], block["fps"], _BUILD_ERROR not in text[position : block.start()]
        position = block.end()
    header = _PRINTED_HEADER.search(text)
    for line in text[header.end() :].lstrip("\n").split("\n") if header else ():
        row = _PRINTED_ROW.match(line)
        if row is None:
            break
        if row["model"] not in models:
            yield row["model"], row["fps"], True
    for table in markdown_tables(text):
        columns = [name.strip("* ").lower() for name in table.header]
        if columns[:2] == ["model name", "fps"]:
            for cells in table.rows:
                yield cells[0], cells[1], True


def _inputs(table: str) -> dict[str, dict[str, Parameter]]:
    """Parameters by model, from the table of models that the program reads."""
    parameters = {}
    names, *rows = list(csv_rows(table)) or [[]]
    for cells in rows:
        row = dict(zip(names, cells, strict=False))
        known: dict[str, Parameter] = {}
        for column, name in _INPUT_COLUMNS.items():
            text = row.get(column, "").strip()
            if text not in ("", "NA", "None"):
                known[name] = int(text) if re.fullmatch(r"\d{1,9}", text) else text[:100]
        parameters[row.get("ModelName", "")] = known
    return parameters


@dataclass(frozen=True, slots=True)
class _EngineLog:
    """The output of ``trtexec`` for one engine.

    :param ends_s: seconds since the start at which each average was complete
    :param latencies: mean latency of the GPU or accelerator in each average, ms
    """

    started_at: datetime | None
    ends_s: Sequence[float]
    latencies: Sequence[float]
    software: Mapping[str, str | None]
    hardware: Mapping[str, str]
    parameters: Mapping[str, Parameter]


def _engine_log(text: str) -> _EngineLog:
    ends, latencies, elapsed = [], [], 0.0
    for line in _AVERAGE.finditer(text):
        latency = finite_number(line["gpu"])
        # TensorRT 8.4 and later print no end-to-end latency.
        end_to_end = finite_number(line["end"] or line["gpu"])
        if latency is None or end_to_end is None or latency <= 0:
            continue
        elapsed += int(line["runs"]) * end_to_end / 1000
        ends.append(elapsed)
        latencies.append(latency)
    parameters: dict[str, Parameter] = {}
    for name, pattern in _LOGGED_PARAMETERS.items():
        if value := pattern.search(text):
            parameters[name] = int(value[1]) if value[1].isdecimal() else value[1].strip()[:100]
    if batch := first_group(_BATCH_OPTION, first_group(_OPTIONS, text) or ""):
        parameters.setdefault("batch_size", int(batch))
    device = first_group(_DEVICE, text)
    return _EngineLog(
        started_at=time_of_text(first_group(_START, text), "%m/%d/%Y-%H:%M:%S"),
        ends_s=ends,
        latencies=latencies,
        software={"tensorrt": _tensorrt(text)},
        hardware={"accelerator": device.strip()[:100]} if device else {},
        parameters=parameters,
    )


def _tensorrt(text: str) -> str | None:
    """Version of TensorRT; its code has two digits for a part since TensorRT 10.

    >>> _tensorrt("RUNNING TensorRT.trtexec [TensorRT v8201] #")
    '8.2.1'
    >>> _tensorrt("RUNNING TensorRT.trtexec [TensorRT v100200] #")
    '10.2.0'
    """
    stated, coded = first_group(_TENSORRT, text), first_group(_TENSORRT_CODE, text)
    if stated or coded is None:
        return stated
    code, width = int(coded), 100 if len(coded) > 4 else 10
    return f"{code // (100 * width)}.{code // 100 % width}.{code % 100}"


def _model(text: str) -> str:
    """The file of the network without its folder, as the command line names it.

    >>> _model("&&&& RUNNING TensorRT.trtexec # trtexec --onnx=/home/jo/resnet50.onnx --int8")
    'resnet50'
    """
    model = first_group(_MODEL_OPTION, first_group(_OPTIONS, text) or "") or ""
    name = model.replace("\\", "/").rpartition("/")[2]
    return splitext(name)[0][:200] or "unknown"


def _of_log(run: Run, log: _EngineLog) -> Run:
    return replace(
        run,
        parameters=log.parameters,
        hardware=log.hardware,
        software=log.software,
        measured_at=log.started_at,
    )


def _trtexec(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """Latency and throughput of one engine; a log without a latency is from a failed run."""
    log = _engine_log(text)
    run = _of_log(replace(run, benchmark=_model(text)), log)
    mean, rate = first_group(_COMPUTE_TIME, text), first_group(_THROUGHPUT_LINE, text)
    yield run.result(
        _LATENCY,
        fmean(log.latencies) if log.latencies else mean,
        f"the mean latency is {mean[:50]!r}" if mean else "trtexec printed no latency",
        samples=tuple(log.latencies),
    )
    # TensorRT 7 and 8.0 print a rate of zero while they still measure.
    if positive_number(rate) is not None:
        yield run.result(_THROUGHPUT, rate)


def _engines(tree: ResultTree, folder: str, model: str) -> Iterator[BenchmarkResult]:
    """The rate of one model from the logs of its engines, including logs without a latency."""
    names = ((_ENGINE_FILE.fullmatch(basename(place)), place) for place in tree.in_folder(folder))
    engines = [
        (match["engine"], int(match["batch"]), tree.file(place))
        for match, place in names
        if match and match["model"] == model
    ]
    logs = [_engine_log(file.text) for _, _, file in engines]
    (_, _, first), *others = engines
    run = _of_log(first.run(SYSTEM, *(file.measured for _, _, file in others)), logs[0])
    parameters = {name: it for name, it in run.parameters.items() if name != "batch_size"}
    run = replace(
        run,
        source=folder if others else run.source,
        benchmark=model,
        parameters=parameters | {f"batch_size_{name}": batch for name, batch, _ in engines},
        accelerators=len(logs),
        measured_at=max((it.started_at for it in logs if it.started_at is not None), default=None),
    )
    means = list(zip(engines, _means_together(logs), strict=True))
    silent = [name for (name, batch, _), mean in means if mean is None or batch == 0]
    failure = f"no latency of {', '.join(silent)} while all engines ran"
    rates = (batch * 1000 / mean for (_, batch, _), mean in means if mean is not None)
    yield run.result(_FPS, None if silent else sum(rates), failure)


def _means_together(logs: Sequence[_EngineLog]) -> list[float | None]:
    """Mean latency of each engine while all engines ran, without the first and last average."""
    base = min((it.started_at for it in logs if it.started_at is not None), default=None)
    offsets = [
        (it.started_at - base).total_seconds() if base is not None and it.started_at else 0.0
        for it in logs
    ]
    if not all(it.ends_s for it in logs):
        return [None if not it.ends_s else fmean(it.latencies) for it in logs]
    first = max(offsets)
    last = min(offset + it.ends_s[-1] for offset, it in zip(offsets, logs, strict=True))
    means: list[float | None] = []
    for offset, log in zip(offsets, logs, strict=True):
        timed = zip(log.ends_s, log.latencies, strict=True)
        inside = [latency for end, latency in timed if first < offset + end < last]
        means.append(fmean(inside) if inside else None)
    return means
