"""AIBench, Edge AIBench and AIoT Bench of BenchCouncil.

AIBench has latencies of requests in the log of JMeter, kernels, and scores of summarisation. All
requests of a log count, as in the reports of JMeter; the error rate says how many failed.

Edge AIBench has seconds for a frame of automated driving, and accuracy of face recognition. A table
of latencies has a column for each task. The columns have different lengths, because the tasks had
different numbers of frames.

AIoT Bench has inference on mobile devices, known from the source of its app only. The log has a
head for the device, and a block of lines for each workload. VIPS and VOPS are sums over the
workloads, so that they are comparable only for the same list of workloads.

Output of ``nvprof --csv`` says how long each kernel ran on the GPU. Messages start with ``==``. A
row of units follows the header; the units differ from file to file.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from posixpath import basename
from urllib.parse import urlsplit

from ingest.benchmarks.result_texts import complete_lines, csv_rows, delimiter_of
from ingest.benchmarks.result_tree import (
    ResultFile,
    missing_value,
    reader_of_files,
    reader_of_parts,
)
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    first_group,
    latency_summaries,
    measure,
    numbered_parts,
    positive_number,
    results_of_parts,
    software_versions,
    stated_texts,
    time_of_epoch,
    whole_number,
    with_parameters,
)
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

_JMETER = "jmeter-1"
_THROUGHPUT = measure("throughput", "requests/s", HIGHER, _JMETER, Aggregate.TOTAL)
_ERROR_RATE = measure("error_rate", "", LOWER, _JMETER, Aggregate.TOTAL)
_REQUESTS = re.compile(r"^(?=[\w,;\t]*\btimeStamp\b)[\w,;\t]+$", re.MULTILINE)
_NEEDED = ("timeStamp", "elapsed", "label", "success")
#: The test at the end of a training; checkpoints before it are not results.
_SCORES = re.compile(r"^(?P<checkpoint>\S+) scores: (?P<scores>\{.{1,2000}\})[ \t]*$", re.MULTILINE)


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a log of AIBench; programs may have appended their logs of requests to a file."""
    text, run = file.text, file.run("aibench")
    if _PROFILE.search(text):
        yield from _gpu_time(run, text)
    elif starts := [it.start() for it in _REQUESTS.finditer(text)]:
        logs = [text[start:end] for start, end in pairwise([*starts, len(text)])]
        yield from results_of_parts(run, logs, lambda part, log: _requests(part, log, file.place))
    else:
        yield from _summaries(run, text)


def _requests(run: Run, text: str, place: str) -> Iterator[BenchmarkResult]:
    # JMeter may have been killed while it wrote the last line. The header has no cells to lose.
    rows = csv_rows(complete_lines(text) or text, delimiter_of(text.partition("\n")[0]))
    header = next(rows)
    for name in _NEEDED:
        if name not in header:
            raise missing_value(place, name, "a column of the log is missing")
    starts, latencies, failures, threads = [], [], 0, 0
    labels, paths = set[str](), set[str]()
    left_out: list[int] = []
    for number, row in enumerate(rows, 2):
        # An unquoted delimiter in a message moves the cells behind it.
        cells = dict(zip(header, row, strict=True)) if len(row) == len(header) else {}
        start = finite_number(cells.get("timeStamp", ""))
        latency = finite_number(cells.get("elapsed", ""))
        if start is None or latency is None or latency < 0:
            left_out.append(number)
            continue
        starts.append(start)
        latencies.append(latency)
        failures += cells.get("success", "").lower() != "true"
        threads = max(threads, int(finite_number(cells.get("allThreads", "")) or 0))
        labels.add(cells.get("label", ""))
        try:
            # Without the machine and the query.
            paths.add(urlsplit(cells.get("URL", "")).path[:200])
        except ValueError:
            paths.add("")
    count = len(latencies)
    if left_out and not count:
        raise InvalidDocument(
            Reason.WRONG_TYPE, "milliseconds were expected", field=f"row {left_out[0]}"
        )
    if count == 0:
        raise missing_value(place, "elapsed", "the log has no request")
    parameters: dict[str, Parameter] = {"requests": count}
    if threads:
        parameters["threads"] = threads
    if len(paths - {""}) == 1:
        parameters["path"] = max(paths)
    run = replace(
        run,
        benchmark=labels.pop()[:200] if len(labels) == 1 else "all requests",
        parameters=parameters,
        measured_at=time_of_epoch(min(starts) / 1000),
        reason=f"{len(left_out)} of {count + len(left_out)} rows have no time or too many cells "
        f"and are left out, row {left_out[0]} first"
        if left_out
        else None,
    )
    yield from latency_summaries(run, "latency", "ms", _JMETER, latencies)
    ends = (start + latency for start, latency in zip(starts, latencies, strict=True))
    elapsed_s = (max(ends) - min(starts)) / 1000
    if elapsed_s > 0:
        # A rate must count all requests.
        yield run.result(_THROUGHPUT, None if left_out else count / elapsed_s, str(run.reason))
    yield run.stated(_ERROR_RATE, failures / count)


