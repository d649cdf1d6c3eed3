"""AIBench: latencies of requests in the log of JMeter, kernels, and scores of summarisation.

All requests of a log count, as in the reports of JMeter; the error rate says how many failed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from posixpath import basename
from urllib.parse import urlsplit

from ingest.benchmarks.nvprof import gpu_time, is_nvprof
from ingest.benchmarks.result_tree import ResultFile, missing_value, reader_of_files
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    latency_summaries,
    measure,
    results_of_parts,
)
from ingest.benchmarks.text_tables import complete_lines, csv_rows, delimiter_of
from ingest.benchmarks.values import finite_number, time_of_epoch
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
    """Results of a log."""
    text, run = file.text, file.run("aibench")
    if is_nvprof(text):
        yield from gpu_time(run, text)
    elif logs := list(_logs(text)):
        yield from results_of_parts(run, logs, lambda part, log: _requests(part, log, file.place))
    else:
        yield from _summaries(run, text)


def _logs(text: str) -> Iterator[str]:
    """Each log of requests; programs may have appended theirs to a file."""
    starts = [it.start() for it in _REQUESTS.finditer(text)]
    for start, end in pairwise([*starts, len(text)]):
        yield text[start:end]


#: Number of a request in its log, and its cells by the names of columns.
_Request = tuple[int, Mapping[str, str]]


def _of_csv(text: str, place: str) -> Iterator[_Request]:
    # JMeter may have been killed while it wrote the last line. The header has no cells to lose.
    rows = csv_rows(complete_lines(text) or text, delimiter_of(text.partition("\n")[0]))
    header = next(rows)
    for name in _NEEDED:
        if name not in header:
            raise missing_value(place, name, "a column of the log is missing")
    for number, row in enumerate(rows, 2):
        # An unquoted delimiter in a message moves the cells behind it.
        yield number, dict(zip(header, row, strict=True)) if len(row) == len(header) else {}


def _requests(run: Run, text: str, place: str) -> Iterator[BenchmarkResult]:
    starts, latencies, failures, threads = [], [], 0, 0
    labels, paths = set[str](), set[str]()
    left_out: list[int] = []
    for number, cells in _of_csv(text, place):
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
        paths.add(_path(cells.get("URL", "")))
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


def _path(url: str) -> str:
    """The path of a URL, without the machine and the query."""
    try:
        return urlsplit(url).path[:200]
    except ValueError:
        return ""


def _summaries(run: Run, text: str) -> Iterator[BenchmarkResult]:
    """ROUGE scores of the tests that a training of text summarisation ends with."""
    for match in _SCORES.finditer(text):
        checkpoint = basename(match["checkpoint"])[:100]
        part = replace(run, benchmark="text summarization", parameters={"checkpoint": checkpoint})
        for name, value in _rouge(match["scores"]).items():
            each = measure(f"{name}_f", "", HIGHER, "aibench-rouge-f-1", Aggregate.MEAN)
            yield part.stated(each, value)


def _rouge(text: str) -> Mapping[str, float]:
    """F-measures by name, of a dictionary that Python printed."""
    try:
        scores = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    measures = scores.items() if isinstance(scores, dict) else ()
    return {
        str(name)[:100]: value
        for name, measure in measures
        if isinstance(measure, dict) and (value := finite_number(str(measure.get("f")))) is not None
    }
