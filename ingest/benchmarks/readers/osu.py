"""OSU Micro-Benchmarks: latency, bandwidth and message rate of MPI by message size.

Each program prints a title, lines about the run, a header and a row for each size. Releases and
options differ in their columns, which the header names with their units.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ingest.benchmarks.result_tree import (
    ResultFile,
    missing_value,
    reader_of_files,
    results_of_parts,
)
from ingest.benchmarks.text_tables import complete_lines
from ingest.benchmarks.values import finite_number, measured_or_failed, whole_number
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Metric,
    Parameter,
    Validity,
)
from model.reasons import Reason

SYSTEM = "osu-micro-benchmarks"
_DEFINITION = "osu-micro-benchmarks-1"
_TITLE = re.compile(r"^[ \t]*# OSU (.{1,100}?) Test\b(?: +v([\w.]{1,20}))?.*", re.MULTILINE)
#: Where the buffers of a run are, such as ``MPI-CUDA``.
_DEVICE = re.compile(r"^(\w+)-(CUDA|ROCM|OPENACC|SYCL)\b")
_RUN_OPTIONS = (
    re.compile(r"\[ pairs: (?P<pairs>\d{1,9}) \] \[ window size: (?P<window_size>\d{1,9}) \]"),
    # Newer releases end the name of the data type with a full stop.
    re.compile(r"Datatype: (?P<datatype>\S.{0,99}?)\.?[ \t]*$"),
    re.compile(r"Window creation: (?P<window_creation>\S.{0,99}?)[ \t]*$"),
    re.compile(r"Synchronization: (?P<synchronization>\S.{0,99}?)[ \t]*$"),
    re.compile(
        r"Send Buffer on (?P<send_buffer>\w{1,20}).* Receive Buffer on (?P<receive_buffer>\w{1,20})"
    ),
)
_COMMENT = re.compile(r"[ \t]*# ?(.*)")
_COLUMN = re.compile(
    r"Size\b|Iterations\b|Validation\b|MB/s\b|Messages/s\b|Bandwidth ?\(MB/s\)|Overlap ?\(%\)"
    r"|(?:(?:Avg|Min|Max|P\d\d Tail) )?(?:Latency|Lat) ?\(us\)"
    r"|(?:Overall|Compute|Coll\. Init|MPI_Test|MPI_Wait|(?:(?:Min|Max) )?Pure Comm\.) ?\(us\)"
    r"|(?:(?:Min|Max) )?Comm\.? ?\(us\)|P\d\d Tail (?:BW|Bandwidth) ?\(MB/s\)"
)


def _metric(name: str, unit: str, direction: Direction) -> Metric:
    return Metric(name, unit, direction, _DEFINITION)


def _latency(suffix: str) -> Metric:
    return _metric(f"latency{suffix}", "us", Direction.LOWER)


_BANDWIDTH = _metric("bandwidth", "MB/s", Direction.HIGHER)
_OVERLAP = _metric("overlap", "%", Direction.HIGHER)
#: Metrics by column without its unit. The other columns describe the run, or are parts of a value.
_METRICS = {
    "Latency": (_latency(""), Aggregate.MEAN), "Avg Latency": (_latency(""), Aggregate.MEAN),
    "Min Latency": (_latency("_min"), Aggregate.MINIMUM),
    "Max Latency": (_latency("_max"), Aggregate.MAXIMUM),
    "P50 Tail Lat": (_latency("_p50"), Aggregate.P50),
    "P90 Tail Lat": (_latency("_p90"), Aggregate.P90),
    "P99 Tail Lat": (_latency("_p99"), Aggregate.P99),
    "Bandwidth": (_BANDWIDTH, Aggregate.TOTAL), "MB/s": (_BANDWIDTH, Aggregate.TOTAL),
    "Messages/s": (_metric("message_rate", "messages/s", Direction.HIGHER), Aggregate.TOTAL),
    "Overall": (_metric("overall_time", "us", Direction.LOWER), Aggregate.MEAN),
    "Pure Comm.": (_metric("communication_time", "us", Direction.LOWER), Aggregate.MEAN),
    "Overlap": (_OVERLAP, Aggregate.MEAN),
}  # fmt: skip


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of each run in a file."""
    common = {"system": SYSTEM, "files": (file.measured,)}
    text = complete_lines(file.text)
    titles = list(_TITLE.finditer(text))
    if not titles:
        raise missing_value(file.place, "$", "no title of a test")
    ends = [*(it.start() for it in titles[1:]), len(text)]
    runs = [(title, text[title.end() : end]) for title, end in zip(titles, ends, strict=True)]
    yield from results_of_parts(
        file.place, runs, lambda run, source: _of_run(*run, {**common, "source": source})
    )


def _of_run(title: re.Match[str], text: str, common: dict[str, Any]) -> Iterator[BenchmarkResult]:
    device = _DEVICE.match(title[1])
    common["benchmark"] = _DEVICE.sub(r"\1", title[1])
    common["software"] = {SYSTEM: title[2]}
    run_options: dict[str, Parameter] = {"device": device[2]} if device else {}
    columns: list[str] = []
    rows = 0
    for number, line in enumerate(text.split("\n"), 1):
        comment = _COMMENT.match(line)
        if comment is not None:
            for pattern in _RUN_OPTIONS:
                if match := pattern.search(comment[1]):
                    values = match.groupdict().items()
                    run_options |= {key: int(it) if it.isdecimal() else it for key, it in values}
            columns = _columns(comment[1], number) or columns
            continue
        cells = line.split()
        if cells and len(cells) == len(columns) and finite_number(cells[0]) is not None:
            rows += 1
            row = dict(zip(columns, cells, strict=True))
            yield from _of_row(row, run_options, common)
    if not rows:
        raise missing_value("", "$", "the run printed no row")


def _columns(text: str, number: int) -> list[str]:
    """Names of the columns without units; empty if ``text`` is no header.

    :raises InvalidDocument: if a column is not known
    """
    names = [re.sub(r" ?\(.*", "", it) for it in _COLUMN.findall(text)]
    if not any(it in _METRICS for it in names):
        return []
    unknown = _COLUMN.sub("", text).strip()
    if unknown:
        if " = " in text:
            return []  # says what a column is the sum of
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"an unknown column: {unknown[:60]}", field=f"line {number}"
        )
    return names


def _of_row(
    row: dict[str, str], run_options: dict[str, Parameter], common: dict[str, Any]
) -> Iterator[BenchmarkResult]:
    parameters = dict(run_options)
    for column, name in (("Size", "size_bytes"), ("Iterations", "iterations")):
        if (count := whole_number(row.get(column))) is not None:
            parameters[name] = count
    verdict = row.get("Validation", "").lower()
    validity: dict[str, Any] = {}
    if verdict == "pass":
        validity = {"validity": Validity.VALID}
    elif verdict:
        validity = {"validity": Validity.INVALID, "reason": f"validation: {verdict[:20]}"}
    for column, cell in row.items():
        metric, aggregate = _METRICS.get(column, (None, Aggregate.SINGLE))
        if metric is not None:
            yield measured_or_failed(
                cell, f"the cell is {cell[:60]!r}", zero_counts=metric is _OVERLAP, metric=metric,
                aggregate=aggregate, parameters=parameters, **validity, **common,
            )  # fmt: skip
