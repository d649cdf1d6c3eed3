"""AIBench: latencies of requests in the log of JMeter, kernels, and scores of summarisation.

All requests of a log count, as in the reports of JMeter; the error rate says how many failed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from posixpath import basename
from typing import Any
from urllib.parse import urlsplit

from common.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
    Validity,
)
from common.errors import InvalidDocument
from common.reasons import Reason
from ingest.benchmarks.latencies import latency_summaries
from ingest.benchmarks.nvprof import gpu_time, is_nvprof
from ingest.benchmarks.result_tree import ResultFile, missing_value, reader_of_files
from ingest.benchmarks.text_tables import csv_rows, delimiter_of
from ingest.benchmarks.values import finite_number, measured_or_failed, time_of_epoch

SYSTEM = "aibench"
_JMETER = "jmeter-1"
_THROUGHPUT = Metric("throughput", "requests/s", Direction.HIGHER, _JMETER)
_ERROR_RATE = Metric("error_rate", "", Direction.LOWER, _JMETER)
_REQUESTS = re.compile(r"^(?=[\w,;\t]*\btimeStamp\b)[\w,;\t]+$", re.MULTILINE)
_NEEDED = ("timeStamp", "elapsed", "label", "success")
#: The test at the end of a training; checkpoints before it are not results.
_SCORES = re.compile(r"^(?P<checkpoint>\S+) scores: (?P<scores>\{.{1,2000}\})\s*$", re.MULTILINE)
_ROUGE = "aibench-rouge-f-1"


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a log."""
    text, place = file.text, file.place
    common: dict[str, Any] = {"system": SYSTEM, "source": place, "files": (file.measured,)}
    if is_nvprof(text):
        yield from gpu_time(text, place, common)
    elif requests := _REQUESTS.search(text):
        yield from _requests(text[requests.start() :], place, common)
    else:
        yield from _summaries(text, common)


def _requests(text: str, place: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    complete, _, last = text.rpartition("\n")
    first = text.partition("\n")[0]
    delimiter = delimiter_of(first)
    if last.count(delimiter) < first.count(delimiter):
        text = complete + "\n"  # JMeter was killed while it wrote the last line
    rows = csv_rows(text, delimiter)
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
    common = {
        **common,
        "benchmark": labels.pop()[:200] if len(labels) == 1 else "all requests",
        "parameters": parameters,
        "measured_at": time_of_epoch(min(starts) / 1000),
        "validity": Validity.UNKNOWN,
    }
    if left_out:
        common["reason"] = (
            f"{len(left_out)} of {count + len(left_out)} rows have no time or too many cells and "
            f"are left out, row {left_out[0]} first"
        )
    for metric, value, aggregate in latency_summaries("latency", "ms", _JMETER, latencies):
        yield BenchmarkResult(
            metric=metric, value=value, samples=tuple(latencies), aggregate=aggregate, **common
        )
    ends = (start + latency for start, latency in zip(starts, latencies, strict=True))
    elapsed_s = (max(ends) - min(starts)) / 1000
    if elapsed_s > 0:
        # A rate must count all requests.
        yield measured_or_failed(
            None if left_out else count / elapsed_s, str(common.get("reason")),
            metric=_THROUGHPUT, aggregate=Aggregate.TOTAL, **common,
        )  # fmt: skip
    yield BenchmarkResult(
        metric=_ERROR_RATE, value=failures / count, aggregate=Aggregate.TOTAL, **common
    )


def _path(url: str) -> str:
    """The path of a URL, without the machine and the query."""
    try:
        return urlsplit(url).path[:200]
    except ValueError:
        return ""


def _summaries(text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    """ROUGE scores of the tests that a training of text summarisation ends with."""
    for match in _SCORES.finditer(text):
        for name, value in _rouge(match["scores"]).items():
            yield BenchmarkResult(
                benchmark="text summarization",
                metric=Metric(f"{name}_f", "", Direction.HIGHER, _ROUGE),
                value=value,
                aggregate=Aggregate.MEAN,
                parameters={"checkpoint": basename(match["checkpoint"])[:100]},
                **common,
            )


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