def _summaries(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """ROUGE scores, as Python prints them, of the tests that end a training of summarisation."""
    for match in _SCORES.finditer(text):
        checkpoint = basename(match["checkpoint"])[:100]
        part = replace(run, benchmark="text summarization", parameters={"checkpoint": checkpoint})
        try:
            scores = ast.literal_eval(match["scores"])
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        values = {
            str(name)[:100]: value
            for name, it in (scores.items() if isinstance(scores, dict) else ())
            if isinstance(it, dict) and (value := finite_number(str(it.get("f")))) is not None
        }
        for name, value in values.items():
            each = measure(f"{name}_f", "", HIGHER, "aibench-rouge-f-1", Aggregate.MEAN)
            yield part.stated(each, value)


_GPU_TIME = measure("gpu_time", "ms", LOWER, "nvprof-1", Aggregate.SUM)
_IN_MS = {"s": 1000.0, "ms": 1.0, "us": 1e-3, "ns": 1e-6}
_MESSAGE = re.compile(r"==[\d=]+ ")
_SCRIPT = re.compile(r"command: .*?([\w.-]+\.py)\b")
#: The beginning of the output of ``nvprof``.
_PROFILE = re.compile(r"^(?===\d+== NVPROF is profiling)", re.MULTILINE)
_RESULT = "== Profiling result:"
#: How many kernels are listed with their share.
_LISTED_KERNELS = 10
_LONGEST_KERNEL = 120


def _gpu_time(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """Time on the GPU of each profiled program; a program without a table is refused at the end."""
    profiles = [""]
    for part in _PROFILE.split(text):
        # A program that starts after the results of another is not its child.
        if _RESULT in profiles[-1]:
            profiles.append("")
        profiles[-1] += part
    place = run.source
    yield from results_of_parts(
        run, profiles, lambda part, profile: _of_profile(part, profile, place)
    )


def _of_profile(run: Run, text: str, place: str) -> Iterator[BenchmarkResult]:
    """Time of all kernels and copies on the GPU; the shares of the longest are parameters.

    The benchmark is the profiled script. Its other arguments have paths of the machine and are
    dropped.
    """
    total = 0.0
    shares: dict[str, Parameter] = {}
    for name, share, duration_ms in _kernels(text, place):
        total += duration_ms
        key = f"share of {name[:_LONGEST_KERNEL]}, %"
        if key not in shares and len(shares) < _LISTED_KERNELS:
            shares[key] = share
    if total <= 0:
        raise missing_value(place, "Time", "no kernel ran on the GPU")
    benchmark = first_group(_SCRIPT, text) or "unknown"
    yield replace(run, benchmark=benchmark, parameters=shares).stated(_GPU_TIME, total)


def _kernels(text: str, place: str) -> Iterator[tuple[str, float, float]]:
    """Name, share in per cent, and milliseconds of each kernel; not of API calls and clocks."""
    tables = list(_kernel_tables(text))
    if not tables:
        raise missing_value(place, "Time(%)", "no table of kernels")
    for header, rows in tables:
        column = {name: index for index, name in enumerate(header)}
        units = next(rows, [])
        scale = _IN_MS.get(units[column["Time"]]) if len(units) == len(header) else None
        if scale is None:
            raise InvalidDocument(Reason.UNKNOWN_UNIT, "the time has no known unit", field="Time")
        for row in rows:
            if len(row) != len(header):
                raise InvalidDocument(
                    Reason.WRONG_TYPE, f"{len(header)} cells were expected", field=row[0][:100]
                )
            if row[column.get("Type", 0)] == "API calls":
                continue
            duration = finite_number(row[column["Time"]])
            share = finite_number(row[column["Time(%)"]])
            if duration is None or share is None:
                raise InvalidDocument(
                    Reason.WRONG_TYPE, "a number was expected", field=row[column["Name"]][:100]
                )
            yield row[column["Name"]], share, duration * scale


def _kernel_tables(text: str) -> Iterator[tuple[Sequence[str], Iterator[list[str]]]]:
    """Header and rows, with the units first, of each table behind "Profiling result:"."""
    section: list[str] = []
    wanted = False
    for line in [*text.split("\n"), "==0== end:"]:
        message = _MESSAGE.match(line)
        if message is None:
            section.append(line)
        elif line.endswith(":"):
            rows = csv_rows("\n".join(section)) if wanted else iter(())
            for header in rows:
                if {"Time(%)", "Time", "Name"} <= set(header):
                    yield header, rows
                    break
            section, wanted = [], line.endswith(" Profiling result:")


_TASKS = {
    "lane": "lane keeping", "detection": "object detection",
    "light": "traffic light classification", "sign": "traffic sign classification",
}  # fmt: skip
_of_faces = partial(
    measure, unit="", definition="labeled-faces-in-the-wild-1", aggregate=Aggregate.MEAN,
    zero_counts=True,
)  # fmt: skip
#: What an evaluation of face recognition prints.
_FACES = {
    _of_faces("accuracy", direction=HIGHER): r"^Accuracy: *([^\s+]*)",
    _of_faces("validation_rate", direction=HIGHER): r"^Validation rate: *([^\s+]*)",
    _of_faces("area_under_curve", direction=HIGHER): r"^Area Under Curve \(AUC\): *(\S*)",
    _of_faces("equal_error_rate", direction=LOWER): r"^Equal Error Rate \(EER\): *(\S*)",
}
_FACES_START = re.compile(r"^(?=Accuracy:(?: |$))", re.MULTILINE)
_FALSE_ACCEPTS = re.compile(r"^Validation rate: .*@ FAR=(\S*)", re.MULTILINE)


@reader_of_files
def read_edge(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file of Edge AIBench, without the table of times by operator: it has no unit."""
    text, run = file.text, file.run("edge-aibench")
    if _PROFILE.search(text):
        yield from _gpu_time(run, text)
    elif set(text.partition("\n")[0].split(",")) == set(_TASKS):
        yield from _frames(with_parameters(run, scenario="automated driving"), text)
    else:
        # An accuracy begins an evaluation.
        first, *others = _FACES_START.split(text)
        evaluations = [first + others[0], *others[1:]] if others else [first]
        run = replace(run, benchmark="face recognition", parameters={"scenario": "smart home"})
        for part, evaluation in numbered_parts(run, evaluations):
            accepted = _FALSE_ACCEPTS.search(evaluation)
            rate = finite_number(accepted[1]) if accepted else None
            for each, pattern in _FACES.items() if accepted else ():
                if match := re.search(pattern, evaluation, re.MULTILINE):
                    of_face = part
                    if each.metric.name == "validation_rate" and rate is not None:
                        of_face = with_parameters(part, false_accept_rate=rate)
                    yield of_face.result(each, match[1], f"{match[1][:50]!r} is no number")


def _frames(run: Run, text: str) -> Iterator[BenchmarkResult]:
    header, *rows = csv_rows(text)
    # Decimal commas split cells.
    wide = next((number for number, row in enumerate(rows, 2) if any(row[len(header) :])), None)
    if wide is not None:
        raise InvalidDocument(
            Reason.WRONG_TYPE, f"more than {len(header)} cells", field=f"row {wide}"
        )
    refusal: InvalidDocument | None = None
    for column, task in enumerate(header):
        cells = [row[column].strip() if column < len(row) else "" for row in rows]
        filled = [(number, cell) for number, cell in enumerate(cells, 2) if cell]
        samples = [time for _, cell in filled if (time := positive_number(cell)) is not None]
        if len(samples) < len(filled):
            number = next(it for it, cell in filled if positive_number(cell) is None)
            refusal = refusal or InvalidDocument(
                Reason.WRONG_TYPE, "a positive number was expected", field=f"{task}, row {number}"
            )
        elif samples:
            of_task = replace(run, benchmark=_TASKS.get(task.strip(), task.strip()))
            yield from latency_summaries(of_task, "frame_latency", "s", "edge-aibench-2", samples)
    if refusal is not None:
        raise refusal


_of_aiot = partial(measure, definition="aiot-bench-1")
_SCORED = {
    "vips": _of_aiot("vips", "images/s", HIGHER, aggregate=Aggregate.SUM),
    "vops": _of_aiot("vops", "FLOP/s", HIGHER, aggregate=Aggregate.SUM),
}
_TIMES = (
    _of_aiot("time_avg", "ms", LOWER, aggregate=Aggregate.MEAN),
    _of_aiot("time_first_img", "ms", LOWER),
    _of_aiot("time_load", "ms", LOWER),
)
_ACCURACY = {
    "accuracy": _of_aiot("accuracy", "", HIGHER, aggregate=Aggregate.MEAN, zero_counts=True)
}
_RATE = _of_aiot("images_per_second", "images/s", HIGHER, aggregate=Aggregate.MEAN)
_LINE = re.compile(r"^ *([a-z_]+(?: [a-z]+){0,2}) *: *(.*?) *$")
#: The lines that only a head has.
_HEAD = re.compile(r"^(?=device *:[^\n]*\n+[ \t]*ram size *:)", re.MULTILINE)
_WORKLOAD = re.compile(r"^ *workload *$", re.MULTILINE)
_MILLISECONDS = 1000.0
_LONGEST_NAME = 200


@reader_of_parts(
    "aiot-bench",
    lambda file: [it for it in _HEAD.split(file.text) if _WORKLOAD.search(it)] or [file.text],
)
def read_aiot(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """Results of each log of AIoT Bench: the scores of the device, then those of a workload."""
    head: dict[str, str] = {}
    workloads: list[dict[str, str]] = []
    for line in text.split("\n"):
        if line.strip() == "workload":
            workloads.append({})
        elif match := _LINE.match(line):
            block = workloads[-1] if workloads else head
            # A second framework is the quantisation.
            repeated = workloads and match[1] == "framework" and "framework" in block
            block["quantisation" if repeated else match[1]] = match[2]
    if not workloads:
        raise missing_value("", "workload", "the log has no workload")
    images = whole_number(head.get("image count"))
    shared: dict[str, Parameter] = {} if images is None else {"images": images}
    shared |= stated_texts(_LONGEST_NAME, data_set=head.get("resource name"))
    parts = {"description": head.get("device"), "cpu": head.get("device hardware")}
    versions = [software_versions([it.get("framework", "")]) for it in workloads]
    names = [it.get("name", "")[:_LONGEST_NAME] or "unknown" for it in workloads]
    run = replace(
        run,
        benchmark="all workloads",
        hardware=stated_texts(_LONGEST_NAME, **parts),
        software={name: value for it in versions for name, value in it.items()},
        parameters={**shared, "workloads": ", ".join(sorted(names))[:2000]},
    )
    yield from run.results(head, _SCORED)
    for name, workload in zip(names, workloads, strict=True):
        yield from _of_workload(replace(run, benchmark=name, parameters=shared), workload)


def _of_workload(run: Run, workload: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    stated = {key: workload.get(key) for key in ("framework", "quantisation", "device")}
    run = replace(
        run,
        benchmark=workload.get("model", "")[:_LONGEST_NAME] or run.benchmark,
        parameters={**run.parameters, **stated_texts(_LONGEST_NAME, **stated)},
    )
    times = [workload.get(it.metric.name, "").removesuffix("ms") for it in _TIMES]
    for each, time in zip(_TIMES, times, strict=True):
        if each.metric.name in workload or each is _TIMES[0]:
            yield run.result(each, time)
    mean = positive_number(times[0])
    yield run.result(_RATE, _MILLISECONDS / mean if mean else None)
    yield from run.results(workload, _ACCURACY)
